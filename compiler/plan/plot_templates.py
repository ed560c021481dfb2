"""Vega-Lite templates of `dvc plots show`, which compares models and revisions by the CSV files of a score stage.

DVC replaces `<DVC_METRIC_...>` and passes every cell as text.
"""

import json
from typing import Any

Json = dict[str, Any]
X, Y = "<DVC_METRIC_X>", "<DVC_METRIC_Y>"
UNIT: Json = {"domain": [0, 1]}
NO_ZERO: Json = {"zero": False}
COLOR: Json = {"field": "model", "type": "nominal", "legend": {"orient": "bottom", "columns": 4, "labelLimit": 260}}
REVISION: Json = {"field": "rev", "type": "nominal", "legend": {"orient": "bottom"}}
ONE_SETTING: list[Json] = [
    {"calculate": "datum.setting == 'ours' || !datum.setting ? 0 : indexof(datum.setting, 'share@') == 0 ? 2 : 1", "as": "preference"},
    {"joinaggregate": [{"op": "min", "field": "preference", "as": "preferred"}], "groupby": ["dataset"]},
    {"filter": "datum.preference == datum.preferred"},
]
"""Filter to one conformal setting: `ours`, or else the authors', or else a share of the data."""


def templates() -> dict[str, str]:
    """Return {file name: JSON text} of all Vega-Lite plot templates."""
    charts = {
        "hcc": _heat_map(
            "Does uncertainty rise where an answer becomes wrong? Blue: yes; red: it falls there, shown as negative.",
            {"domain": [-1, 0, 1], "range": ["#c4472f", "#ffffff", "#5b8bc6"]},
            ("hallucination_rate", "became wrong"),
        ),
        "metric_study": _metric_study(),
        "reliability": _reliability(),
        "risk_coverage": _risk_coverage(),
        "set_sizes": _set_sizes(),
        "sweeps": _sweeps(),
        "urr": _heat_map(
            "Share of samples that become more uncertain when perturbed. Ties count as no reaction; the tooltip has their share.",
            {"domain": [0, 1], "range": ["#ffffff", "#5b8bc6"]},
            ("tie_rate", "ties"),
        ),
    }
    return {f"qualm_{name}.json": json.dumps(chart, indent=1, ensure_ascii=False) + "\n" for name, chart in charts.items()}


def _chart(subtitle: str, spec: Json, *, transform: list[Json] | None = None, grid: bool = True, **layout: Any) -> Json:
    resolve = {"resolve": layout.pop("resolve")} if "resolve" in layout else {}
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "data": {"values": "<DVC_METRIC_DATA>"},
        "title": {"text": "<DVC_METRIC_TITLE>", "subtitle": subtitle, "anchor": "start"},
        **({"transform": transform} if transform else {}),
        **layout,
        "spec": spec,
        **resolve,
        "config": {"view": {"stroke": None}, "axis": {"grid": grid, "gridColor": "#eee", "domainColor": "#888", "tickColor": "#888"}},
    }


def _by(field: str) -> Json:
    return {"field": field, "type": "nominal", "title": None}


def _x(**options: Any) -> Json:
    return {"field": X, "type": "quantitative", "title": "<DVC_METRIC_X_LABEL>", **options}


def _y(**options: Any) -> Json:
    return {"field": Y, "type": "quantitative", "title": "<DVC_METRIC_Y_LABEL>", **options}


def _number(field: str, digits: str = ".3f", **options: Any) -> Json:
    return {"field": field, "type": "quantitative", "format": digits, **options}


def _tooltip(*before: str, after: tuple[Json, ...] = ()) -> list[Json]:
    return [*({"field": field} for field in ("model", "dataset", *before)), _number(X), _number(Y), {"field": "rev"}, *after]


def _as_number(field: str) -> Json:
    return {"calculate": f"datum.{field} === '' || datum.{field} === null ? null : toNumber(datum.{field})", "as": field}


def _reliability() -> Json:
    diagonal = {
        "data": {"values": [{"at": 0}, {"at": 1}]},
        "mark": {"type": "line", "color": "#999", "strokeDash": [4, 4]},
        "encoding": {axis: {"field": "at", "type": "quantitative"} for axis in "xy"},
    }
    place = {"x": _x(scale=UNIT), "y": _y(scale=UNIT), "color": COLOR}
    line = {
        "mark": {"type": "line", "strokeWidth": 1.5},
        "encoding": {**place, "strokeDash": REVISION, "detail": [{"field": "setting"}]},
    }
    size = {"field": "n", "type": "quantitative", "scale": {"range": [10, 160]}, "legend": None}
    tooltip = _tooltip(after=({"field": "n", "type": "quantitative"}, {"field": "setting"}))
    points = {"mark": {"type": "point", "filled": True, "opacity": 0.9}, "encoding": {**place, "size": size, "tooltip": tooltip}}
    subtitle = "One line per model; size: answers in the bin; dashed grey: perfect calibration."
    spec = {"width": 320, "height": 300, "layer": [diagonal, line, points]}
    return _chart(subtitle, spec, transform=ONE_SETTING, facet=_by("dataset"), columns=3)


def _risk_coverage() -> Json:
    encoding = {"x": _x(scale=UNIT), "y": _y(scale={"zero": True}), "color": COLOR, "strokeDash": REVISION, "tooltip": _tooltip()}
    spec = {"width": 320, "height": 300, "mark": {"type": "line", "strokeWidth": 1.5, "tooltip": True}, "encoding": encoding}
    subtitle = "How often each model errs among the share of questions it is surest of."
    return _chart(subtitle, spec, facet=_by("dataset"), columns=3)


def _set_sizes() -> Json:
    encoding = {
        "x": {"field": X, "type": "ordinal", "title": "<DVC_METRIC_X_LABEL>", "axis": {"labelAngle": 0}},
        "xOffset": {"field": "model"},
        "y": _y(stack=None),
        "color": COLOR,
        "opacity": {"field": "rev", "type": "nominal", "legend": None, "scale": {"range": [1, 0.5]}},
        "tooltip": _tooltip(after=({"field": "score"}, {"field": "setting"})),
    }
    spec = {"width": 360, "height": 200, "mark": {"type": "bar", "tooltip": True}, "encoding": encoding}
    subtitle = "Test questions by the size of their prediction set, in one conformal setting."
    return _chart(subtitle, spec, transform=ONE_SETTING, facet={"row": _by("dataset"), "column": _by("score")})


def _metric_study() -> Json:
    encoding = {
        "x": _x(scale=NO_ZERO),
        "y": _y(scale=NO_ZERO),
        "color": COLOR,
        "shape": {**REVISION, "field": "dataset"},
        "opacity": REVISION,
        "tooltip": _tooltip("slice", "metric"),
    }
    spec = {"width": 220, "height": 200, "mark": {"type": "point", "filled": True, "size": 60, "tooltip": True}, "encoding": encoding}
    subtitle = "A point per model. Points on a line: both metrics order the models alike; scattered points: each says something else."
    return _chart(subtitle, spec, facet={"row": _by("metric"), "column": _by("slice")}, resolve={"scale": {"x": "independent"}})


def _sweeps() -> Json:
    transform = [
        *map(_as_number, (X, Y, "low", "high", "clean")),
        {"filter": f"datum.{Y} !== null"},
        {
            "calculate": "datum.model + ' · ' + datum.dataset + (datum.estimator ? ' · ' + datum.estimator : '')"
            " + (datum.rev === 'workspace' ? '' : ' · ' + datum.rev)",
            "as": "series",
        },
        {"calculate": "datum.perturbation + ': ' + datum.parameter", "as": "sweep"},
    ]
    names = [{"field": name} for name in ("model", "dataset", "metric", "estimator", "perturbation", "parameter")]
    numbers = [_number(name, ".4g") for name in (X, Y, "low", "high", "clean")]
    encoding = {
        "x": _x(scale=NO_ZERO),
        "color": {"field": "series", "type": "nominal", "legend": {"orient": "bottom", "columns": 3, "labelLimit": 320, "title": None}},
        "tooltip": [*names, *numbers, {"field": "n"}, {"field": "rev"}],
    }
    value, low = ({"field": name, "type": "quantitative", "title": None, "scale": NO_ZERO} for name in (Y, "low"))
    layer = [
        {"mark": {"type": "rule", "opacity": 0.5}, "encoding": {"y": low, "y2": {"field": "high"}}},
        {"mark": {"type": "line"}, "encoding": {"y": value}},
        {"mark": {"type": "point", "filled": True, "size": 45}, "encoding": {"y": value}},
    ]
    subtitle = "Each metric against a perturbation's strength, with its interval; a line per model, dataset and estimator."
    spec = {"width": 220, "height": 170, "encoding": encoding, "layer": layer}
    facet = {"row": _by("metric"), "column": _by("sweep")}
    return _chart(subtitle, spec, transform=transform, facet=facet, resolve={"scale": {"x": "independent", "y": "independent"}})


def _heat_map(subtitle: str, colors: Json, also: tuple[str, str]) -> Json:
    """Return a heat map's template: estimators down, perturbations across.

    Args:
        subtitle: text below the title.
        colors: properties of the Vega-Lite color scale.
        also: a further column for the tooltip, and its title there.
    """
    transform = [
        *map(_as_number, ("value", "low", "high", also[0], "p_adjusted")),
        {"calculate": "datum.model + ' · ' + datum.dataset + (datum.rev === 'workspace' ? '' : ' · ' + datum.rev)", "as": "cell"},
        {"window": [{"op": "row_number", "as": "line"}]},
        {"calculate": "1000000 * indexof(['image', 'text', 'cross'], datum.modality) + datum.line", "as": "place"},
    ]
    names = {name: {"field": name, "type": "nominal"} for name in ("variant", "estimator", "n", "why", "rev")}
    numbers = [*map(_number, ("value", "low", "high")), _number(also[0], title=also[1]), _number("p_adjusted")]
    axis = {"labelAngle": -40, "labelLimit": 160}
    encoding = {
        "x": {**_x(), "type": "nominal", "axis": axis, "sort": {"field": "place", "op": "min"}},
        "y": {**_y(), "type": "nominal", "axis": {"labelLimit": 220}},
        "tooltip": [names["variant"], names["estimator"], *numbers, names["n"], names["why"], names["rev"]],
    }
    undefined, defined = ({"transform": [{"filter": f"datum.value {sign} null"}]} for sign in ("===", "!=="))
    color = {
        "field": "value",
        "type": "quantitative",
        "scale": {**colors, "interpolate": "rgb"},
        "legend": {"title": None, "orient": "right"},
    }
    layer = [
        {**undefined, "mark": {"type": "rect", "fill": "#fff", "stroke": "#aaa", "strokeDash": [2, 2]}},
        {
            **undefined,
            "mark": {"type": "text", "fontSize": 8, "fontStyle": "italic", "color": "#888"},
            "encoding": {"text": {"value": "undef."}},
        },
        {**defined, "mark": {"type": "rect", "tooltip": True}, "encoding": {"color": color}},
        {
            **defined,
            "mark": {"type": "text", "fontSize": 10},
            "encoding": {"text": _number("value", ".2f"), "color": {"value": "#111"}},
        },
    ]
    spec = {"width": {"step": 46}, "height": {"step": 22}, "encoding": encoding, "layer": layer}
    return _chart(subtitle, spec, transform=transform, grid=False, facet={"row": _by("cell"), "column": _by("metric")})
