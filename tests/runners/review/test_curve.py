"""What a search measured, as rows, CSV and a drawing: in the units of the goal, and finite where it can be drawn."""

import csv
import io
import math
import re
import xml.etree.ElementTree as ET

import pytest

from qualm.runners.review import curve
from qualm.runners.review.curve import csv_text, curve_rows, format_reading, standalone, svg_text
from qualm.runners.review.effects import distance_goal, share_goal
from qualm.runners.review.knobs import Knob, Range
from qualm.runners.review.search import Reading, SearchOutcome

KNOB = Knob("radius", False, 0.0, 40.0, True)
SHARE, PSNR = share_goal(0.25), distance_goal("psnr", 20.0)
READINGS = (Reading(0.0, 0.0, 0.0, 0.0625, 40), Reading(2.5, 0.25, 0.125, 0.375, 40, 3), Reading(40.0, 0.5, 0.375, 0.625, 39, 1))


def outcome(readings=READINGS, chosen=1, scale="linear"):
    return SearchOutcome(None if chosen is None else readings[chosen], tuple(readings), "", Range(KNOB, 0.0, 40.0, scale))


def test_a_row_per_strength_with_the_chosen_one_marked():
    assert curve_rows(outcome(), SHARE) == [
        {"strength": 0.0, "value": 0.0, "low": 0.0, "high": 0.0625, "n": 40, "left_out": 0, "chosen": False},
        {"strength": 2.5, "value": 0.25, "low": 0.125, "high": 0.375, "n": 40, "left_out": 3, "chosen": True},
        {"strength": 40.0, "value": 0.5, "low": 0.375, "high": 0.625, "n": 39, "left_out": 1, "chosen": False},
    ]
    assert not any(row["chosen"] for row in curve_rows(outcome(chosen=None), SHARE))


def test_in_decibels_the_ends_change_places():
    (row,) = curve_rows(outcome((Reading(1.0, 0.01, 0.001, 0.1, 5),), None), PSNR)
    assert (row["value"], row["low"], row["high"]) == (pytest.approx(20), pytest.approx(10), pytest.approx(30))
    (row,) = curve_rows(outcome((Reading(1.0, 0.0, 0.0, 0.01, 5),), None), PSNR)
    assert (row["value"], row["low"], row["high"]) == (math.inf, pytest.approx(20), math.inf)


def test_as_csv_with_six_digits():
    third = Reading(0.000012, 1 / 3, 0.0, 2 / 3, 3)
    text = csv_text(outcome((third, READINGS[1])), SHARE)
    assert text.splitlines() == [
        "strength,value,low,high,n,left_out,chosen", "0.000012,0.333333,0,0.666667,3,0,0", "2.5,0.25,0.125,0.375,40,3,1",
    ]  # fmt: skip
    assert "\r" not in text and len(list(csv.DictReader(io.StringIO(text)))) == 2


def test_a_reading_in_words():
    assert format_reading(READINGS[1], SHARE) == "0.25 [0.125, 0.375] of 40"
    assert format_reading(Reading(1.0, 0.01, 0.001, 0.1, 5), PSNR) == "20 [10, 30] of 5"


def test_what_cannot_be_drawn_is_left_out_or_drawn_without_its_end():
    points = [{"strength": s, "value": v, "low": low, "high": high} for s, v, low, high in (
        (1, 20.0, 10.0, math.inf), (2, math.inf, 20.0, math.inf), (3, math.nan, 0.0, 1.0), (4, 5.0, -math.inf, 6.0),
    )]  # fmt: skip
    assert curve._finite(points) == [
        {"strength": 1, "value": 20.0, "low": 10.0, "high": 20.0}, {"strength": 4, "value": 5.0, "low": 5.0, "high": 6.0},
    ]  # fmt: skip


def test_the_smooth_curve_never_falls_and_is_weighted_by_the_samples():
    made = outcome(
        (Reading(0.0, 0.0, 0, 1, 1), Reading(1.0, 0.5, 0, 1, 30), Reading(2.0, 0.25, 0, 1, 10), Reading(3.0, 1.0, 0, 1, 1)), None
    )
    assert [(p["strength"], round(p["value"], 6)) for p in curve._smooth(made, SHARE)] == [(0, 0), (1, 0.4375), (2, 0.4375), (3, 1)]
    assert [p["strength"] for p in curve._smooth(outcome((Reading(0.0, 0.0, 0, 1, 1), READINGS[2]), None), PSNR)] == [40.0]


def places(made, goal=SHARE):
    """Return where the readings are drawn."""
    svg = svg_text(made, goal, "radius in pixels")
    return [(float(x), float(y)) for x, y in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)" r="2.9"', svg)], svg


def test_readings_stand_where_they_were_measured_with_the_chosen_one_marked():
    at, svg = places(outcome())
    assert [x for x, _ in at] == [6, 31.5, 414] and [y for _, y in at] == sorted((y for _, y in at), reverse=True)
    assert svg.count('r="4.7"') == 1 and svg.count("var(--accent)") == 2, "a line and a dot"
    assert 'stroke-dasharray="3,3"' in svg and ">radius in pixels<" in svg and ">share of answers that change<" in svg
    assert "var(--accent)" not in places(outcome(chosen=None))[1]


def test_a_logarithmic_scale_is_linear_near_nothing():
    """By log(1 + 256 x / largest), whichever end is the weak one."""
    at, _ = places(outcome(scale="log"))
    middle = math.log1p(2.5 * 256 / 40) / math.log1p(256)
    assert [x for x, _ in at] == [6, pytest.approx(6 + 408 * middle, abs=0.1), 414]


def test_decibels_do_not_begin_at_nought():
    made = outcome((Reading(1.0, 0.01, 0.001, 0.1, 5), Reading(2.0, 0.02, 0.001, 0.1, 5)), None)
    assert ">0<" not in places(made, PSNR)[1] and ">0.0<" in places(outcome(), SHARE)[1]


def test_the_drawing_stands_by_itself_in_light_and_dark():
    text = svg_text(outcome(), SHARE, "radius")
    root = ET.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg" and text.endswith("</svg>\n") and text.count("<style>") == 1
    style = text[text.index("<style>") : text.index("</style>")]
    light, dark = style.split("@media (prefers-color-scheme:dark)")
    names = set(re.findall(r"var\((--[a-z0-9]+)\)", text))
    assert names >= {"--ink", "--muted", "--accent"}
    assert re.findall(r"(--\w+):", light) == re.findall(r"(--\w+):", dark) == sorted(names | {"--paper"})
    for name in names | {"--paper"}:
        values = [re.search(rf"{name}:([^;]+);", part)[1] for part in (light, dark)]
        assert values[0] != values[1], name


def test_a_drawing_without_colours_has_that_of_the_paper():
    assert standalone("<svg><g/></svg>").startswith('<svg xmlns="http://www.w3.org/2000/svg"><style>svg{--paper:')
