"""VLM-UQBench end to end on a tiny random model: what rewrites questions, what stays clean, and labelled subsets as truth of attribution.

Questions about drawn scenes under all kinds of perturbation, questions that stay as they are, and questions in the layout of VizWiz's
answer differences, whose counts of reasons say in which modality they are uncertain; every stage runs, and tables and page are read.
"""

import csv
import importlib
import io
import json
from contextlib import chdir

import polars as pl
import pytest
import torch
from PIL import Image

from qualm.compiler.plan.make import make_plan
from qualm.compiler.spec.canonical_json import canonical
from qualm.compiler.spec.language import RunWide
from qualm.compiler.spec.resolve import resolve_file
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import read_stage
from tests.support.models.tiny_models import tiny_llava

pytestmark = pytest.mark.slow

SPEC = """\
qualm: 1
name: t
datasets:
  hallucination: {card: clevr_hallucination_scenes, per_type: 6}
  plain: {card: synthetic_scenes, test: 4, perturb: false}
  labelled: {card: vizwiz_ans_difference, where: clean or image or text, uncertain: image or text, perturb: [blur, typos]}
perturbations:
  - blur: {radius: 2}
  - typos: {p: 0.3}
  - inv: {scored: true}
  - sbj
  - amb
  - ive
models:
  base: {hf_vlm: {artifact: tiny}}
inference: {max_new_tokens: 3, draws: 2}
judges: [rules]
estimators: [max_sequence_probability, mean_token_entropy, lexical_similarity]
metrics: [accuracy, auroc, auroc_uncertain, best_f1, uncertainty_reflection_rate, hallucination_rate, hallucination_change_correlation]
slices: [category]
compare: {interval: {bootstrap: 40}}
"""
REWRITTEN = {"inv", "sbj", "amb", "ive"}
EACH = 24
"""Labelled questions of a kind."""
COUNTS = {"clean": [0] * 10, "image": [5, *[0] * 9], "text": [0, 0, 4, *[0] * 7]}
"""Of five people: how many ticked a bad picture (first) or an invalid question (third)."""


def vizwiz(folder):
    """Annotations and drawn pictures, as the adapter's layout says."""
    records = []
    (folder / "images").mkdir(parents=True)
    (folder / "Annotations").mkdir()
    for kind, counts in COUNTS.items():
        for i in range(EACH):
            number = len(records)
            name = f"VizWiz_val_{number:012d}"
            records.append({"qid": name, "image": f"{name}.jpg", "question": f"What is on shelf {kind} {i} here?", "answers": ["soup"] * 10,
                            "ans_type": "other", "src_dataset": "VIZWIZ", "ans_dis_labels": counts})  # fmt: skip
            picture = io.BytesIO()
            Image.new("RGB", (24, 24), (number * 3, 255 - number * 3, 128)).save(picture, "JPEG")
            (folder / "images" / f"{name}.jpg").write_bytes(picture.getvalue())
    (folder / "Annotations" / "vizwiz_ans_difference_val.json").write_text(json.dumps(records))


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Every stage of the spec, as DVC would run them; the folder of its results."""
    torch.set_num_threads(1)
    root = tmp_path_factory.mktemp("project")
    tiny_llava(root / "registry" / "data" / "tiny", seed=3)
    vizwiz(root / "registry" / "data" / "vizwiz_ans_difference")
    (root / "t.yaml").write_text(SPEC)
    plan = make_plan(resolve_file(root / "t.yaml", root, RunWide(default="t")))
    with chdir(root):
        for stage in plan.stages:
            path = root / "specs" / "t" / "stages" / f"{stage.name}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(canonical(stage.as_json()))
            found = read_stage(f"t/{stage.name}", Settings(device="cpu", batch_size=8, workers=1, progress=False))
            importlib.import_module(f"qualm.runners.stages.{stage.kind}").run(found)
    return root / "results" / "t"


def grid(results, name):
    with (results / "plots" / f"{name}.csv").open() as handle:
        return list(csv.DictReader(handle))


def test_what_stays_clean_is_asked_once_and_the_others_under_their_perturbations(results):
    variants = {
        name: set(pl.read_parquet(results / "generations" / "base" / f"{name}.parquet")["variant"].unique().to_list())
        for name in ("hallucination", "plain", "labelled")
    }
    blur, typos = "blur@radius=2", "typos@p=0.3"
    assert variants["plain"] == {"clean"} and variants["labelled"] == {"clean", blur, typos}
    assert {v.partition("@")[0] for v in variants["hallucination"]} == {"clean", "blur", "typos", *REWRITTEN}


def test_grids_have_a_cell_for_every_rewriting_and_none_for_what_stays_clean(results):
    urr, hcc = grid(results, "urr"), grid(results, "hcc")
    assert {row["dataset"] for row in urr} == {"hallucination", "labelled"}, "plain has nothing to compare with"
    modality = {row["variant"].partition("@")[0]: row["modality"] for row in urr}
    assert modality == {"blur": "image", "typos": "text", "inv": "text", "sbj": "text", "amb": "cross", "ive": "cross"}
    assert all(int(row["n"]) + int(row["n_unscored"]) == 24 for row in urr if row["dataset"] == "hallucination"), "of 4 types, 6 each"
    scored = {row["variant"].partition("@")[0] for row in hcc if int(row["n"])}
    assert "inv" in scored and not scored & {"sbj", "amb", "ive"}, "the old answer is held against inv alone, as the spec says"


def test_reflection_rates_are_those_of_the_uncertainties(results):
    values = pl.read_parquet(results / "uncertainties.parquet").filter(pl.col("dataset") == "hallucination")
    wide = values.pivot("variant", index=["sample_id", "estimator"], values="value")
    rows = [r for r in grid(results, "urr") if r["dataset"] == "hallucination" and r["value"]]
    assert len(rows) >= 3 * 5
    for row in rows:
        both = wide.filter(pl.col("estimator") == row["estimator"]).select("clean", row["variant"]).drop_nulls()
        assert int(row["n"]) == both.height, row
        risen = both.filter(pl.col(row["variant"]) > pl.col("clean")).height
        assert float(row["value"]) == pytest.approx(risen / both.height, abs=1e-6), row


def test_counts_of_reasons_are_the_truth_of_attribution(results):
    told = pl.read_parquet(results / "attributions.parquet").filter(pl.col("dataset") == "labelled")
    kinds = [kind for kind in COUNTS for _ in range(EACH)]
    truth = {f"VizWiz_val_{i:012d}": kind for i, kind in enumerate(kinds)}
    assert dict(told.select("sample_id", "truth").iter_rows()) == truth
    (row,) = pl.read_parquet(results / "blames.parquet").to_dicts()
    known = told.filter(pl.col("truth").is_in(["image", "text"]))
    assert (row["n"], row["floor"]) == (2 * EACH, 0.5)
    assert row["accuracy"] == pytest.approx((known["blamed"] == known["truth"]).mean())


def test_the_page_has_the_grids_and_says_how_attribution_was_checked(results):
    page = (results / "report.html").read_text()
    assert "for base, the known modality is named for" in page and f"n = {2 * EACH}" in page
    assert "URR" in page and all(f">{name.upper()}" in page or f">{name}" in page for name in sorted(REWRITTEN))
    assert "labelled" in page and "floor" in page
