"""What sections of fitted methods have in common: sweeps, models by name, mistakes at their places."""

from pathlib import Path

from tests.compiler.spec.resolving import problems, resolve

SPEC = """\
qualm: 1
name: t
datasets:
  scenes: {card: synthetic_scenes, test: 10}
models:
  base: {hf_vlm: {artifact: scene-vlm-base, dtype: [float32, float64]}}
  other: {hf_vlm: {artifact: scene-vlm-base}}
judges: [rules]
estimators: [perplexity]
probes:
  knows: {p_ik: {layer: [middle, last]}, of: OF, fit: half}
abstentions:
  shy: {thresholding: , of: OF, fit: half}
metrics: [accuracy]
"""


def test_a_name_without_its_sweep_means_all_points_of_it(tmp_path: Path) -> None:
    resolved = resolve(tmp_path, SPEC.replace("OF", "[base]"))
    assert [p.label for p in resolved.probes] == ["knows@layer=last", "knows@layer=middle"]
    assert {use.of for use in (*resolved.probes, *resolved.abstentions)} == {("base@dtype=float32", "base@dtype=float64")}
    assert resolved.abstentions[0].entry.settings() == {"of": ["base"], "fit": "half", "per": "all", "confidence": "kept", "seed": 42}


def test_unknown_models_are_named_where_they_stand(tmp_path: Path) -> None:
    said = problems(tmp_path, SPEC.replace("OF", "[othr]"))
    for section in ("probes.knows.of", "abstentions.shy.of"):
        assert any(section in line and "expected a model of this spec, got 'othr'" in line for line in said), said


def test_no_model_and_a_model_named_twice_are_mistakes(tmp_path: Path) -> None:
    assert any("probes.knows.of: expected at least 1 entry, got a list []" in line
               for line in problems(tmp_path, SPEC.replace("OF", "[]")))  # fmt: skip
    twice = problems(tmp_path, SPEC.replace("OF", '[base, "base@dtype=float32"]'))
    assert any("abstentions.shy.of[1]: 'base@dtype=float32' is named twice" in line for line in twice), twice
