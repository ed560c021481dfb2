"""Minimal rebuilds: which stages `dvc repro` executes after an edit, how many samples inference computes, and that
`qualm plan` foretold it. Every row starts from the same finished benchmark."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.end_to_end.clone import Clone, make_clone

pytestmark = pytest.mark.slow

DATA = {"data-scenes", "data-scenes_mc"}
INFER = {"infer-base-scenes", "infer-base-scenes_mc"}
AFTER = {"judge", "estimate", "calibrate", "score", "report"}
EVERYTHING = DATA | INFER | AFTER

Edit = Callable[[Clone], None]


def spec(old: str, new: str) -> Edit:
    def edit(clone: Clone) -> None:
        text = clone.spec.read_text()
        assert old in text
        clone.spec.write_text(text.replace(old, new))

    return edit


def append(file: str, text: str) -> Edit:
    def edit(clone: Clone) -> None:
        path = clone.root / file
        path.write_text(path.read_text() + text if path.exists() else text)

    return edit


def reorder(clone: Clone) -> None:
    lines = clone.spec.read_text().splitlines(keepends=True)
    clone.spec.write_text("".join([*lines[:3], *lines[10:12], *lines[3:10], *lines[12:]]))


def delete(*names: str) -> Edit:
    def edit(clone: Clone) -> None:
        for name in names:
            path = clone.root / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return edit


COMMENT = "\n# A remark.\n"

TABLE: dict[str, tuple[Edit, set[str], int]] = {
    # edit: (how, stages executed, samples computed by inference)
    "nothing": (lambda clone: None, set(), 0),
    "a comment in the spec": (append("specs/mini.yaml", "# a remark\n"), set(), 0),
    "keys reordered": (reorder, set(), 0),
    "15 written 15.0": (spec("bins: 15", "bins: 15.0"), set(), 0),
    "1 written 1.0": (spec("radius: 1", "radius: 1.0"), set(), 0),
    "a default spelled out": (spec("alpha: 0.2", "alpha: 0.2, quantile: standard"), set(), 0),
    "batch size in local settings": (append("qualm.toml", "batch_size = 5\n"), set(), 0),
    "execution settings code": (append("runners/runtime/settings.py", COMMENT), set(), 0),
    "a metric that is not used": (append("runners/plugins/metrics/mce.py", COMMENT), set(), 0),
    "the report's title": (spec("A small benchmark", "Another title"), {"report"}, 0),
    "a metric's bins": (spec("bins: 15", "bins: 10"), {"score", "report"}, 0),
    "a metric added": (spec("  - auroc\n", "  - auroc\n  - auarc\n"), {"score", "report"}, 0),
    "a slice added": (spec("[category]", "[category, kind]"), {"score", "report"}, 0),
    "more bootstrap resamples": (spec("bootstrap: 20", "bootstrap: 30"), {"score", "report"}, 0),
    "a metric's code": (append("runners/plugins/metrics/auroc.py", COMMENT), {"score", "report"}, 0),
    "alpha": (spec("alpha: 0.2", "alpha: 0.3"), {"calibrate", "score", "report"}, 0),
    "an estimator added": (spec("[perplexity]", "[perplexity, mean_token_entropy]"), {"estimate", "score", "report"}, 0),
    "a judge's code, to the same effect": (append("runners/plugins/judges/rules.py", COMMENT), set(), 0),
    "an estimator's code, to the same effect": (append("runners/plugins/estimators/perplexity.py", COMMENT), {"estimate"}, 0),
    "inference code, to the same effect": (append("runners/stages/infer.py", COMMENT), set(), 0),
    "the renderer's code, to the same effect": (append("registry/scenes/render.py", COMMENT), set(), 0),
    "ten more samples": (spec("open, test: 24", "open, test: 34"), {"data-scenes", "infer-base-scenes"} | AFTER, 20),
    "a perturbation's strength": (spec("radius: 1", "radius: 2"), INFER | AFTER, 48),
    "a second strength": (spec("radius: 1", "radius: [1, 2]"), INFER | AFTER, 48),
    "the seed": (append("specs/mini.yaml", "seed: 8\n"), EVERYTHING, 96),
    "an output deleted": (delete("results/mini/scores.parquet", "results/mini/data/scenes"), set(), 0),
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    clone = make_clone(tmp_path_factory.mktemp("mini") / "clone", forked=True)
    assert set(clone.forecast().values()) <= {"run", "perhaps"}
    assert clone.repro() == EVERYTHING
    assert sum(clone.counters(s).get("answers computed", 0) for s in INFER) == 96
    assert set(clone.forecast().values()) == {"unchanged"}
    return clone


@pytest.mark.parametrize("name", TABLE)
def test_an_edit_executes_exactly_what_depends_on_it(finished: Clone, tmp_path: Path, name: str) -> None:
    edit, executed, computed = TABLE[name]
    clone = finished.copy(tmp_path / "clone")
    edit(clone)
    forecast = clone.forecast()
    clone.qualm("compile")
    assert clone.repro() == executed
    assert sum(clone.counters(s).get("answers computed", 0) for s in INFER & executed) == computed
    will = {s for s, action in forecast.items() if action == "run"}
    perhaps = {s for s, action in forecast.items() if action == "perhaps"}
    assert will <= executed <= will | perhaps, forecast
    assert set(clone.forecast().values()) == {"unchanged"}


def test_going_back_restores_an_earlier_run_that_the_plan_does_not_foresee(finished: Clone, tmp_path: Path) -> None:
    clone = finished.copy(tmp_path / "clone")
    before = clone.spec.read_text()
    spec("bins: 15", "bins: 10")(clone)
    clone.qualm("compile")
    assert clone.repro() == {"score", "report"}
    clone.spec.write_text(before)
    assert {s: a for s, a in clone.forecast().items() if a != "unchanged"} == {"score": "run", "report": "run"}
    clone.qualm("compile")
    assert clone.repro() == set()
    assert set(clone.forecast().values()) == {"unchanged"}


def test_the_plan_gives_its_reasons(finished: Clone, tmp_path: Path) -> None:
    clone = finished.copy(tmp_path / "clone")
    spec("bins: 15", "bins: 10")(clone)
    append("runners/plugins/metrics/auroc.py", COMMENT)(clone)
    text = clone.qualm("plan").stdout
    assert "parameter metrics.ece.args.bins: 15 -> 10" in text
    assert "code runners/plugins/metrics/auroc.py changed" in text
    assert "+ score will run" in text
    assert clone.qualm("plan", "--exit-code", check=False).returncode == 1


def test_one_parameter_by_dvc_exp_run(finished: Clone, tmp_path: Path) -> None:
    clone = finished.copy(tmp_path / "clone")
    clone.run("git", "add", "-A")
    clone.run("git", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "run")
    done = clone.run(clone.python, "-m", "dvc", "exp", "run", "-S", "specs/mini.yaml:title=Experiment")
    assert "Running stage 'report'" in done.stdout
    assert "Experiment" in (clone.root / "results/mini/report.html").read_text()
