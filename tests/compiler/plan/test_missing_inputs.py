"""Inputs that are not in the workspace, and the commands that bring them."""

from __future__ import annotations

from pathlib import Path

import pytest

from qualm.compiler.plan.missing_inputs import how_to_get, missing_inputs
from qualm.compiler.plan.plan import Plan, PlannedStage
from qualm.registry.system.dvc_objects import object_path

MD5 = "a0" * 16
DATA, MODEL = "registry/data/photos", "registry/data/vlm"


def stage(name: str, reads: dict[str, str], writes: str) -> PlannedStage:
    return PlannedStage(name, name.partition("-")[0], "", {}, reads, {"made": writes}, 0, ())


PLAN = Plan(
    "s",
    "",
    (
        stage("data-photos", {"source": DATA}, "results/s/data"),
        stage("infer-vlm", {"datasets": "results/s/data", "model": MODEL, "beneath": "results/other/models/m"}, "results/s/answers"),
        stage("curate-photos", {"dataset": "results/s/data", "reviews": "registry/data/reviewed"}, "results/s/kept"),
    ),
)


def tracked(root: Path, path: str, cached: bool = False) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / f"{path}.dvc").write_text(f"outs:\n- md5: {MD5}\n  hash: md5\n  path: {Path(path).name}\n")
    if cached:
        place = object_path(root / ".dvc/cache", MD5)
        place.parent.mkdir(parents=True)
        place.write_text("")


def test_what_is_here_or_made_by_a_stage_is_not_missing(tmp_path: Path) -> None:
    for path in (DATA, MODEL, "registry/data/reviewed"):
        (tmp_path / path).mkdir(parents=True)
    assert list(missing_inputs(PLAN, tmp_path)) == []


def test_every_missing_input_is_named_with_its_command(tmp_path: Path) -> None:
    tracked(tmp_path, MODEL)
    assert list(missing_inputs(PLAN, tmp_path)) == [
        "registry/data/photos: not here; `qualm fetch s` brings it, or says how you get it",
        "registry/data/reviewed: people's decisions on the test split; `qualm verify s SET` makes it",
        f"{MODEL}: not in the workspace; `dvc pull {MODEL}.dvc`",
    ]


def test_what_is_in_the_cache_is_checked_out(tmp_path: Path) -> None:
    tracked(tmp_path, MODEL, cached=True)
    assert f"{MODEL}: not in the workspace; `dvc checkout {MODEL}.dvc`" in list(missing_inputs(PLAN, tmp_path))


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["dvc", "repro", "data-photos"], [DATA]),
        (["dvc", "repro", "specs/s/dvc.yaml:infer-vlm"], [DATA, MODEL]),
        (["dvc", "repro", "--pull"], [DATA, "registry/data/reviewed"]),
    ],
)
def test_only_what_the_command_asks_for(tmp_path: Path, words: list[str], found: list[str]) -> None:
    tracked(tmp_path, MODEL)
    assert [line.partition(":")[0] for line in missing_inputs(PLAN, tmp_path, words)] == found


def test_other_files() -> None:
    assert how_to_get("specs/prompts/x.md", False, "mine") == "specs/prompts/x.md: not found"
