"""What ranges are looked through, for the perturbations that there are."""

import pytest

from qualm.registry.plugins.rule import get
from qualm.runners.tools.strengths.knobs import candidates, numeric, range_of, written


def knob(name, parameter=None, **args):
    plugin = get("perturbations", name)
    knobs = numeric(plugin, {**{p.name: p.default for p in plugin.parameters}, **args})
    return next(k for k in knobs if parameter in (None, k.name))


@pytest.mark.parametrize(
    ("name", "whole", "low", "high", "open_above"),
    [
        ("blur", False, 0.0, 40.0, True),
        ("gaussian_noise", False, 0.0, 200.0, True),
        ("typos", False, 0.0, 1.0, False),
        ("shuffle", True, 0.0, 100.0, False),
        ("jpeg", True, 1.0, 100.0, False),
        ("bright", False, 1.0, 255.0, False),
    ],
)
def test_ranges_come_from_annotations(name, whole, low, high, open_above):
    found = knob(name)
    assert (found.whole, found.low, found.high, found.open_above) == (whole, low, high, open_above)


def test_switches_and_names_are_no_strengths():
    assert [k.name for k in numeric(get("perturbations", "blur"), {"radius": 2.0, "relative": False})] == ["radius"]
    assert [k.name for k in numeric(get("perturbations", "cutout"), {"ratio": 0.2, "of": "side", "fill": 128})] == ["ratio", "fill"]


def test_the_side_of_nothing_follows_the_spec():
    soft = range_of(knob("sharpness", factor=0.5), [1.0], 0.5, 1.0, None, "auto")
    assert (soft.weak, soft.strong, soft.scale) == (1.0, 0.0, "linear")
    sharp = range_of(knob("sharpness", factor=4.0), [1.0], 4.0, 1.0, None, "auto")
    assert (sharp.weak, sharp.strong, sharp.scale) == (1.0, 255.0, "log")
    dark = range_of(knob("dark"), [1.0], 0.2, 1.0, None, "auto")
    assert (dark.weak, dark.strong, dark.scale, dark.widens) == (1.0, 0.0, "linear", False)
    blur = range_of(knob("blur"), [0.0], 10.0, 0.0, None, "auto")
    assert (blur.weak, blur.strong, blur.scale, blur.widens) == (0.0, 40.0, "log", True)
    jpeg = range_of(knob("jpeg"), [], 10, 100.0, None, "auto")
    assert (jpeg.weak, jpeg.strong, jpeg.scale) == (100.0, 1.0, "linear")
    given = range_of(knob("dark"), [1.0], 0.2, 1.0, (0.3, 0.9), "auto")
    assert (given.weak, given.strong) == (0.9, 0.3)


def test_places_and_strengths_are_inverse():
    for where in (range_of(knob("blur"), [0.0], 10.0, 0.0, None, s) for s in ("log", "linear")):
        assert where.at(0) == 0.0 and where.at(1) == 40.0
        for place in (0.2, 0.5, 0.9):
            assert where.place(where.at(place)) == pytest.approx(place, abs=0.01)
    assert 1.0 in candidates(knob("pixelate"))


@pytest.mark.parametrize(("value", "text"), [(3, "3"), (2.0, "2"), (0.15, "0.15"), (0.000012, "0.000012"), (123000.0, "123000")])
def test_numbers_are_written_as_specs_say_them(value, text):
    assert written(value) == text
