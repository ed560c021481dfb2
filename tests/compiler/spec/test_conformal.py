"""Conformal settings, spelled out."""

from pathlib import Path

import pytest

from tests.compiler.spec.resolving import change, problems, resolve


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
        (
            "[lac], calibration: {within: categry}}",
            "12:47: conformal.half.calibration.within: samples have no field 'categry' (did you mean 'category'?)",
        ),
        (
            "[lac], per: label, calibration: {within: category}}",
            "12:30: conformal.half.per: thresholds are per 'label', but calibration is within 'category' (leave out `per:`; ",
        ),
    ],
)
def test_what_a_setting_cannot_be(tmp_path: Path, part: str, message: str) -> None:
    (problem,) = problems(tmp_path, change("[lac, aps]}", part))
    assert problem.startswith(f"t.yaml:{message}")
    resolve(tmp_path, change("[lac, aps]}", "[lac], per: [label, option, category, pictures]}"))


def test_what_is_split_within_a_field_has_a_threshold_for_each_of_its_values(tmp_path: Path) -> None:
    whole, parted = resolve(tmp_path, change("[lac, aps]}", "[lac], calibration: {within: [category, label], split: rows}}")).conformal
    assert [(c.label, c.args["per"], c.args["calibration"]["within"]) for c in (whole, parted)] == [
        ("half@within=category", "category", "category"),
        ("half@within=label", "label", "label"),
    ]
    (plain,) = resolve(tmp_path, change("[lac, aps]}", "[lac]}")).conformal
    assert "within" not in plain.args["calibration"], "specs without it keep their stages"
