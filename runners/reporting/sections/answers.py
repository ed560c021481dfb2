"""Answers of every model to the scored samples: correctness, confidence, abstention."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from qualm.registry import abstaining_name
from qualm.registry.sample import CLEAN, GREEDY, JUDGEMENTS, LABELLED_SCORES
from qualm.runners.data.aligned import read_greedy
from qualm.runners.runtime.records import read_table
from qualm.runners.scoring.measuring.by_cell import ByCell, Key
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
VERDICTS = ("model", "dataset", "sample_id", "correct", "confidence")
"""Columns that are held in memory for all answers."""


def read_frame(path: str | Path | None, schema: Any, columns: list[str] | None = None) -> pl.DataFrame:
    """Read a table and check its schema; empty if the stage has none."""
    if path is None:
        return pl.DataFrame(schema.empty_table())
    frame = pl.from_arrow(read_table(Path(path), schema, columns))
    assert isinstance(frame, pl.DataFrame)
    return frame


def read_scores(path: str | Path | None) -> pl.DataFrame:
    """Read a table of scores with each label as `metric`; empty if the stage has none."""
    frame = pl.from_arrow(LABELLED_SCORES.empty_table() if path is None else read_labelled(Path(path)))
    assert isinstance(frame, pl.DataFrame)
    return frame


def clean_rows(frame: pl.DataFrame) -> pl.DataFrame:
    """Return rows of unperturbed inputs."""
    return frame.filter(pl.col("variant") == CLEAN)


class Judgements:
    """Ratings of greedy answers to clean samples, by the judge asked for or the first in the table; a dataset's own goes before it.

    Of multiple-choice questions answered in words by the judge of options, by dataset; where none is named, the first that is for them.
    """

    def __init__(
        self,
        path: str | None,
        default_judge: str | None,
        own: Mapping[str, str],
        of_choices: Mapping[str, str],
        samples: Mapping[str, pl.DataFrame],
    ) -> None:
        self._table = None if path is None else ByCell(Path(path), JUDGEMENTS, ["draw", "judge", "rating", "pred_is_idk"])
        self._own, self._of_choices, self._samples = own, of_choices, samples
        first = next((frame["judge"][0] for key in self._cells() if not (frame := self._read(key)).is_empty()), None)
        self._judge = default_judge or first or ""
        self.names = "" if first is None else ", ".join(dict.fromkeys([self._judge, *own.values()]))
        """Names of the judges whose ratings count."""

    def of(self, model: str, dataset: str) -> pl.DataFrame:
        """Return `sample_id`, `judge`, `rating` and `pred_is_idk` of a model's answers, counting judges first."""
        frame = self._read((model, dataset, CLEAN))
        whose = pl.lit(self._own.get(dataset, self._judge))
        if dataset in self._of_choices and dataset in self._samples:
            with_options = self._samples[dataset].filter(pl.col("choices").list.len() > 0)["sample_id"].implode()
            whose = pl.when(pl.col("sample_id").is_in(with_options)).then(pl.lit(self._of_choices[dataset])).otherwise(whose)
        chosen = frame.filter(pl.col("judge") == whose)
        if chosen.height == frame.height:
            return chosen
        return pl.concat([chosen, frame.join(chosen, on="sample_id", how="anti", maintain_order="left")])

    def _cells(self) -> Iterator[Key]:
        return (key for key in self._table or () if key[2] == CLEAN)

    def _read(self, key: Key) -> pl.DataFrame:
        table = None if self._table is None else self._table.get(key)
        frame = pl.from_arrow(JUDGEMENTS.empty_table() if table is None else table)
        assert isinstance(frame, pl.DataFrame)
        return frame.filter(pl.col("draw") == GREEDY).select("sample_id", "judge", "rating", "pred_is_idk")


def model_answers(
    model: str,
    dataset: str,
    path: str,
    samples: pl.DataFrame,
    judgements: Judgements,
    confidence: str,
    only: Collection[str] | None = None,
) -> pl.LazyFrame:
    """Return greedy answers to clean samples: what was said, whether it was right, and how sure the model was of it.

    `only` are the ids of samples; None = all. To be collected: of what is not selected nothing is worked out.
    """
    columns = ["sample_id", "variant", "draw", "text", "token_logprobs", "option_logits", "p_yes", "thinking", "no_answer"]
    greedy = pl.from_arrow(read_greedy(path, columns, CLEAN))
    assert isinstance(greedy, pl.DataFrame)
    is_chosen = pl.lit(True) if only is None else pl.col("sample_id").is_in(list(only))
    judged = judgements.of(model, dataset).lazy().filter(is_chosen).unique("sample_id", keep="first").drop("judge")
    logits = pl.col("option_logits")
    odds = logits.list.eval((pl.element() - pl.element().max()).exp()).list.sum()
    tokens = pl.col("token_logprobs")
    sequence = pl.when(tokens.list.len() > 0).then(tokens.list.eval(pl.element().cast(pl.Float64)).list.sum().exp())
    chosen = pl.col("options") > 0
    questions = samples.lazy().select("sample_id", pl.col("choices").list.len().alias("options"), "answer_index")
    frame = greedy.lazy().filter(is_chosen).join(questions, on="sample_id", how="inner", maintain_order="left")
    frame = frame.join(judged, on="sample_id", how="left", maintain_order="left")
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
    """Return the answers of models that abstain, in the columns of `answers`.

    An answer is the underlying model's, or an abstention where it is too uncertain. Rows that the threshold was fitted on are left out.
    """
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
        changed = {
            "model": pl.lit(abstaining_name(str(model), str(method))),
            "correct": correct,
            "confidence": pl.col("now"),
            "declined": pl.when(refuses).then(True).otherwise(pl.col("declined")),
            "text": pl.when(refuses).then(pl.format("abstains (answer without abstention: {})", pl.col("text"))).otherwise(pl.col("text")),
        }
        frames.append(joined.with_columns(**{n: of for n, of in changed.items() if n in answers.columns}).select(answers.columns))
    return frames
