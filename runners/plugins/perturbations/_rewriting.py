"""Shared by perturbations that rewrite a question: by rules for scenes, or by a model, asked until its reply can be used."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from numpy.random import Generator as Chance
from PIL.Image import Image

from qualm.registry.scenes.rewrites import REASONS, Rewrite
from qualm.runners.contracts.generators import GeneratorEngine, Rewriter, UnusableReply, chat
from qualm.runners.contracts.perturbations import PerturbContext, PerturbError
from qualm.runners.inference.generator import Generator, open_engine
from qualm.runners.plugins.generators._rounds import GenerationRounds, in_rounds
from qualm.runners.prompts.bare import bare, is_doubtful, is_offer, labels_in, lines, without_remarks
from qualm.runners.prompts.labelled import (
    CUT,
    DEEPEST,
    MISSING,
    NONE,
    SEVERAL,
    Form,
    Unreadable,
    goes_on,
    is_aside,
    json_values,
    read_labelled,
)
from qualm.runners.prompts.plain import plain_reply
from qualm.runners.prompts.templates import fill, read_prompt
from qualm.runners.scoring.answer_text import normalise

_ARROW = re.compile(r"(?:^|\s)([→⇒➜➔⟶]|[-=]{1,4}>)\s")
_STRANGE = re.compile(r"\A[^\w\"'“‘«„¿¡(]|[<>{}|\\→⇒]|[\[\]*_`](?=\Z|\s)|(?:\A|\s)[\[*_`]")
"""What no question has, unless the one that it was made from does: the rest of a mark that is not known."""
_CAPITALS = re.compile(r"[A-Z]{2,8}\s*[:：]")
"""A label that is not known: `INV: What is it?`."""
LONGEST = 400
"""Characters by which a rewritten question may be longer than the one it was made from."""


@dataclass(frozen=True)
class RewriteOptions:
    """How a model is asked."""

    prompt: str
    """Name of our own prompt."""
    custom_prompt: str | None
    """Path of the user's own, to be used instead."""
    retries: int
    temperature: float
    max_new_tokens: int
    sees: bool = False
    """The picture is shown."""
    seeds: str = ""
    """What seeds depend on instead of the variant: perturbations that read one reply share it."""


def rewritten(
    context: PerturbContext,
    questions: Sequence[str],
    rngs: Sequence[Chance],
    generator: Any,
    kind: str,
    asking: RewriteOptions,
    read: Callable[[str, str, Collection[str]], Rewrite | None],
) -> list[Rewrite | None]:
    """Rewrite each question; None where that cannot be done, counted by the reason.

    Args:
        generator: a plugin: `rules` for scenes, or a model.
        kind: what a generator by rules is asked for.
        asking: how a model is.
        read: (question, reply, labels in the prompt) -> what it says, None for "cannot be done"; raises `UnusableReply`.

    Raises:
        GeneratorError: the model or server fails; its replies until then are kept.
        PerturbError: the generator rewrites nothing.
    """
    engine = context.once(f"engine {generator}", lambda: open_engine(generator, context.settings))
    if not isinstance(engine, GeneratorEngine):
        if not isinstance(engine, Rewriter):
            raise PerturbError(f"generator {generator}: rewrites no questions; choose rules, hf or openai")
        return _by_rules(context, questions, rngs, engine, kind)
    writer = context.once(f"writer {generator}", lambda: Generator(engine, context.settings))
    prompt = context.once(f"prompt {asking.custom_prompt or asking.prompt}", lambda: read_prompt(asking.prompt, asking.custom_prompt))
    where = asking.custom_prompt or f"specs/prompts/{asking.prompt}.md"
    labels = labels_in(prompt)
    chats = {}
    for i, (row, question) in enumerate(zip(context.rows, questions, strict=True)):
        pictures = [context.pictures[i]] if asking.sees and context.pictures[i] is not None else []
        chats[str(row["sample_id"])] = chat(fill(prompt, {"question": question}, where), *[s for s in pictures if s is not None])
    by_key = {str(row["sample_id"]): question for row, question in zip(context.rows, questions, strict=True)}
    replies = in_rounds(
        replace(context, label=asking.seeds or context.label),
        writer,
        chats,
        lambda key, reply: (read(by_key[key], reply, labels),),
        GenerationRounds(1 + asking.retries, asking.temperature, asking.max_new_tokens),
    )
    rewrites = [replies.get(key, (None,))[0] for key in chats]
    if refused := sum(replies.get(key) == (None,) for key in chats):
        context.drop("generator says it cannot be done", refused)
    return rewrites


def new_questions(
    context: PerturbContext, questions: list[str], rngs: list[Chance], generator: Any, options: RewriteOptions
) -> list[str | None]:
    """Rewrite questions by text alone (INV, SBJ); the kind has the name of the prompt."""
    rewrites = rewritten(context, questions, rngs, generator, options.prompt, options, read_question)
    return [None if rewrite is None else rewrite.question for rewrite in rewrites]


def new_variants(
    context: PerturbContext, batch: list[tuple[Image, str]], rngs: list[Chance], generator: Any, kind: str, options: RewriteOptions
) -> list[tuple[Image, str] | None]:
    """Rewrite questions by their images (`amb`, `ive`), and record candidates or reason in the sample's facts."""

    def read(question: str, reply: str, labels: Collection[str]) -> Rewrite | None:
        return read_variants(question, reply, labels)[kind.upper()]

    rewrites = rewritten(context, [question for _, question in batch], rngs, generator, kind, options, read)
    for facts, rewrite in zip(context.facts, rewrites, strict=True):
        if rewrite is not None:
            facts |= {"plausible_answers": " | ".join(rewrite.candidates)} if kind == "amb" else {"reason_unanswerable": rewrite.reason}
    return [None if rewrite is None else (image, rewrite.question) for (image, _), rewrite in zip(batch, rewrites, strict=True)]


def _by_rules(
    context: PerturbContext, questions: Sequence[str], rngs: Sequence[Chance], engine: Rewriter, kind: str
) -> list[Rewrite | None]:
    scenes = context.scenes()
    rewrites = [
        engine.rewrite(kind, question, scenes.get(str(row["image_id"])), rng)
        for row, question, rng in zip(context.rows, questions, rngs, strict=True)
    ]
    if lacking := sum(m is None for m in rewrites):
        context.drop("no rule for it", lacking)
    return rewrites


_NAMES = ("rewritten", "rewritten question", "new question", "question rewritten", "modified question", "invalid question",
          "subjective question", "rewrite", "variant question", "new", "modified", "revised", "edited", "changed", "final question",
          "final answer",           "output", "after", "to")  # fmt: skip
"""What replies call the new question, beside the labels of the prompt."""
_OLD = ("question", "original question", "original", "old question", "old", "before", "from", "input")
"""What they call the old one; the first, and then the second, may also be the new one where there is no other."""


def read_question(question: str, reply: str, labels: Collection[str] = ()) -> Rewrite:
    """Return the one question in a reply to a request to rewrite `question`.

    Around it may stand a greeting, a note, an offer of more, a remark in brackets, the old question, a fence, a label (one of `labels`,
    or in some twenty languages), JSON. Two questions are refused, and so is one whose line seems to be the rest of another.

    Raises:
        UnusableReply: with one of the reasons "no part found", "several sets of parts", "part goes on in the next line", "malformed reply",
            "not a question", "too long", "same question".
    """
    rows = [_new_of(question, row) for row in lines(plain_reply(reply))]
    if len(rows) != 1 or rows[0][:1] in ("{", "[", "|"):
        rows = [_one_of(question, reply, rows, labels)]
    return Rewrite(_checked(question, rows[0], labels))


def _new_of(question: str, row: str) -> str:
    """What stands behind an arrow, where the old question or nothing stands before it."""
    before, arrow, behind = _ARROW.split(row, maxsplit=1) if _ARROW.search(row) else (row, "", "")
    return behind if arrow and normalise(before) in ("", normalise(question)) else row


def _one_of(question: str, reply: str, rows: Sequence[str], labels: Collection[str]) -> str:
    """The line, or part of JSON, that is the new question."""
    for value in json_values(plain_reply(reply)):
        if (lone := _lone(value)) is not None:
            return lone
    for names in ({*_NAMES, *labels} - set(_OLD), {_OLD[0]}, {_OLD[1]}):
        try:
            return read_labelled(reply, Form({"new": sorted(names)}))["new"]
        except Unreadable as why:
            if str(why) not in (NONE, MISSING):
                raise UnusableReply(str(why)) from None
    texts: dict[str, str] = {}
    for before, row in zip(["", *rows], rows, strict=False):
        text = bare(without_remarks(row), labels)
        if not text.endswith("?") or normalise(text) == normalise(question) or (texts and is_offer(row)):
            continue
        ended = is_aside(before) or _ARROW.search(before) or before.rstrip("*_`\"' ").endswith((".", "!", ":", "?", "…"))
        if before and (goes_on(text) or not ended):
            raise UnusableReply(CUT)
        texts[normalise(text)] = row
    if len(texts) != 1:
        raise UnusableReply(SEVERAL if texts else NONE)
    return next(iter(texts.values()))


def _lone(value: Any) -> str | None:
    """The only text in JSON that holds no other."""
    while isinstance(value, dict | list) and len(value) == 1:
        value = next(iter(value.values())) if isinstance(value, dict) else value[0]
    return value if isinstance(value, str) else None


def read_variants(question: str, reply: str, labels: Collection[str] = ()) -> dict[str, Rewrite | None]:
    """Both questions in a reply in JSON, by `AMB` and `IVE`; None where the model found none.

    Args:
        question: that was to be rewritten.
        reply: `{"analysis": "...", "AMB": {"variant_question": "...", "plausible_answers": [...]} or null, "IVE": {"variant_question":
            "...", "reason_unanswerable": "..."} or null}`, once, in capitals or not, in one object or two, whatever stands around it;
            further keys are not read.
        labels: that stand in the prompt.

    Raises:
        UnusableReply: with one of the reasons "malformed reply", "several sets of parts", "part missing", "not a question", "too long",
            "same question", "fewer than two candidates", "yes or no", "unknown reason".
    """
    text = plain_reply(reply)
    objects = list(_with_variants(map(_lowered, json_values(text, _once))))
    if not objects:
        objects = list(_with_variants(map(_lowered, json_values(re.sub("[“”„]", '"', text), _once))))
    if not objects:
        raise UnusableReply("malformed reply")
    whole: dict[str, Any] = {}
    for name in ("amb", "ive"):
        values = [v[name] for v in objects if name in v]
        if any(other != values[0] for other in values):
            raise UnusableReply(SEVERAL)
        whole |= {name: values[0]} if values else {}
    if len(whole) < 2:
        raise UnusableReply(MISSING)
    return {"AMB": _ambiguous(question, whole["amb"], labels), "IVE": _unseen(question, whole["ive"], labels)}


def _with_variants(values: Iterable[Any], depth: int = 0) -> Iterator[dict[str, Any]]:
    """The objects that hold a variant, also within others and in text of JSON."""
    for value in values:
        if isinstance(value, dict) and value.keys() & {"amb", "ive"}:
            yield value
        elif depth < DEEPEST and isinstance(value, dict | list):
            yield from _with_variants(value.values() if isinstance(value, dict) else value, depth + 1)
        elif depth < DEEPEST and isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
            yield from _with_variants(map(_lowered, json_values(value, _once)), depth + 1)


def _ambiguous(question: str, variant: Any, labels: Collection[str]) -> Rewrite | None:
    if _is_none(variant):
        return None
    text, answers = _parts(variant, {"variant_question": str, "plausible_answers": list | str})
    answers = re.split(r"\s*(?:[,;/]|\bor\b)\s*", answers) if isinstance(answers, str) else answers
    answers = [str(a) if isinstance(a, int | float) and not isinstance(a, bool) else a for a in answers]
    if not all(isinstance(a, str) and a.strip() for a in answers):
        raise UnusableReply("malformed reply")
    candidates = {normalise(a): a for a in map(bare, reversed(answers))}
    if len(candidates) < 2:
        raise UnusableReply("fewer than two candidates")
    if candidates.keys() <= {"yes", "no"}:
        raise UnusableReply("yes or no")
    return Rewrite(_checked(question, text, labels), tuple(reversed(candidates.values())))


def _unseen(question: str, variant: Any, labels: Collection[str]) -> Rewrite | None:
    if _is_none(variant):
        return None
    text, named = _parts(variant, {"variant_question": str, "reason_unanswerable": str})
    reason = next((r for r in REASONS if normalise(r) == normalise(named)), None)
    if reason is None:
        raise UnusableReply("unknown reason")
    return Rewrite(_checked(question, text, labels), reason=reason)


def _checked(question: str, text: str, labels: Collection[str]) -> str:
    text = bare(without_remarks(bare(text, labels)), labels)
    if not text.endswith("?") or len(text.splitlines()) != 1 or not text.isprintable():
        raise UnusableReply("not a question")
    if any(mark[0] not in question for mark in _STRANGE.finditer(text)):
        raise UnusableReply("malformed reply")
    if is_doubtful(text, labels) or (_CAPITALS.match(text) and not _CAPITALS.match(question)):
        raise UnusableReply("malformed reply")
    if len(text) > len(question) + LONGEST:
        raise UnusableReply("too long")
    if normalise(text) == normalise(question):
        raise UnusableReply("same question")
    return text


def _is_none(variant: Any) -> bool:
    """Whether the model says that there is no such question."""
    if isinstance(variant, dict) and variant:
        return all(value == [] or _is_none(value) for value in variant.values())
    return variant is None or (isinstance(variant, str) and variant.strip().rstrip(".").casefold() in ("null", "none", "n/a", "na", ""))


def _parts(variant: Any, types: Mapping[str, Any]) -> list[Any]:
    if not isinstance(variant, dict) or not all(isinstance(variant.get(key), kind) for key, kind in types.items()):
        raise UnusableReply("malformed reply")
    return [variant[key] for key in types]


def _lowered(value: Any) -> Any:
    """Objects with their keys in lower case, words parted by `_`; None where two keys then are one."""
    if isinstance(value, list):
        return [_lowered(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    lowered = {re.sub(r"(?<=[a-z])(?=[A-Z])|[\s-]+", "_", str(key)).casefold(): _lowered(inner) for key, inner in value.items()}
    return lowered if len(lowered) == len(value) else None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key comes twice")
    return dict(pairs)
