"""Any OpenAI-compatible server as a generator: OpenAI itself, vLLM, SGLang, `transformers serve`.

The client is the official one. What is added is what decides whether a night's run is lost: every reply is handed over (and
kept) as it comes, what may pass is tried again with growing pauses, what will not pass stops the run at once, and a run never
spends more than it was given.
"""

from __future__ import annotations

import base64
import itertools
import json
import math
import os
import threading
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from annotated_types import Ge, Gt

from runners.generators import GeneratorContext, GeneratorError, Message, Reply, Request
from runners.generators._limits import Budget, Patience

ENVIRONMENT = ["key"]
"""Parameters that hold names of environment variables: `qualm plan` says which are not set."""
HOPELESS = (401, 402, 403, 404, 405)
"""Statuses that no other request will fare better with."""
REJECTED = (400, 413, 422)
"""Statuses that are about this one request: too long, or against the server's rules."""
GIVE_UP_AFTER = 3
"""So many requests whose every try failed stop the run: a server that is down stays down for the rest."""
NO_KEY = "none"


def openai(
    context: GeneratorContext,
    *,
    model: str,
    base_url: str = "https://api.openai.com/v1",
    key: str | None = "OPENAI_API_KEY",
    concurrency: Annotated[int, Ge(1)] = 8,
    timeout: Annotated[float, Gt(0)] = 120.0,
    retries: Annotated[int, Ge(0)] = 6,
    pause: Annotated[float, Gt(0)] = 1.0,
    limit_name: Literal["max_tokens", "max_completion_tokens"] = "max_tokens",
    sampling: bool = True,
    price_in: Annotated[float, Ge(0)] = 0.0,
    price_out: Annotated[float, Ge(0)] = 0.0,
    max_spend: Annotated[float, Gt(0)] | None = None,
) -> OpenAI:
    """Chat completions of a server that speaks OpenAI's protocol.

    Args:
        context: of this run.
        model: as the server names it. A name that is moved to another model is not noticed: name a dated one.
        base_url: up to and with `/v1`.
        key: the environment variable that holds the key; null for a server that wants none. The key itself is never written anywhere.
        concurrency: requests at one time.
        timeout: seconds that a try may be silent.
        retries: further tries where the server is busy (429), fails (5xx), is silent, or answers nonsense.
        pause: seconds before the first of them; each next pause is twice as long, at most 60, and up to half is left to chance.
        limit_name: what the server calls the longest reply; newer models of OpenAI say `max_completion_tokens`.
        sampling: send temperature and seed, which some models refuse.
        price_in: dollars per million tokens sent.
        price_out: dollars per million tokens received.
        max_spend: dollars that one run may cost at most, counted by these prices; kept replies cost nothing.

    Raises:
        GeneratorError: the address holds a secret, or there is a cap and no price; at the first request, if there is no key.
    """
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password or parts.query:
        raise GeneratorError("generator openai: base_url: expected http(s)://HOST[:PORT]/PATH without user, password or query")
    if max_spend is not None and not (price_in or price_out):
        raise GeneratorError("generator openai: max_spend needs price_in and price_out, in dollars per million tokens")
    server = _Server(base_url, key, timeout)
    budget = Budget(price_in, price_out, max_spend)
    return OpenAI(model, server, concurrency, Patience(retries, pause), _Body(limit_name, sampling), budget)


@dataclass(frozen=True)
class _Server:
    """Where it is and what opens it."""

    url: str
    variable: str | None
    """The environment variable that holds the key."""
    timeout: float

    def key(self) -> str:
        """The key, looked up when the first request is made and not before: replies that are kept need none.

        Raises:
            GeneratorError: it is not set.
        """
        if self.variable is None:
            return NO_KEY
        found = os.environ.get(self.variable)
        if not found:
            raise GeneratorError(
                f"generator openai: expected a key in the environment variable {self.variable}, which is not set; export it, or key: null"
            )
        return found


class _Stopped(Exception):
    """The whole run ends: the message says why."""


class _Failed(Exception):
    """One request failed at every try."""


class _Again(Exception):
    """A try that failed and may be repeated, after as many seconds as the server asked for."""

    def __init__(self, message: str, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after


class OpenAI:
    """See `runners.generators.Engine`."""

    def __init__(self, model: str, server: _Server, concurrency: int, patience: Patience, body: _Body, budget: Budget) -> None:
        self.model, self.server, self.concurrency, self.patience, self.body, self.budget = (
            model,
            server,
            concurrency,
            patience,
            body,
            budget,
        )
        self.name = f"openai ({model} at {server.url})"
        self.identity = json.dumps(["openai", server.url, model, body.sampling])
        self.counters: Counter[str] = Counter()
        self._stop = threading.Event()
        self._lock = threading.Lock()

    def answer(self, requests: Sequence[Request]) -> Iterator[list[tuple[int, Reply]]]:
        from openai import OpenAI as Client

        waiting, running = deque(enumerate(requests)), dict[Future[Reply], int]()
        failed: list[str] = []
        stop = ""
        self._stop.clear()
        own = Client(base_url=self.server.url, api_key=self.server.key(), timeout=self.server.timeout, max_retries=0)
        with own as client, ThreadPoolExecutor(self.concurrency) as pool:
            try:
                while running or (waiting and not stop):
                    while waiting and not stop and len(running) < self.concurrency:
                        place, request = waiting.popleft()
                        running[pool.submit(self._ask, client, request)] = place
                    done, _ = wait(running, return_when=FIRST_COMPLETED)
                    made = []
                    for future in done:
                        place = running.pop(future)
                        try:
                            made.append((place, future.result()))
                        except _Failed as error:
                            failed.append(f"request {place + 1} of {len(requests)}: {error}")
                        except _Stopped as error:
                            stop = stop or str(error)
                    if len(failed) >= GIVE_UP_AFTER:
                        stop = stop or failed[0]
                    if stop:
                        self._stop.set()
                    if made:
                        yield made
            finally:
                self._stop.set()
                client.close()
                if self.budget.spent:
                    self.counters["cents spent"] = math.ceil(100 * self.budget.spent)
        if stop or failed:
            missing = f"{len(failed)} requests failed and {len(waiting)} were not sent"
            raise GeneratorError(f"{self.name}: {stop or failed[0]}. {missing}; what was answered is kept, run again to go on")

    def _ask(self, client: Any, request: Request) -> Reply:
        """One request, with its repetitions.

        Raises:
            _Failed: every try failed.
            _Stopped: no other request will fare better.
        """
        most = self.budget.most(request)
        for attempt in itertools.count(1):
            if not self.budget.hold(most):
                raise _Stopped(f"max_spend of ${self.budget.cap:g} would be passed (${self.budget.spent:.4f} are spent); raise it")
            cost = 0.0
            try:
                reply = self._once(client, request)
                known = reply.prompt_tokens is not None and reply.reply_tokens is not None
                cost = self.budget.cost(reply.prompt_tokens or 0, reply.reply_tokens or 0) if known else most
                return reply if reply.text is not None else replace(reply, prompt_tokens=None, reply_tokens=None)
            except _Again as error:
                if attempt > self.patience.retries:
                    raise _Failed(f"failed {attempt} times, the last time so: {error}") from None
                if self._stop.wait(self.patience.before(attempt, error.after)):
                    raise _Failed("was stopped with the others") from None
            finally:
                self.budget.settle(most, cost)
            with self._lock:
                self.counters["tries repeated"] += 1
        raise AssertionError("unreachable")

    def _once(self, client: Any, request: Request) -> Reply:
        import openai as api

        try:
            raw = client.chat.completions.with_raw_response.create(**self.body.of(self.model, request))
            return _read(raw.http_response.text)
        except api.APIStatusError as error:
            said = self._plain(f"status {error.status_code}: {_shown(error.response.text)}")
            if error.status_code in REJECTED:
                return Reply(None, "rejected", 0, 0, error=said)
            if error.status_code in HOPELESS or error.code == "insufficient_quota":
                raise _Stopped(said) from None
            raise _Again(said, _seconds(error.response.headers.get("retry-after"))) from None
        except api.APIConnectionError as error:  # time-outs are of this kind too
            why = f" ({error.__cause__})" if error.__cause__ else ""
            raise _Again(self._plain(f"{error}{why}")) from None

    def _plain(self, text: str) -> str:
        """A message without the key, which some servers send back."""
        return text if self.server.variable is None else text.replace(self.server.key(), "[key]")


@dataclass(frozen=True)
class _Body:
    """How a request is put to the server."""

    limit_name: str
    sampling: bool

    def of(self, model: str, request: Request) -> dict[str, Any]:
        own = {"temperature": request.temperature, "seed": request.seed} if self.sampling else {}
        return {"model": model, "messages": [_turn(m) for m in request.messages], self.limit_name: request.max_new_tokens, **own}


def _turn(message: Message) -> dict[str, Any]:
    if not message.images:
        return {"role": message.role, "content": message.text}
    pictures = [{"type": "image_url", "image_url": {"url": _data_url(image)}} for image in message.images]
    return {"role": message.role, "content": [*pictures, {"type": "text", "text": message.text}]}


def _data_url(image: bytes) -> str:
    kinds = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif", b"RIFF": "webp"}
    kind = next((name for start, name in kinds.items() if image.startswith(start)), "png")
    return f"data:image/{kind};base64,{base64.b64encode(image).decode()}"


def _read(body: str) -> Reply:
    """The reply in a server's answer.

    Raises:
        _Again: it is none.
    """
    try:
        answer = json.loads(body)
        choice = answer["choices"][0]
        message, finish = choice["message"], choice.get("finish_reason")
        usage = answer.get("usage") or {}
        text = message.get("content") or message.get("refusal") or ""
        tokens = usage.get("prompt_tokens"), usage.get("completion_tokens")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        raise _Again(f"expected a chat completion, got {_shown(body)}") from None
    if not isinstance(text, str) or not all(t is None or isinstance(t, int) for t in tokens):
        raise _Again(f"expected a chat completion, got {_shown(body)}")
    if finish == "content_filter":
        return Reply(None, "rejected", *tokens, error="the server's content filter held the reply back")
    return Reply(text.strip(), "length" if finish == "length" else "stop", *tokens)


def _shown(text: str) -> str:
    plain = " ".join(text.split())
    return f"{plain[:200]}..." if len(plain) > 200 else plain or "nothing"


def _seconds(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:  # a date: our own pauses do as well
        return None
