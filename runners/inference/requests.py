"""Requests to a model for every sample under every variant, with the key of each part of its answer."""

from __future__ import annotations

import copy
import hashlib
import json
import sys
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from PIL.Image import Image

from qualm.registry.plugins.column_names import IN_WORDS
from qualm.registry.plugins.internals import is_internal, parse_internal
from qualm.runners.contracts.models import (
    ANSWER,
    DRAWS,
    OPTIONS,
    PARTS,
    SHOWN_DRAWS,
    Decoding,
    Part,
    Request,
    draw_of,
    draw_part,
    internal_of,
    is_signal,
)
from qualm.runners.contracts.parts import internal_parts
from qualm.runners.data.answers import base_key, decoding_bytes, part_key, pixels_digest
from qualm.runners.data.dataset import BrokenSampleError, DatasetFolder, Variant, VariantInput
from qualm.runners.data.splits import split_rule
from qualm.runners.inference.pixel_digests import InputDigest, PixelDigestCache
from qualm.runners.prompts.few_shot import choose_examples, split_hint
from qualm.runners.prompts.question import Prompt
from qualm.runners.prompts.templates import PromptError, check_fit
from qualm.runners.runtime.prefetch import map_ahead
from qualm.runners.runtime.progress import progress
from qualm.runners.runtime.stage import Stage, StageError

if TYPE_CHECKING:
    from qualm.runners.runtime.code_digest import Engine

_PIXELS_A_TOKEN, _CHARACTERS_A_TOKEN = 28 * 28, 4
"""Approximate pixels and characters per token, for models that do not measure prompts."""


@dataclass(frozen=True, slots=True)
class Place:
    """Indices of a dataset, its sample and a variant, and the digest that its keys begin with."""

    dataset: int
    row: int
    variant: int
    base: bytes
    """See `qualm.runners.data.answers.base_key`."""


@dataclass(frozen=True, slots=True)
class SampleVariant:
    """One sample under one variant: place, option count, image digest, prompt length."""

    place: Place
    options: int
    pixels: str
    """Digest of the images; "" without one."""
    length: int
    """Prompt length in approximate tokens, images included."""
    input_digest: str
    """Digest of the model's input."""
    pictures: int = 0


class _SampleInput:
    """Image files and question of one sample; the files are digested at most once."""

    def __init__(self, item: VariantInput) -> None:
        self.item = item

    def replaced_by(self, item: VariantInput | None) -> _SampleInput | None:
        """Return `item` as a _SampleInput, sharing the digest of the same images; None for None."""
        if item is None or item.files != self.item.files:
            return None if item is None else _SampleInput(item)
        same = copy.copy(self)
        same.item = item
        return same

    @cached_property
    def digest(self) -> bytes:
        own = [hashlib.sha256(data).digest() for data in self.item.files] or [hashlib.sha256(b"").digest()]
        # A single picture's digest is that of its bytes alone, as before questions could have several.
        return own[0] if len(own) == 1 else hashlib.sha256(b"pictures" + b"".join(own)).digest()


class _Decoded:
    """Cache of decoded images by the bytes of their files, shared by all variants."""

    def __init__(self, max_bytes: int = 64 << 20) -> None:
        self._most, self._size, self._lock = max_bytes, 0, threading.Lock()
        self._images: OrderedDict[tuple[bytes, ...], tuple[Image, ...]] = OrderedDict()

    def images(self, item: VariantInput) -> tuple[Image, ...]:
        """Return an input's decoded images; BrokenSampleError if one cannot be decoded."""
        with self._lock:
            if (decoded := self._images.get(item.files)) is not None:
                self._images.move_to_end(item.files)
                return decoded
        # Outside of the lock: two threads may decode the same image, which costs less than making all wait.
        pictures = item.images()
        with self._lock:
            if item.files not in self._images:
                self._images[item.files] = pictures
                self._size += _bytes(pictures)
            while self._size > self._most and len(self._images) > 1:
                self._size -= _bytes(self._images.popitem(last=False)[1])
        return pictures


class Asker:
    """Builder of a stage's requests for all samples and variants, and of their answers' keys."""

    def __init__(
        self, model: Any, engine: Engine, datasets: list[DatasetFolder], variants: list[Variant], needs: frozenset[str], stage: Stage
    ) -> None:
        self.model, self.engine, self.datasets, self.variants, self.needs, self.stage = model, engine, datasets, variants, needs, stage
        decoding = {name: stage.params[name] for name in ("max_new_tokens", "temperature", "top_p", "top_k") if name in stage.params}
        self.decoding = Decoding(**decoding)
        self.draws = int(stage.params.get("draws", 0)) if DRAWS in needs else 0
        self._identity = engine.identity
        self._prompts = [_prompt_of(stage, dataset) for dataset in datasets]
        self._example_digests = [pixels_digest(prompt.example_images) if prompt.example_images else "" for prompt in self._prompts]
        self.module: Any = None
        """Model weights, once loaded."""
        self.trainer: Any = None
        """Lightning trainer of a single process, reused because making one takes longer than a small batch."""
        self.internals = tuple(sorted(filter(is_internal, needs)))
        """Columns of hidden states and attention."""
        self._internals = tuple(dict.fromkeys(part for need in self.internals for part in internal_parts(need, self.draws)))
        self._of_prompt = tuple(need for need in self.internals if parse_internal(need).of_prompt)
        self._digest_caches: list[PixelDigestCache] = []
        self._decoded = _Decoded()
        self._decodings: dict[tuple[str, int], bytes] = {}
        self._length: Callable[[str, tuple[int, int] | None], int] = getattr(model, "length", _length)
        self._misfit: Callable[[str, int], str] = getattr(model, "misfit", lambda prompt, pictures: "")
        self._refusal: Callable[[int], str] = getattr(model, "refusal", lambda pictures: "")

    def answers_are_json(self, dataset: int) -> bool:
        """Return whether answers to the dataset number `dataset` are JSON with a field `answer`."""
        return self._prompts[dataset].answer_format == "json"

    def survey(self) -> tuple[list[SampleVariant], list[str]]:
        """Return (all sample variants in order, messages about unreadable samples, also printed).

        The stage counts dropped variants.

        Raises:
            StageError: a prompt does not fit its dataset.
        """
        for dataset, prompt in zip(self.datasets, self._prompts, strict=True):
            try:
                check_fit(prompt, dataset.name, dataset.whole, bool(self.stage.params.get(IN_WORDS)))
            except PromptError as error:
                raise StageError(str(error)) from error
        self._digest_caches = [PixelDigestCache(dataset.folder, self.variants, self.stage.seed) for dataset in self.datasets]
        rows = [(number, row) for number, dataset in enumerate(self.datasets) for row in range(len(dataset))]
        cells: list[SampleVariant] = []
        broken: list[str] = []
        settings = self.stage.settings
        with progress(settings, "looking up", len(rows)) as advance:
            # In the order of the rows however many threads examine, since tables, plans and repeats depend on it.
            for examined in map_ahead(self._examine, rows, settings.workers):
                advance()
                if isinstance(examined, BrokenSampleError):
                    print(f"{self.stage.key}: {examined}", file=sys.stderr, flush=True)
                    broken.append(str(examined))
                    continue
                cells += (cell for cell in examined if isinstance(cell, SampleVariant))
                self.stage.count(**Counter(note for note in examined if isinstance(note, str)))
        for digests in self._digest_caches:
            digests.save()
        return cells, broken

    def name(self, place: Place) -> str:
        """Return the id of a place's sample."""
        return str(self.datasets[place.dataset].samples[place.row]["sample_id"])

    def parts(self, options: int) -> tuple[str, ...]:
        """Return the names of an answer's wanted parts; `options`: count of options, 0 if open."""
        if options:
            return (ANSWER if self.stage.params.get(IN_WORDS) else OPTIONS, *self._of_prompt)
        signals = [name for name, columns in PARTS.items() if is_signal(name) and self.needs.intersection(columns)]
        return (ANSWER, *signals, *map(draw_part, range(1, self.draws + 1)), *self._internals)

    def key(self, place: Place, part: str, subject: bytes = b"") -> bytes:
        """Return the store's key of an answer part; `subject`: digest of what a signal is about."""
        options = self._options(place) if part == OPTIONS else 0
        how = self._decodings.get((part, options)) or self._decodings.setdefault((part, options), self._decoding_of(part, options))
        # Only what is drawn depends on the seed: another seed keeps greedy answers and most signals.
        return part_key(place.base, how, self._stream(place) if draw_of(part) or part in SHOWN_DRAWS else 0, subject)

    def _decoding_of(self, part: str, options: int) -> bytes:
        how, versions = self.decoding, self.engine.changed_versions(part)
        if inside := internal_of(part):  # all that it depends on beside its prompt is the answer's own tokens, whichever draw they are of
            whose = {"of": self.model.thinking.of} if getattr(self.model, "thinks", False) else {}
            return decoding_bytes(inside[0].signal, {"method": "read", **whose}, versions)
        if part == OPTIONS:
            return decoding_bytes(part, {"method": "choice", "options": options}, versions)
        greedy = {"method": "greedy", "max_new_tokens": how.max_new_tokens}
        drawn = {"temperature": how.temperature, "top_p": how.top_p, **({"top_k": how.top_k} if how.top_k else {})}
        if draw_of(part):
            return decoding_bytes(part, {**greedy, "method": "sample", **drawn}, versions)
        return decoding_bytes(part, {**greedy, **drawn, "draws": self.draws} if part in SHOWN_DRAWS else greedy, versions)

    def request(
        self,
        place: Place,
        parts: Sequence[str],
        answer: Part | None = None,
        drawn: Mapping[int, str] | None = None,
        drawn_parts: Mapping[int, Part] | None = None,
    ) -> Request:
        """Return the request for parts of an answer; StageError if it differs from the survey's.

        Args:
            place: of the sample and variant.
            parts: that are wanted.
            answer: the greedy answer, if known.
            drawn: texts of sampled answers by number, if known.
            drawn_parts: sampled answers with their tokens.

        Raises:
            StageError: it differs from the surveyed one, so its answer would have a wrong key.
        """
        dataset, variant = self.datasets[place.dataset], self.variants[place.variant]
        try:
            item = variant.item(dataset, place.row)
            applied = item and variant.perturb(self.stage.seed, item, self._decoded.images(item))
        except BrokenSampleError as error:
            raise StageError(f"{error}; it could be read a moment ago: the dataset must not change during the run, run it again") from error
        pictures, question = applied or ((), "")
        asked, question = self._split_hint(place.dataset, place.row, question)
        pixels = pixels_digest(pictures)
        pictures = (*asked.example_images, *pictures)
        prompt = self._rendered(place.dataset, place.row, asked, question, len(pictures))
        # The pixels are made twice, hours apart: this is what notices a perturbation that is not deterministic.
        if self._base(place.dataset, prompt, pixels, question, asked) != place.base:
            raise StageError(
                f"{dataset.name}: sample '{self.name(place)}', variant {variant.name}: two runs of the perturbation differ; "
                "a perturbation must draw all randomness from its rngs, and the dataset must not change during the run"
            )
        return Request(
            prompt,
            pictures[0] if pictures else None,
            self._options(place),
            question,
            tuple(parts),
            self._stream(place),
            pixels,
            answer,
            drawn or {},
            drawn_parts or {},
            tuple(pictures[1:]),
            asked,
        )

    def _examine(self, place: tuple[int, int]) -> list[SampleVariant | str] | BrokenSampleError:
        number, row = place
        try:
            return list(self._row_variants(number, row))
        except BrokenSampleError as error:
            return error

    def _row_variants(self, number: int, row: int) -> Iterator[SampleVariant | str]:
        """Yield a row's sample variants, and names of counters for dropped and unchanged ones.

        Args:
            number: of the dataset.

        Raises:
            BrokenSampleError: a prompt cannot be read by the model.
            StageError: the model does not take so many images.
        """
        dataset = self.datasets[number]
        own = _SampleInput(dataset.item(row))
        prompts: dict[tuple[str, int], str] = {}
        clean = ""
        for index, variant in enumerate(self.variants):
            if variant.scored_only and not dataset.scored[row]:
                continue
            if not variant.fits(own.item.data is not None):
                yield "dropped (no image to perturb)"
                continue
            start = own if variant.folders is None else own.replaced_by(variant.item(dataset, row))
            look = None if start is None else self._image_digest(self._digest_caches[number], index, start)
            if look is None:
                yield f"dropped ({variant.name}: not applicable)"
                continue
            sight, question = look
            asked, question = self._split_hint(number, row, question)
            examples = asked.example_images
            pictures = len(examples) + (0 if sight is None or start is None else len(start.item.files))
            asked_as = (question, pictures)
            # Most variants change pixels alone: one rendering of the prompt serves them all.
            if asked_as not in prompts:
                if pictures and (refusal := self._refusal(pictures)):
                    those = f", {len(examples)} of them of the prompt's examples" if examples else ""
                    raise StageError(f"{own.item.where}: has {pictures} image{'s' * (pictures > 1)}{those}: {refusal}")
                prompts[asked_as] = self._rendered(number, row, asked, *asked_as)
                if misfit := self._misfit(prompts[asked_as], pictures):
                    raise BrokenSampleError(f"{own.item.where}, variant {variant.name}: {misfit}")
            prompt = prompts[asked_as]
            pixels, size = ("", None) if sight is None else (sight.pixels, sight.size)
            if examples:
                area = sum(image.width * image.height for image in examples)
                size = (area + (0 if size is None else size[0] * size[1]), 1)
            where = Place(number, row, index, self._base(number, prompt, pixels, question, asked))
            input_digest = hashlib.sha256(f"{prompt}\0{pixels or None}".encode()).hexdigest()
            yield SampleVariant(where, self._options(where), pixels, self._length(prompt, size), input_digest, pictures)
            if not variant.modality:
                clean = input_digest
            elif input_digest == clean:
                yield f"unchanged by {variant.name}"

    def _image_digest(self, digests: PixelDigestCache, index: int, start: _SampleInput) -> tuple[InputDigest | None, str] | None:
        """Return (image digest, None without images; question) of a variant; None if inapplicable."""
        variant, item = self.variants[index], start.item
        # Without an image there is nothing worth remembering.
        key = None if item.data is None else digests.key(index, start.digest, item.sample_id, item.question)
        sight = digests.get(key)
        if sight is not None and (variant.modality != "text" or variant.function is None):
            return sight, item.question if sight.question is None else sight.question
        if sight is not None:
            applied = variant.perturb(self.stage.seed, item, ())
            return None if applied is None else (sight, applied[1])
        applied = variant.perturb(self.stage.seed, item, self._decoded.images(item))
        if applied is None:
            return None
        pictures, question = applied
        if pictures:
            crossed = variant.modality == "cross" and variant.folders is None
            area = sum(picture.width * picture.height for picture in pictures)
            sight = InputDigest(
                pixels_digest(pictures), pictures[0].size if len(pictures) == 1 else (area, 1), question if crossed else None
            )
            digests.add(key, sight)
        return sight, question

    def _split_hint(self, number: int, row: int, question: str) -> tuple[Prompt, str]:
        """Return (prompt settings with the hint of a row of dataset `number`, rest of question)."""
        prompt, dataset = self._prompts[number], self.datasets[number]
        if "{hint}" not in prompt.template:
            return prompt, question
        hint, rest = split_hint(question, dataset.samples[row]["question"], dataset.hints[row])
        return replace(prompt, hint=hint), rest

    def _rendered(self, number: int, row: int, asked: Prompt, question: str, pictures: int) -> str:
        dataset = self.datasets[number]
        sample = dataset.samples[row]
        try:
            return str(self.model.render(asked.messages(question, sample["choices"] or (), pictures)))
        except ValueError as error:
            raise StageError(f"{dataset.name}: sample '{sample['sample_id']}': {error}") from error

    def _base(self, number: int, prompt: str, pixels: str, question: str, asked: Prompt) -> bytes:
        # What is asked about an answer has the system message, and the template without options; servers are sent a schema.
        schema = json.dumps(asked.schema) if asked.answer_format == "json" else ""
        around = [text for text in (asked.system, asked.text(""), schema, self._example_digests[number]) if text]
        material = json.dumps([question, *around]) if around else question
        return base_key(self.model.digest, self._identity, prompt, pixels or None, material)

    def _options(self, place: Place) -> int:
        return len(self.datasets[place.dataset].samples[place.row]["choices"] or ())

    def _stream(self, place: Place) -> int:
        """Return a number of 128 bits that seeds the sampled answers of a place's sample."""
        # By the sample's name, not its row: draws stay the same when samples are added, removed or sorted.
        return int.from_bytes(hashlib.sha256(f"{self.stage.seed}\0{self.name(place)}".encode()).digest()[:16], "big")


def _bytes(pictures: Sequence[Image]) -> int:
    return sum(picture.width * picture.height * len(picture.getbands()) for picture in pictures)


def _length(prompt: str, size: tuple[int, int] | None) -> int:
    return len(prompt) // _CHARACTERS_A_TOKEN + (0 if size is None else size[0] * size[1] // _PIXELS_A_TOKEN)


def _prompt_of(stage: Stage, dataset: DatasetFolder) -> Prompt:
    """Return a stage's prompt for a dataset, with examples; StageError if none can be chosen."""
    given = stage.params.get("prompts", {}).get(dataset.name, stage.params.get("prompt", {}))
    how, prompt = given.get("examples"), Prompt.read(given)
    if not how:
        return prompt
    whole, of = DatasetFolder(dataset.name, dataset.folder), split_rule(stage.params, dataset.name)
    asked = replace(of, subset=None).is_asked(dataset.name, whole.table).to_pylist()
    try:
        return replace(prompt, examples=choose_examples(how, prompt, whole, asked, stage.seed))
    except (PromptError, BrokenSampleError) as error:
        raise StageError(str(error)) from error
