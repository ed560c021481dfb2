"""All tables of the scoring stages over a small world with everything in it, held to tests/golden/scores.json.

Three models, two data sets, five perturbations of three modalities, abstention, conformal sets, recalibration, comparisons and studies.
That the numbers are right is for the tests beside this one; here none of them moves unseen. After a change that is meant:
HELD=write pytest tests/runners/scoring/test_golden_scores.py
"""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from qualm.registry.plugins import rule
from qualm.registry.sample import GENERATIONS, SAMPLES
from qualm.runners.runtime.records import write_table
from qualm.runners.scoring.measuring.score_table import read_labelled
from qualm.runners.stages import abstain, calibrate, estimate, judge, score
from tests.runners.stages.test_score import ref, stage
from tests.support.checks.held_numbers import held

N = 72
VARIANTS = [
    {"variant": "blur@radius=1.0", "plugin": "blur", "modality": "image", "args": {"radius": 1.0}},
    {"variant": "blur@radius=2.0", "plugin": "blur", "modality": "image", "args": {"radius": 2.0}},
    {"variant": "cutout", "plugin": "cutout", "modality": "image", "args": {}},
    {"variant": "typos", "plugin": "typos", "modality": "text", "args": {}},
    {"variant": "clip_mask", "plugin": "clip_mask", "modality": "both", "args": {}},
]
ABSENT = {"rated_by_vqa", "says_uncertain", "sampled_correct"}
OF_ANOTHER_LIBRARY = {"torchmetrics"}
"""Its numbers are single precision of its release; they are held to it in test_torchmetrics.py."""
ALL_METRICS = [n for n in rule.names("metrics") if not ABSENT & set(rule.get("metrics", n).reads) and n not in OF_ANOTHER_LIBRARY]
CONFORMAL = [
    {
        "label": "ours",
        "scores": [ref("lac"), ref("aps_randomised")],
        "alpha": 0.2,
        "quantile": "standard",
        "empty_set": "argmax",
        "calibration": {"fraction": 0.5, "seed": 1, "split": "groups"},
    },
    {
        "label": "parts",
        "scores": [ref("margin")],
        "alpha": 0.3,
        "quantile": "standard",
        "empty_set": "empty",
        "per": "category",
        "calibration": {"fraction": 0.5, "seed": 2, "split": "groups"},
    },
]
CALIBRATORS = [
    {
        "label": "held_out",
        "methods": [ref("platt", prior_correction=True), ref("histogram")],
        "of": ["", "perplexity"],
        "calibration": {"fraction": 0.4, "seed": 3},
        "refits": 4,
    }
]
ABSTENTIONS = ("thresholding", "risk_control", "learn_then_test")
LABELLED = {"open": {name: f"modality == '{name}'" for name in ("image", "text", "clean")}}
COMPARE = {"baseline": "m1", "pairs": [], "margin": None, "correction": "max_t", "family": "study"}
SAME = {"slices": ["category", "kind"], "interval": {"bootstrap": 12, "level": 0.9}, "judge": "rules", "confidence": "sequence"}
CURVES = ("reliability", "risk_coverage", "set_sizes")


def answers_of(rng, skill, name, rows):
    for variant in ("clean", *(of["variant"] for of in VARIANTS)):
        for i, sample in enumerate(rows):
            if (i + len(variant)) % 29 == 0:
                continue  # never answered
            own = skill if variant == "clean" else skill / 2
            digest = "same" if variant == "clean" or (variant.startswith("typos") and i % 3 == 0) else variant
            row = {"sample_id": sample["sample_id"], "variant": variant, "draw": 0, "input_digest": digest}
            if name == "choice":
                logits = rng.normal(size=len(sample["choices"])).round(1) + own * (
                    np.arange(len(sample["choices"])) == sample["answer_index"]
                )
                yield row | {"option_logits": logits.round(6).tolist(), "token_logprobs": [-float(rng.random())]}
            else:
                wrong = ["blue", "I don't know", ""][rng.integers(0, 3)]
                right = sample["references"] or ["I don't know"]
                surprise = round(float(rng.random()), 2) / own
                yield row | {"text": right[0] if rng.random() < own / 3 else wrong, "token_logprobs": [-surprise, -surprise / 2]}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A folder with the answers, and what the stages before scoring make of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("golden"))
        rng, data = np.random.default_rng(3), {"choice": [], "open": []}
        for i in range(N):
            same = {"sample_id": f"s{i}", "category": ["a", "b/x", "b/y"][i % 3], "group": f"g{i // 2}", "question": f"what {i}?"}
            same |= {
                "meta": [
                    ("subtask", "st"[i // 6 % 2]),
                    ("type", "pqr"[i // 2 % 3]),
                    ("kind", "even" if i % 4 < 2 else "odd"),
                    ("modality", ["image", "text", "clean"][i // 2 % 3]),
                ]
            }
            data["choice"].append(same | {"choices": list("wxyz")[: 2 + i % 3], "answer_index": i // 3 % 2, "answerable": True})
            lacks = i % 5 == 0
            data["open"].append(
                same | {"references": [] if lacks else ["red"], "answerable": not lacks, "split": ["val", "test"][i // 2 % 2]}
            )
        made = {"datasets": {}, "generations": {"m1": {}, "m2": {}, "m3": {}}}
        for name, rows in data.items():
            write_table(Path("data") / name / "samples.parquet", rows, SAMPLES)
            made["datasets"][name] = f"data/{name}"
            for model, skill in (("m1", 2.0), ("m2", 1.5), ("m3", 0.8)):
                path = made["generations"][model][name] = f"{model}-{name}.parquet"
                write_table(Path(path), list(answers_of(rng, skill, name, rows)), GENERATIONS)
        judge.run(stage("judge", {"judges": [ref("rules")]}, made, ["judgements"]))
        estimators = [ref("perplexity"), ref("max_sequence_probability")]
        estimate.run(stage("estimate", {"estimators": estimators}, made, ["uncertainties"]))
        calibrate.run(stage("calibrate", {"settings": CONFORMAL}, made, ["sets", "thresholds"]))
        made |= {n: f"results/{n}" for n in ("judgements", "uncertainties", "sets")}
        yield made


def tables(names):
    """What a stage wrote: of each table the numbers by column, those of rows with one metric together, in order."""
    for name in names:
        path = Path("results") / name
        if name in ("metrics",):
            yield name, json.loads(path.read_text())
        elif path.read_bytes()[:4] == b"PAR1":
            rows = read_labelled(path) if name in ("scores", "modality_scores") else pq.read_table(path)
            yield name, by_metric(rows.to_pylist())
        else:
            with path.open(newline="") as handle:
                yield name, by_metric([{key: number_or_text(of) for key, of in row.items()} for row in csv.DictReader(handle)])


def number_or_text(text):
    try:
        return float(text)
    except ValueError:
        return text


def by_metric(rows):
    parts, summary = {}, {}
    for row in rows:
        parts.setdefault(str(row.get("metric") or row.get("setting") or row.get("method") or ""), []).append(row)
    for label, part in parts.items():
        columns = summary.setdefault(label, {"rows": len(part)})
        for column in part[0]:
            values = [row[column] for row in part]
            if len(set(map(str, values))) == 1:
                columns |= {} if values[0] is None else {column: values[0]}
            elif all(value is None or isinstance(value, int | float) for value in values):
                columns[column] = np.array([np.nan if value is None else value for value in values], dtype=float)
            else:
                columns[column] = texts_of(list(map(str, values)))
    return summary


def texts_of(values):
    """How many there are, the last, and a digest of all in their order."""
    distinct = list(dict.fromkeys(values))
    return [len(distinct), distinct[-1], hashlib.sha256("|".join(values).encode()).hexdigest()[:12]]


def scored(inputs, outputs, **changes):
    run = stage("score", SAME | changes, inputs, ["scores", "metrics", *CURVES, *outputs])
    score.run(run)
    result = dict(tables(["scores", "metrics", *CURVES, *outputs]))
    return result | {"counters": dict(sorted(run.counters.items()))}


def metrics(*names):
    defaults = {name: {p.name: p.default for p in rule.get("metrics", name).parameters} for name in names}
    return [ref(name, **(defaults[name] | ({"option": "A"} if name == "option_rate" else {}))) for name in names]


def test_every_metric_with_rankings_and_correlations(inputs):
    every = metrics(*(name for name in ALL_METRICS if not set(rule.get("metrics", name).reads) & {"clean_correct", "clean_uncertainty"}))
    outputs = ["rankings", "estimator_comparisons", "metric_study", "correlations"]
    held("scores.json", "every metric", scored(inputs, outputs, metrics=every, slices=[], family="metric"))


def test_comparisons_of_models_and_draws_of_conformal_sets(inputs):
    some = metrics("accuracy", "ece", "auroc", "coverage", "set_size", "uncertainty_aware_accuracy", "confidence_weighted_accuracy", "aurc")
    held("scores.json", "comparisons", scored(inputs, ["comparisons"], metrics=some, conformal=CONFORMAL, compare=COMPARE))


def test_recalibrated_confidences_and_their_comparisons(inputs):
    outputs = ["calibrator_comparisons", "recalibrated", "comparisons"]
    changes = {"calibrators": CALIBRATORS, "compare": COMPARE | {"correction": "holm"}, "slices": ["category"]}
    held("scores.json", "recalibration", scored(inputs, outputs, metrics=metrics("ece", "brier"), **changes))


def test_perturbations_their_effects_and_studies(inputs):
    some = [name for name in ALL_METRICS if set(rule.get("metrics", name).reads) & {"clean_correct", "clean_uncertainty", "input_changed"}]
    outputs = ["effects", "modality_scores", "modality_comparisons", "rank_stability", "attributions", "blames", "sweeps", "urr", "hcc"]
    tests = {"correction": "max_t", "family": "metric"}
    changes = {"tests": tests, "variants": VARIANTS, "slices": ["kind"], "labelled": LABELLED}
    held("scores.json", "perturbations", scored(inputs, outputs, metrics=metrics("accuracy", *some), **changes))


def test_abstention_and_what_it_is_scored_as(inputs):
    methods = []
    for name in ABSTENTIONS:
        args = {p.name: p.default for p in rule.get("abstentions", name).parameters}
        how = {"of": ["m1", "m2"], "fit": "half", "per": "all", "confidence": "kept", "seed": 42}
        methods.append({"label": f"{name} rule", "plugin": name, "args": args} | how)
    methods.append(methods[0] | {"label": "by category", "per": "category", "fit": "test", "confidence": "complement"})
    params = {"abstentions": methods, "judge": "rules", "confidence": "sequence"}
    abstain.run(stage("abstain", params, inputs, ["abstentions", "abstention_rules"]))
    some = metrics("accuracy", "f1_idk", "ece_idk", "idk_rate", "lave_idk_accuracy", "confidence_weighted_accuracy")
    result = scored(inputs | {"abstentions": "results/abstentions"}, [], metrics=some, slices=["answerable", "category*kind"])
    held("scores.json", "abstention", result | dict(tables(["abstentions", "abstention_rules"])))


def test_what_came_before_scoring(inputs):
    held("scores.json", "before", dict(tables(["judgements", "uncertainties", "sets", "thresholds"])))
