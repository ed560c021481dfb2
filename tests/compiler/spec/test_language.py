"""Bounds of the spec's own keys: the last value that is taken, and the first that is not."""

import pytest
from pydantic import ValidationError

from qualm.compiler.spec import language
from qualm.compiler.spec.language import Spec, whole
from qualm.registry.plugins.registry import NAME_PATTERN

SPEC = {"qualm": 1, "name": "t", "datasets": {"d": {"card": "synthetic_scenes"}}, "models": {"m": {"hf_vlm": {}}}}


def takes(**sections):
    try:
        Spec.model_validate({**SPEC, **sections})
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize(
    "section, key, good, bad",
    [
        ("inference", "max_new_tokens", [1, 4096], [0, -1, 1.5, True, "4"]),
        ("inference", "draws", [1, 1000], [0, 1001]),
        ("inference", "temperature", [0.01, 2.0], [0.0, -1.0]),
        ("inference", "top_p", [0.01, 1.0], [0.0, 1.01]),
        ("report", "examples", [0, 24], [-1]),
        ("compare", "family", ["study", "slice", "metric"], ["table", "all", 1]),
        ("compare", "correction", ["max_t", "holm", "benjamini_hochberg", "none"], ["bonferroni"]),
    ],
)
def test_keys_of_sections(section, key, good, bad):
    assert [value for value in good if not takes(**{section: {key: value}})] == []
    assert [value for value in bad if takes(**{section: {key: value}})] == []


@pytest.mark.parametrize(
    "model, key, good, bad, others",
    [
        ("Calibration", "fraction", [0.01, 0.99, [0.01, 0.99]], [0.0, 1.0, [0.5, 1.0], [0.0]], {}),
        ("Conformal", "alpha", [0.01, 0.99, [0.1, 0.2]], [0.0, 1.0, 1.5, [0.1, 1.0], [0.0]], {"scores": ["lac"]}),
        ("NearDuplicates", "distance", [0, 16], [-1, 17], {}),
        ("Balance", "take", [1], [0], {}),
        ("HeldOut", "fraction", [0.01, 0.99], [0.0, 1.0], {}),
        ("Interval", "bootstrap", [0, 1000], [-1], {}),
        ("Interval", "level", [0.01, 0.99], [0.0, 1.0], {}),
        ("RunWide", "seed", [0, 7], [-1], {"default": "t"}),
        ("RunWide", "limit", [1, None], [0], {"default": "t"}),
    ],
)
def test_keys_of_parts(model, key, good, bad, others):
    kind = getattr(language, model)
    for value in good:
        assert getattr(kind.model_validate({**others, key: value}), key) == value
    for value in bad:
        with pytest.raises(ValidationError):
            kind.model_validate({**others, key: value})


@pytest.mark.parametrize(
    "name, fits", [("a", True), ("A_b.c-1", True), ("x" * 64, True), ("x" * 65, False), ("", False), ("a b", False), ("a/b", False)]
)
def test_names(name, fits):
    import re

    assert bool(re.match(NAME_PATTERN, name)) is fits


def test_whole_numbers_however_they_are_written():
    assert whole(15.0) == 15 and type(whole(15.0)) is int and whole(15) == 15 and whole(1.5) == 1.5 and whole("15") == "15"


def test_unknown_keys_and_other_versions_are_refused():
    assert takes() and not takes(nonsense=1) and not takes(qualm=2)
