"""Selection of a dataset's samples by `where:`, `limit:` and `balance:`, marking by `uncertain:`, the check of `disjoint:`.

Samples are chosen before any image is read if nothing else depends on images, so a few questions need a few images.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from qualm.registry.adapters import AdapterContext, AdapterError, MissingImageError, find_problem
from qualm.registry.formats.picture_lists import picture_ids
from qualm.registry.plugins.registry import load
from qualm.registry.sample import ASKED, SAMPLES, UNCERTAIN, Image, Sample
from qualm.registry.where import FIELDS, ValueOfFieldError, Verdict, meta_keys, parse, verdict
from qualm.runners.data.aligned import read_samples
from qualm.runners.data.balance import BalancedDraw, balance_samples
from qualm.runners.data.rows import LIMITED, as_row, choose_limited
from qualm.runners.data.splits import split_rule
from qualm.runners.prompts.templates import fill_placeholders, read_prompt
from qualm.runners.runtime.records import TableWriter, iterate_rows
from qualm.runners.runtime.stage import StageError

SAYS = {True: "yes", False: "no"}
"""Reference answers to the question whether a question is uncertain."""
SHOWN = 10
"""Ids that a message lists."""


class StageSelection:
    """Compiled selection expressions of one data stage, and counts of their results."""

    def __init__(self, dataset: str, params: Mapping[str, Any]) -> None:
        """Compile the expressions of a stage.

        Args:
            params: of the stage: `where`, `uncertain` (expressions), `disjoint` (expressions by dataset) and `ask_answerable` (a prompt's
                path), each optional.
        """
        self.dataset, self.where = dataset, params.get("where")
        others: dict[str, str] = params.get("disjoint", {})
        texts = {"where": self.where, UNCERTAIN: params.get(UNCERTAIN), **{f"where of {name}": text for name, text in others.items()}}
        nodes = {name: parse(text) for name, text in texts.items() if text is not None}
        self._named = {name: meta_keys(node) for name, node in nodes.items()}
        self._verdicts: dict[str, Verdict] = {name: verdict(node) for name, node in nodes.items()}
        self._prompt = read_prompt("", params["ask_answerable"]) if params.get("ask_answerable") else None
        self._asked_by = params.get("ask_answerable", "")
        self._overlaps: dict[str, list[str]] = {name: [] for name in others}
        self._keys: set[str] = set()
        self.seen = self.left_out = self.undefined = 0

    @property
    def leaves_out(self) -> bool:
        """Return whether the expressions can leave samples out."""
        return "where" in self._verdicts or (self._prompt is not None and UNCERTAIN in self._verdicts)

    def selects(self, sample: Sample) -> bool:
        """Return whether `where` selects a sample, and count it if not; call once per sample."""
        self._keys.update(sample.meta)
        if not self.leaves_out:
            return True
        answer = self._ask("where", sample) if "where" in self._verdicts else True
        if answer and self._prompt is not None and UNCERTAIN in self._verdicts and self._ask(UNCERTAIN, sample) is None:
            answer = None  # whether it is uncertain has no right answer
        self.left_out += answer is not True
        self.undefined += answer is None
        return answer is True

    def mark(self, sample: Sample) -> Sample:
        """Return a sample marked in its meta as uncertain or not, or asking that, if so wanted.

        Without `uncertain` and a prompt it stays as it is. Its id is noted for `finish` if a disjoint dataset selects it too.
        """
        for name, ids in self._overlaps.items():
            if self._ask(f"where of {name}", sample):
                ids.append(sample.sample_id)
        if UNCERTAIN not in self._verdicts and self._prompt is None:
            return sample
        answer = self._ask(UNCERTAIN, sample) if UNCERTAIN in self._verdicts else not sample.answerable
        mark = {} if answer is None else {UNCERTAIN: str(int(answer))}
        marked = replace(sample, meta={**{k: v for k, v in sample.meta.items() if k not in (UNCERTAIN, ASKED)}, **mark})
        return marked if self._prompt is None or answer is None else self._ask_if_uncertain(marked, answer, self._prompt)

    def _ask_if_uncertain(self, sample: Sample, uncertain: bool, prompt: str) -> Sample:
        """Return a sample that asks, by `prompt`, whether the sample's question is uncertain.

        StageError if the sample has options.
        """
        if sample.choices:
            raise StageError(
                f"dataset {self.dataset}: ask_answerable: sample '{sample.sample_id}' has options, expected open questions only; "
                "select them by `where:`"
            )
        return replace(
            sample,
            question=fill_placeholders(prompt, {"question": sample.question}, self._asked_by),
            references=(SAYS[uncertain],),
            answerable=True,
            meta={**sample.meta, ASKED: sample.question},
        )

    def finish(self, selected: int) -> dict[str, int]:
        """Return counts of left-out samples; StageError for unknown fields, overlaps or no sample.

        Raises:
            StageError: an expression names a field that no sample has, selects none, or selects samples of a disjoint dataset.
        """
        for name, keys in self._named.items():
            if unknown := sorted(keys - self._keys):
                there = ", ".join([*FIELDS, *sorted(self._keys)])
                raise StageError(f"dataset {self.dataset}: {name}: no sample has the field '{unknown[0]}'; there are: {there}")
        if self.leaves_out and not selected:
            undefined = f", undefined for {self.undefined:,} of them" if self.undefined else ""
            cause = self.where or "ask_answerable"
            raise StageError(f"dataset {self.dataset}: where: selects none of {self.left_out:,} samples{undefined}: {cause}")
        shared = {name: ids for name, ids in self._overlaps.items() if ids}
        if shared:
            lines = [
                f"{len(ids):,} with '{name}': {', '.join(ids[:SHOWN])}{', ...' if len(ids) > SHOWN else ''}" for name, ids in shared.items()
            ]
            raise StageError(
                f"dataset {self.dataset}: disjoint: expected no shared samples, got {'; '.join(lines)}; change one of their `where:`"
            )
        return {} if not self.leaves_out else {"left_out_by_where": self.left_out, "where_undefined": self.undefined}

    def _ask(self, name: str, sample: Sample) -> bool | None:
        try:
            return self._verdicts[name](sample)
        except ValueOfFieldError as error:
            raise StageError(f"dataset {self.dataset}: {name}: {error}") from None


LATE = ("prepare", "answerable_by", "skip_bad")
"""Parameters of a data stage with which the choice depends on all samples' images or on a judge."""


def is_early(params: Mapping[str, Any], has_source: bool) -> bool:
    """Return whether a data stage has a `limit` or `balance` that it can apply without images."""
    return has_source and not any(params.get(name) for name in LATE) and (params["limit"] is not None or "balance" in params)


def draw_balanced(params: Mapping[str, Any], folder: Path) -> BalancedDraw:
    """Draw equally many samples per class from a written dataset, as `params["balance"]` says."""
    samples = read_samples(params["dataset"], str(folder))
    scored = split_rule(dict(params), params["dataset"]).scored(params["dataset"], samples.table["split"]).to_numpy()
    return balance_samples(samples, scored, params["balance"])


def draw_limited(params: Mapping[str, Any], seed: int, folder: Path) -> set[str]:
    """Return the ids of a written dataset's samples that `limit` takes; StageError for none."""
    limit = params["limit"]
    chosen = choose_limited(iterate_rows(folder / "samples.parquet", SAMPLES, list(LIMITED)), limit, seed)
    if not chosen:
        raise StageError(f"dataset {params['dataset']}: limit: no sample has {limit['unit'].removesuffix('s')} ids to count by")
    return chosen


@dataclass(frozen=True)
class SelectedSamples:
    """Ids of the samples that a data stage writes, and counts for its record."""

    ids: frozenset[str]
    counts: Mapping[str, int]
    """Counts for the stage's record."""


def choose_samples(params: Mapping[str, Any], context: AdapterContext) -> SelectedSamples | None:
    """Choose samples by `where`, `balance` and `limit`, reading no image; None if none match.

    Args:
        params: of the data stage; `is_early` is true of them.
        context: of its adapter. The source may lack images.

    Raises:
        AdapterError: a file is not as in the release.
        StageError: a class has too few samples.
    """
    selection = StageSelection(params["dataset"], params)
    with TemporaryDirectory(prefix="qualm-choice-") as temporary:
        folder = Path(temporary)
        seen: set[str] = set()
        with TableWriter(folder / "samples.parquet", SAMPLES) as rows:

            def keep(sample: Sample) -> bool:
                if problem := find_problem(sample, picture_ids(sample.image_id), seen):
                    at = f" (at {context.place[0]})" if context.place else ""
                    raise AdapterError(f"dataset {params['dataset']}: sample '{sample.sample_id}'{problem}{at}")
                seen.add(sample.sample_id)
                if selection.selects(sample):
                    rows.write(as_row(selection.mark(sample)))
                return False

            for item in _items(params, replace(context, folder=folder, selects=keep, sent={}, note=lambda text: None)):
                if isinstance(item, Sample):
                    keep(item)
        if not rows.rows:
            return None
        if "balance" in params:
            drawn = draw_balanced(params, folder)
            return SelectedSamples(drawn.ids, drawn.counts)
        chosen = draw_limited(params, context.seed, folder)
        return SelectedSamples(frozenset(chosen), {"left_out": rows.rows - len(chosen)} if len(chosen) < rows.rows else {})


def missing_images(params: Mapping[str, Any], seed: int, source: Path) -> list[Sequence[str]]:
    """Return the possible paths of each image that is needed and missing; [] if all are there."""
    missing: dict[Sequence[str], None] = {}

    def note(error: AdapterError) -> None:
        if not isinstance(error, MissingImageError):
            raise error
        missing[tuple(error.places)] = None

    with TemporaryDirectory(prefix="qualm-choice-") as temporary:
        context = AdapterContext(Path(temporary), seed, source, bad=note)
        choice = choose_samples(params, context)
        if choice is not None:
            for _ in _items(params, replace(context, selects=lambda sample: sample.sample_id in choice.ids)):
                pass
    return list(missing)


def _items(params: Mapping[str, Any], context: AdapterContext) -> Iterator[Image | Sample]:
    yield from load("datasets", params["adapter"])(context, **params["args"])
