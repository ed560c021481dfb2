"""Which perturbation is meant, and what it is called at another strength."""

from dataclasses import replace
from pathlib import Path

import pytest

from qualm.compiler.commands.strength_entry import PerturbationEntry, find_entry, knobs_of
from qualm.compiler.project.checkout import Project
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.plugins.registry import get
from tests.support.projects.calibration_project import SPEC, calibration_project


def find(project: Project, wanted: str | None) -> PerturbationEntry:
    return find_entry(project.spec_path("s"), project.root, project.resolve("s"), wanted)


def test_a_perturbation_is_named_by_plugin_or_variant(tmp_path: Path) -> None:
    project = calibration_project(tmp_path, tmp_path / "model")
    assert (find(project, "blur").label, find(project, "blur").pointed) == ("blur@radius=1", False)
    assert (find(project, "blur@radius=2").args["radius"], find(project, "blur@radius=2").pointed) == (2.0, True)
    assert find(project, "typos").index == 2 and find(project, "typos").label == "typos"
    with pytest.raises(ProjectError, match="no perturbation 'blurr'; did you mean 'blur'"):
        find(project, "blurr")
    with pytest.raises(ProjectError, match="say which with --perturbation: blur, gaussian_noise, jpeg, typos"):
        find(project, None)


def test_a_variant_is_called_what_the_spec_calls_it(tmp_path: Path) -> None:
    masks = "clip_mask: {artifact: clip, strength: [0.5, 1]}"
    project = calibration_project(tmp_path, tmp_path / "model", SPEC.replace("jpeg: {quality: 30}", masks))
    labels = {p.label for p in project.resolve("s").perturbations if p.plugin.name == "clip_mask"}
    entry = find(project, "clip_mask")
    assert labels == {entry.name("strength", {**entry.args, "strength": s}) for s in (0.5, 1.0)}


def test_strengths_of_a_perturbation(tmp_path: Path) -> None:
    spec = SPEC.replace("jpeg: {quality: 30}", "cutout: {ratio: 0.2, fill: 128}")
    cutout = find(calibration_project(tmp_path, tmp_path / "model", spec), "cutout")
    for auto in (True, False):
        assert [k.name for k in knobs_of("s", cutout, None, auto)] == ["ratio", "fill"]
        assert [k.name for k in knobs_of("s", cutout, "fill", auto)] == ["fill", "ratio"], "the one that is asked for comes first"
        with pytest.raises(ProjectError, match="cutout has no numeric parameter 'size'; there are: ratio, fill"):
            knobs_of("s", cutout, "size", auto)


def test_what_has_no_strength_is_looked_at_and_not_searched() -> None:
    plugin = get("perturbations", "sbj")
    entry = PerturbationEntry(0, plugin, "sbj", {p.name: p.default for p in plugin.parameters}, frozenset(), False, {})
    assert knobs_of("s", entry, None, auto=False) == []
    for parameter, auto in ((None, True), ("temperature", False), ("temperature", True)):
        with pytest.raises(
            ProjectError, match=r"sbj has no strength to search for: .* depends on .*`temperature:`.*`qualm strength s -p sbj`"
        ):
            knobs_of("s", entry, parameter, auto)


def test_the_name_has_what_the_spec_names_and_what_was_turned() -> None:
    plugin = get("perturbations", "cutout")
    args = {**{p.name: p.default for p in plugin.parameters}, "ratio": 0.2, "fill": 128}
    entry = PerturbationEntry(0, plugin, "cutout@ratio=0.2", args, frozenset({"ratio"}), False, {"ratio": 0.2})
    assert entry.name("ratio", args) == "cutout@ratio=0.2" and entry.name("ratio", {**args, "ratio": 0.5}) == "cutout@ratio=0.5"
    assert entry.name("fill", args) == "cutout@ratio=0.2,fill=128"
    assert entry.name("ratio", {**args, "ratio": 0.5, "fill": 0}) == "cutout@ratio=0.5,fill=0"


def test_two_entries_of_one_plugin_are_distinguished_by_their_labels(tmp_path: Path) -> None:
    spec = SPEC.replace("  - typos\n", "  - blur: {radius: 5}\n")
    project = calibration_project(tmp_path, tmp_path / "model", spec)
    with pytest.raises(ProjectError) as caught:
        find(project, "blur")
    assert str(caught.value) == "s has several perturbations; say which with --perturbation: blur@radius=1, blur@radius=2, blur@radius=5"
    assert (find(project, "blur@radius=5").index, find(project, "blur@radius=2").index) == (2, 0)
    bare = PerturbationEntry(0, replace(get("perturbations", "blur"), parameters=()), "blur", {}, frozenset(), False, {})
    with pytest.raises(ProjectError, match=r"^blur has no strength to search for: none of its parameters is one\. Without --auto"):
        knobs_of("s", bare, None, auto=True)
