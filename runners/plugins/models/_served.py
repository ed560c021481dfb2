"""Implementation of `qualm.runners.plugins.models.openai`: a request for each part of an answer, and parsing of the reply."""

import hashlib
import io
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import PIL
import PIL.Image

from qualm.registry.formats.picture_lists import remove_marks
from qualm.runners.contracts.models import ANSWER, OPTIONS, Decoding, Part, PartReply, Request, draw_of, draw_part, is_signal
from qualm.runners.plugins.models._completions import (
    depends_on_temperature,
    entropy_lower_bounds,
    likeliest,
    logprobs_in_prompt,
    option_logits,
    true_probability,
    yes_share,
)
from qualm.runners.plugins.models._reasoning import separate_thinking
from qualm.runners.prompts.question import ANSWER_SCHEMA, CONFIDENCE_TOKENS, Prompt, p_true_prompt
from qualm.runners.prompts.thinking import ANSWERED, REASONS, UNPARTED, Thinking, split_thinking
from qualm.runners.servers.client import MAX_ANSWERS_PER_REQUEST, Client, FatalRequestError, ReplyPendingError, RequestRejectedError
from qualm.runners.servers.protocol import data_url
from qualm.runners.servers.replies import END_MARK, Completion, CompletionChoice

SCALE_TESTS = 3
"""Replies that may leave open how log-probabilities depend on the temperature, before it is asked no more."""


@dataclass(frozen=True)
class Content:
    """Parameters of an OpenAI-compatible model that shape its answers."""

    version: str
    logprobs: int
    truncated_entropies: bool
    prompt_logprobs: bool
    detail: str | None
    jpeg: int | None
    sampling: bool


@dataclass(frozen=True)
class Dialect:
    """Parameters of requests that differ between servers without changing answers."""

    n: bool
    seeds: bool
    limit_name: str


class OpenAIModel:
    """A model behind an OpenAI-compatible server (`qualm.runners.contracts.models.Remote`)."""

    def __init__(self, client: Client, content: Content, dialect: Dialect, thinking: Thinking | None = None) -> None:
        self.client, self.content, self.dialect, self.declared = client, content, dialect, thinking
        self.thinking = replace(thinking or Thinking(), on=True, of="both")
        """Settings for reading stored answers. They hold only wanted tokens, and a server may think whatever it is told."""
        encoder = PIL.__version__ if content.jpeg else ""
        thought = [] if thinking is None else [{**thinking.answer_settings, "of": thinking.of}]
        material = ["openai", client.base_url, client.model, asdict(content), encoder, *thought]
        self.digest = hashlib.sha256(json.dumps(material).encode()).hexdigest()
        self.counters: Counter[str] = Counter()
        self.served: Counter[str] = Counter()
        """Replies by the server's model name and fingerprint."""
        self._takes_n = dialect.n
        self._lock, self._checking = threading.Lock(), threading.Lock()
        self._scale_tests = SCALE_TESTS
        """Tests still to be made of whether drawn tokens' log-probabilities are those of the model's own softmax."""

    def render(self, messages: list[dict[str, Any]]) -> str:
        return json.dumps(messages, ensure_ascii=False, sort_keys=True, separators=(",", ":"))

    def parts(self, request: Request, decoding: Decoding) -> Iterator[PartReply]:
        url = tuple(map(self._url, request.images))
        signals = [part for part in request.parts if is_signal(part)]
        draws = [draw_of(part) for part in request.parts if draw_of(part)]
        greedy, shown = request.greedy, list[CompletionChoice]()
        if OPTIONS in request.parts:
            yield from self._reply(OPTIONS, lambda: self._options(request, url, decoding))
        if ANSWER in request.parts:
            answer = next(self._reply(ANSWER, lambda: self._answer(request, url, decoding, shown)), None)
            if answer is None:
                signals = []  # what is asked about an answer waits for it
            else:
                yield answer
                greedy = answer.value
            if answer is not None and answer.rejected:  # so would be whatever else is asked about it
                yield from (PartReply(part, _undefined(part), answer.reason, True) for part in (*signals, *map(draw_part, draws)))
                return
        for part in signals:
            if greedy is None or greedy.text is None:
                yield PartReply(part, _undefined(part), "there is no answer to ask about")
            elif part in TOPS:
                yield from self._reply(part, partial(self._tops, part, request, url, greedy, decoding, shown))
            else:
                yield from self._reply(part, partial(self._signal, part, request, url, greedy))
        if draws:
            yield from self._draws(request, url, draws, decoding)

    def _reply(self, part: str, work: Callable[[], PartReply]) -> Iterator[PartReply]:
        """Yield the part that `work` requests; undefined if rejected, nothing if it comes later.

        Yields nothing if the reply comes later, with a batch.
        """
        try:
            yield work()
        except RequestRejectedError as error:
            yield PartReply(part, _undefined(part), str(error), True)
        except ReplyPendingError:
            return

    def _answer(self, request: Request, image_urls: Sequence[str], decoding: Decoding, shown: list[CompletionChoice]) -> PartReply:
        """Ask for the answer and return it as a part; append the server's choice to `shown`."""
        shown.append(self._ask_once(self.body(request, image_urls, decoding), ANSWER).choices[0])
        return self._reply_of(ANSWER, shown[0])

    def _tops(
        self, part: str, request: Request, image_urls: Sequence[str], greedy: Part, decoding: Decoding, shown: list[CompletionChoice]
    ) -> PartReply:
        """Return each position's top tokens or their log-probabilities, or why not; fill `shown`.

        Args:
            shown: the server's choice to read; if empty, it is asked for and appended.
        """
        if not shown:
            shown.append(self._ask_once(self.body(request, image_urls, decoding), part).choices[0])
        answer, how = separate_thinking(shown[0], self.declared)
        if how in REASONS or answer.text != greedy.text:
            return PartReply(part, Part(), REASONS.get(how, "the server gives another answer now than the stored one"))
        found = answer.no_logprobs or likeliest(answer.tops, answer.logprobs, answer.tokens or (), self.content.logprobs)
        if isinstance(found, str):
            return PartReply(part, Part(), found)
        if part == "top_tokens":
            texts = [["" if END_MARK.fullmatch(token.strip()) else token for token, _ in position] for position in found]
            return PartReply(part, Part(text=json.dumps(texts)))
        return PartReply(part, Part(logprobs=[p for position in found for _, p in position], numbers=[float(len(found[0]))]))

    def body(self, request: Request, image_urls: Sequence[str], decoding: Decoding) -> dict[str, Any]:
        """Return the body of the request for an answer or for option logits; images are URLs."""
        if OPTIONS in request.parts:
            return self._body(request.prompt, image_urls, 1, top=True)
        top = self.content.truncated_entropies or not TOPS.isdisjoint(request.parts)
        body = self._body(request.prompt, image_urls, decoding.max_new_tokens, top=top) | _response_format(request.asked)
        return {**body, "return_token_ids": True} if self.content.prompt_logprobs else body

    def _options(self, request: Request, url: Sequence[str], decoding: Decoding) -> PartReply:
        choice, how = separate_thinking(self._ask_once(self.body(request, url, decoding), OPTIONS).choices[0], self.declared)
        if how in REASONS:
            return PartReply(OPTIONS, Part(thinking=choice.reasoning), REASONS[how])
        part = self._part(choice)
        values: list[float] | str = choice.no_logprobs or option_logits(choice.tops, request.options)
        if not self.content.logprobs:
            values = "no log-probabilities were requested from the model"
        if isinstance(values, str):
            return PartReply(OPTIONS, part, values)
        part.numbers = values
        return PartReply(OPTIONS, part)

    def _signal(self, part: str, request: Request, url: Sequence[str], greedy: Part) -> PartReply:
        text, image, asked = greedy.text or "", request.pictures, request.asked
        if part in _PRIORS:
            return self._prior(part, request, url, greedy)
        if part == "said_confidence":
            body = self._body(
                self.render(asked.verbalisation(request.question, text, image)), url, CONFIDENCE_TOKENS, top=False, silent=True
            )
            choice, how = separate_thinking(self._ask_once(body, part).choices[0], self.declared)
            return PartReply(part, Part() if how in REASONS else self._part(choice), REASONS.get(how, ""))
        about = p_true_prompt(request.question, text)
        talk = asked.verification(request.question, text, image) if part == "p_yes" else asked.ask_text(about, image)
        body = self._body(self.render(talk), url, 1, top=True, silent=True)
        choice, how = separate_thinking(self._ask_once(body, part).choices[0], self.declared)
        if how in REASONS or choice.no_logprobs:
            return PartReply(part, Part(numbers=[]), REASONS.get(how, choice.no_logprobs))
        share = yes_share(choice.tops) if part == "p_yes" else true_probability(choice.tops)
        return PartReply(part, Part(numbers=[]), share) if isinstance(share, str) else PartReply(part, Part(numbers=[share]))

    def _prior(self, part: str, request: Request, image_urls: Sequence[str], greedy: Part) -> PartReply:
        """Return the answer's log-probabilities without image, question or both; or why not."""
        if self.declared is not None and self.declared.of != "answer":
            return PartReply(part, Part(), "a server scores the answer again, not its thinking; `thinking: {of: answer}` gives priors")
        if not greedy.tokens:
            return PartReply(part, Part(), "the server does not show which tokens the answer is made of (vLLM: `return_token_ids`)")
        image = request.pictures if part == "without_question" else 0
        question = remove_marks(request.question, request.own_pictures) if part == "without_image" else ""
        talk = [*request.asked.messages(question, n_images=image), _assistant(greedy.text or "")]
        body = self._body(self.render(talk), image_urls if image else (), 1, top=False)
        scored = self._ask_once({**body, "add_generation_prompt": False, "prompt_logprobs": 0}, part).prompt
        if scored is None:
            return PartReply(part, Part(), "the reply scores no prompt, which the spec's `prompt_logprobs` asks for")
        logprobs = logprobs_in_prompt(scored, greedy.tokens)
        return PartReply(
            part, Part(logprobs=logprobs), "" if logprobs else "the prompt that repeats the answer splits it into other tokens"
        )

    def _draws(self, request: Request, url: Sequence[str], draws: Sequence[int], decoding: Decoding) -> Iterator[PartReply]:
        body = self._body(request.prompt, url, decoding.max_new_tokens, top=self.content.truncated_entropies, decoding=decoding)
        body |= _response_format(request.asked)
        if self.content.logprobs and decoding.temperature != 1.0:
            self._check_scale(request.prompt, url, decoding.temperature)
        left, short = list(draws), False
        while len(left) > 1 and self._takes_n:
            count = min(len(left), MAX_ANSWERS_PER_REQUEST)
            try:
                choices = self._identified(self.client.ask({**body, "n": count}, draw_part(left[0]))).choices
            except RequestRejectedError:
                choices = []  # whether for `n` or for the question, asking for one will tell
            except ReplyPendingError:
                left = left[count:]
                continue
            for choice in choices:
                yield self._reply_of(draw_part(left.pop(0)), choice)
            if short := len(choices) < count:
                break
        refused = ""
        for draw in left:
            if refused:  # all these requests are one, but for their seeds
                yield PartReply(draw_part(draw), Part(), refused, True)
                continue
            for reply in self._reply(draw_part(draw), partial(self._single, draw, request, body)):
                refused = reply.reason if reply.rejected and draw == draws[0] else ""
                if short and not reply.rejected:
                    self._takes_n = False
                yield reply

    def _single(self, draw: int, request: Request, body: dict[str, Any]) -> PartReply:
        seed = {"seed": _seed(request.stream, draw)} if self.dialect.seeds and self.content.sampling else {}
        return self._reply_of(draw_part(draw), self._ask_once({**body, **seed}, draw_part(draw)).choices[0])

    def _check_scale(self, prompt: str, image_urls: Sequence[str], temperature: float) -> None:
        """Ask twice, until conclusive; FatalRequestError if temperature scales log-probabilities.

        Requests are at temperature 0 and at `temperature`. After one conclusive comparison, or SCALE_TESTS others, nothing is asked.
        """
        with self._checking:
            if not self._scale_tests:
                return
            tops = []
            for t in (0.0, temperature):
                body = {**self._body(prompt, image_urls, 1, top=True), "temperature": t, "top_logprobs": max(self.content.logprobs, 2)}
                choice = self._ask_once(body, ANSWER, now=True).choices[0]
                tops.append(choice.tops[0] if choice.tops else {})
            if depends_on_temperature(tops[0], tops[1], temperature):
                raise FatalRequestError(
                    f"its log-probabilities are of the softmax at temperature {temperature:g}, expected those of the model's own; SGLang: "
                    "start it with SGLANG_RETURN_ORIGINAL_LOGPROB=1; vLLM: --logprobs-mode raw_logprobs; or draw at temperature 1, or ask "
                    "for none (logprobs: 0)"
                )
            # One reply without log-probabilities says nothing of the server: the next question tells.
            self._scale_tests = 0 if len(tops[0].keys() & tops[1].keys()) > 1 else self._scale_tests - 1

    def _reply_of(self, part: str, choice: CompletionChoice) -> PartReply:
        answer, how = separate_thinking(choice, self.declared)
        if self.declared is None and answer is choice and split_thinking(choice.text)[0] is not None:
            self.counters[UNPARTED] += 1
        value = self._part(answer)
        if how != ANSWERED or answer is not choice:
            value = replace(value, text=None if how in REASONS else value.text, numbers=[0.0, float(how)])
        return PartReply(part, value, REASONS.get(how, answer.no_logprobs if self.content.logprobs else ""))

    def _part(self, choice: CompletionChoice) -> Part:
        if not self.content.logprobs or choice.logprobs is None:
            return Part(choice.text, choice.ids, thinking=choice.reasoning)
        self.counters["answers without the end's log-probability"] += choice.ended
        entropies = entropy_lower_bounds(choice.tops) if self.content.truncated_entropies else None
        return Part(choice.text, choice.ids, choice.logprobs, entropies, thinking=choice.reasoning)

    def _ask_once(self, body: dict[str, Any], about: str, now: bool = False) -> Completion:
        """Send a request for one part of the answer and return the reply; `now` bypasses batches."""
        return self._identified(self.client.ask(body, about, now))

    def _identified(self, completion: Completion) -> Completion:
        with self._lock:
            self.served[" ".join(completion.served).strip()] += 1
        return completion

    def _body(
        self, prompt: str, image_urls: Sequence[str], max_tokens: int, top: bool, decoding: Decoding | None = None, silent: bool = False
    ) -> dict[str, Any]:
        """Return a body: `top` asks for top tokens, `decoding` samples, `silent` bars thinking."""
        thinking = self.declared
        on = thinking is not None and thinking.on and not (silent and thinking.switch)
        max_tokens += thinking.budget if thinking is not None and on else 0
        body: dict[str, Any] = {
            "model": self.client.model,
            "messages": self._turns(prompt, image_urls),
            self.dialect.limit_name: max_tokens,
        }
        if thinking is not None and thinking.switch:
            body["chat_template_kwargs"] = {thinking.switch: on}
        if thinking is not None and thinking.effort:
            body["reasoning_effort"] = thinking.effort
        if self.content.sampling:
            body["temperature"] = decoding.temperature if decoding else 0.0
            if decoding and decoding.top_p < 1:
                body["top_p"] = decoding.top_p
        if self.content.logprobs:
            body["logprobs"] = True
            if top:
                body["top_logprobs"] = self.content.logprobs
        return body

    def _turns(self, prompt: str, url: Sequence[str]) -> list[dict[str, Any]]:
        detail = {"detail": self.content.detail} if self.content.detail else {}
        urls = iter(url)
        turns = []
        for turn in json.loads(prompt):
            parts = [
                {"type": "image_url", "image_url": {"url": next(urls), **detail}} if p["type"] == "image" else p for p in turn["content"]
            ]
            alone = len(parts) == 1 and parts[0]["type"] == "text"
            turns.append({"role": turn["role"], "content": parts[0]["text"] if alone else parts})
        return turns

    def _url(self, image: PIL.Image.Image) -> str:
        file = io.BytesIO()
        if self.content.jpeg:
            image.save(file, "JPEG", quality=self.content.jpeg)
        else:
            image.save(file, "PNG")
        return data_url(file.getvalue())


TOPS = frozenset({"top_logprobs", "top_tokens"})
_PRIORS = ("without_image", "without_question", "without_both")


def _undefined(part: str) -> Part:
    return Part(numbers=[]) if part in ("p_yes", "p_true") else Part()


def _response_format(asked: Prompt) -> dict[str, Any]:
    """Return `response_format` with a JSON Schema if answers are to be JSON, else {}."""
    if asked.answer_format != "json":
        return {}
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": dict(asked.schema or ANSWER_SCHEMA)}}}


def _assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


def _seed(stream: int, draw: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{stream:032x} {draw}".encode()).digest()[:4], "big") >> 1
