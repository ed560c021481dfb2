"""Conformal settings, spelled out."""

from pathlib import Path

import pytest

from tests.compiler.resolve.resolving import change, problems, resolve


def test_conformal_settings_sweep_too(tmp_path: Path) -> None:
    resolved = resolve(tmp_path, change("[lac, aps]}", "[lac], alpha: [0.05, 0.1], calibration: {fraction: [0.3, 0.5]}}"))
    assert [c.label for c in resolved.conformal] == [
        "half@alpha=0.05,fraction=0.3",
        "half@alpha=0.05,fraction=0.5",
        "half@alpha=0.1,fraction=0.3",
        "half@alpha=0.1,fraction=0.5",
    ]


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("[]}", "12:18: conformal.half.scores: expected at least 1 entry, got a list []"),
        ("[lac], per: categry}", "12:30: conformal.half.per: samples have no field 'categry' (did you mean 'category'?)"),
        ("[lac], per: [label, optoin]}", "12:30: conformal.half.per: samples have no field 'optoin' (there are: "),
    ],
)
def test_what_a_setting_cannot_be(tmp_path: Path, part: str, message: str) -> None:
    (problem,) = problems(tmp_path, change("[lac, aps]}", part))
    assert problem.startswith(f"t.yaml:{message}")
    resolve(tmp_path, change("[lac, aps]}", "[lac], per: [label, option, category, pictures]}"))
