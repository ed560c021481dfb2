"""Draw the pipeline as a graph, by default collapsed by kind of stage."""

from html import escape

from qualm.compiler.plan.plan import Plan
from qualm.compiler.spec.errors import ProjectError
from qualm.runners.contracts.stages import stage_kind

Edges = list[tuple[str, str]]


def draw(plan: Plan, output_format: str, full: bool) -> str:
    """Return stages, or kinds if not `full`, as dot, mermaid or svg text; else ProjectError."""
    forms = {"dot": _dot, "mermaid": _mermaid, "svg": _svg}
    if output_format not in forms:
        raise ProjectError(f"expected one of {', '.join(forms)} as --format, got '{output_format}'")
    nodes, edges = _nodes(plan, full)
    return forms[output_format](nodes, edges)


def _nodes(plan: Plan, full: bool) -> tuple[dict[str, tuple[str, str]], Edges]:
    """Return ({node: (kind, label)}, [(from, to)]) of stages, or of kinds if not `full`."""
    owner = {out: s for s in plan.stages for out in s.outs}
    nodes: dict[str, tuple[str, str]] = {}
    edges: dict[tuple[str, str], None] = {}
    for stage in plan.stages:
        node = stage.name if full else stage.kind
        many = sum(s.kind == stage.kind for s in plan.stages)
        nodes.setdefault(node, (stage.kind, node if full or many == 1 else f"{stage.kind} x {many}"))
        for dep in stage.deps:
            if dep in owner:
                source = owner[dep].name if full else owner[dep].kind
                if source != node:
                    edges[(source, node)] = None
    return nodes, list(edges)


def _dot(nodes: dict[str, tuple[str, str]], edges: Edges) -> str:
    lines = ["digraph pipeline {", "  rankdir=LR;", '  node [shape=box, style="rounded,filled", fontcolor=white, color=white];']
    lines += [f'  "{name}" [label="{label}", fillcolor="{stage_kind(kind).colour}"];' for name, (kind, label) in nodes.items()]
    lines += [f'  "{a}" -> "{b}";' for a, b in edges]
    return "\n".join([*lines, "}"])


def _mermaid(nodes: dict[str, tuple[str, str]], edges: Edges) -> str:
    ids = {name: f"n{i}" for i, name in enumerate(nodes)}
    lines = ["flowchart LR"]
    lines += [f'  {ids[name]}["{label}"]' for name, (_, label) in nodes.items()]
    lines += [f"  {ids[a]} --> {ids[b]}" for a, b in edges]
    return "\n".join(lines)


def _depths(nodes: list[str], edges: Edges) -> dict[str, int]:
    """Return {node: length of the longest path to it}, 0 for the first ones.

    Kinds of stages can form cycles (pairs made of pairs), of which one edge is ignored.
    """
    depth: dict[str, int] = {}
    above: list[str] = []

    def visit(name: str) -> int:
        if name not in depth:
            above.append(name)
            depth[name] = 1 + max((visit(a) for a, b in edges if b == name and a not in above), default=-1)
            above.pop()
        return depth[name]

    for name in nodes:
        visit(name)
    return depth


def _svg(nodes: dict[str, tuple[str, str]], edges: Edges) -> str:
    """Return nodes {node: (kind, label)} and edges as SVG text, columns from left to right."""
    depth = _depths(list(nodes), edges)
    layers: dict[int, list[str]] = {}
    for name, level in depth.items():
        layers.setdefault(level, []).append(name)
    width = 40 + 8 * max(len(label) for _, label in nodes.values())
    tallest = max(map(len, layers.values()))
    place = {
        name: (20 + level * (width + 60), 20 + 56 * i + 28 * (tallest - len(names)))
        for level, names in layers.items()
        for i, name in enumerate(names)
    }
    total = (20 + (max(layers) + 1) * (width + 60) - 40, 30 + 56 * tallest + 26 * max(layers))
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{total[0]}" height="{total[1]}" font-family="sans-serif" font-size="14">']
    parts.append('<marker id="a" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">')
    parts.append('<path d="M0,0 L8,4 L0,8 z" fill="#999999"/></marker>')
    for a, b in edges:
        (x1, y1), (x2, y2) = place[a], place[b]
        x1, y1, y2 = x1 + width, y1 + 18, y2 + 18
        bow = 36 * abs(depth[b] - depth[a] - 1)  # an edge over several layers goes below the boxes between
        near = 30 + 20 * (bow > 0)
        curve = f"M{x1},{y1} C{x1 + near},{y1 + bow} {x2 - near},{y2 + bow} {x2},{y2}"
        parts.append(f'<path d="{curve}" fill="none" stroke="#999999" stroke-width="1.5" marker-end="url(#a)"/>')
    for name, (kind, label) in nodes.items():
        x, y = place[name]
        parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="36" rx="8" fill="{stage_kind(kind).colour}"/>')
        parts.append(f'<text x="{x + width / 2:.0f}" y="{y + 23}" text-anchor="middle" fill="#ffffff">{escape(label)}</text>')
    return "\n".join([*parts, "</svg>"])
