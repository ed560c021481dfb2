"""The pipeline as a picture: boxes by kind or by stage, edges between them, where each box stands."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from qualm.compiler.plan.plan import Plan, PlannedStage
from qualm.compiler.results.graph import _depths, draw
from qualm.compiler.spec.errors import ProjectError
from qualm.runners.contracts.stages import stage_kind

SVG = "{http://www.w3.org/2000/svg}"


def stage(name: str, kind: str, reads: tuple[str, ...], *writes: str) -> PlannedStage:
    return PlannedStage(
        name, kind, "", {}, {str(i): path for i, path in enumerate(reads)}, {str(i): p for i, p in enumerate(writes)}, 7, ()
    )


PLAN = Plan(
    "s",
    "",
    (
        stage("data-a", "data", ("registry/data/a",), "a"),
        stage("data-b", "data", (), "b"),
        stage("infer-a", "infer", ("a", "models"), "ga"),
        stage("infer-b", "infer", ("b",), "gb"),
        stage("score", "score", ("a", "ga", "gb"), "scores"),
    ),
)


def test_collapsed_by_kind() -> None:
    data, infer, score = (stage_kind(kind).colour for kind in ("data", "infer", "score"))
    assert draw(PLAN, "dot", full=False).splitlines() == [
        "digraph pipeline {",
        "  rankdir=LR;",
        '  node [shape=box, style="rounded,filled", fontcolor=white, color=white];',
        f'  "data" [label="data x 2", fillcolor="{data}"];',
        f'  "infer" [label="infer x 2", fillcolor="{infer}"];',
        f'  "score" [label="score", fillcolor="{score}"];',
        '  "data" -> "infer";',
        '  "data" -> "score";',
        '  "infer" -> "score";',
        "}",
    ]


def test_every_stage() -> None:
    assert draw(PLAN, "mermaid", full=True).splitlines() == [
        "flowchart LR",
        '  n0["data-a"]',
        '  n1["data-b"]',
        '  n2["infer-a"]',
        '  n3["infer-b"]',
        '  n4["score"]',
        "  n0 --> n2",
        "  n1 --> n3",
        "  n0 --> n4",
        "  n2 --> n4",
        "  n3 --> n4",
    ]


def test_one_stage_of_a_kind_is_not_counted_and_reads_nothing_of_itself() -> None:
    one = Plan("s", "", (stage("pair-a", "pair", (), "a"), stage("pair-b", "pair", ("a",), "b")))
    assert draw(one, "mermaid", full=False).splitlines() == ["flowchart LR", '  n0["pair x 2"]']
    assert draw(one, "mermaid", full=True).splitlines()[-1] == "  n0 --> n1"


def boxes(svg: str) -> dict[str, tuple[int, int, int]]:
    """Label -> x, y, width of its box."""
    root = ET.fromstring(svg)
    rects = root.findall(f"{SVG}rect")
    labels = [text.text or "" for text in root.findall(f"{SVG}text")]
    return {label: tuple(int(r.attrib[k]) for k in ("x", "y", "width")) for label, r in zip(labels, rects, strict=True)}  # type: ignore[misc]


def test_layers_from_left_to_right() -> None:
    places = boxes(draw(PLAN, "svg", full=True))
    width = 40 + 8 * len("infer-a")
    assert {label: (x, y) for label, (x, y, _) in places.items()} == {
        "data-a": (20, 20), "data-b": (20, 76), "infer-a": (20 + width + 60, 20), "infer-b": (20 + width + 60, 76),
        "score": (20 + 2 * (width + 60), 20 + 28),
    }  # fmt: skip
    assert {w for _, _, w in places.values()} == {width}


def test_all_of_the_picture_is_in_the_picture() -> None:
    svg = draw(PLAN, "svg", full=True)
    root, places, width = ET.fromstring(svg), boxes(svg), 40 + 8 * len("infer-a")
    assert int(root.attrib["width"]) == max(x for x, _, _ in places.values()) + width + 20
    assert int(root.attrib["height"]) == 30 + 56 * 2 + 26 * 2 > max(y for _, y, _ in places.values()) + 36
    text = next(t for t in root.findall(f"{SVG}text") if t.text == "score")
    x, y, w = places["score"]
    assert (text.attrib["x"], text.attrib["y"]) == (f"{x + w / 2:.0f}", str(y + 23))


def test_edges_run_from_side_to_side_and_below_what_is_between() -> None:
    svg, places = draw(PLAN, "svg", full=True), boxes(draw(PLAN, "svg", full=True))
    curves = [path.attrib["d"] for path in ET.fromstring(svg).findall(f"{SVG}path")]
    assert len(curves) == 5
    (x, y, w), (x2, y2, _) = places["data-a"], places["infer-a"]
    assert f"M{x + w},{y + 18} C{x + w + 30},{y + 18} {x2 - 30},{y2 + 18} {x2},{y2 + 18}" in curves
    x3, y3, _ = places["score"]
    assert f"M{x + w},{y + 18} C{x + w + 50},{y + 18 + 36} {x3 - 50},{y3 + 18 + 36} {x3},{y3 + 18}" in curves


def test_depth_is_that_of_the_longest_way() -> None:
    edges = [("a", "b"), ("b", "c"), ("a", "c"), ("c", "e")]
    assert _depths(["a", "b", "c", "d", "e"], edges) == {"a": 0, "b": 1, "c": 2, "d": 0, "e": 3}
    assert _depths([], []) == {}


def test_boxes_that_feed_each_other_stand_somewhere() -> None:
    assert _depths(["a", "b"], [("a", "b"), ("b", "a")]) == {"b": 0, "a": 1}


def test_labels_are_escaped() -> None:
    svg = draw(Plan("s", "", (stage("a<&", "data", (), "x"),)), "svg", full=True)
    assert "a&lt;&amp;</text>" in svg and len(re.findall("<rect", svg)) == 1


def test_no_such_form() -> None:
    with pytest.raises(ProjectError, match="expected one of dot, mermaid, svg as --format, got 'png'"):
        draw(PLAN, "png", full=False)
