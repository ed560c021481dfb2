"""What `qualm plan` ends with: each thing that is missing, once, with what to type; nothing for what is here."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from qualm.compiler.plan.make import make_plan
from qualm.compiler.plan.plan import Plan, PlannedStage
from qualm.compiler.project.needs import Need, format_needs, needs
from qualm.compiler.project.rebuilds import Forecast
from qualm.compiler.project.views import print_needs
from qualm.compiler.spec.errors import SpecError
from qualm.compiler.spec.language import RunWide
from qualm.compiler.spec.resolve import resolve_file
from qualm.registry.entries import card
from qualm.registry.sample import SAMPLES, Sample
from qualm.registry.system.dvc_objects import object_path
from qualm.runners.data.rows import as_row
from qualm.runners.runtime.records import write_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage, StageError
from qualm.runners.stages import data
from tests.support.checks.plugin_files import made_up

WRITER = '''
SERVER = "base_url"
def made_up_writer(context, *, model: str = "m", base_url: str = "http://made.up/v1"):
    """Writes."""
'''
RECIPE = '''
from typing import Annotated
from qualm.registry.plugins.registry import Chosen, DatasetName, Kind
def made_up_recipe(context, *, dataset: DatasetName, category: str, writer: Annotated[Chosen, Kind("generators")] = "made_up_writer"):
    """Pairs of a test."""
'''
SPEC = """\
qualm: 1
name: t
taxonomy: {epistemic: {knowledge: {}}}
datasets:
  docci: {card: docci}
  vqa: {card: vqav2, limit: 5000}
pairs:
  ours:
    recipes: [made_up_recipe: {dataset: docci, category: epistemic/knowledge}]
    curated: my-reviews
models:
  here: {hf_vlm: {artifact: scene-vlm-base}}
  there: {hf_vlm: {artifact: llava-1.5-7b}}
  hub: {hf_vlm: {hub: org/model, revision: 0123456789012345678901234567890123456789}}
judges: [rules]
metrics: [accuracy]
"""


UNREAD = {"docci": "a reader of its captions", "vqav2": "a reader of its questions"}
"""What these cards said before they had readers."""
read = card.load_card


def unread(name: str) -> card.Card:
    update = {"adapter": None, "missing": UNREAD[name]} if name in UNREAD else {}
    return read(name).model_copy(update=update)


@pytest.fixture(autouse=True)
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("MADE_UP_KEY", raising=False)
    monkeypatch.setattr(card, "load_card", unread)
    (tmp_path / "registry/data/scene-vlm-base").mkdir(parents=True)
    with made_up(tmp_path) as add:
        add("generators", "made_up_writer", WRITER)
        add("pairs", "made_up_recipe", RECIPE)
        yield


def planned(tmp_path: Path, text: str = SPEC) -> Plan:
    (tmp_path / "t.yaml").write_text(text)
    return make_plan(resolve_file(tmp_path / "t.yaml", tmp_path, RunWide(default="t")))


def found(tmp_path: Path, action: str = "run", text: str = SPEC, cluster: str = "") -> list[Need]:
    plan = planned(tmp_path, text)
    settings = Settings(servers={"http://made.up/v1": {"key": "MADE_UP_KEY"}}, cluster=cluster)
    return needs(plan, [Forecast(s.name, s.kind, action) for s in plan.stages], tmp_path, settings)  # type: ignore[arg-type]


def test_everything_that_is_missing_stands_there_once(tmp_path: Path) -> None:
    listed = "\n".join(format_needs(found(tmp_path)))
    assert (
        listed
        == """\
  data and models to add:
    docci         `qualm fetch t` (1 stage)
    llava-1.5-7b  `qualm data add llava-1.5-7b --from PATH --card transformers_model` (2 stages)
    my-reviews    `qualm verify t ours`, by which people decide on its questions (1 stage)
    vqav2         `qualm fetch t` (1 stage)
  models of the Hugging Face hub, unless they are in its cache:
    org/model  `qualm fetch t` at 012345678901 (2 stages)
  environment variables to set:
    MADE_UP_KEY  the key of http://made.up/v1 (1 stage)
  data that nothing here reads yet:
    docci  missing: a reader of its captions (1 stage)
    vqav2  missing: a reader of its questions (1 stage)"""
    )
    by_name = {n.what: n.stages for n in found(tmp_path) if n.kind == "data"}
    assert by_name["llava-1.5-7b"] == ("infer-there-ours", "infer-there-vqa")


def test_one_thing_that_two_stages_want_for_different_ends_is_one_line(tmp_path: Path) -> None:
    """A key that a writer and a model send."""
    text = SPEC.replace("  hub:", '  api: {openai: {model: m, base_url: "http://made.up/v1"}}\n  hub:')
    (key,) = [n for n in found(tmp_path, text=text) if n.kind == "environment"]
    assert (key.what, key.how) == ("MADE_UP_KEY", "the key of http://made.up/v1")
    assert key.stages == ("infer-api-ours", "infer-api-vqa", "pair-ours-made_up_recipe")


def test_stages_that_are_left_alone_need_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert found(tmp_path, "unchanged") == found(tmp_path, "restore") == []
    print_needs([])
    assert capsys.readouterr().out == ""
    print_needs(found(tmp_path))
    assert capsys.readouterr().out.startswith("What this needs from you\n  data and models to add:\n")


def test_a_run_on_a_cluster_needs_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qualm.compiler.project.needs.is_installed", lambda extra: extra != "cluster")
    (need,) = [n for n in found(tmp_path, cluster="ray") if n.what == "cluster"]
    assert need.kind == "extra" and "[cluster]" in need.how and all(stage.startswith("infer-") for stage in need.stages)
    assert not [n for n in found(tmp_path) if n.what == "cluster"]


def test_a_key_that_is_set_is_no_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MADE_UP_KEY", "secret")
    assert not [n for n in found(tmp_path) if n.kind == "environment"]
    monkeypatch.delenv("MADE_UP_KEY")
    without = SPEC.replace("knowledge}]", "knowledge, writer: {made_up_writer: {base_url: http://open.to/v1}}}]")
    assert not [n for n in found(tmp_path, text=without) if n.kind == "environment"]


def test_a_data_set_that_nothing_reads_compiles_and_its_stage_says_so(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    stage = plan.stage("data-docci")
    assert stage.params["adapter"] is None and stage.inputs == {"source": "registry/data/docci"}
    with pytest.raises(StageError) as caught:
        data.run(Stage("t/data-docci", "t", "data-docci", "data", stage.params, stage.inputs, stage.outputs, 0, Settings()))
    assert str(caught.value) == (
        "dataset docci: nothing here reads the files of the card 'docci' yet; missing: a reader of its captions. "
        "Write registry/adapters/NAME.py (docs/how-to/plugins.md), name it as the card's `adapter`, and compile again"
    )


def test_what_nothing_reads_has_no_parameters(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        planned(tmp_path, SPEC.replace("{card: docci}", "{card: docci, split: val}"))
    assert str(caught.value) == (
        "t.yaml:5:24: datasets.docci.split: unknown key 'split' (this card has no adapter yet, so it has no parameters)"
    )


def test_what_the_run_fetches_itself_is_no_need_and_what_nobody_has_is_one(tmp_path: Path) -> None:
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc/config").write_text("[core]\n    remote = lab\n['remote \"lab\"']\n    url = ../lab\n")
    md5 = "5d41402abc4b2a76b9719d911017c592"
    (tmp_path / "registry/data/llava-1.5-7b.dvc").write_text(f"outs:\n- md5: {md5}\n  hash: md5\n  path: llava-1.5-7b\n")
    listed = {n.what: n.how for n in found(tmp_path) if n.kind == "data"}
    assert "or `dvc push` where its files still are" in listed["llava-1.5-7b"]
    for store in ("lab", ".dvc/cache"):
        place = object_path(tmp_path / store, md5)
        place.parent.mkdir(parents=True)
        place.write_text("hello")
        assert "llava-1.5-7b" not in {n.what for n in found(tmp_path)}
        place.unlink()


def test_models_that_other_specs_make_are_named_where_they_block(tmp_path: Path) -> None:
    inputs = {"models": {"a": "results/other/models/a", "own": "results/t/models/b"}, "datasets": {"d": "results/other/data/models"}}
    stage = PlannedStage("score", "score", "", {}, inputs, {"scores": "results/t/scores.parquet"}, 0, ())

    def told(action: str) -> list[Need]:
        return needs(Plan("t", "", (stage,)), [Forecast("score", "score", action)], tmp_path, Settings())  # type: ignore[arg-type]

    assert told("blocked") == [Need("spec", "a", "`qualm plan other` says what it lacks; or `dvc pull` where it has run", ("score",))]
    assert told("run") == [], "`dvc repro` makes it first"
    (tmp_path / "results/other/models/a").mkdir(parents=True)
    assert told("blocked") == []


PROMPTED = """\
qualm: 1
name: t
datasets: {scenes: {card: synthetic_scenes, format: open, test: 10, prompt: {template: "{question} {options}"}}}
models: {here: {hf_vlm: {artifact: scene-vlm-base}}}
judges: [rules]
metrics: [accuracy]
"""


def test_a_prompt_that_does_not_fit_is_found_once_its_dataset_is_built(tmp_path: Path) -> None:
    def misfits(built: str) -> list[Need]:
        plan = planned(tmp_path, PROMPTED)
        actions = {s.name: "unchanged" if s.kind == built else "run" for s in plan.stages}
        listed = needs(plan, [Forecast(s.name, s.kind, actions[s.name]) for s in plan.stages], tmp_path, Settings())  # type: ignore[arg-type]
        return [need for need in listed if need.kind == "prompt"]

    assert misfits("data") == [], "not built"
    row = as_row(Sample(sample_id="a", question="Q?", split="test"))
    write_table(tmp_path / "results/t/data/scenes/samples.parquet", [row], SAMPLES)
    (misfit,) = misfits("data")
    way = "{options} needs questions with options, and all of this dataset are open; set another `prompt:` for this dataset"
    assert (misfit.what, misfit.how, misfit.stages) == ("scenes", way, ("infer-here-scenes",))
    assert misfits("") == [], "built again first, perhaps with options"
