"""Hidden states, attention, gradients, evidence and token ends of a batch.

Hidden states are taken while the batch is read and answered; attention, gradients and evidence need a second read of the greedy answers. An
answer's states are of the tokens that the model reads while it writes: all but the last. Known answers, and those of thinking models, are
read once more in one pass, which gives the same numbers up to rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from qualm.registry.plugins.internals import (
    ANSWER_LAST,
    ATTENTION,
    CONFLICT,
    ENDS,
    GRADIENT,
    HIDDEN,
    IMAGE_LAST,
    IMAGE_SHARE,
    PREVIOUS,
    PROMPT_LAST,
    Internal,
    layer_index,
    layer_range,
)
from qualm.runners.contracts.models import ANSWER, ModelError, Part, Request, draw_part, internal_of
from qualm.runners.inference.hf.attention import AnswerAttention, entropies_without_core, image_token_mask, most_attended, share_and_entropy
from qualm.runners.inference.hf.evidence import token_evidence
from qualm.runners.inference.hf.gradients import mean_gradients
from qualm.runners.inference.hf.layout import BatchLayout
from qualm.runners.inference.hf.plain import BOTH_WAYS
from qualm.runners.inference.hf.taps import AnswerStates, Taps, as_part, collect_states
from qualm.runners.prompts.thinking import ANSWERED, TOKEN_CHOICES

if TYPE_CHECKING:
    import torch

    from qualm.runners.inference.hf.reader import Reader
    from qualm.runners.inference.hf.rows import Network, Rows


class RequestedInternals:
    """Collector of the hidden states, attention, gradients and evidence that a batch requests."""

    def __init__(self, model: Reader, parts: Sequence[str]) -> None:
        """Find the layers of the internals named in `parts`; ModelError if the model lacks one.

        Raises:
            ModelError: a layer does not exist, or the config does not say which tokens are an image's.
        """
        self.model = model
        every = {part: of for part in parts if (of := internal_of(part))}
        self.states = {part: of for part, of in every.items() if of[0].kind == HIDDEN}
        self.ends = {part: draw for part, (what, draw) in every.items() if what.kind == ENDS}
        self.looks = {part: what for part, (what, _) in every.items() if what.kind != HIDDEN and not what.exact}
        self.exact = {part: what for part, (what, _) in every.items() if what.exact and what.kind != ENDS}
        self.layers = _layer_numbers(model, [what.layer for what, _ in self.states.values()]) if self.states else {}
        self.ranges = _layer_ranges(model, [what for what in (*self.looks.values(), *self.exact.values()) if what.layer])
        if any(what.of_picture for what, _ in every.values()) and model.picture_token is None:
            raise ModelError(
                f"model '{model.label}': its config does not say which tokens are an image's (image_token_id), so their states and "
                "attention cannot be read; leave out the estimators and probes that need them"
            )
        self._taps: Taps
        self._prompts: torch.Tensor
        self._written: AnswerStates | None = None
        self._draws: list[int] = []

    @property
    def wanted(self) -> bool:
        """Return whether the batch requests any internals other than `token_ends`."""
        return bool(self.states or self.looks or self.exact)

    @property
    def _reads_answers(self) -> bool:
        """Return whether hidden states are read from the answer rather than from the thinking."""
        return not self.model.thinks or self.model.thinking is None or self.model.thinking.of == TOKEN_CHOICES[0]

    @contextmanager
    def collecting_states(self, network: Network) -> Iterator[None]:
        """Collect the requested hidden states of all passes within this context."""
        if not self.states:
            yield
            return
        with collect_states(network.module, list(self.layers.values())) as taps:
            network.taps = self._taps = taps
            try:
                yield
            finally:
                network.taps = None

    def start_image_states(self, tensors: dict[str, Any]) -> None:
        """Note where these tensors have image tokens, so that their states are kept in the pass."""
        if any(what.of_picture for what, _ in self.states.values()) and any(name.startswith("pixel") for name in tensors):
            self._taps.picture = tensors["input_ids"] == self.model.picture_token

    def stop_image_states(self) -> None:
        """Stop collecting image tokens' states."""
        if self.states:
            self._taps.picture = None

    def store_prompt_states(self) -> None:
        """Store the states of every prompt's last token, from the last pass."""
        if self.states:
            self._prompts = self._taps.states[:, :, -1]

    def answers(self, requests: int, draws: Sequence[int]) -> AnswerStates | None:
        """Return a collector of answers' states; None if none are wanted or the model thinks."""
        self._draws = [draw for what, draw in self.states.values() if not what.of_prompt and draw in draws]
        # Where a model thinks, only the finished text tells which tokens are the answer's: those are read once more, by `_read`.
        if self._draws and not self.model.thinks:
            self._draws = list(draws)
            self._written = AnswerStates(self._taps, requests * len(draws))
        return self._written

    def add_to(
        self, outputs: list[dict[str, Part]], requests: Sequence[Request], trunk: Rows, layout: BatchLayout
    ) -> list[dict[str, Part]]:
        """Add the wanted internals to the outputs and return them; `trunk` ends with the prompts."""
        read: dict[int, list[torch.Tensor | None]] = {}
        for part, (what, draw) in self.states.items():
            number = self.layers[what.layer]
            at = self._taps.layers.index(number)
            for row, parts in enumerate(outputs):
                if what.place == PROMPT_LAST:
                    parts[part] = as_part(self._prompts[at, row])
                elif what.of_prompt:
                    parts[part] = Part() if requests[row].image is None else as_part(self._of_picture(number, what, layout.first[row]))
                elif self._written is not None and draw in self._draws:
                    place = row * len(self._draws) + self._draws.index(draw)
                    parts[part] = self._written.part(place, number, what.place)
                else:
                    if draw not in read:
                        read[draw] = self._read(_answers(outputs, requests, draw), trunk)
                    own = read[draw][row]
                    parts[part] = Part() if own is None else _answer_state(own[at], what.place)
        for part, draw in self.ends.items():
            for parts, answer in zip(outputs, _answers(outputs, requests, draw), strict=True):
                start, end = self._span(answer)
                tokens = (answer.tokens or [])[start:end] if self._reads_answers else []
                parts[part] = Part(numbers=[float(end) for end in self.model.ends_of(tokens)]) if tokens else Part()
        if self.looks:
            self._add_attention(outputs, requests, trunk, layout)
        if self.exact:
            self._add_exact(outputs, _answers(outputs, requests, 0), trunk, layout)
        return outputs

    def _of_picture(self, number: int, what: Internal, row: int) -> torch.Tensor:
        return self._taps.pictures[number][0 if what.place == IMAGE_LAST else 1][row]

    def _add_attention(self, outputs: list[dict[str, Part]], requests: Sequence[Request], trunk: Rows, layout: BatchLayout) -> None:
        answers = _answers(outputs, requests, 0)
        tokens = [answer.tokens or [] for answer in answers]
        looks = AnswerAttention(trunk, layout.prompts, tokens, {what.layer: self.ranges[what.layer] for what in self.looks.values()})
        seeing = requests[0].image is not None
        pictures = (
            image_token_mask(trunk, layout.prompts, self.model.picture_token) if seeing and self.model.picture_token is not None else None
        )
        for part, what in self.looks.items():
            if what.of_picture and pictures is None:
                values: list[torch.Tensor | None] = [None] * len(outputs)
            elif what.kind == ATTENTION:
                values = [self._attention_statistic(looks, row, what, pictures, self._span(answer)) for row, answer in enumerate(answers)]
            else:
                assert pictures is not None
                values = self._image_information(looks, what, trunk, layout, pictures, answers)
            for parts, own in zip(outputs, values, strict=True):
                parts[part] = Part() if own is None or not own.numel() else as_part(own.flatten())

    def _attention_statistic(
        self, looks: AnswerAttention, row: int, what: Internal, pictures: torch.Tensor | None, span: tuple[int, int]
    ) -> torch.Tensor | None:
        start, end = span
        if start >= end:
            return None
        if what.place == PREVIOUS:
            return looks.previous(row, what.layer, start, end)
        assert pictures is not None
        share, entropy = share_and_entropy(looks.mean(row, what.layer)[start:end], pictures[row])
        return share if what.place == IMAGE_SHARE else entropy

    def _image_information(
        self, looks: AnswerAttention, what: Internal, trunk: Rows, layout: BatchLayout, pictures: torch.Tensor, answers: Sequence[Part]
    ) -> list[torch.Tensor | None]:
        """Return per answer the entropy increases (tokens,) without the most attended image part.

        Raises:
            ModelError: the model reads every prompt with an image as a whole.
        """
        import torch

        if layout.apart:
            raise ModelError(
                f"model '{self.model.label}': its prompts can only be read as a whole, so no part of an image can be hidden from what "
                "follows it; leave out the estimators that read image_information"
            )
        spans = [self._span(answer) for answer in answers]
        # An answer without tokens to read still needs a row in the stack; its values are cut off below.
        hidden = torch.stack(
            [
                most_attended(
                    looks.mean(row, what.layer)[slice(*(span if span[1] > span[0] else (0, 1)))], pictures[row], float(what.place)
                )
                for row, span in enumerate(spans)
            ]
        )
        masked = entropies_without_core(trunk, layout.prompts, [answer.tokens or [] for answer in answers], pictures, hidden)
        grown = [own - torch.tensor(answer.entropies, device=own.device) for own, answer in zip(masked, answers, strict=True)]
        return [own[start:end] for own, (start, end) in zip(grown, spans, strict=True)]

    def _add_exact(self, outputs: Sequence[dict[str, Part]], answers: Sequence[Part], trunk: Rows, layout: BatchLayout) -> None:
        tokens, spans = [answer.tokens or [] for answer in answers], [self._span(answer) for answer in answers]
        evidence = token_evidence(trunk, layout.prompts, tokens) if any(what.kind != GRADIENT for what in self.exact.values()) else []
        for part, what in self.exact.items():
            if what.kind == GRADIENT:
                values = self._gradients(what, tokens, spans, trunk, layout)
            else:
                both = zip(evidence, spans, strict=True)
                values = [own[0 if what.place == CONFLICT else 1][start:end].tolist() for own, (start, end) in both]
            for parts, own in zip(outputs, values, strict=True):
                parts[part] = Part(numbers=own) if own else Part()

    def _gradients(
        self, what: Internal, tokens: Sequence[list[int]], spans: Sequence[tuple[int, int]], trunk: Rows, layout: BatchLayout
    ) -> list[list[float]]:
        """Return per answer [mean |gradient|], [] if undefined; ModelError for two-way attention."""
        import torch

        kind = self.model.network.module.config.model_type
        if kind in BOTH_WAYS:
            raise ModelError(
                f"model '{self.model.label}': {kind} reads its prompts in both directions, so what follows a token of a prompt cannot be "
                "read anew; leave out the estimators that read gradients"
            )
        back = -int(what.place)
        rows = [
            row
            for row, (prompt, (start, end)) in enumerate(zip(layout.prompts, spans, strict=True))
            if start < end and back <= len(prompt) and not self.model.marks(prompt[-back:])
        ]
        values: list[list[float]] = [[] for _ in tokens]
        if rows:
            own = trunk.select(torch.tensor(rows, device=trunk.mask.device))
            prompts, answers = [layout.prompts[row] for row in rows], [tokens[row] for row in rows]
            found = mean_gradients(own, prompts, answers, [spans[row] for row in rows], self.ranges[what.layer], back)
            for row, value in zip(rows, found, strict=True):
                values[row] = [value]
        return values

    def _span(self, answer: Part) -> tuple[int, int]:
        """Return the (start, stop) of the answer's tokens that signals are about; (0, 0) for none."""
        length = len(answer.tokens or [])
        thinking = self.model.thinking
        if not self.model.thinks or thinking is None or answer.numbers is None or thinking.of == "both":
            return 0, length
        thought, how = int(answer.numbers[0]), int(answer.numbers[1])
        if thinking.of == "thinking":
            return 0, thought
        return (thought, length) if how == ANSWERED else (0, 0)

    def _read(self, answers: Sequence[Part], trunk: Rows) -> list[torch.Tensor | None]:
        """Read answers again; return states (layers, tokens, width) without the last token's.

        The tokens are those of `_span`. An answer of fewer than two tokens, or without states in its span, gives None.
        """
        import torch

        tokens = [answer.tokens or [] for answer in answers]
        states: list[torch.Tensor | None] = [None] * len(tokens)
        longer = [row for row, answer in enumerate(tokens) if len(answer) > 1]
        if longer:
            rows = trunk.select(torch.tensor(longer, device=trunk.mask.device))
            rows.extend([tokens[row][:-1] for row in longer], rows.lengths.tolist(), max(len(tokens[row]) for row in longer) - 1)
            passed = self._taps.states
            for place, row in enumerate(longer):
                start, end = self._span(answers[row])
                own = passed[:, place, 1 - len(tokens[row]) :][:, start:end]
                states[row] = own if own.shape[1] else None
        return states


def _layer_numbers(model: Reader, words: Sequence[str]) -> dict[str, int]:
    layers = model.network.module.config.get_text_config().num_hidden_layers
    numbers = {word: layer_index(word, layers) for word in words}
    for word, number in numbers.items():
        if number is None:
            raise ModelError(
                f"model '{model.label}': hidden states of layer {word}: it has {layers} layers; expected 0 (the embeddings) to {layers} "
                f"(behind the last), -1 to -{layers + 1} from the end, or a share of the depth between 0 and 1"
            )
    return {word: number for word, number in numbers.items() if number is not None}


def _layer_ranges(model: Reader, wanted: Sequence[Internal]) -> dict[str, list[int]]:
    """Return layer numbers from 1 by range as the spec writes it; ModelError if one is empty.

    Raises:
        ModelError: a range selects no layer of this model.
    """
    layers = model.network.module.config.get_text_config().num_hidden_layers if wanted else 0
    ranges = {what.layer: layer_range(what.layer, layers) for what in wanted}
    for what in wanted:
        if not ranges[what.layer]:
            raise ModelError(
                f"model '{model.label}': {what.kind} of layers {what.layer}: it has {layers} layers, 1 to {layers}, and none of these"
            )
    return ranges


def _answers(outputs: Sequence[dict[str, Part]], requests: Sequence[Request], draw: int) -> list[Part]:
    """Return per request its greedy (draw 0) or sampled answer; ModelError if it has none."""
    name = draw_part(draw) if draw else ANSWER
    parts = []
    for output, request in zip(outputs, requests, strict=True):
        part = output.get(name) or (request.drawn_parts.get(draw) if draw else request.greedy)
        if part is None or not part.tokens:
            raise ModelError(f"a request for internals of an answer neither holds that answer nor asks for it: {request.prompt[-80:]!r}")
        parts.append(part)
    return parts


def _answer_state(states: torch.Tensor, place: str) -> Part:
    import torch

    wide = torch.float64 if states.dtype == torch.float64 else torch.float32
    return as_part(states[-1] if place == ANSWER_LAST else states.to(wide).mean(dim=0))
