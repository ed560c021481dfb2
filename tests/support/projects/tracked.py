"""Scores and a training curve of two models, for what shows runs."""

from pathlib import Path

from qualm.runners.plugins.exports import ExportContext
from tests.support.data.score_files import write_scores
from tests.support.projects.exported import MADE

SCORE = {"dataset": "d", "variant": "clean", "slice": "all", "n": 40, "n_unscored": 0}
ROWS = [
    {**SCORE, "model": "base", "metric": "accuracy", "value": 0.625, "low": 0.5, "high": 0.75},
    {**SCORE, "model": "base", "metric": "auroc[ours/p_true]", "value": None},
    {**SCORE, "model": "tuned", "metric": "accuracy", "value": 0.75, "low": 0.5, "high": 0.875},
    {**SCORE, "model": "tuned", "metric": "ece@bins=5", "value": 0.25, "variant": "blur@radius=2.0"},
    {**SCORE, "model": "tuned", "metric": "accuracy", "value": 0.1, "slice": "split=test"},
    {**SCORE, "model": "tuned", "metric": "accuracy", "value": 0.5, "slice": "macro:split"},
]
LOG = "step,loss,heldout/matched\n100,3.5,\n200,1.5,0.25\n"
BASE = {"d/accuracy": 0.625, "d/accuracy.low": 0.5, "d/accuracy.high": 0.75}
TUNED = {
    "d/accuracy": 0.75,
    "d/accuracy.low": 0.5,
    "d/accuracy.high": 0.875,
    "d.blur.radius-2.0/ece.bins-5": 0.25,
    "d.macro_split/accuracy": 0.5,
}
CURVES = {"training/loss": [(100, 3.5), (200, 1.5)], "training/heldout/matched": [(200, 0.25)]}


def tracked(folder: Path, **more) -> ExportContext:
    """A context whose model `tuned` was trained."""
    write_scores(folder / "scores.parquet", ROWS)
    (folder / "tuned.csv").write_text(LOG)
    (folder / "out").mkdir()
    return ExportContext(
        folder=folder / "out", spec="bench", parts=(), time=MADE, title="A benchmark", revision="abc123",
        decoding={"max_new_tokens": 16}, models={"base": {"plugin": "hf_vlm", "args": {"artifact": "x", "revision": None}}},
        results={"scores": folder / "scores.parquet"}, training={"tuned": folder / "tuned.csv"}, **more,
    )  # fmt: skip
