"""Conformal settings, spelled out."""

from pathlib import Path

from tests.compiler.resolve.resolving import change, resolve


def test_conformal_settings_sweep_too(tmp_path: Path) -> None:
    resolved = resolve(tmp_path, change("[lac, aps]}", "[lac], alpha: [0.05, 0.1], calibration: {fraction: [0.3, 0.5]}}"))
    assert [c.label for c in resolved.conformal] == [
        "half@alpha=0.05,fraction=0.3",
        "half@alpha=0.05,fraction=0.5",
        "half@alpha=0.1,fraction=0.3",
        "half@alpha=0.1,fraction=0.5",
    ]
