"""`qualm cache audit`: what it shows, marks and answers with."""

from __future__ import annotations

import json
import math
import shutil
from collections import Counter

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from qualm.compiler.commands import audit
from qualm.compiler.commands.cache import app
from qualm.compiler.project.checkout import Project
from qualm.registry.system.dvc_objects import file_md5, hash_path, object_path
from qualm.runners.data.answers import ABOUT, open_segments
from qualm.runners.data.maintenance import Holding
from qualm.runners.data.refusal import REFUSED
from qualm.runners.inference.audit import AuditReport, FolderResult, PartResult
from tests.support.models.tiny_models import tiny_llava
from tests.support.projects.asked_project import INFER, PARTS, SPEC, asked_project, make


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return asked_project(tmp_path_factory.mktemp("made") / "t").root


@pytest.fixture
def project(made, tmp_path, monkeypatch):
    shutil.copytree(made, tmp_path / "t", symlinks=True)
    monkeypatch.chdir(tmp_path / "t")
    monkeypatch.setenv("QUALM_DEVICE", "cpu")
    monkeypatch.setenv("COLUMNS", "120")
    return Project()


def qualm(*arguments):
    return CliRunner().invoke(app, ["audit", *arguments])


def folder(project):
    (only,) = (p for p in (project.root / ".qualm/store").iterdir() if p.is_dir() and not (p / REFUSED).exists())
    return only


def tampered(project):
    """One log-probability of a stored answer moves by a ten-thousandth; all checksums stay valid."""
    own = open_segments(folder(project))
    name = next(n for n in own.names() if "answer" in own.read(n)["part"].to_pylist())
    rows = own.read(name).to_pylist()
    row = next(r for r in rows if r["part"] == "answer")
    row["logprobs"] = [row["logprobs"][0] - 1e-4, *row["logprobs"][1:]]
    own.write(pa.Table.from_pylist(rows, schema=own.schema), name.partition("-")[0])
    (own.folder / name).unlink()


@pytest.mark.slow
def test_a_store_that_agrees(project):
    done = qualm("--sample", "24")
    assert done.exit_code == 0, done.output
    assert f"{folder(project).name[:8]}: base, version 0.1.0, today's libraries" in done.output
    answers = next(line.split() for line in done.output.splitlines() if line.startswith("answer"))
    assert answers == ["answer", str(PARTS["answers"]), "8", "8", "-", "-", "-"]
    assert "24 parts computed again: all agree" in done.output


@pytest.mark.slow
def test_a_failed_audit_marks_the_folder_and_the_next_run_computes_again(project):
    tampered(project)
    first = folder(project)
    done = qualm("t", "--dry-run", "--json")
    assert done.exit_code == 1
    report = json.loads(done.stdout)
    (facts,) = report["folders"]
    assert report["failed"] == 1 and facts["failed"] and not facts["marked"] and not (first / REFUSED).exists()
    assert facts["parts"]["answer"] | {"example": ""} == {
        "stored": 12, "checked": 12, "equal": 11, "rounding": 0, "branched": 0, "differing": 1, "failed": True, "example": "",
        "largest": pytest.approx(1e-4, rel=1e-2),
    }  # fmt: skip
    assert not facts["parts"]["draw"]["failed"] and facts["parts"]["draw"]["equal"] == PARTS["draws"]
    done = qualm("t")
    text = " ".join(done.output.split())
    assert done.exit_code == 1 and "parts computed again: 1 of 1 folder failed" in text
    assert (
        f"{first.name[:8]} is marked as not to be used (`qualm cache accept {first.name[:8]}` reverses it): audit: 1 of 12 (answer)" in text
    )
    counters = make(project, INFER).counters
    assert {name: n for name, n in counters.items() if n} == {f"{kind} computed": n for kind, n in PARTS.items()}
    done = qualm("t")
    assert done.exit_code == 0 and f"not computed: {first.name[:8]}" in done.output and folder(project) != first


@pytest.mark.slow
def test_recorded_libraries_are_shown_beside_today_s(project):
    about = json.loads((folder(project) / ABOUT).read_text())
    (folder(project) / ABOUT).write_text(json.dumps({**about, "qualm": "0.0.9", "libraries": {**about["libraries"], "torch": "1.13.1"}}))
    done = qualm("--sample", "12")
    assert done.exit_code == 0 and f"version 0.0.9, torch 1.13.1 -> {about['libraries']['torch']}" in done.output


def test_nothing_to_compute_is_no_agreement(project):
    shutil.rmtree(project.root / "registry/data/tiny")
    done = qualm()
    assert done.exit_code == 1 and "no stored answer can be computed again here (" in str(done.exception)
    shutil.rmtree(project.root / ".qualm/store")
    assert "nothing is stored" in str(qualm().exception)


def cached(root, path):
    """Move a folder to DVC's cache."""
    files = {str(file.relative_to(root / path)): file for file in (root / path).rglob("*") if file.is_file()}
    md5 = str(hash_path(root, path))
    listed = [{"md5": file_md5(file), "relpath": name} for name, file in sorted(files.items())]
    for hashed, content in [(md5, json.dumps(listed).encode()), *((file_md5(file), file.read_bytes()) for file in files.values())]:
        place = object_path(root / ".dvc/cache", hashed)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    shutil.rmtree(root / path)
    return object_path(root / ".dvc/cache", md5)


@pytest.mark.slow
def test_a_tuned_model_that_only_the_cache_has(tmp_path, monkeypatch):
    data = "  lessons: {card: synthetic_scenes, level: easy, format: open, train: 4}\nperturbations:"
    tuned = "finetunes:\n  tuned: {sft: {base: base, train: [lessons]}}\ninference:"
    project = asked_project(
        tmp_path / "t", SPEC.replace("perturbations:", data).replace("inference:", tuned).replace("draws: 2", "draws: 3")
    )
    tiny_llava(project.root / "results/t/models/tuned", seed=1)
    make(project, "infer-tuned-scenes")
    monkeypatch.chdir(project.root)
    monkeypatch.setenv("QUALM_DEVICE", "cpu")
    monkeypatch.setenv("COLUMNS", "160")
    (project.root / "specs/t.yaml").write_text((project.root / "specs/t.yaml").read_text().replace("draws: 3", "draws: 2"))
    listing = cached(project.root, "results/t/models/tuned")
    done = qualm("--json")
    assert done.exit_code == 0, done.exception
    report = json.loads(done.stdout)
    assert not report["not_checked"], report["not_checked"]
    assert {folder["model"]: folder["parts"]["answer"]["equal"] for folder in report["folders"]} == {"base": 12, "tuned": 12}
    unasked = {folder["model"]: folder["parts"] for folder in report["not_asked_for"]}
    assert unasked == {"base": {"draw": 12}, "tuned": {"draw": 12}}, "of three draws the spec asks for two"
    assert not (project.root / "results/t/models/tuned").exists() and not list((project.root / ".qualm").glob("audit-*"))
    assert "12 draw): none of the inference stages examined asks for them; used by t/infer-tuned-scenes" in qualm().output
    listing.unlink()
    assert "12 answer, 36 draw, 12 p_true): model 'tuned'" in " ".join(qualm().output.split()), "all of them, and why"


def test_a_spec_with_mistakes_is_told(project):
    (project.root / "specs/wrong.yaml").write_text("qualm: 1\nname: wrong\nmodles: {}\n")
    assert "specs/wrong.yaml has mistakes" in qualm("--sample", "5").output
    assert qualm("wrong").exit_code != 0


def test_what_only_the_cache_has_lies_beside_what_the_checkout_has(tmp_path):
    """In a folder of links that is gone afterwards; what is neither here nor in the cache lies nowhere."""
    root = tmp_path / "t"
    for name in ("results/t/models/tuned/weights", "results/t/models/other/weights", "results/t/data/rows", "specs/t.yaml"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    (root / ".dvc").mkdir()
    listing = cached(root, "results/t/models/tuned")
    md5 = listing.parent.name + listing.name
    with audit._completed_checkout(root, {"results/t/models/tuned": md5, "results/t/models/lost": "0" * 32}) as whole:
        assert whole != root and (whole / "results/t/models/tuned/weights").read_text() == "results/t/models/tuned/weights"
        for name in ("results/t/models/other/weights", "results/t/data/rows", "specs/t.yaml"):
            assert (whole / name).read_text() == name
        assert sorted(path.name for path in (whole / "results/t/models").iterdir()) == ["other", "tuned"]
    assert not whole.exists() and (root / "results/t/models/other/weights").is_file()
    with audit._completed_checkout(root, {"results/t/models/lost": "0" * 32}) as whole:
        assert whole == root, "nothing to add"


def part(kind, dtype="float32", **counts):
    return {kind: PartResult(**{"stored": 1200, "dtype": dtype, "checked": 10, **counts})}


def held(name, tmp_path, **parts):
    about = {"label": f"model {name}", "qualm": "0.1.0", "libraries": {"torch": "2.1.0"}}
    return Holding(tmp_path / (name * 12), about, parts=Counter(parts), stages=["s/b", "s/a"])


def test_a_report_by_line_and_as_json(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    parts = part("p_true", equal=7, rounding=2, differing=1, largest=0.25, example="d s1 clean p_true: numbers")
    parts |= part("answer", equal=10) | part("draw", dtype="float64", equal=8, branched=2, largest=math.inf)
    ill = FolderResult(held("1", tmp_path, answer=1), {"torch": "2.2.0"}, parts)
    well = FolderResult(held("2", tmp_path), {"torch": "2.1.0"}, part("answer", equal=4, rounding=6, largest=1e-5))
    refused, empty = held("3", tmp_path, p_yes=1, answer=2000), held("4", tmp_path)
    report = AuditReport([ill, well], [(refused, "no [weights]"), (empty, "why")], [(refused, Counter(p_yes=3, draw=1))])
    audit._show(report, False, ["wrong"])
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    head = ["part", "stored", "checked", "equal", "rounding", "differing", "largest"]
    assert [line.split() for line in lines[:8]] == [
        ["11111111:", "model", "1,", "version", "0.1.0,", "torch", "2.1.0", "->", "2.2.0"], head,
        ["answer", "1,200", "10", "10", "-", "-", "-"],
        ["draw", "1,200", "10", "8", "-", "2", "inf"], ["p_true", "1,200", "10", "7", "2", "1", "0.25"],
        ["22222222:", "model", "2,", "version", "0.1.0,", "today's", "libraries"], head, ["answer", "1,200", "10", "4", "6", "-", "1e-05"],
    ]  # fmt: skip
    why = "audit: 1 of 10 (p_true), 2 of 10 (draw) differ from what is computed now, by inf at most"
    assert lines[8:] == [
        f"11111111 is marked as not to be used (`qualm cache accept 11111111` reverses it): {why}; the first: d s1 clean p_true: numbers",
        "not computed: 33333333 (model 3, 0.1.0; 2,000 answer, 1 p_yes): no [weights]",
        "not computed: 44444444 (model 4, 0.1.0; empty): why",
        "not computed: 33333333 (model 3, 0.1.0; 1 draw, 3 p_yes): none of the inference stages examined asks for them; used by s/b, s/a",
        "specs/wrong.yaml has mistakes (`qualm validate wrong`); what it asks for was not looked at",
        "40 parts computed again: 1 of 2 folders failed",
    ]
    audit._show(AuditReport([well], []), True, [])
    assert capsys.readouterr().out.splitlines()[-1] == "10 parts computed again: all agree"
    for dry in (False, True):
        facts = audit._facts(report, dry)
        first, second = facts["folders"]
        assert (facts["dry_run"], facts["checked"], facts["failed"], first["marked"], second["marked"]) == (dry, 40, 1, not dry, False)
    assert list(first["parts"]) == ["answer", "draw", "p_true"] and first["parts"]["draw"]["largest"] is None
    assert first["parts"]["p_true"] == {
        "stored": 1200, "checked": 10, "equal": 7, "rounding": 2, "branched": 0, "differing": 1, "largest": 0.25, "failed": True,
        "example": "d s1 clean p_true: numbers",
    }  # fmt: skip
    assert (first["failed"], first["why"], second["failed"], second["why"]) == (True, why, False, None)
    assert [list(one["parts"].items()) for one in (*facts["not_checked"], *facts["not_asked_for"])] == [
        [("answer", 2000), ("p_yes", 1)], [], [("draw", 1), ("p_yes", 3)],
    ]  # fmt: skip
    audit._show(report, True, [])
    assert "11111111 would be marked as not to be used: audit" in capsys.readouterr().out
