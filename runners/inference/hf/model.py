"""A model of transformers, with images or text-only: loaded, prompted, and read in one pass."""

import copy
import hashlib
import json
import string
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import PIL.Image
import torch
import transformers

from qualm.registry.entries.model_folders import default_template, folder_digest, is_text_only
from qualm.registry.formats.picture_lists import has_marks
from qualm.runners.contracts.models import Decoding, Encoded, ModelError, Part, Request
from qualm.runners.inference.devices import speed_up_cpu
from qualm.runners.inference.hf.adapters import Base, merge_adapter
from qualm.runners.inference.hf.double import computing
from qualm.runners.inference.hf.layout import BatchLayout, PicturePrefix, first_of_same_image, lay_out, unpadded
from qualm.runners.inference.hf.once import cache_outputs, shared_encoders
from qualm.runners.inference.hf.one_pass import one_pass
from qualm.runners.inference.hf.own_answer import single_tokens
from qualm.runners.inference.hf.plain import BOTH_WAYS, ROWS, PlainNetwork, plain_reason
from qualm.runners.inference.hf.quantized import quantization_arguments, verify_quantization
from qualm.runners.inference.hf.rows import Network, Rows, first_stop
from qualm.runners.inference.hf.self_check import engine_fault
from qualm.runners.inference.hf.still_images import still_images_only
from qualm.runners.inference.hf.thinking import ThoughtEnds, prompts_open_thinking
from qualm.runners.inference.hf.weights import read_weights, silence
from qualm.runners.prompts.chat_template import DEFAULT_DATE, as_text, fix_date, parse_date, reads_clock
from qualm.runners.prompts.question import messages, verification
from qualm.runners.prompts.thinking import Thinking, ThinkingError, complete_thinking
from qualm.runners.prompts.thinking import close_thinking as unthinking

_TOKENS_BEFORE = 4
"""Tokens that are decoded with a token, for what it adds to them."""
ONE_PICTURE = frozenset({"florence2", "kosmos-2"})
"""Families whose prompts hold one image."""


class HfVlm:
    """A model of transformers, with images or text-only (`contracts.models.Model`)."""

    def __init__(
        self,
        label: str,
        base: Base,
        dtype: str,
        remote_code: bool,
        template: str | None,
        share: bool | None,
        quantization: str = "none",
        thinking: Thinking | None = None,
        date: str = DEFAULT_DATE,
    ) -> None:
        from transformers import AutoProcessor, AutoTokenizer

        silence()
        folder, hub, revision = base.folder, base.hub, base.revision
        self.label, self.base, self.dtype, self.quantization = label, base, dtype, quantization
        self._from: dict[str, Any] = {
            "pretrained_model_name_or_path": hub or str(folder),
            "revision": revision or "main",
            "trust_remote_code": remote_code,
            "local_files_only": hub is None,
        }
        try:
            self.text_only = is_text_only(self._config.to_dict())
            with still_images_only():
                self.processor = (
                    AutoTokenizer.from_pretrained(**self._from)
                    if self.text_only
                    else AutoProcessor.from_pretrained(**self._from, backend="pil")
                )
        except (OSError, ValueError, ImportError, KeyError, TypeError) as error:
            raise ModelError(f"model '{label}': its processor cannot be read from {hub or folder}: {error}") from error
        self.tokenizer: Any = self.processor if self.text_only else getattr(self.processor, "tokenizer", None)
        if self.tokenizer is None:
            raise ModelError(f"model '{label}': expected a processor with a tokenizer, got {type(self.processor).__name__}")
        if template is not None:
            self.processor.chat_template = template
        if not getattr(self.processor, "chat_template", None):
            raise ModelError(f"model '{label}': it was published without a chat template; give one as `template:` (docs/how-to/models.md)")
        try:
            self.processor.chat_template = fix_date(self.processor.chat_template, parse_date(date))
        except ValueError as error:
            raise ModelError(f"model '{label}': date: {error}") from error
        self.date = date if reads_clock(self.processor.chat_template) else None
        """Date in prompts; None if the chat template writes none."""
        self.thinking = self._settled(thinking)
        identity = {
            "weights": f"{hub}@{revision}" if hub else folder_digest(folder or Path()),
            "adapters": [folder_digest(adapter) for adapter in base.adapters],
            "dtype": dtype,
            "quantization": quantization,
            "remote_code": remote_code,
            "share": share is not False,
            # Template and date also shape turns that the rendered question does not show.
            "template": template,
            "date": self.date,
            "thinking": None if thinking is None else thinking.answer_settings,
        }
        self.digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
        # The token to come must stand at the right end of every row.
        self.tokenizer.padding_side = "left"
        if self.tokenizer.pad_token is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        self._own = threading.local()
        self._letters: list[int] = []
        self._usual_marks: dict[int, dict[str, int]] = {}
        self._marks = self._picture_marks()
        self.plain = plain_reason(self._config)
        apart = share is False or (share is None and self._reads_both_ways())
        self._shares: dict[bool, bool] = {False: False, True: False} if apart else {}
        self.stops: set[int] = set()
        self.is_checked = True
        """The engine was compared with plain passes, or the caller does so."""
        self.module: Any = None
        self.network: Network

    @property
    def facts(self) -> dict[str, Any]:
        """Return processor settings, an example prompt, date and thinking of prompts, as JSON."""
        images = getattr(self.processor, "image_processor", None)
        settings = {} if images is None else json.loads(images.to_json_string())
        example = self.render(messages("QUESTION", n_images=not self.text_only))
        own = {"processor": type(self.processor).__name__, "image_processor": settings, "prompt": example}
        if self.date is not None:
            own["date"] = self.date
        return own if self.thinking is None else {**own, "thinking": {**self.thinking.answer_settings, "of": self.thinking.of}}

    def _settled(self, thinking: Thinking | None) -> Thinking | None:
        try:
            return None if thinking is None else complete_thinking(thinking, self.template)
        except ThinkingError as error:
            raise ModelError(f"model '{self.label}': {error}") from error

    @property
    def template(self) -> str:
        return default_template(self.processor.chat_template)

    @property
    def thinks(self) -> bool:
        """Return whether thinking before the answer is on; false if the spec does not say."""
        return self.thinking is not None and self.thinking.on

    def track_thinking(self, prompts: Sequence[str], n_answers: int, max_answer_tokens: int) -> ThoughtEnds:
        """Return a tracker of thinking in `n_answers` answers per prompt, with token budgets."""
        assert self.thinking is not None
        return ThoughtEnds(
            self.thread_tokenizer, self.thinking, prompts_open_thinking(prompts, n_answers, self.thinking), max_answer_tokens
        )

    def thought(self, tokens: Sequence[int]) -> str:
        """Return generated tokens of thinking as text, without the tags."""
        assert self.thinking is not None and self.thinking.tags is not None
        opening, end = self.thinking.tags
        text = str(self.thread_tokenizer.decode(list(tokens), skip_special_tokens=False)).strip()
        return text.removesuffix(end).removeprefix(opening).strip()

    @property
    def origin(self) -> str:
        """Return the last adapter's folder, else the model's folder or hub name, for use as base."""
        return str(self.base.adapters[-1] if self.base.adapters else self.base.folder or self.base.hub)

    @property
    def thread_processor(self) -> Any:
        """Return this thread's own processor, since threads must not share a fast tokenizer."""
        if not hasattr(self._own, "processor"):
            self._own.processor = copy.deepcopy(self.processor)
        return self._own.processor

    @property
    def thread_tokenizer(self) -> Any:
        """Return the tokenizer of this thread's processor."""
        return self.thread_processor if self.text_only else self.thread_processor.tokenizer

    def apply_chat_template(self, turns: list[dict[str, Any]], **more: Any) -> str:
        """Return a conversation as text; ModelError if the template drops the system message.

        `more` goes to transformers' method of this name. A template that refuses the conversation is a ModelError too.
        """
        from jinja2 import TemplateError

        try:
            text = str(self.thread_processor.apply_chat_template(as_text(turns) if self.text_only else turns, tokenize=False, **more))
        except TemplateError as error:
            raise ModelError(f"model '{self.label}': its chat template refuses the conversation: {error}") from error
        if turns and turns[0]["role"] == "system" and not _shows_text(text, turns[0]["content"]):
            raise ModelError(
                f"model '{self.label}': its chat template does not show the system message; put it into the prompt's `template` instead"
            )
        return text

    def render(self, turns: list[dict[str, Any]], silent: bool = False) -> str:
        """Return a conversation as text up to the answer; `silent` prompts skip the thinking."""
        if self.thinking is None:
            return self.apply_chat_template(turns, add_generation_prompt=True)
        on = self.thinking.on and not silent
        switch = {self.thinking.switch: on} if self.thinking.switch else {}
        prompt = self.apply_chat_template(turns, add_generation_prompt=True, **switch)
        return prompt if on else unthinking(prompt, self.thinking)

    def encode(self, requests: Sequence[Request]) -> Encoded:
        if len({(r.pictures, r.options > 0, r.parts) for r in requests}) != 1:
            raise ModelError(
                f"model '{self.label}': a batch mixes requests with different numbers of images, with and without options, or for "
                "different parts"
            )
        if self.plain:
            return self._encoded_apart(requests)
        apart = requests[0].pictures > 0 and (
            any(has_marks(r.question, r.own_pictures) for r in requests) or not self.shares(requests[0].images)
        )
        chiefs = first_of_same_image(requests, not apart)
        tensors = self._processor_tensors([requests[i] for i in sorted(set(chiefs))])
        read, layout = lay_out(self, requests, tensors, chiefs, apart)
        return Encoded(read, tuple(requests), layout)

    def _encoded_apart(self, requests: Sequence[Request]) -> Encoded:
        rows = [self._processor_tensors([request]) for request in requests]
        prompts, none = tuple(unpadded(row)[0] for row in rows), (None,) * len(rows)
        return Encoded({ROWS: rows}, tuple(requests), BatchLayout(prompts, tuple(range(len(rows))), None, none, {}, True))

    def shares(self, images: Sequence[PIL.Image.Image]) -> bool:
        """Return whether prompts on one or on several images can share a cache; tried once each."""
        several = len(images) > 1
        if several not in self._shares:
            n = len(images)
            # Tried on three prompts and not concluded from the family: templates and processors differ within one.
            conversations = [messages("What is it?", n_images=n), messages("Why?", n_images=n), verification("What is it?", "That.", n)]
            prompts = [self.render(turns) for turns in conversations]
            read = [unpadded(self._processor_tensors([Request(prompt, images[0], more=tuple(images[1:]))]))[0] for prompt in prompts]
            picture = PicturePrefix(prompts[0], self.written(prompts[0]), read[0])
            continuations = [picture.follow(self, prompt) for prompt in prompts[1:]]
            self._shares[several] = all(f is not None and f[0] == own for f, own in zip(continuations, read[1:], strict=True))
        return self._shares[several]

    def read(self, requests: Sequence[Request]) -> Rows:
        """Read the requests' whole prompts into a new cache; return its rows."""
        if self.plain:
            return self.network.read({ROWS: [self._processor_tensors([request]) for request in requests]})
        return self.network.read(self.on_device(Encoded(self._processor_tensors(requests))))

    @cached_property
    def _config(self) -> Any:
        from transformers import AutoConfig

        return AutoConfig.from_pretrained(**self._from)

    def _reads_both_ways(self) -> bool:
        return self._config.model_type in BOTH_WAYS

    def _processor_tensors(self, requests: Sequence[Request]) -> dict[str, Any]:
        prompts = [r.prompt for r in requests]
        images = {} if self.text_only else {"images": [list(r.images) for r in requests] if requests[0].images else None}
        try:
            tensors = dict(self.thread_processor(text=prompts, padding=True, return_tensors="pt", **images, **self._special(prompts[0])))
        except (ValueError, TypeError) as error:
            raise ModelError(f"model '{self.label}': its processor refuses the prompt {prompts[0][-80:]!r}: {error}") from error
        return {name: value for name, value in tensors.items() if name != "labels"}

    def _special(self, prompt: str) -> dict[str, Any]:
        # The template of a text-only model writes all special tokens. One for images may leave the first to the tokenizer.
        begins = self.tokenizer.bos_token
        return {"add_special_tokens": False} if self.text_only or (begins and prompt.startswith(begins)) else {}

    def written(self, prompt: str) -> tuple[int, ...]:
        """Return the tokens of a prompt as text, in which each image is one mark."""
        return self.all_written([prompt])[0]

    def all_written(self, prompts: Sequence[str]) -> list[tuple[int, ...]]:
        return [tuple(ids) for ids in self.thread_tokenizer(list(prompts), **self._special(prompts[0]))["input_ids"]]

    def refusal(self, pictures: int) -> str:
        """Return why the model cannot read prompts with `pictures` >= 1 images; "" if it can."""
        if self.text_only:
            return f"model '{self.label}' reads text only; ask it questions without an image, or choose a model that reads images"
        if pictures == 1:
            return ""
        kind: str = self._config.model_type
        if kind in ONE_PICTURE:
            return f"{kind}, the family of model '{self.label}', takes one image; ask another model, or select samples with one"
        usual = [self.render(messages("QUESTION", n_images=n)) for n in (0, 1, pictures)]
        counts = [[prompt.count(mark) for mark in self.image_marks] for prompt in usual]
        for none, one, several in zip(*counts, strict=True):
            if one > none and several - none != pictures * (one - none):
                return (
                    f"the chat template of model '{self.label}' writes {several - none} marks of images for these; give another as "
                    "`template:`"
                )
        return ""

    def misfit(self, prompt: str, n_images: int) -> str:
        """Return why a rendered prompt cannot be read, by image marks or length; "" if it can."""
        for mark, usual in self._marks_per_prompt(int(n_images)).items():
            if prompt.count(mark) > usual:
                return (
                    f"its text contains {mark!r}, by which this model's template marks the place of an image; remove it from the question"
                )
        if (
            self._max_prompt_tokens is None or len(prompt.encode("utf-8", "replace")) <= self._max_prompt_tokens
        ):  # a token has at least a byte
            return ""
        tokens = len(self.written(prompt))
        return (
            f"its prompt has {tokens:,} tokens, and the model reads at most {self._max_prompt_tokens:,}"
            if tokens > self._max_prompt_tokens
            else ""
        )

    @cached_property
    def _max_prompt_tokens(self) -> int | None:
        """Return the maximum number of tokens of a prompt; None if the config states none."""
        most = getattr(self._config.get_text_config(), "max_position_embeddings", None)
        return most if isinstance(most, int) and most > 0 else None

    def plain_texts(self, prompts: Sequence[str]) -> list[tuple[int, ...]]:
        """Return the processor's token ids of each prompt without an image."""
        different = list(dict.fromkeys(prompts))
        tokens = dict(zip(different, unpadded(self._processor_tensors([Request(prompt, None) for prompt in different])), strict=True))
        return [tokens[prompt] for prompt in prompts]

    @cached_property
    def picture_token(self) -> int | None:
        """Return the id of the token that stands for a piece of an image; None if unknown."""
        config = self._config
        names = ("image_token_id", "image_token_index")
        return next((value for name in names if isinstance(value := getattr(config, name, None), int)), None)

    def marks(self, tokens: Sequence[int]) -> bool:
        """Return whether any of these token ids is an image mark."""
        return not self._marks.isdisjoint(tokens)

    def _marks_per_prompt(self, pictures: int) -> dict[str, int]:
        """Return the number of each image mark in a rendered prompt with so many images, by mark."""
        if pictures not in self._usual_marks:
            prompt = self.render(messages("QUESTION", n_images=pictures))
            self._usual_marks[pictures] = {mark: prompt.count(mark) for mark in self.image_marks}
        return self._usual_marks[pictures]

    @property
    def image_marks(self) -> list[str]:
        """Return the texts that may stand for an image in a rendered prompt."""
        names = (getattr(self.processor, name, None) for name in ("image_token", "boi_token", "start_image_token"))
        return [str(name) for name in names if name is not None]

    def _picture_marks(self) -> set[int]:
        ids = [self.tokenizer.convert_tokens_to_ids(name) for name in self.image_marks]
        candidates = (*ids, getattr(self.processor, "image_token_id", None))
        return {int(i) for i in candidates if i is not None and i != self.tokenizer.unk_token_id}

    def load(self, dtype: str | None = None, spread: Mapping[str, Any] | None = None) -> torch.nn.Module:
        """Load the weights, adapters merged in; keep the module in eval mode and return it.

        Args:
            spread: arguments of `from_pretrained` for several devices; by default the weights stay on the CPU for the caller to move.

        Raises:
            ModelError: the files cannot be read or lack weights, which transformers would fill with random numbers; or they
                cannot be quantised, or would be trained so.
        """
        from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

        who = f"model '{self.label}'"
        if dtype is not None and self.quantization != "none":
            raise ModelError(f"{who}: weights of {self.quantization} are not trained; fine-tune it without `quantization`")
        options = {**(spread or {}), **quantization_arguments(who, self.quantization, self.dtype)}
        module, self.stops = read_weights(
            who,
            AutoModelForCausalLM if self.text_only else AutoModelForImageTextToText,
            self._from,
            dtype or self.dtype,
            self.tokenizer,
            bool(self.plain),
            **options,
        )
        verify_quantization(who, self.quantization, module)
        settings = module.generation_config
        for adapter in self.base.adapters:
            module = merge_adapter(self.label, module, adapter)
        module.generation_config = settings
        # float32 means float32 on a GPU too: cuDNN would round the inputs of convolutions to 10 bits.
        torch.backends.cudnn.allow_tf32 = False
        self.is_checked = False
        self.module = module.eval()
        self.network = cast(Network, PlainNetwork(self.module)) if self.plain else Network(self.module)
        return module  # type: ignore[no-any-return]

    def answer(self, encoded: Encoded, decoding: Decoding) -> list[dict[str, Part]]:
        if self.module.device.type == "cpu":
            speed_up_cpu()
        if not self.is_checked:
            self._check_engine(encoded.requests[0])
        if self.plain and ROWS not in encoded.tensors:  # laid out before the engine was found to differ
            encoded = self.encode(encoded.requests)
        # Where prompts share no cache, the same image comes with each of them; it is encoded once all the same.
        parts = shared_encoders(self.module) if self.plain or encoded.notes.apart else []
        with torch.inference_mode(), computing(self.dtype), cache_outputs(parts):
            return one_pass(self, encoded, decoding)

    def _check_engine(self, request: Request) -> None:
        """Compare the one-pass engine with plain passes; if they differ, switch to these and warn."""
        self.is_checked = True
        # Processes that share one model must make the same passes, and a difference may show in one of them alone.
        if self.plain or (torch.distributed.is_available() and torch.distributed.is_initialized()):
            return
        row = self._processor_tensors([request])
        with torch.inference_mode(), computing(self.dtype):
            fault = engine_fault(self.network, self.on_device(Encoded(row)), row, request, self.stops, self.dtype)
        if fault:
            self.plain = f"the engine differs from plain passes: {fault}"
            self.network = cast(Network, PlainNetwork(self.module))
            print(
                f"model '{self.label}': with transformers {transformers.__version__} the one-pass engine differs from plain forward passes "
                f"({fault}); it is read by plain passes, which take longer; please report this",
                file=sys.stderr,
                flush=True,
            )

    def on_device(self, encoded: Encoded) -> dict[str, Any]:
        """Return a batch with tensors on the weights' device, floating-point ones in their dtype."""
        device, dtype = self.module.device, self.module.dtype
        placed = {n: v.to(device, non_blocking=True) if isinstance(v, torch.Tensor) else v for n, v in encoded.tensors.items()}
        # Cast on the device: a copy that casts reads from memory that is not pinned, and then the host waits for it.
        return {n: v.to(dtype) if isinstance(v, torch.Tensor) and v.is_floating_point() else v for n, v in placed.items()}

    def tokenize(self, text: str) -> list[int]:
        """Return a rendered prompt's token ids, without special tokens added."""
        return list(self.thread_tokenizer(text, add_special_tokens=False)["input_ids"])

    def texts(self, generated: list[list[int]]) -> list[str]:
        """Return each generated token list as text, up to the end of its turn, stripped."""
        answers = [tuple(ids[: first_stop(ids, self.stops)]) for ids in generated]
        decode = self.thread_tokenizer.decode
        # Most draws say what others say.
        text_of = {ids: str(decode(list(ids), skip_special_tokens=True)).strip() for ids in set(answers)}
        return [text_of[ids] for ids in answers]

    def ends_of(self, tokens: Sequence[int]) -> list[int]:
        """Return, per generated token, how many characters of the answer are complete after it."""
        whole = self.texts([list(tokens)])[0]
        stop = first_stop(tokens, self.stops)
        written = [str(self.thread_tokenizer.decode(list(tokens[: i + 1]), skip_special_tokens=True)) for i in range(len(tokens))]
        # Half a character decodes to U+FFFD until its last token has come.
        lengths = [len(text.lstrip().rstrip("\ufffd")) for text in written]
        end = len(tokens) - 1 if stop is None else stop
        return [len(whole) if i >= end else min(n, len(whole)) for i, n in enumerate(lengths)]

    def added_texts(self, tokens: Sequence[int], alternatives: Sequence[Sequence[int]]) -> list[list[str]]:
        """Return per position the text that each alternative would add; "" for special tokens."""

        def decode(ids: Sequence[int]) -> str:
            return str(self.thread_tokenizer.decode(list(ids), skip_special_tokens=True))

        by_position = []
        for place, others in enumerate(alternatives):
            # Many tokenizers drop the space before a first word: some tokens before it show it, and hold the beginning of a character.
            before = tokens[max(0, place - _TOKENS_BEFORE) : place]
            start = decode(before).rstrip("\ufffd")
            wholes = ((other, decode([*before, other])) for other in others)
            by_position.append([whole.removeprefix(start) if whole.startswith(start) else decode([other]) for other, whole in wholes])
        return by_position

    def answer_ids(self, messages: list[dict[str, Any]], answer: str) -> list[int]:
        """Return the token ids of `answer` to this conversation, with the end of the turn.

        Raises:
            ModelError: the chat template does not continue the prompt when the answer is known.
        """
        prompt = self.render(messages)
        turn = {"role": "assistant", "content": [{"type": "text", "text": answer}]}
        whole = self.apply_chat_template([*messages, turn])
        if not whole.startswith(prompt):
            raise ModelError(
                f"model '{self.label}': its chat template does not continue the prompt {prompt[-40:]!r} when the answer is known, but "
                f"writes {whole[-60:]!r}; without that a model would be trained on another prompt than it is asked"
            )
        before, after = self.tokenize(prompt), self.tokenize(whole)
        # A tokenizer may join the prompt's end with what follows. The answer is then tokenized by itself, as it would be generated.
        ids = after[len(before) :] if after[: len(before)] == before else self.tokenize(whole[len(prompt) :])
        end = first_stop(ids, self.stops)
        return [*ids, self.tokenizer.eos_token_id] if end is None else ids[: end + 1]

    def option_ids(self, n: int) -> list[int]:
        """Return the token ids of the first n option letters; ModelError if they are not n tokens.

        The chat template's text between prompt and answer tells "A" from " A".

        Raises:
            ModelError: a letter is several tokens, unknown to the tokenizer, or shares its token with another.
        """
        while len(self._letters) < n:
            self._letters.append(self._letter_id(string.ascii_uppercase[len(self._letters)]))
        if len(set(self._letters)) != len(self._letters):
            pairs = dict(zip(string.ascii_uppercase, self._letters, strict=False))
            raise ModelError(f"model '{self.label}': option letters share tokens ({pairs}), so they have the same logit")
        return self._letters[:n]

    def _letter_id(self, letter: str) -> int:
        user = {"role": "user", "content": [{"type": "text", "text": "?"}]}
        assistant = {"role": "assistant", "content": [{"type": "text", "text": letter}]}
        prompt = self.render([user], silent=True)
        whole = self.apply_chat_template([user, assistant])
        gap = whole[len(prompt) :].split(letter)[0] if whole.startswith(prompt) else ""
        ids, tried = single_tokens(self, prompt, [between + letter for between in (gap if gap.isspace() else "", "", " ")])
        if not ids:
            raise ModelError(
                f"model '{self.label}': option letter {letter} is not a single known token after the prompt; tokens found: {tried}"
            )
        return next(iter(ids.values()))


def _shows_text(prompt: str, content: Any) -> bool:
    """Return whether a prompt contains a turn's text, not Python's notation of its parts."""
    text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
    return text.strip() in prompt and "'type': 'text'" not in prompt
