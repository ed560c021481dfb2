"""Layout of a batch: which prompts share an image, and where they begin to differ.

A processor turns the mark of an image in a prompt into hundreds of tokens. Only one prompt per image is processed; the others are its
tokens up to the first difference, and their own tokens after it. Where a processor does not allow this (checked once per model), every
prompt is processed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress, count
from operator import ne
from typing import TYPE_CHECKING, Any

from qualm.registry.formats.picture_lists import remove_marks
from qualm.runners.contracts.models import OPTIONS, ModelError, Request

if TYPE_CHECKING:
    from qualm.runners.inference.hf.reader import Reader


@dataclass(frozen=True)
class PicturePrefix:
    """Tokens of a processed prompt with images, shared with later prompts on the same images."""

    prompt: str
    written: tuple[int, ...]
    """Tokens of the prompt as text, with one mark per image."""
    read: tuple[int, ...]
    """Tokens as the model reads them."""

    def follow(self, model: Reader, prompt: str, written: tuple[int, ...] | None = None) -> tuple[tuple[int, ...], int] | None:
        """Return (a prompt's tokens on these images, how many are shared); None if not shareable.

        None if the two differ before the image ends. `written` are its tokens as text, if known.
        """
        written = model.written(prompt) if written is None else written
        same = common_prefix_length(self.written, written)
        tail = len(self.written) - same
        head = len(self.read) - tail
        # A processor replaces the marks of pictures alone. So if no mark is left behind the parting, both forms of the prompt must end in
        # the same tokens.
        if self.read[head:] != self.written[same:] or model.marks(written[same:]):
            return None
        if model.marks(self.read[head:]) or not model.marks(self.read[:head]):
            return None
        return (*self.read[:head], *written[same:]), head


@dataclass(frozen=True)
class BatchLayout:
    """Tokens of a batch's prompts, and the row read before that each request continues."""

    prompts: tuple[tuple[int, ...], ...]
    """Tokens of every request's prompt."""
    first: tuple[int, ...]
    """Request -> row of the tensors that it continues."""
    starts: tuple[int, ...] | None
    """Request -> number of its tokens in that row; None if every row is a whole prompt."""
    pictures: tuple[PicturePrefix | None, ...]
    """Request -> processed prompt of its image; None without an image."""
    priors: dict[str, tuple[tuple[int, ...], ...]]
    """Part -> tokens of every request's prompt without what the part leaves out."""
    apart: bool
    """Every prompt with an image must be processed as a whole."""


def common_prefix_length(a: Sequence[int], b: Sequence[int]) -> int:
    """Return the length of the longest common prefix of two token sequences."""
    return next(compress(count(), map(ne, a, b)), min(len(a), len(b)))


def first_of_same_image(requests: Sequence[Request], shares: bool) -> list[int]:
    """Return per request the first index with its image; its own if no image or not `shares`."""
    first: dict[str, int] = {}
    return [first.setdefault(r.pixels, i) if shares and r.pixels and r.image is not None else i for i, r in enumerate(requests)]


def lay_out(
    model: Reader, requests: Sequence[Request], tensors: dict[str, Any], chiefs: list[int], apart: bool
) -> tuple[dict[str, Any], BatchLayout]:
    """Return (tensors to read first, layout by which requests continue from their rows).

    Args:
        tensors: the processor's output for the prompts of the requests `sorted(set(chiefs))`.
        chiefs: index of the request whose processed image each request shares; see `first_of_same_image`.
        apart: every prompt with an image must be processed as a whole.

    Raises:
        ModelError: a question contains the template's image token.
    """
    order = sorted(set(chiefs))
    place = {chief: row for row, chief in enumerate(order)}
    read = unpadded(tensors)
    if requests[0].parts == (OPTIONS,) and len(order) == len(requests):  # nothing goes on from any of these prompts
        return tensors, BatchLayout(tuple(read), tuple(chiefs), None, (None,) * len(requests), {}, apart)
    written = model.all_written([request.prompt for request in requests])
    led = {c: PicturePrefix(requests[c].prompt, written[c], read[place[c]]) for c in order if requests[c].image is not None}
    prompts: list[tuple[int, ...]] = []
    for request, chief, own in zip(requests, chiefs, written, strict=True):
        whole = read[place[chief]]
        continuation = (whole, 0) if request.prompt == requests[chief].prompt else led[chief].follow(model, request.prompt, own)
        if continuation is None:
            raise ModelError(
                f"model '{model.label}': the text of the prompt {request.prompt[-80:]!r} contains what this model's template marks an "
                "image "
                "with, such as <image>; remove it from the question"
            )
        prompts.append(continuation[0])
    pictures = tuple(led.get(chief) for chief in chiefs)
    first = tuple(place[c] for c in chiefs)
    starts = _starts(prompts, first)
    if starts is not None:
        length_of = dict(zip(first, starts, strict=True))
        tensors = _trimmed(tensors, [length_of[row] for row in range(len(order))])
    return tensors, BatchLayout(tuple(prompts), first, starts, pictures, _priors(model, requests, pictures, apart), apart)


def _starts(prompts: Sequence[tuple[int, ...]], first: Sequence[int]) -> tuple[int, ...] | None:
    """Return per prompt how many tokens its image's prompts all begin with; None if unshared.

    The number is at least one less than the tokens of every prompt on the image, also for a prompt alone on its image. Unshared: every
    image has one prompt. `first` numbers each prompt's image.
    """
    # One prompt a picture: there is nothing to share, and one pass over whole prompts is cheaper than two.
    if len(set(first)) == len(first):
        return None
    shared: dict[int, int] = {}
    leader: dict[int, tuple[int, ...]] = {}
    for prompt, row in zip(prompts, first, strict=True):
        whole = leader.setdefault(row, prompt)
        # At least one token is left: logits come only from what is read anew.
        shared[row] = min(shared.get(row, len(prompt) - 1), common_prefix_length(whole, prompt), len(prompt) - 1)
    return tuple(shared[row] for row in first)


def _trimmed(tensors: dict[str, Any], lengths: Sequence[int]) -> dict[str, Any]:
    """Return left-padded tensors with each row cut to its first `lengths` tokens."""
    import torch

    shape, mask = tensors["input_ids"].shape, tensors["attention_mask"].bool()
    width = max(lengths)
    shortened = {}
    for name, value in tensors.items():
        if not isinstance(value, torch.Tensor) or value.shape[:2] != shape:
            shortened[name] = value
            continue
        # Zero is padding in all of these: ids, masks and types.
        shortened[name] = value.new_zeros((shape[0], width, *value.shape[2:]))
        for row, length in enumerate(lengths):
            shortened[name][row, width - length :] = value[row, mask[row]][:length]
    return shortened


def _priors(
    model: Reader, requests: Sequence[Request], pictures: Sequence[PicturePrefix | None], apart: bool
) -> dict[str, tuple[tuple[int, ...], ...]]:
    parts = requests[0].parts
    tokens: dict[str, tuple[tuple[int, ...], ...]] = {}
    if "without_image" in parts or ("image_divergence" in parts and requests[0].image is not None):
        blind = [r.asked.messages(remove_marks(r.question, r.own_pictures), n_images=0) for r in requests]
        tokens["without_image"] = tuple(model.plain_texts([model.render(turns) for turns in blind]))
    if "without_both" in parts:
        tokens["without_both"] = tuple(model.plain_texts([model.render(r.asked.messages("", n_images=0)) for r in requests]))
    if "without_question" in parts and not apart:
        silent = {(r.asked.hint, r.pictures): r for r in requests}
        texts = {key: model.render(r.asked.messages("", n_images=r.pictures)) for key, r in silent.items()}
        tokens["without_question"] = tuple(tokens_on_images(model, pictures, [texts[r.asked.hint, r.pictures] for r in requests]))
    return tokens


def tokens_on_images(model: Reader, pictures: Sequence[PicturePrefix | None], prompts: Sequence[str]) -> list[tuple[int, ...]]:
    """Return each prompt's tokens as the model reads them; all have an image, or none has.

    Raises:
        ModelError: the chat template puts an image behind the question, or a text contains the mark of an image.
    """
    if pictures[0] is None:
        return model.plain_texts(prompts)
    different = list(dict.fromkeys(prompts))
    written = dict(zip(different, model.all_written(different), strict=True))
    tokens = []
    for picture, prompt in zip(pictures, prompts, strict=True):
        assert picture is not None, "a batch is of one kind"
        continuation = picture.follow(model, prompt, written[prompt])
        if continuation is None:
            raise ModelError(
                f"model '{model.label}': the prompt {prompt[-80:]!r} does not begin with the image as {picture.prompt[-80:]!r} does"
            )
        tokens.append(continuation[0])
    return tokens


def unpadded(tensors: dict[str, Any]) -> list[tuple[int, ...]]:
    """Return each row's token ids without padding."""
    return [tuple(ids[mask.bool()].tolist()) for ids, mask in zip(tensors["input_ids"], tensors["attention_mask"], strict=True)]
