"""Turn rows of datasets into examples: a conversation with a right and perhaps a rejected answer."""

import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from qualm.registry import HISTORY, LETTERS, REJECTED, option_label
from qualm.registry.formats.picture_lists import picture_ids
from qualm.runners.contracts.finetunes import FinetuneError
from qualm.runners.data.dataset import DatasetFolder
from qualm.runners.prompts.few_shot import split_hint
from qualm.runners.prompts.question import DEFAULT, Prompt
from qualm.runners.prompts.templates import PromptError, check_fit


@dataclass(frozen=True)
class TrainingExample:
    """A conversation and the answer to learn, perhaps with a rejected one."""

    dataset: str
    row: int
    """Index in the dataset's table."""
    conversation: tuple[dict[str, Any], ...]
    """Turns up to the answer."""
    answer: str
    rejected: str | None = None
    """A worse answer, for preferences."""


@dataclass(frozen=True)
class Row:
    """A sample as training uses it, with its prompt settings and the answer to learn."""

    dataset: str
    row: int
    sample_id: str
    question: str
    choices: tuple[str, ...]
    pictures: int
    pair_id: str | None
    answerable: bool
    references: tuple[str, ...]
    target: str | None
    """Answer to learn; None if the data have none."""
    rejected: str | None = None
    history: tuple[tuple[str, str], ...] = ()
    """Earlier questions and answers of the conversation."""
    prompt: Prompt = DEFAULT
    """Text around the question, and format of the answer."""

    @property
    def conversation(self) -> tuple[dict[str, Any], ...]:
        if not self.history:
            return tuple(self.prompt.messages(self.question, self.choices, self.pictures))
        (first, answer), *later = self.history
        turns = [*self.prompt.messages(first, n_images=self.pictures), _turn("assistant", self.reply(answer))]
        turns += [t for question, said in later for t in (_turn("user", self.prompt.text(question)), _turn("assistant", self.reply(said)))]
        return (*turns, _turn("user", self.prompt.text(self.question, self.choices)))

    def reply(self, answer: str) -> str:
        """Return an answer text in the format (such as JSON) that the row's prompt asks for."""
        return self.prompt.reply(answer, self.choices)

    def example(self, answer: str | None = None, rejected: str | None = None) -> TrainingExample:
        """Return the row's training example: its target or `answer`, and `rejected` if given."""
        target = self.target if answer is None else answer
        assert target is not None
        return TrainingExample(
            self.dataset, self.row, self.conversation, self.reply(target), None if rejected is None else self.reply(rejected)
        )

    def verification(self, answer: str, verdict: str) -> TrainingExample:
        """Return the example that asks whether `answer` is right, to be answered by `verdict`."""
        turns = self.prompt.verification(self.question, self.reply(answer), self.pictures)
        return TrainingExample(self.dataset, self.row, tuple(turns), verdict)

    def asked_back(self, question: str, verdict: str) -> TrainingExample:
        """Return the example that asks `question` about the row's answer, answered by `verdict`."""
        turns = (*self.conversation, _turn("assistant", self.reply(str(self.target))), _turn("user", question))
        return TrainingExample(self.dataset, self.row, turns, verdict)


def _turn(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}]}


def read_rows(dataset: DatasetFolder, count: Callable[..., None], needed: bool = True, prompt: Prompt = DEFAULT) -> list[Row]:
    """Return rows with an answer to learn; count the others; if `needed`, raise for none.

    Raises:
        FinetuneError: there are none and some are `needed`, the prompt does not fit the dataset, or a row has more than 26 options.
    """
    try:
        check_fit(prompt, dataset.name, dataset.whole, judge_reads_words=True)
        prompt.reply("")
    except (PromptError, ValueError) as error:
        raise FinetuneError(str(error) if isinstance(error, PromptError) else f"dataset {dataset.name}: prompt: {error}") from error
    columns = ["sample_id", "image_id", "question", "choices", "references", "answer_index", "answerable", "pair_id", "meta"]
    rows, without = [], 0
    for number, sample in enumerate(dataset.table.select(columns).to_pylist()):
        target, meta, question, asked = _target(sample), dict(sample["meta"] or ()), sample["question"], prompt
        if target is None:
            without += 1
            continue
        if (n := len(sample["choices"] or ())) > len(LETTERS):
            raise FinetuneError(
                f"dataset '{dataset.name}': sample '{sample['sample_id']}' has {n} options, but only {len(LETTERS)} letters exist; "
                "leave the sample out by `where:`"
            )
        if "{hint}" in prompt.template:
            hint, question = split_hint(question, question, dataset.hints[number])
            asked = replace(prompt, hint=hint)
        rows.append(
            Row(
                dataset.name,
                number,
                sample["sample_id"],
                question,
                tuple(sample["choices"] or ()),
                len(picture_ids(sample["image_id"])),
                sample["pair_id"],
                sample["answerable"],
                tuple(sample["references"] or ()),
                target,
                meta.get(REJECTED),
                _history(meta.get(HISTORY), dataset.name, sample["sample_id"]),
                asked,
            )
        )
    if without:
        count(**{"dropped (no answer to learn)": without})
    if needed and not rows:
        raise FinetuneError(f"dataset '{dataset.name}': none of its {without} rows to train on has a reference; take it out of `train:`")
    return rows


def _history(text: str | None, dataset: str, sample_id: str) -> tuple[tuple[str, str], ...]:
    try:
        return tuple((str(question), str(answer)) for question, answer in json.loads(text or "[]"))
    except (ValueError, TypeError) as error:
        raise FinetuneError(
            f"dataset '{dataset}': sample '{sample_id}': meta.{HISTORY}: expected a JSON list of [question, answer]: {error}"
        ) from error


def _target(sample: dict[str, Any]) -> str | None:
    """Return the right option's label, else the most common reference; None without either."""
    if sample["choices"] and sample["answer_index"] is not None:
        return option_label(sample["answer_index"])
    references = [r for r in sample["references"] or () if r.strip()]
    return Counter(references).most_common(1)[0][0] if references else None


def preferences(rows: Sequence[Row]) -> list[TrainingExample]:
    """Return preference examples: row targets over `rejected`, else over the partner's target.

    Rows whose rejected answer equals their own give none, nor does a multiple-choice row without `rejected`.
    """
    rated = [row.example(rejected=row.rejected) for row in rows if row.rejected is not None and row.rejected != row.target]
    both = [(own, other) for own, other in pairs(rows) if own.rejected is None and own.target != other.target and not own.choices]
    return rated + [own.example(rejected=other.target) for own, other in both]


def pairs(rows: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Return (member, partner) for both members of each contrastive pair that is complete."""
    members: dict[str, list[Row]] = {}
    for row in rows:
        if row.pair_id is not None:
            members.setdefault(row.pair_id, []).append(row)
    whole = [both for both in members.values() if len(both) == 2]
    return [(own, other) for one, two in whole for own, other in ((one, two), (two, one))]


def verifications(rows: Sequence[Row], plain: bool = False) -> list[TrainingExample]:
    """Return examples that ask if a row's target (yes) and its partner's (no) are right.

    Multiple-choice rows and pairs with equal targets give none.

    Args:
        plain: include rows without a partner, with the answer to the same question in another row, drawn by id.
    """
    mistaken_pairs = [(own, str(other.target)) for own, other in pairs(rows) if not own.choices and own.target != other.target]
    examples = []
    for own, wrong in [*mistaken_pairs, *(_mistaken(rows) if plain else ())]:
        for answer, verdict in ((str(own.target), "yes"), (wrong, "no")):
            examples.append(own.verification(answer, verdict))
    return examples


def _mistaken(rows: Sequence[Row]) -> Iterator[tuple[Row, str]]:
    """Yield (row, answer right only for the same question of another row), in row order."""
    single = [row for row in rows if row.pair_id is None and row.answerable and not row.choices and not row.history]
    answers: dict[str, set[str]] = {}
    for row in single:
        answers.setdefault(row.question, set()).add(str(row.target))
    for row in single:
        others = sorted(answers[row.question] - {str(row.target)} - set(row.references))
        if others:
            yield row, others[zlib.crc32(row.sample_id.encode()) % len(others)]
