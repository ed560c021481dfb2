"""`qualm export`: which answers, what is refused, and that files appear whole or not at all."""

import shutil
from collections import Counter
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from qualm.compiler.commands import main
from qualm.compiler.project.checkout import Project
from qualm.compiler.run.export import ExportRequest, _credits, _datasets, _decoding, _now, _place, _results, _tell, export_results
from qualm.compiler.spec.errors import ProjectError
from qualm.compiler.spec.language import PairSet, RunWide
from qualm.compiler.spec.plugin_ref import Ref
from qualm.compiler.spec.resolve import resolve_file
from qualm.compiler.spec.resolved import PairSetUse, RecipeUse
from qualm.registry.entries.card import load_card
from qualm.registry.plugins import registry
from qualm.registry.plugins.registry import ROOT
from qualm.runners.plugins.exports import DatasetCredits
from tests.support.projects.exported import write

SPEC = """\
qualm: 1
name: bench
datasets:
  d: {card: synthetic_scenes, test: 10}
  e: {card: synthetic_scenes, test: 5}
perturbations: [blur: {radius: 2}]
models:
  m: {hf_vlm: {artifact: scene-vlm-base}}
judges: [rules]
metrics: [lave_idk_accuracy, accuracy]
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    root = tmp_path_factory.mktemp("project")
    (root / "params.yaml").write_text("default: bench\n")
    (root / "specs").mkdir()
    for code in ("registry", "runners"):
        (root / code).symlink_to(ROOT / code)
    (root / "specs" / "bench.yaml").write_text(SPEC)
    made = write(root / "made", variants=("clean", "blur@radius=2"))
    for name in ("d", "e"):
        shutil.copytree(made / "data", root / "results/bench/data" / name)
        (root / "results/bench/generations/m").mkdir(parents=True, exist_ok=True)
        shutil.copy(made / "generations.parquet", root / f"results/bench/generations/m/{name}.parquet")
    shutil.copy(made / "scores.parquet", root / "results/bench/scores.parquet")
    return Project(root)


def run(project, out, to="hf", **more):
    export_results(project, ExportRequest("bench", Path(out), to, **more))


def files(folder):
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


@pytest.mark.slow
def test_everything_clean_by_default(project, tmp_path, capsys):
    run(project, tmp_path / "out" / "deep")
    data = [f"data/{d}-00000-of-00001.parquet" for d in "de"]
    assert files(tmp_path / "out" / "deep") == ["README.md", *data, "generations/m_d.parquet", "generations/m_e.parquet", "scores.parquet"]
    assert "6 files, 92 answers to 32 questions in 2 combinations of model, dataset and variant" in capsys.readouterr().out
    assert files(tmp_path / "out") == [f"deep/{f}" for f in files(tmp_path / "out" / "deep")]
    text = (tmp_path / "out/deep/README.md").read_text()
    assert "d: {card: synthetic_scenes, test: 10}" in text


def test_a_selection_and_what_is_lost(project, tmp_path, capsys):
    run(project, tmp_path, "lmms-eval", models=["m"], datasets=["e"], variants=["blur@radius=2"])
    assert {f.partition("_samples_")[2] for f in files(tmp_path)} == {"", "e@blur@radius=2.jsonl", "e@blur@radius=2_choices.jsonl"}
    said = capsys.readouterr()
    assert "not in the lmms-eval files: images (15)" in said.err


def test_results_are_written_as_tables(project, tmp_path, capsys):
    run(project, tmp_path, "markdown", datasets=["d"], options=["digits=1"])
    assert files(tmp_path) == ["tables.md"] and "## d: models" in (tmp_path / "tables.md").read_text()
    assert "1 file, 2 tables" in capsys.readouterr().out
    with pytest.raises(ProjectError, match="no model 'x' in bench; there are: m"):
        run(project, tmp_path, "latex", models=["x"])
    with pytest.raises(ProjectError, match="takes no --variant; `qualm ls exports"):
        run(project, tmp_path, "latex", variants=["clean"])


def test_options_are_those_of_the_export(project, tmp_path):
    run(project, tmp_path, "inspect", options=["form=json", "images=false"], datasets=["d"])
    (name,) = files(tmp_path)
    assert name.endswith(".json") and "data:image" not in (tmp_path / name).read_text()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"to": "lm_evil"}, "no export 'lm_evil'; did you mean 'lm-eval'"),
        ({"to": "xlsx"}, "no export 'xlsx'; there are: certainly-uncertain, croissant, csv, eval-results, every-eval-ever, hf, "),
        ({"models": ["n"]}, "no model 'n' in bench; "),
        ({"datasets": ["scenes"]}, "no dataset 'scenes' in bench; there are: d, e"),
        ({"variants": ["blur"]}, "no variant 'blur' in bench; "),
        ({"options": ["form=xml"], "to": "inspect"}, "-O form=xml: expected Literal.*: Input should be 'eval' or 'json'"),
        ({"options": ["table"], "to": "inspect"}, r"-O table: expected NAME=VALUE of inspect's parameters, which are: form"),
        ({"options": ["a=b"], "to": "lm-eval"}, "parameters, which are: none"),
    ],
)
def test_mistakes_are_named_before_anything_is_written(project, tmp_path, more, message):
    with pytest.raises(ProjectError, match=message):
        run(project, tmp_path / "out", **more)
    assert not (tmp_path / "out").exists() and list(tmp_path.iterdir()) == []


def test_nothing_is_replaced_unless_asked(project, tmp_path):
    out = tmp_path / "out"
    run(project, out, datasets=["d"])
    (out / "mine.txt").write_text("mine")
    (out / "README.md").write_text("changed")
    with pytest.raises(
        ProjectError, match=r"would replace README.md, data/d-00000-of-00001.parquet, generations/m_d.parquet and 1 more.*--force"
    ):
        run(project, out)
    assert (out / "README.md").read_text() == "changed" and not (out / "generations/m_e.parquet").exists()
    run(project, out, force=True)
    assert (out / "mine.txt").read_text() == "mine" and (out / "README.md").read_text() != "changed"
    assert not [p for p in (*out.iterdir(), *tmp_path.iterdir()) if p.name.startswith(".")]
    (tmp_path / "file").write_text("")
    with pytest.raises(ProjectError, match="is a file; expected a folder"):
        run(project, tmp_path / "file")


def test_a_failed_export_leaves_nothing(project, tmp_path, monkeypatch):
    monkeypatch.setattr("qualm.runners.plugins.exports.hf._card", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(project, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_answers_that_are_not_made(project, tmp_path):
    path = project.root / "results/bench/generations/m/e.parquet"
    hidden = path.rename(path.with_name("hidden"))
    try:
        with pytest.raises(
            ProjectError, match=r"compute or fetch them in the project's root: `qualm compile \w+ && dvc repro --pull infer-m-e`$"
        ):
            run(project, tmp_path)
        run(project, tmp_path, datasets=["d"])
    finally:
        hidden.rename(path)


def test_answers_to_other_samples(project, tmp_path):
    path = project.root / "results/bench/generations/m/e.parquet"
    whole = path.read_bytes()
    table = pq.read_table(path)
    pq.write_table(table.set_column(0, "sample_id", [["other"] * table.num_rows]), path)
    try:
        with pytest.raises(ProjectError, match="sample 'other' is not in dataset 'e'; run `qualm run bench`"):
            run(project, tmp_path / "out")
    finally:
        path.write_bytes(whole)


def test_by_the_command_line(project, tmp_path):
    with chdir(project.root):
        done = CliRunner().invoke(
            main.app, ["export", "bench", str(tmp_path), "--to", "vlmevalkit", "-m", "m", "-d", "d", "-O", "table=tsv"]
        )
    assert done.exit_code == 0, done.output
    assert files(tmp_path) == ["d.tsv", "m/m_d.tsv"]
    assert "not in the vlmevalkit files: sampled answers (27)" in done.output


def test_the_only_data_set_need_not_be_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "samples.parquet").write_text("")
    request = SimpleNamespace(models=[], variants=[], datasets=[], to="croissant")
    plan = SimpleNamespace(spec="s", makers={"d": SimpleNamespace(name="data-d", outputs={"dataset": "d"})})
    assert _datasets(SimpleNamespace(pairs=[]), plan, request, "t") == {"d": Path("d")}
    plan.makers["e"] = plan.makers["d"]
    none = SimpleNamespace(spec="s", makers={})
    with pytest.raises(ProjectError, match=r"^s: has no dataset; add one under `datasets:`$"):
        _datasets(SimpleNamespace(pairs=[]), none, request, "t")
    with pytest.raises(ProjectError, match="s: has several datasets and no pair set; say which with -d: d, e"):
        _datasets(SimpleNamespace(pairs=[]), plan, request, "t")


def test_data_sets_themselves_need_no_model(project, tmp_path, capsys):
    with pytest.raises(ProjectError, match="bench: has several datasets and no pair set; say which with -d: d, e"):
        run(project, tmp_path / "out", "certainly-uncertain")
    with pytest.raises(ProjectError, match="writes datasets, of which no model or variant is a part"):
        run(project, tmp_path / "out", "certainly-uncertain", models=["m"])
    with pytest.raises(ProjectError, match="no dataset 'dd' in bench; did you mean 'd'"):
        run(project, tmp_path / "out", "certainly-uncertain", datasets=["dd"])
    with pytest.raises(ProjectError, match="has options; this layout is for open questions"):
        run(project, tmp_path / "out", "certainly-uncertain", datasets=["d"])
    assert not (tmp_path / "out").exists()
    place = project.root / "results/bench/data/e/samples.parquet"
    table = pq.read_table(place)
    kept = table.filter([len(c) == 0 for c in table["choices"].to_pylist()])
    pq.write_table(kept, place)
    try:
        run(project, tmp_path / "out", "certainly-uncertain", datasets=["e"])
        assert "10 questions of e" in capsys.readouterr().out
        assert {"README.md", "test.jsonl"} < set(files(tmp_path / "out"))
        place.unlink()
        with pytest.raises(
            ProjectError, match=r"datasets are missing; .*in the project's root: `qualm compile \w+ && dvc repro --pull data-e`$"
        ):
            run(project, tmp_path / "again", "certainly-uncertain", datasets=["e"])
    finally:
        pq.write_table(table, place)


def test_a_pair_set_is_from_all_that_it_was_made_of(tmp_path):
    """Of each dataset that its recipes read, under its name or a point of its sweep; of no other, and everything once."""
    text = SPEC.replace("  e: {card: synthetic_scenes, test: 5}", "  e: {card: synthetic_scenes, test: [5, 6]}\n  other: {card: pope}")
    (tmp_path / "bench.yaml").write_text(text)
    resolved = resolve_file(tmp_path / "bench.yaml", tmp_path, RunWide(default="bench"))

    def made_of(label, *names):
        recipe = RecipeUse(Ref("r", registry.get("pairs", "from_caption"), {}), names, "c", {})
        return PairSetUse(label, PairSet(recipes=[]), True, {}, (recipe,))

    about = _credits(replace(resolved, pairs=(made_of("swept", "e", "d"), made_of("both", "other", "d"), made_of("none", "gone"))))
    scenes, pope = (load_card(name) for name in ("synthetic_scenes", "pope"))
    plain = DatasetCredits(scenes.title, scenes.licence, scenes.citation, scenes.source, scenes.description, dict(scenes.rai))
    assert plain.rai
    assert {name: about[name] for name in ("d", "e@test=5", "e@test=6", "swept")} == dict.fromkeys(
        ("d", "e@test=5", "e@test=6", "swept"), plain
    )
    assert about["both"].title == f"{scenes.title}; {pope.title}" and about["both"].source == f"{scenes.source}; {pope.source}"
    assert about["both"].citation == "\n".join(c for c in (scenes.citation, pope.citation) if c)
    assert about["both"].rai == plain.rai and about["both"].description == f"{scenes.description}\n{pope.description}"
    assert about["none"] == DatasetCredits("", "", "", "")


@pytest.mark.parametrize(("count", "some"), [(1, "0"), (3, "0, 1, 2"), (4, "0, 1, 2 and 1 more")])
def test_files_that_would_be_replaced_are_named(tmp_path, count, some):
    for n in range(5):
        for folder in ("new", "out"):
            if folder == "new" or n < count:
                (tmp_path / folder).mkdir(exist_ok=True)
                (tmp_path / folder / str(n)).write_text(folder)
    with pytest.raises(ProjectError, match=rf"out: would replace {some}; choose another folder, or --force$"):
        _place(tmp_path / "new", tmp_path / "out", force=False)
    assert [str(f) for f in _place(tmp_path / "new", tmp_path / "out", force=True)] == list("01234")
    assert {f.read_text() for f in (tmp_path / "out").iterdir()} == {"new"}


PARTS = {"parts": (1, 2), "results": None, "datasets": {}, "lost": {}}


@pytest.mark.parametrize(
    ("context", "what"),
    [
        (PARTS, "1,200 answers to 600 questions in 2 combinations of model, dataset and variant"),
        ({**PARTS, "results": {"scores": "x"}, "counts": Counter(tables=1234)}, "1,234 tables"),
        ({**PARTS, "results": {"scores": "x"}, "counts": Counter(tables=3, figures=2000)}, "2,000 figures"),
        ({**PARTS, "counts": Counter(scores=1001)}, "1,001 scores"),
        ({**PARTS, "datasets": {"d": 1, "e": 2}, "counts": Counter(samples=5)}, "5 questions of d, e"),
    ],
)
@pytest.mark.parametrize("n", [6, 7])
def test_what_was_written_is_told(context, what, n, capsys):
    counted = SimpleNamespace(**{"counts": Counter(samples=600, answers=1200), **context})
    _tell(counted, SimpleNamespace(out="out", to="hf"), [Path(f"f{i}") for i in range(n)])
    told = capsys.readouterr()
    assert told.out.splitlines() == [f"out: {n} files, {what}", *(f"  f{i}" for i in range(6)), *(["  and 1 more"] if n > 6 else [])]
    assert told.err == ""


def test_what_files_do_not_hold_is_told(capsys):
    counts = Counter(samples=1, answers=1) + Counter({"samples without an answer": 1000})
    context = SimpleNamespace(**PARTS | {"lost": {"sampled answers": 2000}}, counts=counts)
    _tell(context, SimpleNamespace(out="out", to="hf"), [])
    assert capsys.readouterr().err.splitlines() == [
        "qualm: 1,000 samples have no answer and no row", "qualm: not in the hf files: sampled answers (2,000)",
    ]  # fmt: skip


def test_the_time_of_an_export_may_be_fixed(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    assert _now().isoformat() == "1970-01-01T00:00:00+00:00"
    for said in ("", "yesterday"):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", said)
        assert _now().year > 2024


def test_how_answers_were_decoded_is_what_inference_was_told(project):
    resolved, plan = project.resolve("bench"), project.plan("bench")
    told, found = plan.stage("infer-m-d").params, _decoding(resolved, plan)
    assert found == {name: told[name] for name in found} and list(found) == sorted(found) and found["max_new_tokens"] == 16


@pytest.mark.parametrize("models", [None, ["tuned"]])
def test_of_training_runs_the_logs_are_enough(tmp_path, models):
    logs = [SimpleNamespace(params={"name": name}, outputs={"log": str(tmp_path / name)}) for name in ("tuned", "gone")]
    (tmp_path / "tuned").write_text("")
    plan = SimpleNamespace(spec="s", writers=lambda key: logs if key == "log" else [])
    found = _results(None, plan, ExportRequest("s", tmp_path, "wandb", models), True)
    assert found == {"training": {"tuned": tmp_path / "tuned"}, "models_asked": tuple(models or ())}
