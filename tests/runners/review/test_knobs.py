"""What ranges are looked through, for the perturbations that there are."""

import math
from dataclasses import replace
from typing import Annotated, Literal

import pytest
from annotated_types import Ge, Gt, Le, Lt

from qualm.registry.plugins.registry import Parameter, get
from qualm.runners.review.knobs import Knob, Range, candidates, format_strength, numeric_knobs, search_range


def knob(name, parameter=None, **args):
    plugin = get("perturbations", name)
    knobs = numeric_knobs(plugin, {**{p.name: p.default for p in plugin.parameters}, **args})
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
    assert [k.name for k in numeric_knobs(get("perturbations", "blur"), {"radius": 2.0, "relative": False})] == ["radius"]
    assert [k.name for k in numeric_knobs(get("perturbations", "cutout"), {"ratio": 0.2, "of": "side", "fill": 128})] == ["ratio", "fill"]


def test_the_side_of_nothing_follows_the_spec():
    soft = search_range(knob("sharpness", factor=0.5), [1.0], 0.5, 1.0, None, "auto")
    assert (soft.weak, soft.strong, soft.scale) == (1.0, 0.0, "linear")
    sharp = search_range(knob("sharpness", factor=4.0), [1.0], 4.0, 1.0, None, "auto")
    assert (sharp.weak, sharp.strong, sharp.scale) == (1.0, 255.0, "log")
    dark = search_range(knob("dark"), [1.0], 0.2, 1.0, None, "auto")
    assert (dark.weak, dark.strong, dark.scale, dark.widens) == (1.0, 0.0, "linear", False)
    blur = search_range(knob("blur"), [0.0], 10.0, 0.0, None, "auto")
    assert (blur.weak, blur.strong, blur.scale, blur.widens) == (0.0, 40.0, "log", True)
    jpeg = search_range(knob("jpeg"), [], 10, 100.0, None, "auto")
    assert (jpeg.weak, jpeg.strong, jpeg.scale) == (100.0, 1.0, "linear")
    given = search_range(knob("dark"), [1.0], 0.2, 1.0, (0.3, 0.9), "auto")
    assert (given.weak, given.strong) == (0.9, 0.3)


def test_places_and_strengths_are_inverse():
    for where in (search_range(knob("blur"), [0.0], 10.0, 0.0, None, s) for s in ("log", "linear")):
        assert where.at(0) == 0.0 and where.at(1) == 40.0
        for place in (0.2, 0.5, 0.9):
            assert where.place(where.at(place)) == pytest.approx(place, abs=0.01)
    assert 1.0 in candidates(knob("pixelate"))


@pytest.mark.parametrize(("value", "text"), [(3, "3"), (2.0, "2"), (0.15, "0.15"), (0.000012, "0.000012"), (123000.0, "123000")])
def test_numbers_are_written_as_specs_say_them(value, text):
    assert format_strength(value) == text


BLUR = get("perturbations", "blur")


def made(annotation, value, default=1.0):
    """The knob of one parameter `x`, or None."""
    plugin = replace(BLUR, parameters=(Parameter("x", annotation, default, ""),))
    return next(iter(numeric_knobs(plugin, {"x": value})), None)


@pytest.mark.parametrize(
    ("annotation", "value", "default", "whole", "low", "high", "open_above"),
    [
        (float, 3.0, 10.0, False, 0.0, 40.0, True),  # four times the value in use, or the default
        (float, 20.0, 10.0, False, 0.0, 80.0, True),
        (float, 0.5, 0.25, False, 0.0, 2.0, True),
        (float, 3.0, None, False, 0.0, 12.0, True),
        (float, 0.0, 0.0, False, 0.0, 4.0, True),
        (float, -3.0, 1.0, False, -12.0, 12.0, True),
        (int, 0, 0, True, 0.0, 4.0, True),
        (int | None, 5, None, True, 0.0, 20.0, True),
        (int | float, 5, 1, False, 0.0, 20.0, True),
        (Annotated[float, Gt(2), Lt(6)], 5.0, 1.0, False, 2.005, 5.995, False),
        (Annotated[float, Ge(2), Le(6)], 5.0, 1.0, False, 2.0, 6.0, False),
        (Annotated[int, Gt(2), Lt(6)], 5, 1, True, 3.0, 5.0, False),
        (Annotated[float, Gt(-2)], 5.0, 1.0, False, -1.995, 20.0, True),
    ],
)
def test_a_range_is_that_of_the_bounds_or_of_the_values_in_use(annotation, value, default, whole, low, high, open_above):
    found = made(annotation, value, default)
    assert (found.name, found.whole, found.open_above) == ("x", whole, open_above)
    assert (found.low, found.high) == pytest.approx((low, high))


@pytest.mark.parametrize(
    ("annotation", "value"), [(bool, True), (str, "a"), (Literal[1, 2], 1), (int | str, 3), (float | None, None), (list[int], [1])]
)
def test_what_is_no_number_has_no_range(annotation, value):
    assert made(annotation, value) is None


def test_values_are_rounded_to_what_can_be_written_and_stay_in_the_range():
    share, quality, radius = Knob("p", False, 0.1, 1.0, False), Knob("q", True, 1.0, 100.0, False), Knob("r", False, 0.0, 40.0, True)
    assert [share.rounded(x) for x in (0.12349, 0.01, 0.9996, 3.0)] == [0.123, 0.1, 1.0, 1.0]
    assert [quality.rounded(x) for x in (7.6, -3.0, 1000.0)] == [8, 1, 100] and type(quality.rounded(7.6)) is int
    assert radius.rounded(1234.5) == 1230.0, "nothing bounds it"
    assert (share.step, quality.step, radius.step) == (0.001, 1.0, 0.1) and Knob("f", False, 10.0, 11.0, False).step == 0.01
    assert Range(radius, 0.0, 40.0, "log").wider() == Range(radius, 0.0, 80.0, "log")


def test_places_on_both_scales_by_hand():
    radius = Knob("r", False, 0.0, 64.0, True)
    linear, log = Range(radius, 0.0, 64.0, "linear"), Range(radius, 0.0, 64.0, "log")
    assert [linear.at(p) for p in (-0.1, 0.25, 1.5)] == [0.0, 16.0, 64.0] and linear.place(48.0) == 0.75
    # eight halvings of 64 are the 0.25 from which the logarithmic scale begins
    assert [log.at(p) for p in (0.0, 0.5, 1.0)] == [0.0, 4.0, 64.0] and log.place(1.0) == pytest.approx(0.25) and log.place(0.0) == 0.0
    falling = Range(radius, 64.0, 0.0, "log")
    assert [falling.at(p) for p in (0.0, 0.25, 1.0)] == [64.0, 16.0, 0.0]
    assert (linear.widens, falling.widens, replace(linear, knob=replace(radius, open_above=False)).widens) == (True, False, False)


def test_values_that_may_do_nothing_are_ends_and_nought_and_one_between():
    ends = ((0.0, 1.0, False), (-1.0, 2.0, False), (0.0, 40.0, True), (1.0, 255.0, False), (0.5, 0.9, False))
    found = [candidates(Knob("x", False, *of)) for of in ends]
    assert found == [[0.0, 1.0], [-1.0, 0.0, 1.0, 2.0], [0.0, 1.0], [1.0, 255.0], [0.5, 0.9]]


FACTOR = Knob("factor", False, 0.0, 255.0, False)


@pytest.mark.parametrize(
    ("nothing", "now", "gentler", "limits", "weak", "strong"),
    [
        ([1.0], 1.0, 0.0, None, 1.0, 0.0),  # the spec does nothing: down
        ([1.0], 1.5, 0.0, None, 1.0, 255.0),
        ([0.0], 0.0, 0.0, None, 0.0, 255.0),  # the lowest does nothing: there is only up
        ([255.0], 300.0, 0.0, None, 255.0, 0.0),
        ([0.0, 1.0], 0.9, 0.0, None, 1.0, 0.0),  # the nearest
        ([1.0, 0.0], 0.5, 9.0, None, 0.0, 255.0),  # of two as near the lower
        ([], 9.0, 255.0, None, 255.0, 0.0),
        ([1.0], 2.0, 0.0, (9.0, 3.0), 3.0, 9.0),
        ([1.0], 0.5, 0.0, (0.9, 0.3), 0.9, 0.3),
    ],
)
def test_the_weak_end_does_nothing_and_the_strong_one_lies_on_the_side_of_the_spec(nothing, now, gentler, limits, weak, strong):
    found = search_range(FACTOR, nothing, now, gentler, limits, "auto")
    assert (found.weak, found.strong) == (weak, strong)


@pytest.mark.parametrize(
    ("knob", "nothing", "limits", "scale", "chosen"),
    [
        (Knob("x", False, 1.0, 50.0, False), [1.0], None, "auto", "linear"),  # as far apart as a linear scale may be
        (Knob("x", False, 1.0, 51.0, False), [1.0], None, "auto", "log"),
        (Knob("x", False, 0.5, 20.0, False), [0.5], None, "auto", "linear"),
        (Knob("x", False, 2.0, 50.0, False), [2.0], None, "auto", "linear"),
        (Knob("x", False, 1.0, 51.0, False), [51.0], None, "auto", "linear"),
        (Knob("x", True, 1.0, 51.0, False), [1.0], None, "auto", "linear"),
        (Knob("x", True, 1.0, 51.0, True), [1.0], None, "auto", "linear"),
        (Knob("x", False, 0.0, 51.0, False), [0.0], None, "auto", "linear"),
        (Knob("x", False, 0.0, 4.0, True), [0.0], None, "auto", "log"),
        (Knob("x", False, 0.0, 4.0, True), [0.0], None, "linear", "linear"),
        (Knob("x", False, 0.0, 4.0, True), [0.0], (0.0, 4.0), "auto", "linear"),  # whoever gives limits wants no wider ones
        (Knob("x", False, -1.0, 4.0, True), [-1.0], None, "auto", "linear"),
        (Knob("x", True, 0.0, 4.0, False), [0.0], None, "log", "log"),
    ],
)
def test_far_ends_have_a_logarithmic_scale(knob, nothing, limits, scale, chosen):
    found = search_range(knob, nothing, 3.0, 0.0, limits, scale)
    assert found.scale == chosen and found.widens == (knob.open_above and limits is None) and math.isfinite(found.strong)


def test_strengths_are_those_that_a_plugin_names():
    assert [k.name for k in numeric_knobs(replace(BLUR, declares={"STRENGTHS": ("radius",)}), {"radius": 2.0, "relative": False})] == [
        "radius"
    ]
    assert numeric_knobs(replace(BLUR, declares={"STRENGTHS": ()}), {"radius": 2.0}) == []
