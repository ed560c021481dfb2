"""The audit: an untouched store agrees, whatever was altered in it is found, and what cannot be computed here is told."""

from __future__ import annotations

import json
import shutil
from contextlib import chdir
from dataclasses import replace

import pyarrow as pa
import pytest

from qualm.runners.contracts.models import PARTS, Part
from qualm.runners.data.answers import ABOUT, open_segments
from qualm.runners.data.refusal import refuse
from qualm.runners.inference.audit import PartDifference, PartResult, audit, compare_parts
from qualm.runners.runtime import libraries
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import read_stage
from tests.support.models.tiny_models import tiny_llava
from tests.support.projects.tiny_project import BLUR, CLEAN, NEEDS, Project

SIGNALS = [
    "p_yes", "p_true", "p_true_sampling", "said_confidence", "image_divergence", "logprobs_without_image", "uniform_divergence",
    "top_logprobs", "top_tokens",
]  # fmt: skip
SIGNALS += ["logprobs_without_question", "logprobs_without_both"]
NONE = {"answers computed": 0, "answers stored": 6, "draws computed": 0, "draws stored": 8, "signals computed": 0, "signals stored": 44}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_llava(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def answered(tmp_path_factory, model):
    made = Project(tmp_path_factory.mktemp("answered"), model)
    made.dataset("open", 2)
    made.dataset("mc", 1, choices=True)
    asked = {"needs": [*NEEDS, "draws", *SIGNALS], "draws": 2, "temperature": 0.9}
    made.stage(["open", "mc"], [CLEAN, BLUR], args={"artifact": "registry/data/tiny", "dtype": "float64"}, **asked)
    made.run()
    return made.folder


@pytest.fixture
def project(tmp_path, model, answered):
    shutil.copytree(answered, tmp_path, symlinks=True, dirs_exist_ok=True)
    return Project(tmp_path, model)


def audited(project, sample=1000, seed=0, **settings):
    with chdir(project.folder):
        stage = read_stage("t/infer", Settings(**{"device": "cpu", "batch_size": 3, "workers": 2, "progress": False, **settings}))
        return audit([stage], project.folder / ".qualm" / "store", sample, seed)


def folders(project):
    return sorted(p for p in (project.folder / ".qualm" / "store").iterdir() if p.is_dir())


def altered(folder, edit):
    """Rewrite the first row of which `edit` makes another, its checksum valid."""
    own = open_segments(folder)
    for name in own.names():
        rows = own.read(name).to_pylist()
        for number, row in enumerate(rows):
            other = edit(row)
            if other is not None:
                rows[number] = {**row, **other}
                own.write(pa.Table.from_pylist(rows, schema=own.schema), name.partition("-")[0])
                (folder / name).unlink()
                return row
    raise AssertionError("no such row")


@pytest.mark.slow
def test_an_untouched_store_agrees_to_the_byte(project):
    before = {path: path.read_bytes() for path in project.segments()}
    report = audited(project)
    (folder,) = report.folders
    assert not folder.failed and not report.unchecked and not folder.moved and report.checked == 6 + 8 + 44
    assert set(folder.parts) == {*PARTS, "draw"}
    for kind, part in folder.parts.items():
        assert part.checked == part.stored == part.equal == {"options": 2, "draw": 8}.get(kind, 4)
    assert {path: path.read_bytes() for path in project.segments()} == before and len(folders(project)) == 1, "nothing is written"
    assert project.run().counters == NONE


@pytest.mark.slow
def test_a_sample_is_even_over_parts_and_the_same_for_a_seed(project):
    report = audited(project, sample=20)
    assert report.checked == 20 and {part.checked for part in report.folders[0].parts.values()} == {1, 2}


def test_numbers_of_float32_agree_to_rounding(project):
    project.stage(["open"], needs=[*NEEDS, "draws", "p_true"], draws=2)
    project.run()
    report = audited(project)
    (folder,) = report.folders
    assert not folder.failed and sum(part.rounding + part.equal for part in folder.parts.values()) == report.checked
    assert len(report.unchecked) == 1 and report.unchecked[0][1] == "no stage that was examined asks for them"


@pytest.mark.slow
@pytest.mark.parametrize("part", ["answer", "options", "draw 2", "p_yes", "without_both"])
def test_one_altered_number_is_found(project, part):
    (folder,) = folders(project)

    def edit(row):
        field = "numbers" if row["numbers"] else "logprobs"
        return {field: [row[field][0] * (1 + 1e-3), *row[field][1:]]} if row["part"] == part else None

    altered(folder, edit)
    report = audited(project)
    (result,) = report.failed
    kind = part.partition(" ")[0]
    assert [name for name, row in result.parts.items() if row.failed] == [kind]
    assert result.parts[kind].differing == 1 and 0 < result.parts[kind].largest < 0.1
    assert result.parts[kind].example.startswith(("open s000", "mc s000")) and part in result.parts[kind].example
    assert result.why.startswith(f"audit: 1 of {result.parts[kind].checked} ({kind}) differ from what is computed now, by 0.0")
    refuse(folder, result.why)
    assert project.run().counters["answers computed"] == 6, "what is refused is computed again"
    report = audited(project)
    assert not report.failed and report.unchecked[0][1].startswith("refused: audit: 1 of")


@pytest.mark.slow
def test_an_altered_text_is_found(project):
    (folder,) = folders(project)
    altered(folder, lambda row: {"text": "purple"} if row["part"] == "answer" else None)
    (result,) = audited(project).failed
    assert result.parts["answer"].differing == 1 and result.parts["answer"].example.endswith("answer: text")


@pytest.mark.slow
def test_answers_of_other_libraries_are_compared_with_today_s(project):
    """Whatever the policy counts as the same: that is what an audit is for."""
    (folder,) = folders(project)
    about = json.loads((folder / ABOUT).read_text())
    (folder / ABOUT).write_text(json.dumps({**about, "libraries": {**about["libraries"], "torch": "1.0.0"}}))
    folder.rename(folder.with_name("older"))
    report = audited(project)
    (result,) = report.folders
    assert result.moved == {"torch": ("1.0.0", libraries.library_version("torch"))} and not result.failed and report.checked == 58
    assert project.run().counters["answers computed"] == 6
    assert [f.failed for f in audited(project).folders] == [False, False] and len(audited(project, sample=40).folders) == 2


@pytest.mark.slow
def test_signals_without_their_draws_are_left_out_and_the_rest_checked(project):
    (folder,) = folders(project)
    own = open_segments(folder)
    for name in own.names():
        table = own.read(name)
        kept = table.filter(pa.compute.not_equal(table["part"], "draw 1"))
        (folder / name).unlink()
        if kept.num_rows:
            own.write(kept, name.partition("-")[0])
    (result,) = audited(project).folders
    assert "p_true_sampling" not in result.parts and result.parts["p_true"].equal == 4 and result.parts["draw"].checked == 4


def test_what_cannot_be_computed_here_is_told(project):
    (held,) = audited(project, device="cuda").unchecked
    assert "the setting `device` is cuda" in held[1] and held[0].parts["answer"] == 4
    (project.folder / "registry" / "data" / "tiny").unlink()
    report = audited(project)
    assert not report.checked and "expected config.json of a transformers model" in report.unchecked[0][1]


def test_a_server_s_answers_are_told(project, monkeypatch):
    from qualm.runners.inference import audit as module

    monkeypatch.setattr(module, "Remote", object)  # every model is one
    (_, why), *_ = audited(project).unchecked
    assert why == "a server computes them"


@pytest.mark.slow
def test_the_seed_of_the_sample_changes_what_is_drawn(project, monkeypatch):
    from qualm.runners.inference import audit as module

    seen = []
    real = module._computed

    def noted(asker, shelf, own, result):
        seen.append({(lot.cell.place, lot.part) for lot in own})
        real(asker, shelf, own, result)

    monkeypatch.setattr(module, "_computed", noted)
    for seed in (0, 0, 1):
        audited(project, sample=20, seed=seed)
    assert seen[0] == seen[1] != seen[2]


def test_more_draws_apart_than_rounding_explains_fail():
    few = PartResult(100, "float32", checked=50, branched=1, tokens=16)
    assert not few.failed and few.apart == 0
    assert replace(few, branched=4).failed and replace(few, branched=4).apart == 4 and replace(few, dtype="float64").failed


def test_what_was_compared_is_counted_by_its_verdict():
    row, computed = PartResult(100, "float32"), Part("a", [1, 2, 3])
    for verdict, largest, what in (
        ("equal", 0.0, ""), ("rounding", 0.25, ""), ("differs", 0.125, "text"), ("rounding", 0.0, ""), ("differs", 0.5, "logprobs"),
        ("branched", 0.0, "text"),
    ):  # fmt: skip
        row.take(PartDifference(verdict, largest, what), computed if verdict == "equal" else Part("a", [1]), f"d s{largest} clean answer")
    assert (row.checked, row.equal, row.rounding, row.differing, row.branched) == (6, 1, 2, 2, 1)
    assert (row.largest, row.tokens, row.example) == (0.5, 3, "d s0.125 clean answer: text") and row.failed and row.apart == 3


@pytest.mark.parametrize(
    ("computed", "verdict"),
    [
        ([["a", "c", "b"], ["d", "e", "f"]], "rounding"),
        ([["a", "b", "x"], ["d", "e", "f"]], "rounding"),
        ([["b", "a", "c"], ["d", "e", "f"]], "differs"),
        ([["a", "x", "y"], ["d", "e", "f"]], "differs"),
        ([["a", "b", "c"]], "differs"),
    ],
)
def test_about_equally_likely_tokens_may_change_places(computed, verdict):
    stored = [["a", "b", "c"], ["d", "e", "f"]]
    parts = [Part(json.dumps(texts)) for texts in (stored, computed)]
    assert compare_parts("top_tokens", *parts, "float32") == PartDifference(verdict, 0.0, "text")
