"""Corrected tests of a grid: counted by direction, with the least p, and a warning where no p could be small enough."""

from qualm.registry.sample import EFFECTS
from qualm.runners.reporting.sections import perturbed_tested as tested
from qualm.runners.reporting.sections.perturbed_tested import read_tested
from qualm.runners.results import perturbation
from qualm.runners.runtime.records import write_table
from tests.runners.reporting.made_results import frame, made_results, score

URR, HCC, HALL = perturbation.REFLECTION, perturbation.CONSISTENCY, perturbation.HALLUCINATION
TESTS = {"family": "metric", "correction": "holm"}


def effect(metric, variant, value, p, reference=0.5, model="m", dataset="d", part="all", **more):
    row = {"model": model, "dataset": dataset, "variant": variant, "slice": part, "metric": metric, "value": value, "p_adjusted": p}
    return {**row, "reference": reference, "p": p, "n": 5, **more}


def corrected(rows, how="How.", path=""):
    plugins = {r["metric"]: r["metric"].partition("[")[0] for r in rows}
    return tested.EffectTests(frame(rows, EFFECTS), plugins, how, path)


ABOUT = {"blur": {"modality": "image"}, "typos": {"modality": "text"}}


def test_effects_are_found_by_model_data_set_and_metric():
    rows = [effect("u", "blur", 0.6, 0.02), effect("u", "typos", 0.6, None), effect("u", "blur", 0.1, 0.3, part="kind=a"),
            effect("u", "blur", 0.6, 0.9, dataset="e")]  # fmt: skip
    tests = corrected(rows)
    assert tests.p_values("m", "d", "u") == {("all", "blur"): 0.02, ("all", "typos"): None, ("kind=a", "blur"): 0.3}
    assert tests.p_values("m", "e", "u") == {("all", "blur"): 0.9} and tests.p_values("m", "d", "v") == {}


def test_the_sheet_counts_clear_effects_up_and_down_and_names_the_least_p():
    rows = [
        effect(f"{URR}[a]", "blur", 0.7, 0.01), effect(f"{URR}[b]", "blur", 0.6, 0.0499), effect(f"{URR}[c]", "blur", 0.2, 0.0004),
        effect(f"{URR}[e]", "blur", 0.9, 0.05), effect(f"{URR}[f]", "blur", None, None), effect(f"{URR}[a]", "typos", 0.5, 0.5),
        effect(f"{HCC}[a]", "typos", -0.2, 0.01, 0.0), effect(f"{HCC}[a]", "blur", None, None, 0.0),
        effect(f"{HALL}", "typos", 0.5, 0.0001, 0.2), effect(f"{URR}[a]", "blur", 0.9, 0.0, part="kind=x"),
        effect("other", "blur", 0.9, 0.0),
    ]  # fmt: skip
    sheet = corrected(rows, path="effects.parquet").sheet(["typos", "blur", "unused"], ABOUT)
    assert sheet.groups == [("", 1), ("URR", 2), ("HCC", 2), ("hallucination rate", 2)]
    assert sheet.header == ["perturbation", "modality", *["significant", "smallest p"] * 3]
    assert sheet.rows == [
        ["typos", "text", "0 of 1", "0.5000", "1 ↓ of 1", "0.0100*", "1 ↑ of 1", "0.0001***"],
        ["blur", "image", "2 ↑ 1 ↓ of 4, 1 undefined", "0.0004***", "undefined", "–", "–", "–"],
    ]
    assert sheet.note.endswith(
        "↓ the opposite; HCC also needs an interval without 0. How. All p-values, including those of slices, are in effects.parquet."
    )


def test_a_coefficient_whose_interval_does_not_exclude_0_is_not_significant(tmp_path):
    rows = [effect(f"{HCC}[{e}]", "blur", 0.2, p, 0.0) for e, p in (("a", 0.001), ("b", 0.01), ("c", 0.02))]
    write_table(tmp_path / "effects.parquet", rows, EFFECTS)
    ends = {"a": (-0.1, 0.5), "b": (0.1, 0.3), "c": (None, None)}
    scores = [score(f"{HCC}[{e}]", 0.2, variant="blur", low=low, high=high) for e, (low, high) in ends.items()]
    found = read_tested(made_results(scores, inputs={"effects": str(tmp_path / "effects.parquet")}))
    assert found.sheet(["blur"], ABOUT).rows == [["blur", "image", "1 ↑ of 3", "0.0010"]], "and no star beside a p that is not called clear"


def test_without_effects_there_is_no_sheet():
    assert corrected([]).sheet(["blur"], ABOUT) is None
    assert corrected([effect(URR, "blur", 0.7, 0.01)]).sheet(["typos"], ABOUT) is None
    assert corrected([effect(URR, "blur", 0.7, 0.01, part="kind=x")]).sheet(["blur"], ABOUT) is None
    assert "Every p-value" not in corrected([effect(URR, "blur", 0.7, 0.01)]).sheet(["blur"], ABOUT).note


def read(tmp_path, rows, tests=TESTS):
    write_table(tmp_path / "effects.parquet", rows, EFFECTS)
    inputs = {"effects": str(tmp_path / "effects.parquet")}
    return read_tested(
        made_results([score("accuracy", 0.5), score(f"{URR}[a]", 0.5)], inputs=inputs, **({"tests": tests} if tests else {}))
    )


def test_how_it_was_corrected_in_a_sentence(tmp_path):
    rows = [effect(f"{URR}[a]", "blur", 0.6, 0.02)]
    found = read(tmp_path, rows)
    assert found.how == (
        "Two-sided t tests over whole groups, corrected by Holm's method over the tests of one metric on one dataset and slice."
    )
    assert found.path == str(tmp_path / "effects.parquet") and found.plugins == {"accuracy": "accuracy", f"{URR}[a]": URR}
    every = read(tmp_path, rows, {"family": "slice", "correction": "benjamini_hochberg"}).how
    assert every.endswith("by Benjamini and Hochberg's method over all tests on one dataset and slice.")
    assert read(tmp_path, rows, {**TESTS, "correction": "none"}).how.endswith("whole groups, not corrected for their number.")


def test_nothing_was_tested(tmp_path):
    assert read(tmp_path, []).how == "" == read(tmp_path, [effect(URR, "blur", 0.6, 0.02)], None).how
    empty = read_tested(made_results([score("accuracy", 0.5)], tests=TESTS))
    assert (empty.how, empty.path, empty.effects.height) == ("", "", 0)
