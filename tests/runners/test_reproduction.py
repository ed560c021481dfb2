"""The published tables of VLM-Uncertainty-Bench, rebuilt from its released outputs through our own stages."""

import csv
import gzip
from pathlib import Path

import pyarrow as pa
import pytest

from qualm.registry.adapters import AdapterContext
from qualm.registry.adapters.vlm_uncertainty_bench import vlm_uncertainty_bench
from qualm.registry.sample import CLEAN, GENERATIONS, SAMPLES
from qualm.runners.contracts.models import ModelContext
from qualm.runners.plugins.models.recorded import recorded
from qualm.runners.runtime.records import read_table, write_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage
from qualm.runners.scoring.measuring.score_table import read_labelled
from qualm.runners.stages import calibrate, score
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
    """{(model, dataset, metric): value} of one run of both stages over all seven runs."""
    if not FIXTURES.is_dir():
        pytest.skip(f"{FIXTURES} is absent: the released outputs are not part of the repository")
    home = tmp_path_factory.mktemp("vub")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        inputs = {"datasets": {}, "generations": {}}
        for dataset in DATASETS:
            _prepare(dataset, inputs)
        params = {"settings": [SETTING]}
        outputs = {"sets": "results/sets.parquet", "thresholds": "results/thresholds.parquet"}
        calibrate.run(Stage("b/calibrate", "b", "calibrate", "calibrate", params, inputs, outputs, 7, Settings()))
        params = {"metrics": METRICS, "slices": [], "interval": {"bootstrap": 20, "level": 0.95}}
        params |= {"judge": None, "confidence": "sequence"}
        names = ["scores", "metrics", "reliability", "risk_coverage", "set_sizes"]
        stage = Stage("b/score", "b", "score", "score", params, inputs | {"sets": outputs["sets"]}, {n: n for n in names}, 7, Settings())
        score.run(stage)
        rows = read_labelled(Path("scores")).to_pylist()
    return {(r["model"], r["dataset"], r["metric"]): r["value"] for r in rows}


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
    assert values[model, dataset, TABLES[name]] == pytest.approx(float(published[model][dataset]), abs=1e-6)


def test_no_cell_beyond_these(values):
    cells = [(run, dataset) for run in RUNS for dataset in DATASETS] + [tuple(name.rsplit(".", 1)) for name in LOGITS]
    assert values.keys() == {(*cell, metric) for cell in cells for metric in {*TABLES.values(), *OVER_ALL_ROWS}}
