"""Benchmark B from a fresh clone by real `dvc repro`: every published cell of the four recorded models, to 1e-6."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from qualm.registry.sample import MACRO_DATASETS
from tests.end_to_end.clone import ROOT, Clone, make_clone

FIXTURE = ROOT.parent / "shared" / "fixtures" / "vlm_uncertainty_bench"
SPEC = "vlm_uncertainty_bench"
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
    "ece": "ece@rows=all[published]",
    "mce": "mce@rows=all[published]",
    "E_ratio": "option_rate@option=E[published]",
    "F_ratio": "option_rate@option=F[published]",
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FIXTURE.is_dir(), reason="needs the recorded outputs in ../shared/fixtures/vlm_uncertainty_bench"),
]


@pytest.fixture(scope="module")
def rebuilt(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    clone = make_clone(tmp_path_factory.mktemp("vub") / "clone", SPEC, forked=True)
    spec = clone.root / f"specs/{SPEC}.yaml"
    spec.write_text(spec.read_text().replace("bootstrap: 1000", "bootstrap: 20"))
    clone.qualm("data", "add", SPEC, "--from", str(FIXTURE))
    clone.qualm("compile")
    assert len(clone.repro()) == len(clone.forecast())
    return clone


def test_every_published_cell(rebuilt: Clone) -> None:
    scores = pl.read_parquet(rebuilt.root / f"results/{SPEC}/scores.parquet").filter(pl.col("variant") == "clean", pl.col("slice") == "all")
    # The published means are over five datasets, of which two are here.
    scores = scores.filter(pl.col("dataset") != MACRO_DATASETS)
    models = scores["model"].unique().to_list()
    assert len(models) == 4
    compared = 0
    for table, metric in TABLES.items():
        published = pl.read_csv(FIXTURE / "tables" / f"{table}.csv")
        for row in scores.filter(pl.col("label") == metric).iter_rows(named=True):
            expected = published.filter(pl.col("model_name") == row["model"])[row["dataset"]].item()
            assert row["value"] == pytest.approx(expected, abs=1e-6), (table, row["model"], row["dataset"])
            compared += 1
    assert compared == 14 * 4 * 2


def test_a_second_repro_executes_nothing(rebuilt: Clone) -> None:
    assert rebuilt.repro() == set()
    assert set(rebuilt.forecast().values()) == {"unchanged"}


def test_the_report_puts_both_rule_sets_side_by_side(rebuilt: Clone) -> None:
    page = Path(rebuilt.root / f"results/{SPEC}/report.html").read_text(encoding="utf-8")
    assert "published" in page
    assert "ours" in page
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_lineage_leads_back_to_the_recordings(rebuilt: Clone) -> None:
    text = rebuilt.qualm("lineage", f"results/{SPEC}/report.html").stdout
    assert f"registry/data/{SPEC}" in text
    assert f"tracked by registry/data/{SPEC}.dvc" in text
