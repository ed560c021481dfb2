"""What the user of `qualm strength` asked for: the effect, the range, and what is refused."""

from __future__ import annotations

import pytest

from qualm.compiler.commands.strength_entry import PerturbationEntry
from qualm.compiler.commands.strength_request import StrengthRequest, goal_of, range_of
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.plugins.registry import get
from qualm.runners.review.knobs import Knob, numeric_knobs


def entry(name: str = "blur") -> PerturbationEntry:
    plugin = get("perturbations", name)
    args = {p.name: p.default for p in plugin.parameters}
    return PerturbationEntry(0, plugin, name, args, frozenset(), pointed=False)


def test_a_fifth_of_the_answers_unless_said_otherwise() -> None:
    goal = goal_of(StrengthRequest(), entry())
    assert (goal.name, goal.target, goal.slug) == ("share", 0.2, "share-0.2")
    assert goal_of(StrengthRequest(share=0.05), entry("typos")).target == 0.05


def test_distances_of_pictures() -> None:
    goal = goal_of(StrengthRequest(distance="1-ssim=0.3"), entry())
    assert (goal.name, goal.target) == ("1-ssim", 0.3)
    goal = goal_of(StrengthRequest(distance=" PSNR = 20"), entry())
    assert goal.name == "psnr" and goal.target == pytest.approx(0.01) and goal.display(goal.target) == pytest.approx(20)


@pytest.mark.parametrize(
    ("request_", "plugin", "message"),
    [
        (StrengthRequest(share=0.2, distance="psnr=20"), "blur", "--share and --distance both name a target effect; give one of them"),
        (StrengthRequest(distance="psnr=20"), "typos", "typos edits questions, and --distance is of images; use --share"),
        (StrengthRequest(distance="psnr"), "blur", "--distance: could not convert string to float: ''; write METRIC=VALUE, METRIC one of"),
        (StrengthRequest(distance="psnr=0"), "blur", r"--distance: psnr: expected decibels in \(0, 100\), got 0; write METRIC=VALUE"),
        (StrengthRequest(distance="l2=3"), "blur", "--distance: expected a distance of 1-ssim, psnr, got 'l2'; write"),
    ],
)
def test_effects_that_are_none(request_: StrengthRequest, plugin: str, message: str) -> None:
    with pytest.raises(ProjectError, match=f"^{message}"):
        goal_of(request_, entry(plugin))


QUALITY = next(k for k in numeric_knobs(get("perturbations", "jpeg"), {"quality": 30}) if k.name == "quality")
RADIUS = next(k for k in numeric_knobs(get("perturbations", "blur"), {"radius": 2.0, "relative": False}) if k.name == "radius")


def test_the_range_of_a_search() -> None:
    assert (QUALITY.low, QUALITY.high, QUALITY.open_above, RADIUS.open_above) == (1, 100, False, True)
    assert range_of(StrengthRequest(), QUALITY) is None
    assert range_of(StrengthRequest(range="1:100"), QUALITY) == (1.0, 100.0)
    assert range_of(StrengthRequest(range="0.5:1e6"), RADIUS) == (0.5, 1e6)


@pytest.mark.parametrize(
    ("knob", "text", "message"),
    [
        (QUALITY, "0:50", "--range: expected quality from 1 to 100, got 0:50"),
        (QUALITY, "50:101", "--range: expected quality from 1 to 100, got 50:101"),
        (RADIUS, "-1:5", "--range: expected radius from 0 to any number, got -1:5"),
        (QUALITY, "5", "--range: expected LOW:HIGH, two numbers, got '5'"),
        (QUALITY, "1:2:3", "--range: expected LOW:HIGH, two numbers, got '1:2:3'"),
        (QUALITY, "a:b", "--range: expected LOW:HIGH, two numbers, got 'a:b'"),
        (QUALITY, "5:5", "--range: expected LOW below HIGH, got '5:5'"),
        (QUALITY, "6:5", "--range: expected LOW below HIGH, got '6:5'"),
        (QUALITY, "nan:5", "--range: expected LOW below HIGH, got 'nan:5'"),
        (RADIUS, "1:inf", "--range: expected numbers of at most 10,000,000, got '1:inf'"),
    ],
)
def test_ranges_that_are_none(knob: Knob, text: str, message: str) -> None:
    with pytest.raises(ProjectError, match=f"^{message}$"):
        range_of(StrengthRequest(range=text), knob)
