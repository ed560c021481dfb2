"""The published tables of VLM-Uncertainty-Bench, rebuilt from its released outputs through our own stages."""

import csv
import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from qualm.registry.adapters import AdapterContext
from qualm.registry.adapters.vlm_uncertainty_bench import vlm_uncertainty_bench
from qualm.registry.sample import ALL, CLEAN, GENERATIONS, SAMPLES
from qualm.runners.contracts.models import ModelContext
from qualm.runners.data.aligned import Samples
from qualm.runners.plugins.models.recorded import recorded
from qualm.runners.runtime.records import read_table, write_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage
from qualm.runners.scoring.bootstrap import Bootstrap
from qualm.runners.scoring.cells import Cell
from qualm.runners.scoring.limits import Limits
from qualm.runners.scoring.measuring.measured import Measured, Slice
from qualm.runners.scoring.measuring.over_datasets import OverDatasets
from qualm.runners.stages import calibrate, score
from tests.support.data.score_files import read_labelled
from tests.support.projects.stages import ref

FIXTURES = Path(__file__).resolve().parents[3] / "shared" / "fixtures" / "vlm_uncertainty_bench"
DATASETS = ["mmbench", "oodcv"]
RUNS = ["MoE-LLaVA-Phi2-2.7B-4e", "Monkey-Chat", "Qwen-VL-Chat", "llava-v1.6-vicuna-13b"]
LOGITS = ["llava-v1.5-7b.mmbench", "llava-v1.5-7b.oodcv", "llava-v1.6-vicuna-7b.oodcv"]
TABLES = {
    "acc": "accuracy[published]",
    "coverage": "coverage[published/mean]",
    "coverage_all_LAC": "coverage[published/lac]",
    "coverage_all_APS": "coverage[published/aps]",
    "set_sizes": "set_size[published/mean]",
    "set_sizes_LAC": "set_size[published/lac]",
    "set_sizes_APS": "set_size[published/aps]",
    "uacc": "uncertainty_aware_accuracy[published/mean]",
    "uacc_LAC": "uncertainty_aware_accuracy[published/lac]",
    "uacc_APS": "uncertainty_aware_accuracy[published/aps]",
    "ece": "ece[published]",
    "mce": "mce[published]",
    "E_ratio": "E[published]",
    "F_ratio": "F[published]",
}
OVER_ALL_ROWS = {"accuracy", "E", "F"}
"""Metrics that need no calibration rows, which the release does not print over all rows."""


SETTING = {
    "label": "published",
    "scores": [ref("lac"), ref("aps", ties="sorted")],
    "alpha": 0.1,
    "quantile": "numpy_higher",
    "empty_set": "argmax",
    "precision": "single",
    "calibration": {"fraction": 0.5, "seed": 42, "split": "rows"},
}
WITHIN = {
    **SETTING,
    "label": "published_within_situation",
    "per": "situation",
    "calibration": {**SETTING["calibration"], "within": "situation"},
}
METRICS = [
    ref("accuracy"),
    ref("coverage"),
    ref("set_size"),
    ref("uncertainty_aware_accuracy"),
    ref("ece", bins=15, convention="torchmetrics", rows="all"),
    ref("mce", bins=15, convention="torchmetrics", rows="all", min_count=1),
    ref("option_rate", "E", option="E"),
    ref("option_rate", "F", option="F"),
]


@pytest.fixture(scope="module")
def values(tmp_path_factory):
    """{(model, dataset, slice, metric): value} of one run of both stages over all seven runs."""
    if not FIXTURES.is_dir():
        pytest.skip(f"{FIXTURES} is absent: the released outputs are not part of the repository")
    home = tmp_path_factory.mktemp("vub")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        inputs = {"datasets": {}, "generations": {}}
        for dataset in DATASETS:
            _prepare(dataset, inputs)
        params = {"settings": [SETTING, WITHIN]}
        outputs = {"sets": "results/sets.parquet", "thresholds": "results/thresholds.parquet"}
        calibrate.run(Stage("b/calibrate", "b", "calibrate", "calibrate", params, inputs, outputs, 7, Settings()))
        params = {"metrics": METRICS, "slices": ["situation"], "macro_averages": ["situation"], "interval": {"bootstrap": 0, "level": 0.95}}
        params |= {"judge": None, "confidence": "sequence"}
        names = ["scores", "metrics", "reliability", "risk_coverage", "set_sizes"]
        stage = Stage("b/score", "b", "score", "score", params, inputs | {"sets": outputs["sets"]}, {n: n for n in names}, 7, Settings())
        score.run(stage)
        rows = read_labelled(Path("scores")).to_pylist()
    return {(r["model"], r["dataset"], r["slice"], r["metric"]): r["value"] for r in rows}


def _prepare(dataset, inputs):
    samples = [vars_of(s) for s in vlm_uncertainty_bench(AdapterContext(folder=Path(), source=FIXTURES), dataset=dataset)]
    write_table(Path("data") / dataset / "samples.parquet", samples, SAMPLES)
    table = read_table(Path("data") / dataset / "samples.parquet", SAMPLES)
    inputs["datasets"][dataset] = f"data/{dataset}"
    made = {r: recorded(ModelContext(r, folder=FIXTURES), source="x", run=r).lookup(dataset, table) for r in RUNS}
    made |= {name.rpartition(".")[0]: _from_csv(name) for name in LOGITS if name.endswith(f".{dataset}")}
    for model, generations in made.items():
        path = Path("generations") / model / f"{dataset}.parquet"
        write_table(path, generations, GENERATIONS)
        inputs["generations"].setdefault(model, {})[dataset] = str(path)


def vars_of(sample):
    return {name: getattr(sample, name) for name in SAMPLES.names if name != "meta"} | {"meta": list(sample.meta.items())}


def _from_csv(name):
    with gzip.open(FIXTURES / f"{name}.logits.csv.gz", "rt") as handle:
        rows = [
            {"sample_id": r["id"], "variant": CLEAN, "draw": 0, "option_logits": [float(r[k]) for k in "ABCDEF"]}
            for r in csv.DictReader(handle)
        ]
    return pa.Table.from_pylist(rows, schema=GENERATIONS)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("cell", [f"{r}.{d}" for r in RUNS for d in DATASETS] + LOGITS)
def test_published(values, cell, name):
    model, _, dataset = cell.rpartition(".")
    with (FIXTURES / "tables" / f"{name}.csv").open() as handle:
        published = {row["model_name"]: row for row in csv.DictReader(handle)}
    assert values[model, dataset, "all", TABLES[name]] == pytest.approx(float(published[model][dataset]), abs=1e-6)


def test_no_cell_beyond_these(values):
    cells = [(run, dataset) for run in RUNS for dataset in DATASETS] + [tuple(name.rsplit(".", 1)) for name in LOGITS]
    found = {(model, dataset, metric) for model, dataset, part, metric in values if part == "all" and WITHIN["label"] not in metric}
    assert found == {(*cell, metric) for cell in cells for metric in {*TABLES.values(), *OVER_ALL_ROWS}}
    assert not any(dataset == "mmbench" and WITHIN["label"] in metric for _, dataset, _, metric in values), "it has no situations"


# Table VI as it is printed: weather, context, occlusion, iid, texture, shape, pose, and their mean.
SITUATIONS = ["weather", "context", "occlusion", "iid", "texture", "shape", "pose"]
TABLE_VI = {
    "llava-v1.6-vicuna-13b": {
        "coverage": [97.21, 95.03, 99.33, 92.89, 92.38, 95.18, 96.26, 95.47],
        "accuracy": [75.42, 72.77, 99.33, 60.34, 69.53, 75.0, 70.05, 74.64],
        "set_size": [2.17, 2.34, 1.31, 2.6, 2.29, 2.7, 2.38, 2.19],
        "uncertainty_aware_accuracy": [88.38, 78.89, 196.76, 58.48, 80.56, 83.16, 73.03, 94.18],
    },
    "Monkey-Chat": {
        "coverage": [93.02, 95.55, 99.00, 93.32, 93.16, 95.39, 93.58, 94.72],
        "accuracy": [74.3, 73.34, 98.67, 58.62, 70.7, 74.56, 70.59, 74.39],
        "set_size": [3.11, 3.37, 1.25, 3.36, 2.99, 3.22, 3.11, 2.92],
        "uncertainty_aware_accuracy": [62.43, 56.07, 200.0, 43.33, 63.53, 58.11, 59.09, 77.67],
    },
    "llava-v1.6-vicuna-7b": {
        "coverage": [94.97, 97.64, 92.00, 92.24, 93.16, 96.05, 94.39, 94.35],
        "accuracy": [77.09, 75.39, 88.0, 64.66, 67.58, 77.63, 75.94, 75.18],
        "set_size": [2.42, 2.55, 1.4, 2.49, 2.43, 2.53, 2.43, 2.32],
        "uncertainty_aware_accuracy": [86.39, 76.53, 166.21, 66.74, 69.65, 78.81, 86.24, 90.08],
    },
    "MoE-LLaVA-Phi2-2.7B-4e": {
        "coverage": [93.58, 91.62, 99.67, 86.21, 92.77, 94.96, 94.65, 93.35],
        "accuracy": [72.63, 76.44, 99.33, 63.36, 69.92, 73.25, 75.4, 75.76],
        "set_size": [2.05, 1.99, 1.33, 2.1, 2.09, 2.17, 2.03, 1.97],
        "uncertainty_aware_accuracy": [87.25, 96.69, 194.95, 75.32, 85.13, 85.34, 95.1, 102.83],
    },
    "Qwen-VL-Chat": {
        "coverage": [92.74, 93.98, 95.00, 94.61, 92.97, 92.32, 93.25, 93.41],
        "accuracy": [50.84, 55.5, 48.67, 51.72, 60.94, 63.6, 59.89, 55.88],
        "set_size": [3.57, 3.77, 2.87, 3.76, 3.59, 3.2, 3.33, 3.44],
        "uncertainty_aware_accuracy": [34.96, 36.15, 41.85, 33.74, 41.75, 48.85, 44.38, 40.24],
    },
}
MISPRINTS = {
    ("llava-v1.6-vicuna-13b", "set_size", "shape"): 2.27,
    ("Monkey-Chat", "uncertainty_aware_accuracy", "occlusion"): 200.60,
    ("Qwen-VL-Chat", "coverage", "pose"): 92.25,
    # Here the rank in small print behind a number may have run into it: 73.3 and fourth, 77.6 and seventh.
    ("Monkey-Chat", "accuracy", "context"): 73.30,
    ("Monkey-Chat", "uncertainty_aware_accuracy", "mean"): 77.60,
}
"""Five of 160 printed cells that contradict others of their row, and what is computed."""


@pytest.mark.parametrize("metric", TABLE_VI["Qwen-VL-Chat"])
@pytest.mark.parametrize("model", TABLE_VI)
def test_calibration_within_each_situation_gives_table_vi(values, model, metric):
    of = f"{metric}[published_within_situation]" if metric == "accuracy" else f"{metric}[published_within_situation/mean]"
    for part, printed in zip([*SITUATIONS, "mean"], TABLE_VI[model][metric], strict=True):
        found = values[model, "oodcv", "macro:situation" if part == "mean" else f"situation={part}", of]
        expected = MISPRINTS.get((model, metric, part), printed)
        assert found * (1 if metric == "set_size" else 100) == pytest.approx(expected, abs=0.005 + 1e-9), part


# The columns "Avg." of Tables I to IV as they are printed, over all five datasets.
PRINTED_MODELS = [
    "llava-v1.6-vicuna-13b",
    "Monkey-Chat",
    "llava-v1.6-vicuna-7b",
    "internlm-xcomposer2-vl-7b",
    "Yi-VL-6B",
    "cogagent-vqa-hf",
    "MobileVLM_V2-7B",
    "MoE-LLaVA-Phi2-2.7B-4e",
    "mplug-owl2-llama2-7b",
    "Qwen-VL-Chat",
]
PRINTED_AVERAGES = {
    "coverage": [94.15, 93.56, 93.52, 92.6, 93.57, 93.26, 93.61, 93.36, 93.64, 91.56],
    "acc": [72.85, 71.26, 70.78, 70.07, 68.19, 67.34, 67.02, 66.95, 65.58, 62.74],
    "set_sizes": [2.36, 2.93, 2.41, 2.69, 2.57, 2.52, 2.79, 2.55, 2.65, 3.07],
    "uacc": [82.64, 67.38, 77.67, 70.77, 71.5, 69.61, 65.84, 71.46, 65.71, 52.71],
    "ece": [6.49, 5.1, 7.11, 5.92, 9.52, 4.91, 11.04, 7.3, 12.35, 3.52],
    "mce": [21.06, 19.71, 30.41, 19.92, 22.23, 13.14, 23.37, 17.53, 25.21, 10.13],
    "coverage_all_LAC": [90.15, 89.77, 89.61, 89.5, 90.16, 90.24, 89.86, 89.8, 90.2, 88.84],
    "set_sizes_LAC": [1.69, 2.06, 1.78, 2.03, 1.96, 2.03, 2.08, 1.94, 2.11, 2.57],
    "uacc_LAC": [106.22, 88.48, 98.4, 89.17, 89.4, 84.06, 84.29, 89.09, 80.06, 62.19],
    "coverage_all_APS": [98.14, 97.35, 97.43, 95.71, 96.98, 96.28, 97.37, 96.92, 97.08, 94.27],
    "set_sizes_APS": [3.04, 3.79, 3.05, 3.34, 3.19, 3.0, 3.5, 3.16, 3.2, 3.57],
    "uacc_APS": [59.05, 46.28, 56.94, 52.36, 53.53, 55.1, 47.38, 53.82, 51.36, 43.23],
}
MISPRINTED_AVERAGES = {
    ("mce", "llava-v1.6-vicuna-13b"): 21.00,
    ("uacc_LAC", "Yi-VL-6B"): 89.46,
    ("set_sizes_LAC", "MobileVLM_V2-7B"): 2.09,
    ("uacc_APS", "cogagent-vqa-hf"): 55.16,
}
"""Four of 120 printed averages that are not the means of the released values."""


@pytest.mark.parametrize("name", TABLES)
def test_macro_averages_over_datasets_are_the_columns_avg(name):
    if not FIXTURES.is_dir():
        pytest.skip(f"{FIXTURES} is absent: the released outputs are not part of the repository")
    with (FIXTURES / "tables" / f"{name}.csv").open() as handle:
        published = {
            row["model_name"]: {key: float(row[key]) for key in FIVE} | {"avg": float(row["avg"])} for row in csv.DictReader(handle)
        }
    over = OverDatasets(0.95)
    for model, values in published.items():
        for dataset in FIVE:
            cell = Cell(model, Samples(dataset, SAMPLES.empty_table()), CLEAN, {}, {}, {}, {})
            measured = Measured(values[dataset], np.empty(0), 100, 0, "")
            over.add(cell, Slice(ALL, np.empty(0, dtype=np.int64), Bootstrap(np.arange(2), 0, 1)), [(name, measured)], [Limits()])
    averages = {row["model"]: row["value"] for row in over.rows(FIVE)}
    assert len(averages) == 26
    for model, values in published.items():
        assert averages[model] == pytest.approx(values["avg"], abs=1e-9)
    for model, printed in zip(PRINTED_MODELS, PRINTED_AVERAGES.get(name, []), strict=False):
        expected = MISPRINTED_AVERAGES.get((name, model), printed)
        assert averages[model] * (1 if "set_sizes" in name else 100) == pytest.approx(expected, abs=0.005 + 1e-9), model
    if name == "acc":  # the order of Table I
        assert sorted(PRINTED_MODELS, key=lambda model: -averages[model]) == PRINTED_MODELS


FIVE = ["mmbench", "oodcv", "scienceqa", "seedbench", "ai2d"]
