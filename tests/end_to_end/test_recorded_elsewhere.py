"""Somebody's lm-evaluation-harness log, scored with calibration and conformal sets from a fresh clone; exported, and scored again alike."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.end_to_end.clone import Clone, make_clone
from tests.support.data.recordings import leh, leh_choice, leh_open

pytestmark = pytest.mark.slow
N = 60
SPEC = """\
qualm: 1
name: NAME
datasets:
  science: {card: CARD, source: SOURCE, task: SCIENCE}
  capitals: {card: CARD, source: SOURCE, task: capitals}
models:
  small: {recorded: {source: SOURCE, run: small}}
  large: {recorded: {source: SOURCE, run: large}}
judges: [rules]
estimators: [lexical_similarity]
conformal:
  ours: {scores: [lac, aps], alpha: 0.2}
metrics: [accuracy, coverage, set_size, ece: {bins: 10}, auroc, lave_idk_accuracy]
slices: [subject]
compare: {baseline: small, interval: {bootstrap: 50}}
"""


def log(folder: Path) -> None:
    """Two models' answers to one task of options and one of short texts, three repeats each."""
    for run, skill in (("small", 0.5), ("large", 2.0)):
        rng = np.random.default_rng(len(run))
        choices, texts = [], []
        for i in range(N):
            scores = np.random.default_rng(i).normal(size=4) - 6  # none above 0, which no log-likelihood is
            scores[i % 4] += skill * rng.random()
            row = leh_choice(i, f"Question {i}?", [f"option {k} of {i}" for k in range(4)], i % 4, (scores - 1e-3).tolist())
            choices.append({**row, "doc": {**row["doc"], "subject": ["physics", "biology"][i % 2]}})
            right, wrong = f"City {i}", f"Town {i}"
            said = [right if rng.random() < skill / 2.5 else wrong for _ in range(3)]
            texts.append(leh_open(i, f"Capital of country {i}?", right, *said))
        leh(folder, *choices, task="science", run=run)
        leh(folder, *texts, task="capitals", run=run)


def spec(clone: Clone, name: str, card: str, source: str, science: str = "science") -> None:
    text = SPEC.replace("NAME", name).replace("CARD", card).replace("SOURCE", source).replace("SCIENCE", science)
    (clone.root / f"specs/{name}.yaml").write_text(text)
    clone.qualm("compile", name)


def scores(clone: Clone, name: str) -> pl.DataFrame:
    return pl.read_parquet(clone.root / f"results/{name}/scores.parquet")


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    made = make_clone(tmp_path_factory.mktemp("log") / "clone", "vlm_uncertainty_bench", forked=True)
    log(made.root.parent / "log")
    made.qualm("data", "add", "science_log", "--from", str(made.root.parent / "log"), "--card", "lm_eval_samples")
    spec(made, "theirs", "lm_eval_samples", "science_log")
    made.qualm("run", "theirs")
    return made


def test_their_accuracy_and_what_they_do_not_have(clone: Clone) -> None:
    found = scores(clone, "theirs").filter(pl.col("slice") == "all")
    sets = pl.read_parquet(clone.root / "results/theirs/conformal_sets.parquet").filter(pl.col("score") == "lac", ~pl.col("is_calibration"))
    for run in ("small", "large"):
        lines = next((clone.root.parent / "log" / run).glob("samples_science_*.jsonl")).read_text().splitlines()
        tested = set(sets.filter(pl.col("model") == run)["sample_id"])
        acc = np.mean([row["acc"] for row in map(json.loads, lines) if str(row["doc_id"]) in tested])
        mine = {row["label"]: row for row in found.filter(pl.col("model") == run).iter_rows(named=True) if row["value"] is not None}
        assert mine["accuracy[ours]"]["value"] == pytest.approx(acc)
        assert {"coverage[ours/lac]", "set_size[ours/aps]", "ece[ours]"} <= set(mine)
        assert mine["accuracy[ours]"]["low"] < mine["accuracy[ours]"]["high"]
    assert not [m for m in set(found["label"]) if "lexical_similarity" in m]  # nobody drew anything
    record = json.loads((clone.root / ".qualm/runs/theirs/estimate.json").read_text())
    assert record["counters"]["without what an estimator reads"] == 2 * 120
    slices = scores(clone, "theirs")["slice"].unique().to_list()
    assert {"all", "subject=physics", "subject=biology"} <= set(slices)


def test_exported_and_read_again_it_scores_the_same(clone: Clone) -> None:
    out = clone.root.parent / "exported"
    said = clone.qualm("export", "theirs", str(out), "--to", "lm-eval")
    assert "6 files, 480 answers to 240 questions" in said.stdout
    clone.qualm("data", "add", "again", "--from", str(out), "--card", "lm_eval_samples")
    spec(clone, "ours", "lm_eval_samples", "again")
    clone.qualm("run", "ours")
    from polars.testing import assert_frame_equal

    assert_frame_equal(scores(clone, "ours"), scores(clone, "theirs"), check_exact=True)
