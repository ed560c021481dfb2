"""Rewriting of questions, by rules for scenes or by a model with repeated attempts."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from numpy.random import Generator as Chance
from PIL.Image import Image

from qualm.registry.scenes.rewrites import REASONS, Rewrite
from qualm.runners.contracts.generators import GeneratorEngine, NoPairError, Rewriter, chat
from qualm.runners.contracts.perturbations import PerturbContext, PerturbError
from qualm.runners.inference.generator import CachedGenerator, open_engine
from qualm.runners.plugins.generators._rounds import GenerationRounds, ask_in_rounds
from qualm.runners.prompts.bare import content_lines, find_labels, is_doubtful, is_offer, strip_decoration, strip_remarks
from qualm.runners.prompts.labelled import (
    CUT,
    MAX_DEPTH,
    MISSING,
    NONE,
    SEVERAL,
    Form,
    UnreadableReplyError,
    find_json,
    is_aside,
    is_continuation,
    read_labelled,
)
from qualm.runners.prompts.plain import clean_reply
from qualm.runners.prompts.templates import fill_placeholders, read_prompt
from qualm.runners.scoring.answer_text import normalise

_ARROW = re.compile(r"(?:^|\s)([→⇒➜➔⟶]|[-=]{1,4}>)\s")
_STRANGE = re.compile(r"\A[^\w\"'“‘«„¿¡(]|[<>{}|\\→⇒]|[\[\]*_`](?=\Z|\s)|(?:\A|\s)[\[*_`]")
"""Marks that make a question unusable unless the original has them: remains of unknown markup."""
_CAPITALS = re.compile(r"[A-Z]{2,8}\s*[:：]")
"""An unknown label: `INV: What is it?`."""
MAX_ADDED_CHARACTERS = 400
"""Characters by which a rewritten question may be longer than the original."""


@dataclass(frozen=True)
class RewriteOptions:
    """Prompt and options of a language model that rewrites questions."""

    prompt: str
    """Name of our own prompt."""
    custom_prompt: str | None
    """Path of the user's prompt instead."""
    retries: int
    temperature: float
    max_new_tokens: int
    sees: bool = False
    """Show the image."""
    seeds: str = ""
    """Name that replaces the variant in seeds: perturbations that read one reply share it."""


def rewrite_questions(
    context: PerturbContext,
    questions: Sequence[str],
    rngs: Sequence[Chance],
    generator: Any,
    kind: str,
    asking: RewriteOptions,
    read: Callable[[str, str, Collection[str]], Rewrite | None],
) -> list[Rewrite | None]:
    """Return a Rewrite per question, or None, counted by its reason, where that fails.

    Args:
        generator: a plugin: `rules` for scenes, or a model.
        kind: of rewrite, for a generator by rules.
        asking: options of a model.
        read: (question, reply, labels in the prompt) -> what it says, None for "cannot be done"; raises `NoPairError`.

    Raises:
        GeneratorError: the model or server fails; its replies until then are stored.
        PerturbError: the generator rewrites nothing.
    """
    engine = context.once(f"engine {generator}", lambda: open_engine(generator, context.settings))
    if not isinstance(engine, GeneratorEngine):
        if not isinstance(engine, Rewriter):
            raise PerturbError(f"generator {generator}: rewrites no questions; choose rules, hf or openai")
        return _by_rules(context, questions, rngs, engine, kind)
    writer = context.once(f"writer {generator}", lambda: CachedGenerator(engine, context.settings))
    prompt = context.once(f"prompt {asking.custom_prompt or asking.prompt}", lambda: read_prompt(asking.prompt, asking.custom_prompt))
    where = asking.custom_prompt or f"specs/prompts/{asking.prompt}.md"
    labels = find_labels(prompt)
    chats = {}
    for i, (row, question) in enumerate(zip(context.rows, questions, strict=True)):
        pictures = [context.pictures[i]] if asking.sees and context.pictures[i] is not None else []
        chats[str(row["sample_id"])] = chat(
            fill_placeholders(prompt, {"question": question}, where), *[s for s in pictures if s is not None]
        )
    by_key = {str(row["sample_id"]): question for row, question in zip(context.rows, questions, strict=True)}
    replies = ask_in_rounds(
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
    """Return questions rewritten by their text alone (INV, SBJ); None where that fails."""
    rewrites = rewrite_questions(context, questions, rngs, generator, options.prompt, options, read_question)
    return [None if rewrite is None else rewrite.question for rewrite in rewrites]


def new_variants(
    context: PerturbContext, batch: list[tuple[Image, str]], rngs: list[Chance], generator: Any, kind: str, options: RewriteOptions
) -> list[tuple[Image, str] | None]:
    """Return (image, rewrite of `kind` amb or ive) or None per item; add to `context.facts`."""

    def read(question: str, reply: str, labels: Collection[str]) -> Rewrite | None:
        return read_variants(question, reply, labels)[kind.upper()]

    rewrites = rewrite_questions(context, [question for _, question in batch], rngs, generator, kind, options, read)
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
          "final answer", "output", "after", "to")  # fmt: skip
"""Names of the new question in replies, beside the labels of the prompt."""
_OLD = ("question", "original question", "original", "old question", "old", "before", "from", "input")
"""Names of the old question; the first two may be the new one if there is no other."""


def read_question(question: str, reply: str, labels: Collection[str] = ()) -> Rewrite:
    """Return the Rewrite of a reply's new question; NoPairError if there is not exactly one.

    It may be surrounded by a greeting, a note, an offer of more, a remark in brackets, the old question, a fence, a label (one of `labels`,
    or in some twenty languages), JSON. Two questions are refused, and so is a line that seems to be part of another.

    Raises:
        NoPairError: with one of the reasons "no part found", "several sets of parts", "part goes on in the next line", "malformed reply",
            "not a question", "too long", "same question".
    """
    rows = [_after_arrow(question, row) for row in content_lines(clean_reply(reply))]
    if len(rows) != 1 or rows[0][:1] in ("{", "[", "|"):
        rows = [_find_question(question, reply, rows, labels)]
    return Rewrite(_checked(question, rows[0], labels))


def _after_arrow(question: str, row: str) -> str:
    """Return a line's text behind an arrow that follows the old question, else the line."""
    before, arrow, behind = _ARROW.split(row, maxsplit=1) if _ARROW.search(row) else (row, "", "")
    return behind if arrow and normalise(before) in ("", normalise(question)) else row


def _find_question(question: str, reply: str, lines: Sequence[str], labels: Collection[str]) -> str:
    """Return a reply's only candidate rewrite (JSON, labelled or a line); else NoPairError.

    A line that repeats the old question is no candidate. JSON and labelled texts are not compared with it.

    Args:
        question: the old question.
        lines: lines of the reply with content.
        labels: of the prompt.
    """
    for value in find_json(clean_reply(reply)):
        if (lone := _only_text(value)) is not None:
            return lone
    for names in ({*_NAMES, *labels} - set(_OLD), {_OLD[0]}, {_OLD[1]}):
        try:
            return read_labelled(reply, Form({"new": sorted(names)}))["new"]
        except UnreadableReplyError as why:
            if str(why) not in (NONE, MISSING):
                raise NoPairError(str(why)) from None
    texts: dict[str, str] = {}
    for before, line in zip(["", *lines], lines, strict=False):
        text = strip_decoration(strip_remarks(line), labels)
        if not text.endswith("?") or normalise(text) == normalise(question) or (texts and is_offer(line)):
            continue
        ended = is_aside(before) or _ARROW.search(before) or before.rstrip("*_`\"' ").endswith((".", "!", ":", "?", "…"))
        if before and (is_continuation(text) or not ended):
            raise NoPairError(CUT)
        texts[normalise(text)] = line
    if len(texts) != 1:
        raise NoPairError(SEVERAL if texts else NONE)
    return next(iter(texts.values()))


def _only_text(value: Any) -> str | None:
    while isinstance(value, dict | list) and len(value) == 1:
        value = next(iter(value.values())) if isinstance(value, dict) else value[0]
    return value if isinstance(value, str) else None


def read_variants(question: str, reply: str, labels: Collection[str] = ()) -> dict[str, Rewrite | None]:
    """Return {"AMB", "IVE": rewrite or None} of a JSON reply; NoPairError if it is invalid.

    Args:
        question: that was to be rewritten.
        reply: `{"analysis": "...", "AMB": {"variant_question": "...", "plausible_answers": [...]} or null, "IVE": {"variant_question":
            "...", "reason_unanswerable": "..."} or null}`, once, in any case, in one object or two, within other text;
            further keys are not read.
        labels: of the prompt.

    Raises:
        NoPairError: with one of the reasons "malformed reply", "several sets of parts", "part missing", "not a question", "too long",
            "same question", "fewer than two candidates", "yes or no", "unknown reason".
    """
    text = clean_reply(reply)
    objects = list(_with_variants(map(_normalise_keys, find_json(text, _unique_keys))))
    if not objects:
        objects = list(_with_variants(map(_normalise_keys, find_json(re.sub("[“”„]", '"', text), _unique_keys))))
    if not objects:
        raise NoPairError("malformed reply")
    whole: dict[str, Any] = {}
    for name in ("amb", "ive"):
        values = [v[name] for v in objects if name in v]
        if any(other != values[0] for other in values):
            raise NoPairError(SEVERAL)
        whole |= {name: values[0]} if values else {}
    if len(whole) < 2:
        raise NoPairError(MISSING)
    return {"AMB": _ambiguous(question, whole["amb"], labels), "IVE": _unseen(question, whole["ive"], labels)}


def _with_variants(values: Iterable[Any], depth: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the dicts with a key `amb` or `ive`, also nested, or as JSON within texts."""
    for value in values:
        if isinstance(value, dict) and value.keys() & {"amb", "ive"}:
            yield value
        elif depth < MAX_DEPTH and isinstance(value, dict | list):
            yield from _with_variants(value.values() if isinstance(value, dict) else value, depth + 1)
        elif depth < MAX_DEPTH and isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
            yield from _with_variants(map(_normalise_keys, find_json(value, _unique_keys)), depth + 1)


def _ambiguous(question: str, variant: Any, labels: Collection[str]) -> Rewrite | None:
    if _is_none(variant):
        return None
    text, answers = _parts(variant, {"variant_question": str, "plausible_answers": list | str})
    answers = re.split(r"\s*(?:[,;/]|\bor\b)\s*", answers) if isinstance(answers, str) else answers
    answers = [str(a) if isinstance(a, int | float) and not isinstance(a, bool) else a for a in answers]
    if not all(isinstance(a, str) and a.strip() for a in answers):
        raise NoPairError("malformed reply")
    candidates = {normalise(a): a for a in map(strip_decoration, reversed(answers))}
    if len(candidates) < 2:
        raise NoPairError("fewer than two candidates")
    if candidates.keys() <= {"yes", "no"}:
        raise NoPairError("yes or no")
    return Rewrite(_checked(question, text, labels), tuple(reversed(candidates.values())))


def _unseen(question: str, variant: Any, labels: Collection[str]) -> Rewrite | None:
    if _is_none(variant):
        return None
    text, named = _parts(variant, {"variant_question": str, "reason_unanswerable": str})
    reason = next((r for r in REASONS if normalise(r) == normalise(named)), None)
    if reason is None:
        raise NoPairError("unknown reason")
    return Rewrite(_checked(question, text, labels), reason=reason)


def _checked(question: str, text: str, labels: Collection[str]) -> str:
    text = strip_decoration(strip_remarks(strip_decoration(text, labels)), labels)
    if not text.endswith("?") or len(text.splitlines()) != 1 or not text.isprintable():
        raise NoPairError("not a question")
    if any(mark[0] not in question for mark in _STRANGE.finditer(text)):
        raise NoPairError("malformed reply")
    if is_doubtful(text, labels) or (_CAPITALS.match(text) and not _CAPITALS.match(question)):
        raise NoPairError("malformed reply")
    if len(text) > len(question) + MAX_ADDED_CHARACTERS:
        raise NoPairError("too long")
    if normalise(text) == normalise(question):
        raise NoPairError("same question")
    return text


def _is_none(variant: Any) -> bool:
    """Return whether a variant in a reply says that there is no such question."""
    if isinstance(variant, dict) and variant:
        return all(value == [] or _is_none(value) for value in variant.values())
    return variant is None or (isinstance(variant, str) and variant.strip().rstrip(".").casefold() in ("null", "none", "n/a", "na", ""))


def _parts(variant: Any, types: Mapping[str, Any]) -> list[Any]:
    if not isinstance(variant, dict) or not all(isinstance(variant.get(key), kind) for key, kind in types.items()):
        raise NoPairError("malformed reply")
    return [variant[key] for key in types]


def _normalise_keys(value: Any) -> Any:
    """Return a JSON value with lower snake-case keys; a dict whose keys collide becomes None."""
    if isinstance(value, list):
        return [_normalise_keys(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    lowered = {re.sub(r"(?<=[a-z])(?=[A-Z])|[\s-]+", "_", str(key)).casefold(): _normalise_keys(inner) for key, inner in value.items()}
    return lowered if len(lowered) == len(value) else None


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key comes twice")
    return dict(pairs)
