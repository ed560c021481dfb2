"""Context and entries of exports."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from qualm.registry import GREEDY
from qualm.registry.sample import GENERATIONS, JUDGEMENTS, SAMPLES, SCORES
from qualm.runners.plugins.exports._model_input import ModelInput as ModelInput
from qualm.runners.plugins.exports._model_input import prompts
from qualm.runners.plugins.exports._parts import ExportEntry as ExportEntry
from qualm.runners.plugins.exports._parts import ExportError as ExportError
from qualm.runners.plugins.exports._parts import ExportPart as ExportPart
from qualm.runners.plugins.exports._parts import slug as slug
from qualm.runners.results.tables import labelled, scan
from qualm.runners.runtime.progress import progress
from qualm.runners.runtime.records import read_table
from qualm.runners.runtime.settings import Settings

NO_PROMPT = "prompts of recorded answers, which the recording does not hold"
BLOCK = 512
"""Samples in memory at a time."""


@dataclass(frozen=True)
class DatasetCredits:
    title: str = ""
    licence: str = ""
    citation: str = ""
    source: str = ""
    description: str = ""
    rai: Mapping[str, str] = field(default_factory=dict)
    """Croissant's responsible-AI properties in the card."""


@dataclass
class ExportContext:
    """Inputs of an export: the results, selected models and datasets, and the target folder."""

    folder: Path
    spec: str
    parts: tuple[ExportPart, ...]
    time: datetime
    settings: Settings = field(default_factory=lambda: Settings(progress=False))
    title: str = ""
    recipe: str = ""
    """Text of the spec."""
    revision: str = ""
    """Git commit of the project, with `-dirty` if files differ from it, and `-changed-results` if results differ from dvc.lock."""
    decoding: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Model -> plugin and args."""
    about: Mapping[str, DatasetCredits] = field(default_factory=dict)
    tables: Mapping[str, Path] = field(default_factory=dict)
    """Existing whole-spec tables: judgements, uncertainties, scores."""
    datasets: Mapping[str, Path] = field(default_factory=dict)
    """Folders by dataset, for an export of datasets."""
    results: Mapping[str, Path] = field(default_factory=dict)
    """Every table of the scoring stage, for an export of results."""
    points: Mapping[str, Path] = field(default_factory=dict)
    training: Mapping[str, Path] = field(default_factory=dict)
    """Training logs by model."""
    scoring: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the scoring stage; empty for a spec without metrics."""
    models_asked: tuple[str, ...] = ()
    """Selected models of an export of results; empty for all."""
    datasets_asked: tuple[str, ...] = ()
    higher_is_better: Mapping[str, bool | None] = field(default_factory=dict)
    scored: bool = True
    """The spec has metrics."""
    place: str = ""
    """Final name of `folder`, for files that refer to each other from beside it."""
    lost: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)

    def without_scores(self) -> ExportError:
        """Return an ExportError that says that there are no scores, and what to do."""
        if self.scored:
            return ExportError(f"'{self.spec}' has no scores; `qualm run {self.spec}` makes them")
        return ExportError(f"spec '{self.spec}' has no metrics, so there are no scores; add a `metrics:` section")

    def path_from_parent(self, name: str) -> str:
        """Return the path of file `name` relative to the parent of the export folder."""
        return f"{self.place}/{name}" if self.place else name

    def decoding_of(self, part: ExportPart) -> Mapping[str, Any]:
        """Return setting -> value of how a part's answers were decoded; {} for a recording."""
        return self.decoding if part.recorded is None else {}

    def lose(self, what: str, n: int = 1) -> None:
        """Count `n` of `what` that the format cannot hold; the loss is reported to the user."""
        if n:
            self.lost[what] += n

    def questions(self, part: ExportPart) -> Iterator[ExportEntry]:
        """Yield an entry without answers per sample that any exported model answered, in order."""
        samples = read_table(part.samples / "samples.parquet", SAMPLES)
        answered: set[str] = set()
        for other in (p for p in self.parts if p.task == part.task):
            generations = read_table(other.generations, GENERATIONS, ["sample_id", "variant"])
            answered |= set(pc.unique(generations.filter(pc.equal(generations["variant"], part.variant.name))["sample_id"]).to_pylist())
        if unknown := answered - set(samples["sample_id"].to_pylist()):
            raise self._unknown(part, min(unknown))
        inputs = ModelInput(part)
        for begin in range(0, samples.num_rows, BLOCK):
            for i, sample in enumerate(samples.slice(begin, BLOCK).to_pylist(), begin):
                if sample["sample_id"] in answered:
                    yield ExportEntry(i, sample, inputs.question(i, sample), [])

    def entries(self, part: ExportPart, again: bool = False) -> Iterator[ExportEntry]:
        """Yield an entry per answered sample, in order; `again`: uncounted and without ratings.

        Raises:
            ExportError: a sample has no greedy answer, or is not in the dataset.
        """
        samples = read_table(part.samples / "samples.parquet", SAMPLES)
        generations = read_table(part.generations, GENERATIONS)
        generations = generations.filter(pc.equal(generations["variant"], part.variant.name))
        place = pc.index_in(generations["sample_id"], value_set=samples["sample_id"].combine_chunks())
        if place.null_count:
            raise self._unknown(part, generations["sample_id"].filter(pc.is_null(place))[0].as_py())
        order = np.lexsort((generations["draw"].to_numpy(), place.to_numpy()))
        rows = np.asarray(place.to_numpy())[order]
        ratings = {} if again else self._ratings(part)
        counts = Counter[str]() if again else self.counts
        sent = {} if again else prompts(part)
        starts = np.searchsorted(rows, np.arange(samples.num_rows + 1))
        inputs = ModelInput(part)
        settings = replace(self.settings, progress=self.settings.progress and not again)
        with progress(settings, f"{part.model} / {part.task}", samples.num_rows) as advance:
            for begin in range(0, samples.num_rows, BLOCK):
                end = min(begin + BLOCK, samples.num_rows)
                here = samples.slice(begin, end - begin).to_pylist()
                answers = generations.take(pa.array(order[starts[begin] : starts[end]])).to_pylist()
                for i, sample in enumerate(here, begin):
                    mine = answers[starts[i] - starts[begin] : starts[i + 1] - starts[begin]]
                    if not mine:
                        counts["samples without an answer"] += 1
                        continue
                    if mine[0]["draw"] != GREEDY:
                        raise ExportError(
                            f"{part.generations}: sample '{sample['sample_id']}' has sampled answers and no greedy one; run the inference "
                            "again"
                        )
                    counts["samples"] += 1
                    counts["answers"] += len(mine)
                    name = sample["sample_id"]
                    elsewhere = part.recorded is not None
                    yield ExportEntry(
                        i, sample, inputs.question(i, sample), mine, ratings.get(name, {}), elsewhere, sent.get(name), part.prompt
                    )
                advance(end - begin)

    def selects(self, row: Mapping[str, Any]) -> bool:
        """Return true if a row is of a selected model and dataset."""
        return row["model"] in (self.models_asked or [row["model"]]) and row["dataset"] in (self.datasets_asked or [row["dataset"]])

    def scores(self, part: ExportPart) -> list[dict[str, Any]]:
        """Return an export part's LABELLED_SCORES rows (slice "all"); [] before `score` has run."""
        if "scores" not in self.tables:
            return []
        scores = labelled(scan(self.tables["scores"], SCORES))
        return scores.filter(model=part.model, dataset=part.dataset, variant=part.variant.name, slice="all").collect().to_dicts()

    def _ratings(self, part: ExportPart) -> dict[str, dict[str, float | None]]:
        if "judgements" not in self.tables:
            return {}
        judged = scan(self.tables["judgements"], JUDGEMENTS)
        judged = judged.filter(model=part.model, dataset=part.dataset, variant=part.variant.name, draw=GREEDY)
        ratings: dict[str, dict[str, float | None]] = {}
        for sample, judge, rating in judged.select("sample_id", "judge", "rating").collect().iter_rows():
            ratings.setdefault(sample, {})[judge] = rating
        return ratings

    def _unknown(self, part: ExportPart, name: str) -> ExportError:
        return ExportError(f"{part.generations}: sample '{name}' is not in dataset '{part.dataset}'; run `qualm run {self.spec}`")
