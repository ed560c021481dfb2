"""Exports: generations of a benchmark in the formats of other tools, for `qualm export SPEC --to NAME`.

One file per format here, holding one function of the file's name (`--to lm-eval` is `lm_eval.py`):

    def lm_eval(context: ExportContext, *, ...) -> None

It writes beneath `context.folder`, which is empty; the caller moves what is there to its place once everything is written.
What every one keeps:

- Nothing is written that is not there: no reconstructed prompt template, no invented probability, no token text.
- What the format has no field for goes under one key, `qualm`, where the format lets a stranger's key be (`registry.recordings.signals`),
  so that the `recorded` model reads it back bit for bit. What cannot be kept at all is told by `context.lose` and counted.
- Order is the dataset's. Equal inputs give equal bytes, but for the date of the export.
- Keyword-only arguments are options of the command: `-O table=tsv`.
"""

from __future__ import annotations

import io
import re
import string
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pyarrow as pa
import pyarrow.compute as pc

from registry import CLEAN, GREEDY
from registry.sample import GENERATIONS, JUDGEMENTS, SAMPLES, SCORES
from runners.inputs import Dataset, Variant
from runners.progress import progress
from runners.prompts import render_question
from runners.records import read_table
from runners.settings import Settings

LETTERS = string.ascii_uppercase
BLOCK = 512
"""Samples in memory at a time."""


class ExportError(Exception):
    """An export that cannot be made: what is missing or does not fit, and what to do."""


@dataclass(frozen=True)
class About:
    """Where a dataset is from."""

    title: str = ""
    licence: str = ""
    citation: str = ""
    source: str = ""


@dataclass
class Entry:
    """One sample and one model's answers to it under one variant."""

    place: int
    """Row of the sample in its dataset: what other tools call doc_id or index. It is no identity; `sample_id` stands beside it."""
    sample: dict[str, Any]
    question: str
    """As the variant has it."""
    answers: list[dict[str, Any]]
    """Rows of GENERATIONS by draw, the greedy one first."""
    ratings: dict[str, float | None] = field(default_factory=dict)
    """Judge -> its rating of the greedy answer; None = it could not be scored."""

    @property
    def name(self) -> str:
        return str(self.sample["sample_id"])

    @property
    def choices(self) -> list[str]:
        return list(self.sample["choices"] or ())

    @property
    def prompt(self) -> str:
        """The user's turn. The chat template around it is the model's own and not kept with the answers."""
        return render_question(self.question, self.choices)

    @property
    def references(self) -> list[str]:
        return list(self.sample["references"] or ())

    @cached_property
    def log_probabilities(self) -> list[float] | None:
        """Of the options among themselves: log-softmax of their logits; None where there are none."""
        logits = self.answers[0]["option_logits"]
        if not self.choices or not logits or len(logits) != len(self.choices):
            return None
        values = np.asarray(logits, dtype=np.float64)
        top = values.max()
        return [float(v) for v in values - (top + np.log(np.exp(values - top).sum()))]

    @property
    def predicted(self) -> int | None:
        return None if self.log_probabilities is None else int(np.argmax(self.log_probabilities))

    @property
    def correct(self) -> int | None:
        """Of a question with options, whether the most likely one is right; None where nothing says."""
        right = self.sample["answer_index"]
        return None if self.predicted is None or right is None else int(self.predicted == right)

    @property
    def said(self) -> str:
        """The answer as text; where only options were scored, the letter of the most likely."""
        text = self.answers[0]["text"]
        return text if text is not None else LETTERS[self.predicted] if self.predicted is not None else ""


@dataclass(frozen=True)
class Part:
    """One model's answers to one dataset under one variant."""

    model: str
    dataset: str
    variant: Variant
    seed: int
    samples: Path
    generations: Path

    @property
    def task(self) -> str:
        """What other tools will call the data."""
        return slug(self.dataset if self.variant.name == CLEAN else f"{self.dataset}@{self.variant.name}")


@dataclass
class ExportContext:
    """What the command hands every export beside its options."""

    folder: Path
    spec: str
    parts: tuple[Part, ...]
    made: datetime
    settings: Settings = field(default_factory=lambda: Settings(progress=False))
    title: str = ""
    recipe: str = ""
    """The spec as it stands."""
    revision: str = ""
    """Git commit of the project, with `-dirty` where files differ from it."""
    decoding: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Model -> plugin and args."""
    about: Mapping[str, About] = field(default_factory=dict)
    tables: Mapping[str, Path] = field(default_factory=dict)
    """Whole-spec tables that have been made: judgements, uncertainties, scores."""
    higher_is_better: Mapping[str, bool | None] = field(default_factory=dict)
    lost: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)

    def lose(self, what: str, n: int = 1) -> None:
        """Note something that we have and the format cannot hold."""
        if n:
            self.lost[what] += n

    def entries(self, part: Part, again: bool = False) -> Iterator[Entry]:
        """The samples that have an answer, in the dataset's order; the others are counted, but not when they come `again`."""
        samples = read_table(part.samples / "samples.parquet", SAMPLES)
        found = read_table(part.generations, GENERATIONS)
        found = found.filter(pc.equal(found["variant"], part.variant.name))
        place = pc.index_in(found["sample_id"], value_set=samples["sample_id"].combine_chunks())
        if place.null_count:
            unknown = found["sample_id"].filter(pc.is_null(place))[0].as_py()
            raise ExportError(f"{part.generations}: sample '{unknown}' is not in dataset '{part.dataset}'; run `qualm run {self.spec}`")
        order = np.lexsort((found["draw"].to_numpy(), place.to_numpy()))
        rows = np.asarray(place.to_numpy())[order]
        ratings = {} if again else self._ratings(part)
        counts = Counter[str]() if again else self.counts
        starts = np.searchsorted(rows, np.arange(samples.num_rows + 1))
        data = Dataset(part.dataset, part.samples) if part.variant.modality in ("text", "cross") else None
        shown = replace(self.settings, progress=self.settings.progress and not again)
        with progress(shown, f"{part.model} / {part.task}", samples.num_rows) as advance:
            for begin in range(0, samples.num_rows, BLOCK):
                end = min(begin + BLOCK, samples.num_rows)
                here = samples.slice(begin, end - begin).to_pylist()
                answers = found.take(pa.array(order[starts[begin] : starts[end]])).to_pylist()
                for i, sample in enumerate(here, begin):
                    mine = answers[starts[i] - starts[begin] : starts[i + 1] - starts[begin]]
                    if not mine:
                        counts["samples without an answer"] += 1
                        continue
                    if mine[0]["draw"] != GREEDY:
                        raise ExportError(f"{part.generations}: sample '{sample['sample_id']}' has sampled answers and no greedy one")
                    counts["samples"] += 1
                    counts["answers"] += len(mine)
                    yield Entry(i, sample, self._question(part, sample, i, data), mine, ratings.get(sample["sample_id"], {}))
                advance(end - begin)

    def scores(self, part: Part) -> list[dict[str, Any]]:
        """What was scored of these answers over all samples; nothing before `score` has run."""
        if "scores" not in self.tables:
            return []
        mine = read_table(self.tables["scores"], SCORES).to_pylist()
        key = (part.model, part.dataset, part.variant.name, "all")
        return [row for row in mine if (row["model"], row["dataset"], row["variant"], row["slice"]) == key]

    def _ratings(self, part: Part) -> dict[str, dict[str, float | None]]:
        if "judgements" not in self.tables:
            return {}
        table = read_table(self.tables["judgements"], JUDGEMENTS, ["model", "dataset", "variant", "draw", "sample_id", "judge", "rating"])
        wanted = {"model": part.model, "dataset": part.dataset, "variant": part.variant.name, "draw": GREEDY}
        for name, value in wanted.items():
            table = table.filter(pc.equal(table[name], value))
        made: dict[str, dict[str, float | None]] = {}
        for row in table.select(["sample_id", "judge", "rating"]).to_pylist():
            made.setdefault(row["sample_id"], {})[row["judge"]] = row["rating"]
        return made

    @staticmethod
    def _question(part: Part, sample: dict[str, Any], row: int, data: Dataset | None) -> str:
        if data is None:
            return str(sample["question"])
        return _asked(part, data, row, sees=part.variant.modality == "cross")[1]


class Images:
    """The pictures that one part's model saw, encoded: the file's own bytes where nothing perturbed them, else PNG."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.dataset = Dataset(part.dataset, part.samples)
        self.changed = part.variant.modality in ("image", "cross")

    def key(self, entry: Entry) -> str | None:
        """What two samples with one picture share."""
        image_id = entry.sample["image_id"]
        return None if image_id is None else f"{image_id}\0{entry.name}" if self.changed else str(image_id)

    def data(self, entry: Entry) -> bytes | None:
        if entry.sample["image_id"] is None:
            return None
        if not self.changed:
            return self.dataset.encoded(entry.place)
        shown, _ = _asked(self.part, self.dataset, entry.place, sees=True)
        if shown is None:
            return None
        data = io.BytesIO()
        shown.save(data, "PNG")
        return data.getvalue()


def _asked(part: Part, data: Dataset, row: int, sees: bool) -> tuple[PIL.Image.Image | None, str]:
    """What the part's model was shown of a sample, made anew; without the picture where nobody looks at it."""
    item = part.variant.item(data, row)
    found = None if item is None else part.variant.apply(part.seed, item, item.image() if sees else None)
    if found is None:
        raise ExportError(
            f"{part.generations}: sample '{data.samples[row]['sample_id']}' was answered under {part.variant.name}, which now cannot be "
            "applied to it; run `dvc repro`"
        )
    return found


def media_type(data: bytes) -> str:
    """Of a picture, by its first bytes."""
    for head, kind in ((b"\x89PNG", "png"), (b"\xff\xd8", "jpeg"), (b"GIF8", "gif"), (b"RIFF", "webp")):
        if data.startswith(head):
            return f"image/{kind}"
    return "image/png"


def slug(label: str) -> str:
    """A label as part of a file name, as other tools allow."""
    return re.sub(r"[^A-Za-z0-9_.@=-]+", "-", label).strip("-") or "unnamed"
