"""Templates of `dvc plots show`: valid Vega-Lite that reads only columns which the score stage writes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from qualm.compiler.plan.plot_templates import templates
from qualm.runners.results import confidence_weighted_accuracy, perturbation
from qualm.runners.scoring.measuring import curves

FOLDER = Path(__file__).parents[3] / ".dvc" / "plots"
FIELDS = curves.FIELDS | perturbation.FIELDS | {"metric_study": confidence_weighted_accuracy.FIELDS}
MADE = ("rev", "at", "preference", "cell", "series", "sweep", "place")
"""Fields that DVC adds, or that a template makes itself."""
AXES = {
    "reliability": ("confidence", "accuracy"),
    "risk_coverage": ("coverage", "risk"),
    "set_sizes": ("size", "count"),
    "sweeps": ("strength", "value"),
    "urr": ("variant", "estimator"),
    "hcc": ("variant", "estimator"),
    "metric_study": ("value", confidence_weighted_accuracy.STUDIED),
}


def rows(name: str) -> list[dict[str, Any]]:
    """A point per model and dataset, as DVC reads CSV: everything is text."""
    base = {"rev": "workspace", "setting": "ours", "score": "lac"} | dict.fromkeys(FIELDS[name], "0.5")
    return [base | {"model": m, "dataset": d, "setting": "ours", "score": "lac"} for m in "ab" for d in "xy"]


def fields(tree: Any) -> set[str]:
    if isinstance(tree, dict):
        own = {tree["field"]} if isinstance(tree.get("field"), str) else set()
        return own.union(*(fields(v) for v in tree.values()))
    return set().union(*map(fields, tree)) if isinstance(tree, list) else set()


def test_the_templates_here_are_those_that_compiling_writes() -> None:
    written = {f"qualm_{name}.json": (FOLDER / f"qualm_{name}.json").read_text() for name in AXES}
    assert templates() == written == {path.name: path.read_text() for path in FOLDER.glob("qualm_*.json")}


@pytest.mark.parametrize("name", AXES)
def test_template_draws_what_the_score_stage_writes(name: str) -> None:
    import vl_convert

    text = (FOLDER / f"qualm_{name}.json").read_text()
    x, y = AXES[name]
    for anchor, value in {"X_LABEL": x, "Y_LABEL": y, "X": x, "Y": y, "TITLE": "A title"}.items():
        text = text.replace(f"<DVC_METRIC_{anchor}>", value)
    template = json.loads(text.replace('"<DVC_METRIC_DATA>"', json.dumps(rows(name))))
    assert not re.search("<DVC_METRIC", json.dumps(template))
    assert fields(template) <= {*FIELDS[name], *MADE}
    drawn = vl_convert.vegalite_to_svg(template, vl_version="5.20")
    assert "A title" in drawn and ((">a<" in drawn and ">y<" in drawn) or "a · y" in drawn)


def test_heat_maps_show_what_is_undefined_and_what_is_negative() -> None:
    import vl_convert

    text = (FOLDER / "qualm_hcc.json").read_text()
    for anchor, value in {"X_LABEL": "perturbation", "Y_LABEL": "estimator", "X": "variant", "Y": "estimator", "TITLE": "t"}.items():
        text = text.replace(f"<DVC_METRIC_{anchor}>", value)
    same = dict.fromkeys(FIELDS["hcc"], "") | {"rev": "workspace", "model": "m", "dataset": "d", "estimator": "e", "metric": "hcc"}
    made = [same | {"variant": "a", "value": "-0.5"}, same | {"variant": "b", "value": "", "why": "no answer became wrong"}]
    drawn = vl_convert.vegalite_to_svg(json.loads(text.replace('"<DVC_METRIC_DATA>"', json.dumps(made))), vl_version="5.20")
    assert "\u22120.50<" in drawn and "undef." in drawn and drawn.count("undef.") == 1
    red = re.findall(r'fill="rgb\((\d+), (\d+), (\d+)\)"', drawn)
    assert any(int(r) > int(b) + 60 for r, _, b in red)


@pytest.mark.parametrize("name", ["urr", "hcc"])
def test_heat_maps_go_from_image_to_text_to_both_in_the_order_of_strengths(name: str) -> None:
    import vl_convert

    text = (FOLDER / f"qualm_{name}.json").read_text()
    for anchor, value in {"X_LABEL": "perturbation", "Y_LABEL": "estimator", "X": "variant", "Y": "estimator", "TITLE": "t"}.items():
        text = text.replace(f"<DVC_METRIC_{anchor}>", value)
    same = dict.fromkeys(FIELDS[name], "") | {"rev": "workspace", "model": "m", "dataset": "d", "estimator": "e", "metric": name}
    order = [("amb", "cross", ""), ("blur@radius=2", "image", "0.5"), ("inv", "text", ""), ("blur@radius=10", "image", "-0.1")]
    made = [same | {"variant": v, "modality": m, "value": x} for v, m, x in order]
    drawn = vl_convert.vegalite_to_svg(json.loads(text.replace('"<DVC_METRIC_DATA>"', json.dumps(made))), vl_version="5.20")
    axis = [v for v in re.findall(r">([a-z]+(?:@radius=\d+)?)<", drawn) if v in {v for v, _, _ in order}]
    assert axis == ["blur@radius=2", "blur@radius=10", "inv", "amb"], "what is undefined keeps its place"
