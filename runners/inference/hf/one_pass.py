"""All signals about a batch of questions from one read of each image.

The common beginning of all prompts on an image is read once; each prompt continues from there, and each sampled answer and question about
the answer from the end of its prompt, or from where it differs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from qualm.registry.formats.picture_lists import remove_marks
from qualm.runners.contracts.models import (
    ANSWER,
    OPTIONS,
    Decoding,
    Encoded,
    ModelError,
    Part,
    Request,
    draw_of,
    draw_part,
    internal_of,
    is_signal,
)
from qualm.runners.inference.devices import to_double
from qualm.runners.inference.hf.internals import RequestedInternals
from qualm.runners.inference.hf.layout import BatchLayout, common_prefix_length, tokens_on_images
from qualm.runners.inference.hf.own_answer import true_probability, yes_share
from qualm.runners.inference.hf.rows import Network, Rows
from qualm.runners.inference.hf.sampling import Chooser
from qualm.runners.inference.hf.thinking import ThoughtEnds
from qualm.runners.inference.hf.token_numbers import divergences, token_logprobs, top_logprobs, top_tokens, uniform_divergences
from qualm.runners.prompts.question import CONFIDENCE_TOKENS, p_true_prompt, p_true_sampling_prompt

if TYPE_CHECKING:
    import torch

    from qualm.runners.inference.hf.reader import Reader
    from qualm.runners.inference.hf.taps import AnswerStates

Parts = list[dict[str, Part]]
Kept = list[tuple["torch.Tensor", "torch.Tensor"]]
"""For each step of the greedy answers, the rows that continue and the logits of their next token."""
PRIORS = ("without_image", "without_question", "without_both")
DIVERGENCES = frozenset({"image_divergence", "uniform_divergence", "top_logprobs", "top_tokens"})
"""Signals that need the whole distributions of the greedy answer's tokens."""


@dataclass(frozen=True)
class OwnAnswer:
    """A model's greedy and sampled answers to one question, which signals are about."""

    greedy: Part
    drawn: tuple[str, ...]
    """Sampled answers, in order."""

    @property
    def text(self) -> str:
        return self.greedy.text or ""

    @property
    def tokens(self) -> list[int]:
        return self.greedy.tokens or []

    def without_words(self) -> OwnAnswer:
        return OwnAnswer(replace(self.greedy, text=""), ("",) * len(self.drawn))


def one_pass(model: Reader, encoded: Encoded, decoding: Decoding) -> Parts:
    """Compute a batch's requested answers and signals; return per request {name: answer part}.

    All requests of a batch want the same parts.
    """
    inside = RequestedInternals(model, encoded.requests[0].parts)
    with inside.collecting_states(model.network):
        return _outputs(model, encoded, decoding, inside)


def _outputs(model: Reader, encoded: Encoded, decoding: Decoding, inside: RequestedInternals) -> Parts:
    requests, layout = encoded.requests, encoded.notes
    if model.plain and inside.wanted:
        raise ModelError(
            f"model '{model.label}': it is read by plain passes, which give no hidden states, attention, gradients or evidence "
            f"({model.plain}); leave out the estimators and probes that read them"
        )
    trunk = _read_prompts(model, encoded, layout, inside)
    inside.store_prompt_states()
    if OPTIONS in requests[0].parts:
        return inside.add_to(_option_logits(model, requests, trunk), requests, trunk, layout)
    wanted = set(requests[0].parts)
    kept: Kept | None = [] if ANSWER in wanted and DIVERGENCES & wanted and not model.thinks else None
    outputs = inside.add_to(_decode_answers(model, requests, trunk, decoding, inside, kept), requests, trunk, layout)
    about = [name for name in requests[0].parts if is_signal(name) and not internal_of(name)]
    if not about:
        return outputs
    own_answers = [_own_answer(request, parts, model.thinks) for request, parts in zip(requests, outputs, strict=True)]
    answers = [own.tokens for own in own_answers]
    blind = cache(lambda: _prior(model, "without_image", requests, layout, trunk, answers))  # two signals read each
    seeing = cache(lambda: _kept_logits(kept, answers) if kept else _answer_logits(trunk, answers))
    reports = _SelfReports(model, requests, layout, trunk, own_answers, about)
    for name in about:
        signal = _signal(model, name, requests, layout, trunk, own_answers, blind, seeing, reports)
        for parts, part in zip(outputs, signal, strict=True):
            parts[name] = part
    return outputs


def _signal(
    model: Reader,
    name: str,
    requests: Sequence[Request],
    layout: BatchLayout,
    trunk: Rows,
    own_answers: Sequence[OwnAnswer],
    blind: Callable[[], torch.Tensor],
    seeing: Callable[[], torch.Tensor],
    reports: _SelfReports,
) -> list[Part]:
    """Return per request a signal about its answer, as a Part; empty where it is undefined.

    `seeing` and `blind` return (rows, tokens, V) logits with and without the image.
    """
    answers = [own.tokens for own in own_answers]
    if name in PRIORS:
        logits = blind() if name == "without_image" else _prior(model, name, requests, layout, trunk, answers)
        return [Part(logprobs=values) for values in token_logprobs(logits, answers)]
    if name == "image_divergence":
        if requests[0].image is None:
            return [Part() for _ in requests]
        return [Part(logprobs=values) for values in divergences(seeing(), blind(), answers)]
    if name == "uniform_divergence":
        return [Part(logprobs=values) for values in uniform_divergences(seeing(), answers)]
    if name == "top_logprobs":
        return [Part(logprobs=values, numbers=[k]) for values, k in top_logprobs(seeing(), answers)]
    if name == "top_tokens":
        likeliest = zip(answers, top_tokens(seeing(), answers), strict=True)
        return [Part(text=json.dumps(model.added_texts(ids, tops))) for ids, tops in likeliest]
    texts, readable = reports.prompts(name)
    if name == "said_confidence":
        parts = _decode_unthinking(model, requests, [0], reports.rows(name), Decoding(CONFIDENCE_TOKENS))
        return [part if fits else Part() for part, fits in zip(parts, readable, strict=True)]
    shares = _SHARES[name](model, to_double(reports.logits(name)), texts[0])
    return [Part(numbers=[share] if fits and share is not None else []) for share, fits in zip(shares, readable, strict=True)]


def _read_prompts(model: Reader, encoded: Encoded, layout: BatchLayout, inside: RequestedInternals) -> Rows:
    network: Network = model.network
    tensors = model.on_device(encoded)
    inside.start_image_states(tensors)
    rows = network.read(tensors, goes_on=layout.starts is not None or OPTIONS not in encoded.requests[0].parts)
    inside.stop_image_states()
    if layout.starts is None:
        return rows
    every = rows.select(_index(rows, layout.first))
    own = [prompt[start:] for prompt, start in zip(layout.prompts, layout.starts, strict=True)]
    return every.extend(own, layout.starts, in_place=True)[0]


def _option_logits(model: Reader, requests: Sequence[Request], trunk: Rows) -> Parts:
    letters = model.option_ids(max(r.options for r in requests))
    if model.thinks:
        return _options_after_thinking(model, requests, trunk, letters)
    raw = to_double(trunk.logits[:, letters]).tolist()
    parts = _decode_unthinking(model, requests, [0], trunk, Decoding(1))
    for part, row, request in zip(parts, raw, requests, strict=True):
        part.numbers = row[: request.options]
    return [{OPTIONS: part} for part in parts]


def _options_after_thinking(model: Reader, requests: Sequence[Request], trunk: Rows, letters: Sequence[int]) -> Parts:
    """Return {OPTIONS: Part} per request: letter logits after thinking, None if it has no end."""
    ends = model.track_thinking([r.prompt for r in requests], 1, 1)
    thoughts = _decode_parts(model, requests, [0], trunk, Decoding(1), ends)
    before = [(part.tokens or [])[:count] for part, count in zip(thoughts, ends.thought, strict=True)]
    thinking = [i for i, ids in enumerate(before) if ids]
    # A question that was not thought about is answered at the end of its prompt, which has been read.
    logits = trunk.logits.clone()
    if thinking:
        rows = trunk.select(_index(trunk, thinking))
        logits[thinking] = rows.peek([before[i] for i in thinking], rows.lengths.tolist())[:, -1]
    for part, row, request in zip(thoughts, to_double(logits[:, letters]).tolist(), requests, strict=True):
        part.numbers = None if part.text is None else row[: request.options]
    return [{OPTIONS: part} for part in thoughts]


def _decode_answers(
    model: Reader, requests: Sequence[Request], trunk: Rows, decoding: Decoding, inside: RequestedInternals, kept: Kept | None
) -> Parts:
    """Decode all answers; return per request {name: answer part}; fill `kept` with logits."""
    draws = [draw_of(name) for name in requests[0].parts if name == ANSWER or draw_of(name)]
    if not draws:
        return [{} for _ in requests]
    ends = model.track_thinking([r.prompt for r in requests], len(draws), decoding.max_new_tokens) if model.thinks else None
    parts = iter(_decode_parts(model, requests, draws, trunk, decoding, ends, inside.answers(len(requests), draws), kept))
    if kept:
        kept[:] = [(rows // len(draws), logits) for rows, logits in kept]
    return [{draw_part(draw) if draw else ANSWER: next(parts) for draw in draws} for _ in requests]


def _decode_unthinking(model: Reader, requests: Sequence[Request], draws: Sequence[int], rows: Rows, decoding: Decoding) -> list[Part]:
    """Decode one answer per draw for every request, without thinking; request by request."""
    return _decode_parts(model, requests, draws, rows, decoding, None)


def _decode_parts(
    model: Reader,
    requests: Sequence[Request],
    draws: Sequence[int],
    rows: Rows,
    decoding: Decoding,
    ends: ThoughtEnds | None,
    states: AnswerStates | None = None,
    kept: Kept | None = None,
) -> list[Part]:
    """Decode an answer per request and draw, in this order; ModelError if a number is NaN.

    With `ends`, the model thinks first.
    """
    steps = decoding.max_new_tokens if ends is None else ends.steps
    streams = [(request.stream, draw) for request in requests for draw in draws]
    chooser = Chooser(streams, steps, decoding.temperature, decoding.top_p, rows.mask.device, kept, decoding.top_k)
    tokens, logprobs, entropies = rows.decode(len(draws), chooser, steps, model.stops, ends, states)
    for number, values in enumerate(logprobs):
        if any(p != p for p in values):
            prompt = requests[number // len(draws)].prompt
            raise ModelError(f"its logits are not numbers for prompt {prompt[:80]!r}; float16 overflows, try bfloat16")
    if ends is not None:
        ended = [bool(ids) and ids[-1] in model.stops for ids in tokens]
        for row, ids in enumerate(tokens):
            if ended[row]:
                ends.record_end(row, ids)
        texts = model.texts([ids[count or 0 :] for ids, count in zip(tokens, ends.thought, strict=True)])
        rows_of = zip(range(len(tokens)), tokens, logprobs, entropies, texts, ended, strict=True)
        return [ends.part(*row) for row in rows_of]
    answers = zip(model.texts(tokens), tokens, logprobs, entropies, strict=True)
    return [Part(text, ids, values, spread) for text, ids, values, spread in answers]


def _own_answer(request: Request, parts: dict[str, Part], thinks: bool) -> OwnAnswer:
    greedy = parts.get(ANSWER) or request.greedy
    if greedy is None or not greedy.tokens:
        raise ModelError(f"a request for signals about an answer neither holds that answer nor asks for it: {request.prompt[-80:]!r}")
    drawn = {**request.drawn, **{draw_of(name): part.text or "" for name, part in parts.items() if draw_of(name)}}
    texts = [drawn[number] for number in sorted(drawn)]
    spoken = [text for text in texts if text] if thinks else texts  # a draw whose thinking did not end has said nothing
    return OwnAnswer(greedy, tuple(spoken or texts[:1]))


def _prior(
    model: Reader, name: str, requests: Sequence[Request], layout: BatchLayout, trunk: Rows, answers: Sequence[Sequence[int]]
) -> torch.Tensor:
    """Return (rows, tokens, V) logits of answers to prompts without image, question or both."""
    keep = max(map(len, answers))
    if name == "without_question" and layout.apart:
        silent = [replace(r, prompt=model.render(r.asked.messages("", n_images=r.pictures))) for r in requests]
        return _answer_logits(model.read(silent), answers)
    if model.plain:
        questions = [remove_marks(r.question, r.own_pictures) if name == "without_image" else "" for r in requests]
        blind = [Request(model.render(r.asked.messages(q, n_images=0)), None) for r, q in zip(requests, questions, strict=True)]
        return _answer_logits(model.read(blind), answers)
    # The last token of an answer is predicted and need not be read.
    whole = [(*ids, *answer[:-1]) for ids, answer in zip(layout.priors[name], answers, strict=True)]
    if name == "without_question" and layout.pictures[0] is not None:
        # With the same image the trunk serves here too, but never beyond the prompt's last token: what predicts the answer is read
        # anew.
        starts = [min(common_prefix_length(a, b), len(a) - len(t)) for a, b, t in zip(whole, layout.prompts, answers, strict=True)]
        return trunk.peek([ids[start:] for ids, start in zip(whole, starts, strict=True)], starts, keep)
    return model.network.text_logits(whole, keep)


def _index(rows: Rows, numbers: Sequence[int]) -> torch.Tensor:
    import torch

    return torch.tensor(list(numbers), device=rows.mask.device)


def _answer_logits(rows: Rows, answers: Sequence[Sequence[int]]) -> torch.Tensor:
    """Return logits (rows, tokens, vocabulary) before each token of right-aligned answers."""
    keep = max(map(len, answers))
    following = rows.logits.new_zeros(len(answers), keep, rows.logits.shape[1])
    # The first token of an answer is predicted by the prompt's end; only longer answers need another pass.
    longer = [i for i, answer in enumerate(answers) if len(answer) > 1]
    if longer:
        part = rows if len(longer) == len(answers) else rows.select(_index(rows, longer))
        following[longer, 1:] = part.peek([answers[i][:-1] for i in longer], part.lengths.tolist(), keep - 1)
    for i, answer in enumerate(answers):
        following[i, keep - len(answer)] = rows.logits[i]
    return following


def _kept_logits(kept: Kept, answers: Sequence[Sequence[int]]) -> torch.Tensor:
    """Return answers' (rows, tokens, V) logits from those kept while decoding; clear `kept`."""
    import torch

    first, keep = kept[0][1], max(map(len, answers))
    following = first.new_zeros(len(answers), keep, first.shape[1])
    skipped = torch.tensor([keep - len(answer) for answer in answers], device=first.device)
    for step, (rows, logits) in enumerate(kept):
        following[rows, skipped[rows] + step] = logits
    kept.clear()  # it takes as much memory
    return following


_SHARES: dict[str, Any] = {"p_yes": yes_share, "p_true": true_probability, "p_true_sampling": true_probability}


def _self_report_prompts(
    model: Reader, name: str, requests: Sequence[Request], own_answers: Sequence[OwnAnswer]
) -> tuple[list[str], list[bool]]:
    """Return (prompts about own answers, false for each from which its answer was left out).

    A sampled answer may contain the mark of an image, or be too long: it is left out of its prompt, and its value is undefined.
    """
    texts = [model.render(_about(name, request, own), silent=True) for request, own in zip(requests, own_answers, strict=True)]
    readable = [
        own.greedy.text is not None and not model.misfit(text, request.pictures)
        for text, request, own in zip(texts, requests, own_answers, strict=True)
    ]
    for i, fits in enumerate(readable):
        if not fits:
            texts[i] = model.render(_about(name, requests[i], own_answers[i].without_words()), silent=True)
    return texts, readable


class _SelfReports:
    """Reader of questions about the model's own answers; shared beginnings are read once."""

    def __init__(
        self,
        model: Reader,
        requests: Sequence[Request],
        layout: BatchLayout,
        trunk: Rows,
        own_answers: Sequence[OwnAnswer],
        names: Sequence[str],
    ) -> None:
        self.model, self.requests, self.layout = model, requests, layout
        self.trunk, self.names = trunk, names
        # Without `self` in them: what refers to itself stays, with all tensors here, until garbage is collected.
        prompts = self.prompts = cache(lambda name: _self_report_prompts(model, name, requests, own_answers))
        self._whole = cache(lambda name: tokens_on_images(model, layout.pictures, prompts(name)[0]))
        self._stems: dict[tuple[str, ...], tuple[Rows, Sequence[Sequence[int]]]] = {}

    def rows(self, name: str) -> Rows:
        """Return rows at the ends of one signal's prompts, valid until the next call."""
        if self.layout.apart:
            return self._apart(name)
        stem, ids, starts = self._remaining(name)
        return stem.extend(ids, starts, in_place=True)[0]

    def logits(self, name: str) -> torch.Tensor:
        if self.layout.apart:
            return self._apart(name).logits
        stem, ids, starts = self._remaining(name)
        return stem.peek(ids, starts)[:, -1]

    def _apart(self, name: str) -> Rows:
        texts, _ = self.prompts(name)
        return self.model.read([replace(request, prompt=text) for request, text in zip(self.requests, texts, strict=True)])

    def _remaining(self, signal: str) -> tuple[Rows, list[Sequence[int]], list[int]]:
        """Return (rows, unread tokens, counts of read tokens) of the prompts of a signal."""
        stem, known = self._stem(next((pair for pair in _ALIKE if signal in pair), ()))
        whole = self._whole(signal)
        # At least one token is read, for its logits.
        starts = [min(common_prefix_length(own, before), len(own) - 1) for own, before in zip(whole, known, strict=True)]
        return stem, [own[start:] for own, start in zip(whole, starts, strict=True)], starts

    def _stem(self, pair: tuple[str, ...]) -> tuple[Rows, Sequence[Sequence[int]]]:
        if pair not in self._stems:
            self._stems[pair] = self._read_stem(pair)
        return self._stems[pair]

    def _read_stem(self, pair: tuple[str, ...]) -> tuple[Rows, Sequence[Sequence[int]]]:
        """Return (rows at the common beginning of two prompts, or the trunk; their tokens)."""
        prompts = self.layout.prompts
        if not pair or not set(pair) <= set(self.names):
            return self.trunk, prompts
        shared = [own[: min(common_prefix_length(own, other), len(own) - 1)] for own, other in zip(*map(self._whole, pair), strict=True)]
        starts = [min(common_prefix_length(own, prompt), len(own) - 1) for own, prompt in zip(shared, prompts, strict=True)]
        if sum(len(own) - start for own, start in zip(shared, starts, strict=True)) < _SHARED_TOKENS * len(shared):
            return self.trunk, prompts
        return self.trunk.extend([own[start:] for own, start in zip(shared, starts, strict=True)], starts)[0], shared


_ALIKE = (("p_true", "p_true_sampling"), ("p_yes", "said_confidence"))
"""Prompts with a common beginning."""
_SHARED_TOKENS = 8
"""Tokens per row that cost about as much as a pass."""


def _about(name: str, request: Request, own: OwnAnswer) -> list[dict[str, object]]:
    asked, image = request.asked, request.pictures
    if name == "p_true":
        return asked.ask_text(p_true_prompt(request.question, own.text), image)
    if name == "p_true_sampling":
        if not own.drawn:
            raise ModelError(
                f"a request for P(True) over samples neither holds sampled answers nor asks for them: {request.prompt[-80:]!r}"
            )
        return asked.ask_text(p_true_sampling_prompt(request.question, own.text, own.drawn), image)
    return (asked.verification if name == "p_yes" else asked.verbalisation)(request.question, own.text, image)
