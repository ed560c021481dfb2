"""HCC and hallucination of each kind of question, from a few rows."""

import polars as pl

from qualm.registry.sample import EFFECTS
from qualm.runners.reporting.sections import perturbed_tested as tested
from qualm.runners.reporting.sections.perturbed_by_kind import hcc_by_kind, heat_maps_by_kind
from qualm.runners.results.perturbation import CONSISTENCY, HALLUCINATION
from tests.runners.reporting.made_results import frame, made_results, score

ABOUT = {
    "blur@radius=2.0": {"plugin": "blur", "modality": "image"},
    "solarize": {"plugin": "solarize", "modality": "image"},
    "typos@p=0.1": {"plugin": "typos", "modality": "text"},
}


def effects_of(*rows):
    same = {"model": "m", "dataset": "d", "n": 10, "value": 0.5, "reference": 0.0}
    return tested.EffectTests(
        frame([same | dict(zip(("slice", "variant", "metric", "p_adjusted"), row, strict=True)) for row in rows], EFFECTS), {}, ""
    )


def hcc(part, variant, value, estimator="p_true", **more):
    return score(f"{CONSISTENCY}[{estimator}]", value, slice=part, variant=variant, **more)


def test_a_figure_per_kind_with_stars_by_test_and_interval():
    rows = [
        hcc("category=existence", "blur@radius=2.0", 0.4, low=0.2, high=0.6),
        hcc("category=existence", "typos@p=0.1", -0.2, low=-0.5, high=0.1),
        hcc("category=existence", "solarize", 0.3, collapsed="its accuracy is at most 0.010"),
        hcc("category=existence", "typos@p=0.1", None, "luq", why="no answer became wrong"),
        hcc("category=counting", "blur@radius=2.0", 0.1), hcc("all", "blur@radius=2.0", 0.9),
    ]  # fmt: skip
    label = f"{CONSISTENCY}[p_true]"
    tests = effects_of(("category=existence", "blur@radius=2.0", label, 0.002), ("category=existence", "typos@p=0.1", label, 0.002))
    (name, (existence,)), (other, _) = hcc_by_kind(made_results(rows), list(ABOUT), ABOUT, tests)
    assert (name, other) == ("existence · m · d", "counting · m · d")
    assert existence.groups == [("image", 2), ("text", 1)] and [r[0] for r in existence.rows] == ["P(True)", "LUQ"]
    blur, solarize, typos = existence.rows[0][1]
    assert (blur.value, blur.mark, blur.heat, blur.tone) == ("0.4", "**", 52, "up")
    assert (typos.value, typos.mark, typos.tone) == ("−0.2", "", "down"), "its interval holds 0"
    assert (solarize.value, solarize.small, solarize.heat) == ("0.300", "collapse", 0)
    assert [c.value for c in existence.rows[1][1]] == ["–", "–", "undefined"]


def test_table_5_has_models_side_by_side_and_no_colour_where_one_collapses():
    rows = [
        score(HALLUCINATION, value, model, slice=part, variant=variant, collapsed=why)
        for model, part, variant, value, why in (
            ("m", "all", "blur@radius=2.0", 0.2, None), ("m", "category=counting", "blur@radius=2.0", 0.3, None),
            ("n", "all", "blur@radius=2.0", 0.1, None), ("m", "all", "solarize", 0.9, "its accuracy is at most 0.010"),
        )
    ]  # fmt: skip
    (table,) = heat_maps_by_kind(
        made_results(rows), list(ABOUT), ABOUT, tested.EffectTests(pl.DataFrame(schema=frame([], EFFECTS).schema), {}, "")
    )
    assert table.groups == [("m", 2), ("n", 2)] and [c[0] for c in table.columns] == ["counting", "all questions"] * 2
    assert [(name, [c.value for c in cells]) for name, cells in table.rows] == [
        ("blur radius=2.0", ["0.300", "0.200", "–", "0.100"]),
        ("solarize", ["–", "0.900", "–", "–"]),
    ]
    assert table.rows[1][1][1].small == "collapse" and table.rows[1][1][1].heat == 0
