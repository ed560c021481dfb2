"""What every model said to the scored samples, whether it was right, how sure it was, and whether it declined."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from qualm.registry import abstaining
from qualm.registry.sample import CLEAN, GENERATIONS, GREEDY, JUDGEMENTS, LABELLED_SCORES
from qualm.runners.runtime.records import read_table
from qualm.runners.scoring.measuring.score_table import read_labelled

ANSWERS: dict[str, Any] = {
    "model": pl.String,
    "dataset": pl.String,
    "sample_id": pl.String,
    "text": pl.String,
    "picked": pl.Int64,
    "correct": pl.Float64,
    "confidence": pl.Float64,
    "declined": pl.Boolean,
    "thinking": pl.String,
    "no_answer": pl.String,
}
"""Columns of a table of answers."""


def read_frame(path: str | Path | None, schema: Any, columns: list[str] | None = None) -> pl.DataFrame:
    """A table checked against its schema; empty where the stage has none."""
    if path is None:
        return pl.DataFrame(schema.empty_table())
    frame = pl.from_arrow(read_table(Path(path), schema, columns))
    assert isinstance(frame, pl.DataFrame)
    return frame


def read_scores(path: str | Path | None) -> pl.DataFrame:
    """A table of scores, the label of each as `metric`; empty where the stage has none."""
    frame = pl.from_arrow(LABELLED_SCORES.empty_table() if path is None else read_labelled(Path(path)))
    assert isinstance(frame, pl.DataFrame)
    return frame


def clean_rows(frame: pl.DataFrame) -> pl.DataFrame:
    """Rows of unperturbed inputs."""
    return frame.filter(pl.col("variant") == CLEAN)


def read_judgements(
    path: str | None, default_judge: str | None, own: Mapping[str, str], of_choices: Mapping[str, str], samples: Mapping[str, pl.DataFrame]
) -> tuple[pl.DataFrame, str]:
    """Ratings of greedy answers to clean samples, by the judge asked for or the first in the table; a data set's own goes before it.

    Of multiple-choice questions answered in words by the judge of options, by data set; where none is named, the first that is for them.
    """
    frame = clean_rows(read_frame(path, JUDGEMENTS, ["model", "dataset", "sample_id", "variant", "draw", "judge", "rating", "pred_is_idk"]))
    frame = frame.filter(pl.col("draw") == GREEDY)
    if frame.is_empty():
        return frame, ""
    judge = default_judge or frame["judge"][0]
    whose = pl.col("dataset").replace_strict(dict(own), default=judge) if own else pl.lit(judge)
    for dataset, judge_of_options in of_choices.items():
        if dataset in samples:
            with_options = samples[dataset].filter(pl.col("choices").list.len() > 0)["sample_id"].implode()
            here = (pl.col("dataset") == dataset) & pl.col("sample_id").is_in(with_options)
            whose = pl.when(here).then(pl.lit(judge_of_options)).otherwise(whose)
    chosen = frame.filter(pl.col("judge") == whose)
    others = frame.join(chosen, on=["model", "dataset", "sample_id"], how="anti", maintain_order="left")
    return pl.concat([chosen, others]), ", ".join(dict.fromkeys([judge, *own.values()]))


def model_answers(model: str, dataset: str, path: str, samples: pl.DataFrame, judgements: pl.DataFrame, confidence: str) -> pl.DataFrame:
    """Greedy answers to clean samples: what was said, whether it was right, and how sure the model was of it."""
    columns = ["sample_id", "variant", "draw", "text", "token_logprobs", "option_logits", "p_yes", "thinking", "no_answer"]
    greedy = clean_rows(read_frame(path, GENERATIONS, columns)).filter(pl.col("draw") == GREEDY)
    judged = judgements.filter((pl.col("model") == model) & (pl.col("dataset") == dataset)).select("sample_id", "rating", "pred_is_idk")
    logits = pl.col("option_logits")
    odds = logits.list.eval((pl.element() - pl.element().max()).exp()).list.sum()
    tokens = pl.col("token_logprobs")
    sequence = pl.when(tokens.list.len() > 0).then(tokens.list.eval(pl.element().cast(pl.Float64)).list.sum().exp())
    chosen = pl.col("choices").list.len() > 0
    frame = greedy.join(samples.select("sample_id", "choices", "answer_index"), on="sample_id", how="inner", maintain_order="left")
    frame = frame.join(judged.unique("sample_id", keep="first"), on="sample_id", how="left", maintain_order="left")
    picked = pl.when(chosen).then(logits.list.arg_max()).cast(pl.Int64)
    return frame.select(
        pl.lit(model).alias("model"),
        pl.lit(dataset).alias("dataset"),
        "sample_id",
        pl.col("text").fill_null(""),
        picked.alias("picked"),
        pl.when(picked.is_not_null())
        .then((picked == pl.col("answer_index")).cast(pl.Float64))
        .otherwise(pl.col("rating"))
        .alias("correct"),
        pl.when(chosen).then(1.0 / odds).otherwise(pl.col("p_yes") if confidence == "verify" else sequence).alias("confidence"),
        pl.col("pred_is_idk").alias("declined"),
        "thinking",
        "no_answer",
    )


def abstaining_answers(abstentions: pl.DataFrame, answers: pl.DataFrame, samples: dict[str, pl.DataFrame]) -> list[pl.DataFrame]:
    """Answers of models that abstain: those of the model beneath, and a refusal where it is too unsure. Rows it was fitted on are not
    among them."""
    frames = []
    for (model, dataset, method), rows in abstentions.filter(~pl.col("is_fit")).group_by("model", "dataset", "method", maintain_order=True):
        below = answers.filter((pl.col("model") == model) & (pl.col("dataset") == dataset))
        if dataset not in samples or below.is_empty():
            continue
        can = samples[str(dataset)].select("sample_id", can=pl.col("answerable").fill_null(True))
        decisions = rows.select("sample_id", "abstains", now="confidence").join(can, on="sample_id", how="inner")
        joined = below.join(decisions, on="sample_id", how="inner", maintain_order="left")
        refuses = pl.col("abstains").fill_null(False)
        unknown = pl.col("abstains").is_null()
        correct = pl.when(unknown).then(None).when(refuses).then((~pl.col("can")).cast(pl.Float64)).otherwise(pl.col("correct"))
        frames.append(
            joined.with_columns(
                model=pl.lit(abstaining(str(model), str(method))),
                correct=correct,
                confidence=pl.col("now"),
                declined=pl.when(refuses).then(True).otherwise(pl.col("declined")),
                text=pl.when(refuses).then(pl.format("declines (would have said: {})", pl.col("text"))).otherwise(pl.col("text")),
            ).select(*ANSWERS)
        )
    return frames
