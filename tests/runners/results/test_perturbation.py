"""The study over made-up cells: every table against the numbers it was made from."""

import csv
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import kendalltau
from sklearn.metrics import roc_auc_score

from qualm.registry.sample import ATTRIBUTIONS, BLAMES, LABELLED_SCORES, MODALITY_COMPARISONS, RANK_STABILITY, SAMPLES
from qualm.runners.data.aligned import Samples
from qualm.runners.results.perturbation import FIELDS, PerturbationStudy, mean_over_perturbations
from qualm.runners.scoring.cells import Cell
from qualm.runners.scoring.measuring.evaluate import evaluate
from qualm.runners.scoring.measuring.intervals import intervals
from qualm.runners.scoring.measuring.measured import Measured
from qualm.runners.scoring.measuring.metrics import read_metrics
from qualm.runners.scoring.measuring.slices import changed_slices, make_slices

N = 120
VARIANTS = [
    {"variant": "blur@radius=2", "plugin": "blur", "modality": "image", "args": {"radius": 2.0}},
    {"variant": "blur@radius=4", "plugin": "blur", "modality": "image", "args": {"radius": 4.0}},
    {"variant": "typos@p=0.1", "plugin": "typos", "modality": "text", "args": {"p": 0.1}},
]
NAMES = ["accuracy", "auroc", "uncertainty_reflection_rate", "uncertainty_tie_rate", "mean_uncertainty"]
NAMES += ["hallucination_change_correlation", "hallucination_rate"]
LABELLED = {
    name: {"image": f"source == '{name}'" if name == "image" else "source == 'nothing'", "text": "source == 'text'"}
    for name in ("image", "text")
}
PARAMS = {"variants": VARIANTS, "interval": {"bootstrap": 100, "level": 0.9}, "labelled": LABELLED}
ESTIMATORS = ("steady", "rises", "falls", "noisy")


def samples(name):
    rows = [
        {"sample_id": f"{name}{i}", "source": name, "question": "?", "references": ["a"], "group": f"g{i // 2}", "answerable": True}
        for i in range(N)
    ]
    return Samples(name, pa.Table.from_pylist([r | {"meta": [], "choices": []} for r in rows], schema=SAMPLES))


def cells(rng, model, of):
    clean = {e: rng.random(N) for e in ESTIMATORS}
    right = (rng.random(N) < 0.8) * 1.0
    yield Cell(model, of, "clean", {"correct": right, "confidence": 1 - clean["noisy"]}, {}, clean)
    for variant in VARIANTS:
        wrong = rng.random(N) < 0.3
        push = 2.0 * (variant["modality"] == of.name) + rng.normal(0, 0.5, N)
        changed = {"steady": clean["steady"], "rises": clean["rises"] + 0.3 + wrong, "falls": clean["falls"] - wrong * 0.5 - 0.1}
        columns = {"correct": right * ~wrong, "confidence": 1 - clean["noisy"], "clean_correct": right}
        yield Cell(model, of, variant["variant"], columns, {}, changed | {"noisy": clean["noisy"] + push}, clean)


@pytest.fixture(scope="module")
def study():
    rng = np.random.default_rng(0)
    flag = {"only_clean_correct": False}
    metrics = read_metrics([{"label": n, "plugin": n, "args": flag if n.startswith("halluc") else {}} for n in NAMES])
    made = PerturbationStudy(PARAMS, metrics, 7)
    made.seen = {}
    for of in (samples("image"), samples("text")):
        part = make_slices(of, [], 100, 7)[0]
        for model in ("m1", "m2"):
            for cell in cells(rng, model, of):
                found = evaluate(metrics, cell, part)
                made.add(cell, part.bootstrap.groups, found, intervals([m for _, m in found], 0.9, part.bootstrap.groups))
                made.p["m1", "text", "typos@p=0.1", "all", "uncertainty_reflection_rate[rises]"] = 0.01
                made.seen[model, of.name, cell.variant] = cell
    return made


def test_the_grid_has_a_row_per_perturbation_and_estimator_with_ties_beside(study):
    rows = {(r["model"], r["dataset"], r["variant"], r["estimator"]): r for r in study.urr()}
    assert len(rows) == 2 * 2 * 3 * 4
    row = rows["m1", "image", "blur@radius=2", "noisy"]
    cell = study.seen["m1", "image", "blur@radius=2"]
    assert row["value"] == np.mean(cell.uncertainties["noisy"] > cell.clean_uncertainties["noisy"])
    assert (row["tie_rate"], row["modality"], row["n"]) == (0.0, "image", N)
    change = cell.uncertainties["noisy"] - cell.clean_uncertainties["noisy"]
    assert (study.changes["m1"]["image"]["noisy", "blur@radius=2"] == change).all()
    assert (study.changes["m1"]["image"]["noisy", "clean"] == cell.clean_uncertainties["noisy"]).all()
    steady = rows["m1", "image", "blur@radius=2", "steady"]
    assert (steady["value"], steady["tie_rate"], steady["p_adjusted"]) == (0.0, 1.0, None)
    assert rows["m1", "text", "typos@p=0.1", "rises"]["p_adjusted"] == 0.01
    assert rows["m1", "text", "typos@p=0.1", "falls"]["value"] == 0.0


def test_correlation_is_negative_where_it_is_and_undefined_with_the_reason(study):
    rows = {(r["dataset"], r["variant"], r["estimator"]): r for r in study.hcc() if r["model"] == "m2"}
    cell = study.seen["m2", "image", "typos@p=0.1"]
    lost = (cell.columns["clean_correct"] == 1) & (cell.columns["correct"] == 0)
    for name in ("rises", "falls"):
        row = rows["image", "typos@p=0.1", name]
        assert row["value"] == pytest.approx(np.corrcoef(cell.uncertainties[name] - cell.clean_uncertainties[name], lost)[0, 1])
        assert row["hallucination_rate"] == pytest.approx(lost.mean())
    assert rows["image", "typos@p=0.1", "falls"]["value"] < 0 < rows["image", "typos@p=0.1", "rises"]["value"]
    steady = rows["image", "typos@p=0.1", "steady"]
    assert (steady["value"], steady["why"]) == (None, "all changes of uncertainty are equal")


def test_sweeps_are_of_perturbations_with_several_strengths(study):
    rows = study.sweeps()
    assert {(r["perturbation"], r["parameter"], r["strength"]) for r in rows} == {("blur", "radius", 2.0), ("blur", "radius", 4.0)}
    assert {r["metric"] for r in rows} == {"accuracy", "uncertainty_reflection_rate", "mean_uncertainty"}
    one = next(r for r in rows if r["metric"] == "accuracy" and (r["model"], r["dataset"]) == ("m1", "text"))
    cell = study.seen["m1", "text", one["variant"]]
    assert one["value"] == pytest.approx(cell.columns["correct"].mean()) and one["clean"] == pytest.approx(
        cell.columns["clean_correct"].mean()
    )
    assert one["low"] < one["value"] < one["high"]


def test_means_over_the_perturbations_of_a_modality(study):
    rows = {(r["model"], r["dataset"], r["variant"], r["metric"]): r for r in study.modality_scores()}
    two = [study.seen["m1", "image", f"blur@radius={r}"].columns["correct"].mean() for r in (2, 4)]
    row = rows["m1", "image", "image", "accuracy"]
    assert row["value"] == pytest.approx(np.mean(two)) and row["n"] == 2 * N and row["low"] < row["value"] < row["high"]
    assert {k[2] for k in rows} == {"clean", "image", "text"}


def test_modalities_are_compared_by_their_means(study):
    means = {(r["model"], r["dataset"], r["variant"], r["metric"]): r["value"] for r in study.modality_scores() if r["slice"] == "all"}
    rows = study.modality_comparisons()
    assert {r["metric"].partition("[")[0] for r in rows} == {
        "uncertainty_reflection_rate", "hallucination_change_correlation", "hallucination_rate",
    }  # fmt: skip
    for row in rows:
        a, b = (means[row["model"], row["dataset"], row[side], row["metric"]] for side in "ab")
        assert (row["a"], row["b"]) == ("image", "text") and row["difference"] == pytest.approx(b - a, abs=1e-5)
    noisy = next(r for r in rows if (r["model"], r["dataset"], r["metric"]) == ("m1", "image", "uncertainty_reflection_rate[noisy]"))
    assert noisy["difference"] < -0.2 and noisy["high"] < 0 and noisy["p_adjusted"] < 0.05, "images are pushed, words are not"


def test_a_perturbation_counts_once_however_many_strengths_it_has():
    """Blur has .2, .4 and .9, so .5; with noise's .1 that is .3, where a mean over variants would be .4."""
    values = {"blur@radius=1": 0.2, "blur@radius=2": 0.4, "blur@radius=4": 0.9, "noise": 0.1}
    of = {v: Measured(value, np.full(3, value), 10, 0) for v, value in values.items()}
    found = mean_over_perturbations(of, {v: v.partition("@")[0] for v in values})
    assert found.value == pytest.approx(0.3) and found.resampled == pytest.approx(np.full(3, 0.3)) and found.n == 40
    assert np.isnan(mean_over_perturbations({}, {}).value)
    of = {v: replace(m, groups=groups) for (v, m), groups in zip(of.items(), (9, 7, None, 8), strict=True)}
    assert mean_over_perturbations(of, {}).groups == 7 and found.groups is None, "the fewest that are known"
    of["noise"].resampled = np.full(2, 0.1)
    assert len(mean_over_perturbations(of, {}).resampled) == 0, "of different numbers of resamples there are none"


def test_changed_inputs_are_scored_by_themselves_and_collapses_left_out():
    """Typos change every second question, and of those two thirds rise; blur changes all. The stronger blur is a collapse."""
    of, clean = samples("d"), np.zeros(N)
    names = {"urr": "uncertainty_reflection_rate", "unchanged_input_rate": "unchanged_input_rate"}
    metrics = read_metrics([{"label": label, "plugin": n, "args": {}} for label, n in names.items()])
    made, part = PerturbationStudy(PARAMS, metrics, 7), make_slices(of, [], 100, 7)[0]
    changed = {"typos@p=0.1": np.arange(N) % 2 * 1.0}
    risen = {
        "blur@radius=2": np.arange(N) % 4 == 0,
        "blur@radius=4": np.ones(N),
        "typos@p=0.1": (np.arange(N) % 2 == 1) & (np.arange(N) % 3 > 0),
    }
    for variant, up in risen.items():
        columns = {"correct": clean, "confidence": clean, "clean_correct": clean, "input_changed": changed.get(variant, np.ones(N))}
        why = "its accuracy is at most 0.010" if variant == "blur@radius=4" else ""
        cell = Cell("m", of, variant, columns, {}, {"e": up * 1.0}, {"e": clean}, collapsed=why)
        values = evaluate(metrics, cell, part)
        made.add(cell, part.bootstrap.groups, values, intervals([m for _, m in values], 0.9, part.bootstrap.groups))
        for some in changed_slices(cell, part):
            values = evaluate(metrics[:1], cell, some)
            made.add_changed(cell, values, intervals([m for _, m in values], 0.9, some.bootstrap.groups))
    rows = {r["variant"]: r for r in made.urr()}
    typos, blur = rows["typos@p=0.1"], rows["blur@radius=2"]
    assert (typos["value"], typos["value_changed"]) == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    assert (typos["n"], typos["n_changed"], typos["unchanged_rate"]) == (N, N // 2, 0.5)
    assert typos["low_changed"] < 2 / 3 < typos["high_changed"]
    assert (blur["value_changed"], blur["low_changed"], blur["n_changed"]) == (blur["value"], blur["low"], N), "where all are changed"
    assert rows["blur@radius=4"]["collapsed"] and not blur["collapsed"]
    means = {(r["variant"], r["slice"]): r for r in made.modality_scores() if r["metric"] == "urr[e]"}
    (compared,) = made.modality_comparisons()
    assert (compared["metric"], compared["slice"]) == ("urr[e]", "changed")
    assert compared["difference"] == pytest.approx(means["text", "changed"]["value"] - 0.25, abs=1e-6)
    assert means["image", "all"]["value"] == 0.25 and means["image", "all"]["collapsed"] == "blur@radius=4"
    assert means["text", "all"]["value"] == pytest.approx(1 / 3) and means["text", "changed"]["value"] == pytest.approx(2 / 3)


def test_estimators_keep_their_order_from_model_to_model(study):
    rows = [r for r in study.rank_stability() if (r["metric_a"], r["metric_b"]) == ("uncertainty_reflection_rate",) * 2]
    assert len(rows) == 6 and all(r["n_estimators"] == 4 and r["tau_b"] > 0 for r in rows)


def test_estimators_are_ranked_by_auroc_on_clean_inputs_alone(study):
    rows = [r for r in study.rank_stability() if (r["metric_a"], r["metric_b"]) == ("auroc", "auroc")]
    assert len(rows) == 6
    for row in rows:
        both = [study.seen[row[f"model_{side}"], row[f"dataset_{side}"], "clean"] for side in "ab"]
        assert row["tau_b"] == pytest.approx(kendalltau(*([_auroc(cell, e) for e in ESTIMATORS] for cell in both)).statistic)


def _auroc(cell, estimator):
    return roc_auc_score(cell.columns["correct"] == 0, cell.uncertainties[estimator])


def test_labelled_subsets_are_pooled_and_their_modality_is_found(study):
    samples, summary = study.attribution()
    told = {(r["model"], r["held_out"]): r for r in summary}
    assert set(told) == {("m1", "group"), ("m2", "group")}  # nothing says of what kind the damage is
    assert told["m1", "group"]["n"] == 2 * N and told["m1", "group"]["floor"] == 0.5
    assert told["m1", "group"]["accuracy_low"] > 0.8 and told["m1", "group"]["auroc_low"] > 0.9
    assert {r["truth"] for r in samples if r["dataset"] == "text"} == {"text"}
    rows = [r for r in samples if r["model"] == "m1"]
    assert np.mean([r["blamed"] == r["truth"] for r in rows]) == pytest.approx(told["m1", "group"]["accuracy"])
    assert all(r["image"] + r["text"] == pytest.approx(1, abs=1e-4) and r["cross"] is None for r in rows)


def test_nothing_is_attributed_where_no_modality_is_known(study):
    alone = PerturbationStudy(PARAMS | {"labelled": {}}, study.metrics, 7)
    alone.changes, alone.samples = study.changes, study.samples
    assert alone.attribution() == ([], [])


def test_tables_fit_their_schemas_and_files_their_columns(study, tmp_path):
    for name, (rows, schema) in study.tables().items():
        schemas = {"modality_comparisons": MODALITY_COMPARISONS, "attributions": ATTRIBUTIONS, "blames": BLAMES}
        wanted = {**schemas, "modality_scores": LABELLED_SCORES, "rank_stability": RANK_STABILITY}[name]
        assert schema is wanted and pa.Table.from_pylist(rows, schema=schema).num_rows == len(rows) > 0
        assert all(set(row) == set(schema.names) for row in rows)
    for name, columns in FIELDS.items():
        study.write(name, tmp_path / name)
        with (tmp_path / name).open() as handle:
            assert list(next(csv.DictReader(handle))) == columns


def test_changes_under_a_collapse_are_not_attributed(study):
    """Whatever changes there are where the model collapses: attribution is as if the variant were none of the spec's."""

    def attributed(variants, collapsed=()):
        alone = PerturbationStudy(PARAMS | {"variants": variants}, study.metrics, 7)
        alone.samples = study.samples
        names = {v["variant"] for v in variants} | {"clean"}
        alone.changes = {
            m: {d: {(e, v): of for (e, v), of in changes.items() if v in names} for d, changes in by_dataset.items()}
            for m, by_dataset in study.changes.items()
        }
        alone.collapsed = dict.fromkeys(collapsed, "its accuracy is at most 0.010")
        return alone.attribution()

    where = [(m, d) for m, by_dataset in study.changes.items() for d in by_dataset]
    weak, strong, *text = VARIANTS
    every = attributed([weak, strong, *text])
    assert attributed([weak, strong, *text], [(w, strong["variant"]) for w in where]) == attributed([weak, *text]) != every
    of_image = [(w, v["variant"]) for w in where for v in (weak, strong)]
    assert attributed([weak, strong, *text], of_image) == ([], []), "one modality is left"
    samples, _ = attributed([weak, strong, *text], [pair for pair in of_image if pair[0][0] == "m1"])
    assert {row["model"] for row in samples} == {"m2"}


def test_one_modality_has_nobody_else_to_blame(study):
    alone = PerturbationStudy(PARAMS | {"variants": VARIANTS[:2]}, study.metrics, 7)
    alone.changes, alone.samples = study.changes, study.samples
    assert alone.attribution() == ([], [])
