"""Questions by a model that sees two images: the first answers the question, the second does not.

After CertainlyUncertain's appendix F.2; the prompt, in specs/prompts/extraneous.md, is in our own words. A reply is read in any
style, and for scenes only what can be proved is kept.
"""

import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from qualm.registry.entries.paper_prompts import is_printed
from qualm.runners.contracts.generators import GeneratorError, NoPairError, chat
from qualm.runners.contracts.pairs import PairContext, PairError
from qualm.runners.inference.generator import CachedGenerator, open_generator
from qualm.runners.plugins.generators._rounds import GenerationRounds, ask_in_rounds, check_dropped_share
from qualm.runners.plugins.judges._refusals import is_refusal
from qualm.runners.plugins.pairs._painting import Painted, batches, prove_control, prove_removal
from qualm.runners.plugins.pairs._written import QUESTION_MARKS, gives_away, prompt_sections, read_parts
from qualm.runners.prompts.labelled import Form
from qualm.runners.prompts.templates import PromptError, read_prompt, replace_sections
from qualm.runners.scoring.answer_text import normalise

ASSETS = ["../../../specs/prompts/extraneous.md"]
BATCH = 64
"""Image pairs asked about at a time."""

_FORM = Form(
    {
        "Q": ("q1", "question 1", "new question"),
        "A1": ("a1", "answer 1", "first answer", "first picture", "picture 1", "image 1", "first image", "answers 1", "1 answer"),
        "A2": ("a2", "answer 2", "second answer", "second picture", "picture 2", "image 2", "second image", "answers 2", "2 answer"),
    },
    {"question": ("Q",), "q": ("Q",), "answer": ("A1", "A2"), "a": ("A1", "A2")},
)


@dataclass(frozen=True)
class NewQuestion:
    """A question with its answer for the first image, and an abstention for the second."""

    question: str
    answer: str
    declined: str


@dataclass(frozen=True)
class QuestionOptions:
    """The generator that is to write questions about two images, its prompt and limits."""

    generator: Any
    prompt: str | None
    attempts: int
    most_dropped: float
    temperature: float
    max_new_tokens: int


class Questioner:
    """Writer of questions that only the first of two images answers, by a model."""

    def __init__(self, context: PairContext, asking: QuestionOptions) -> None:
        """Open the generator and read the prompt; PairError if either fails."""
        self.context, self.asking = context, asking
        with self._errors():
            self.generator = open_generator(asking.generator, context.settings)
            about = {} if is_printed(asking.prompt) else prompt_sections(context.about)
            self.prompt = replace_sections(read_prompt("extraneous", asking.prompt), about)

    def ask(self, painted: Iterable[Painted]) -> Iterator[tuple[Painted, str]]:
        """Yield (pair with its new question, abstention), in order; drop and count failures.

        Raises:
            PairError: the generator fails.
        """
        for batch in batches(painted, BATCH):
            with self._errors():
                by_target = _ask_batch(self.context, self.generator, self.prompt, {p.plan.target.key: p for p in batch}, self.asking)
            yield from by_target.values()

    def check_share(self) -> None:
        """Raise PairError if a larger share of the pairs than allowed was dropped."""
        with self._errors():
            check_dropped_share(self.generator, self.asking.most_dropped)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (GeneratorError, PromptError) as error:
            raise PairError(f"recipe {self.context.label}: {error}") from error


def _ask_batch(
    context: PairContext, generator: CachedGenerator, prompt: str, batch: dict[str, Painted], asking: QuestionOptions
) -> dict[str, tuple[Painted, str]]:
    by_target = ask_in_rounds(
        context,
        generator,
        {key: chat(prompt, _png(p), p.pictures[0]) for key, p in batch.items()},
        lambda key, reply: _with_new_question(batch[key], reply),
        GenerationRounds(asking.attempts, asking.temperature, asking.max_new_tokens, tuple(_FORM.names)),
    )
    return {key: by_target[key] for key in batch if key in by_target}


def read_new_question(reply: str) -> NewQuestion:
    """Parse a reply into question, answer and abstention; NoPairError if it is not usable.

    It is `Q: ... A1: ... A2: ...` or JSON.

    Raises:
        NoPairError: those of `read_parts`, "not a question", "yes or no", "answerable one is declined", "unanswerable one is answered",
            "answer in the question", "answer in the refusal".
    """
    question, answer, declined = read_parts(reply, _FORM).values()
    if not question.endswith(QUESTION_MARKS):
        raise NoPairError("not a question")
    if normalise(answer) in ("yes", "no"):
        raise NoPairError("yes or no")
    if is_refusal(answer, question):
        raise NoPairError("answerable one is declined")
    if not is_refusal(declined, question):
        raise NoPairError("unanswerable one is answered")
    if gives_away(question, answer):
        raise NoPairError("answer in the question")
    if f" {normalise(answer)} " in f" {normalise(declined)} ":
        raise NoPairError("answer in the refusal")
    return NewQuestion(question, answer, declined)


def _with_new_question(painted: Painted, reply: str) -> tuple[Painted, str]:
    reading = read_new_question(reply)
    plan = painted.plan
    target = replace(plan.target, question=reading.question, answer=reading.answer)
    proofs = plan.proofs
    if target.scene is not None:
        why = [prove_removal(target), *(prove_control(target, job.thing) for job in plan.jobs[1:])]
        if None in why:
            raise NoPairError("cannot be proved")
        proofs = tuple(str(w) for w in why)
    return replace(painted, plan=replace(plan, target=target, proofs=proofs)), reading.declined


def _png(painted: Painted) -> bytes:
    with io.BytesIO() as out:
        painted.plan.jobs[0].picture.save(out, "PNG")
        return out.getvalue()
