"""Emitting: stable text in DVC's own grammar, written only where it changed; locks pruned and carried along."""

import os
import re
from pathlib import Path

import pytest
import yaml

from qualm.compiler.plan.compiled_files import owner
from qualm.compiler.plan.emit import LAUNCHER, compiled_texts, pipeline, write
from qualm.compiler.plan.plan import Plan, PlannedStage

GOLDEN = Path(__file__).parents[2] / "golden"


def plan(spec: str = "demo") -> Plan:
    base = f"results/{spec}"
    data = PlannedStage(
        "data-scenes",
        "data",
        "Samples of scenes",
        {"args": {"test": 10}},
        {},
        {"dataset": f"{base}/data/scenes"},
        7,
        ("runners/stages/data.py",),
    )
    train = PlannedStage(
        "finetune-small",
        "finetune",
        "Train small",
        {"args": {"lr": 0.001}},
        {"datasets": {"scenes": f"{base}/data/scenes"}},
        {"model": f"{base}/models/small", "log": f"{base}/training/small.csv"},
        7,
        ("runners/stages/finetune.py",),
    )
    score = PlannedStage(
        "score",
        "score",
        "Score everything",
        {"metrics": [{"label": "ece", "plugin": "ece", "args": {"bins": 15}}]},
        {"datasets": {"scenes": f"{base}/data/scenes"}, "model": f"{base}/models/small"},
        {"scores": f"{base}/scores.parquet", "metrics": f"{base}/metrics.json", "reliability": f"{base}/plots/reliability.csv"},
        7,
        ("runners/stages/score.py", "runners/plugins/metrics/ece.py"),
    )
    return Plan(spec, "Demo", (data, train, score), {"small": f"{base}/models/small"})


@pytest.mark.parametrize(("default", "name"), [("demo", "root"), ("other", "nested")])
def test_golden_text(default: str, name: str) -> None:
    found = "".join(f"=== {path}\n{text}" for path, text in sorted(compiled_texts(plan(), default).items()))
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("HELD") == "write":
        golden.write_text(found, encoding="utf-8")
    assert found == golden.read_text(encoding="utf-8"), "if the change is meant, run `make update`"


@pytest.mark.parametrize("up", ["", "../../"])
def test_dvc_accepts_its_own_grammar(up: str) -> None:
    from dvc.schema import COMPILED_MULTI_STAGE_SCHEMA

    COMPILED_MULTI_STAGE_SCHEMA(pipeline(plan(), up))


def test_the_repositorys_own_pipelines_are_in_dvcs_grammar() -> None:
    from dvc.schema import COMPILED_MULTI_STAGE_SCHEMA

    root = Path(__file__).parents[3]
    files = [f for f in (root / "dvc.yaml", *root.glob("specs/*/dvc.yaml")) if f.is_file()]
    assert files
    for file in files:
        COMPILED_MULTI_STAGE_SCHEMA(yaml.safe_load(file.read_text()))


def test_only_what_changed_is_written(tmp_path: Path) -> None:
    first = write(tmp_path, [plan()], "demo")
    assert set(first.written) == {LAUNCHER, *compiled_texts(plan(), "demo")}
    stamps = {p: (tmp_path / p).stat().st_mtime_ns for p in first.written}
    second = write(tmp_path, [plan()], "demo")
    assert not second
    assert {p: (tmp_path / p).stat().st_mtime_ns for p in stamps} == stamps


def test_check_writes_nothing(tmp_path: Path) -> None:
    changes = write(tmp_path, [plan()], "demo", dry=True)
    assert changes.written
    assert list(tmp_path.iterdir()) == []


def test_parameters_of_stages_that_are_gone_are_removed(tmp_path: Path) -> None:
    write(tmp_path, [plan()], "demo")
    stale = tmp_path / "specs/demo/stages/old.json"
    stale.write_text("{}")
    assert write(tmp_path, [plan()], "demo").removed == ["specs/demo/stages/old.json"]
    assert not stale.exists()


LOCK = """\
schema: '2.0'
stages:
  data-scenes:
    cmd: python3 specs/run.py demo/data-scenes
    deps:
    - path: runners/stages/data.py
      hash: md5
      md5: 5d41402abc4b2a76b9719d911017c592
      size: 5
  gone:
    cmd: python3 specs/run.py demo/gone
    outs:
    - path: results/demo/gone
      md5: 7d793037a0760186574b0282f2f435e7
  score:
    cmd: python3 specs/run.py demo/score
"""


def test_lock_entries_of_stages_that_are_gone_are_dropped_and_the_rest_is_untouched(tmp_path: Path) -> None:
    write(tmp_path, [plan()], "demo")
    (tmp_path / "dvc.lock").write_text(LOCK)
    assert write(tmp_path, [plan()], "demo").pruned == {"dvc.lock": ["gone"]}
    start, end = LOCK.index("  gone:"), LOCK.index("  score:")
    assert (tmp_path / "dvc.lock").read_text() == LOCK[:start] + LOCK[end:]


def test_a_lock_has_the_order_of_the_pipeline(tmp_path: Path) -> None:
    write(tmp_path, [plan()], "demo")
    head, entries = LOCK.split("stages:\n")[0] + "stages:\n", re.split(r"(?m)^(?=  [a-z-]+:$)", LOCK.split("stages:\n")[1])[1:]
    data, _, score = entries
    spec = "  spec:\n    cmd: python3 specs/run.py demo\n"
    (tmp_path / "dvc.lock").write_text(head + score + data + spec)
    assert not write(tmp_path, [plan()], "demo", dry=True), "no mistake: DVC appends what it ran"
    write(tmp_path, [plan()], "demo")
    assert (tmp_path / "dvc.lock").read_text() == head + spec + data + score
    assert not write(tmp_path, [plan()], "demo")


def test_another_default_moves_pipelines_and_locks(tmp_path: Path) -> None:
    a, b = plan("a"), plan("b")
    write(tmp_path, [a, b], "a")
    lock = LOCK.replace("  gone:\n    cmd: python3 specs/run.py demo/gone\n    outs:\n    - path: results/demo/gone\n", "")
    (tmp_path / "dvc.lock").write_text(lock)
    (tmp_path / "specs/b/dvc.lock").write_text("schema: '2.0'\nstages: {}\n")
    write(tmp_path, [a, b], "b")
    assert owner(tmp_path / "dvc.yaml") == "b"
    assert owner(tmp_path / "specs/a/dvc.yaml") == "a"
    assert not (tmp_path / "specs/b/dvc.yaml").exists()
    assert (tmp_path / "specs/a/dvc.lock").read_text() == lock
    assert (tmp_path / "dvc.lock").read_text() == "schema: '2.0'\nstages: {}\n"
    assert not write(tmp_path, [a, b], "b")


def test_a_metric_or_plot_never_stands_among_plain_outputs() -> None:
    stage = pipeline(plan())["stages"]["score"]
    assert stage["outs"] == ["results/demo/scores.parquet"]
    assert stage["metrics"] == [{"results/demo/metrics.json": {"cache": False}}]
    assert [next(iter(p)) for p in stage["plots"]] == ["results/demo/plots/reliability.csv"]


def test_another_default_alone_sends_the_roots_pipeline_home(tmp_path: Path) -> None:
    a, b = plan("a"), plan("b")
    write(tmp_path, [a, b], "a")
    lock = "schema: '2.0'\nstages: {}\n"
    (tmp_path / "dvc.lock").write_text(lock)
    write(tmp_path, [b], "b")
    assert owner(tmp_path / "dvc.yaml") == "b" and owner(tmp_path / "specs/a/dvc.yaml") == "a"
    assert (tmp_path / "specs/a/dvc.lock").read_text() == lock and not (tmp_path / "dvc.lock").exists()
    third = plan("c")
    write(tmp_path, [third], "b")
    assert owner(tmp_path / "dvc.yaml") == "b" and owner(tmp_path / "specs/c/dvc.yaml") == "c"
