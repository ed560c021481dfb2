"""Selection of a dataset's samples by `where:`, their marking by `uncertain:`, and the check of `disjoint:`."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from qualm.registry.sample import ASKED, UNCERTAIN, Sample
from qualm.registry.where import FIELDS, ValueOfFieldError, Verdict, meta_keys, parse, verdict
from qualm.runners.prompts.templates import fill, read_prompt
from qualm.runners.runtime.stage import StageError

SAYS = {True: "yes", False: "no"}
"""Reference answers to the question whether a question is uncertain."""
SHOWN = 10
"""Ids that a message lists."""


class Selection:
    """The expressions of one data stage, and counts of their results."""

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
        """Whether samples may be left out."""
        return "where" in self._verdicts or (self._prompt is not None and UNCERTAIN in self._verdicts)

    def selects(self, sample: Sample) -> bool:
        """Return whether a sample is wanted, and count it if not; call it once per sample."""
        self._keys.update(sample.meta)
        if not self.leaves_out:
            return True
        answer = self._ask("where", sample) if "where" in self._verdicts else True
        if answer and self._prompt is not None and UNCERTAIN in self._verdicts and self._ask(UNCERTAIN, sample) is None:
            answer = None  # whether it is uncertain has no right answer
        self.left_out += answer is not True
        self.undefined += answer is None
        return answer is True

    def marked(self, sample: Sample) -> Sample:
        """Record `uncertain` of a selected sample in its meta; with `ask_answerable`, ask about it."""
        for name, ids in self._overlaps.items():
            if self._ask(f"where of {name}", sample):
                ids.append(sample.sample_id)
        if UNCERTAIN not in self._verdicts and self._prompt is None:
            return sample
        answer = self._ask(UNCERTAIN, sample) if UNCERTAIN in self._verdicts else not sample.answerable
        mark = {} if answer is None else {UNCERTAIN: str(int(answer))}
        marked = replace(sample, meta={**{k: v for k, v in sample.meta.items() if k not in (UNCERTAIN, ASKED)}, **mark})
        return marked if self._prompt is None or answer is None else self._about(marked, answer, self._prompt)

    def _about(self, sample: Sample, uncertain: bool, prompt: str) -> Sample:
        """Replace a question by the question whether it is uncertain."""
        if sample.choices:
            raise StageError(
                f"dataset {self.dataset}: ask_answerable: sample '{sample.sample_id}' has options, expected open questions only; "
                "select them by `where:`"
            )
        return replace(
            sample,
            question=fill(prompt, {"question": sample.question}, self._asked_by),
            references=(SAYS[uncertain],),
            answerable=True,
            meta={**sample.meta, ASKED: sample.question},
        )

    def finish(self, selected: int) -> dict[str, int]:
        """Return counts for the stage's record.

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
