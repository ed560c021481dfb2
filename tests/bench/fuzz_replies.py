"""Hostile replies through the real boundary: is every number that is kept one that can be, and does nothing else come out?

    python -m tests.bench.fuzz_replies [--cases 10000] [--over-http 1000] [--seed 0]

Each case is one request of a model or a generator (answer, options, P(True), draws, priors), answered by a toy whose reply was changed by
a seed (`tests.support.servers.hostile_replies`). Most go through the client with the bytes handed over beneath it, some over HTTP from a
server on loopback that also lies about lengths and chunks. What may come out: an answer whose every number is in its range, or one of the
client's own exceptions whose message is one printable line without the key. Anything else ends the run with the case's number, which with
the seed makes it again.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx

from qualm.runners.contracts.models import Part
from qualm.runners.data.answers import undefine_invalid
from qualm.runners.plugins.models._completions import entropy_lower_bounds, logprobs_in_prompt, option_logits, true_probability, yes_share
from qualm.runners.runtime.server_config import Price, Server
from qualm.runners.servers.client import Client, FatalRequestError, RequestFailedError, RequestRejectedError
from qualm.runners.servers.replies import Completion
from qualm.runners.servers.transport import BoundedTransport, read_body
from tests.support.servers.hostile_replies import Reply, draw
from tests.support.servers.small_server import serving
from tests.support.servers.toy_server import Toy

KEY, VARIABLE = "sk-very-secret-0123456789", "QUALM_FUZZ_KEY"
SLOW = 5.0
"""Seconds that one case may take."""
TALK = [{"role": "user", "content": "What?"}]
BODIES: list[dict[str, Any]] = [
    {"max_tokens": 4, "temperature": 0.0, "logprobs": True, "top_logprobs": 5, "return_token_ids": True},
    {"max_tokens": 1, "temperature": 0.0, "logprobs": True, "top_logprobs": 20},
    {"max_tokens": 4, "temperature": 0.7, "logprobs": True, "n": 3},
    {"max_tokens": 1, "temperature": 0.0, "logprobs": True, "prompt_logprobs": 0},
    {"max_tokens": 4, "temperature": 0.0},
]


class Wrong(Exception):
    """What must not be."""


class Handed(BoundedTransport):
    """The transport, but that the bytes are handed over and not sent."""

    reply: Reply = (200, b"", {})

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        status, data, headers = self.reply
        body = read_body(
            [data[at : at + 4096] for at in range(0, len(data), 4096)], headers.get("content-encoding", ""), self._time.largest
        )
        return httpx.Response(status, headers=headers, content=body, request=request)


def line(url: str) -> Client:
    made = Client(
        "fuzz", "m", url, Server(key=VARIABLE, retries=0, pause=0.01, timeout=0.5, deadline=1.0, price=Price(1.0, 1.0), max_spend=1e9)
    )
    if url == NOWHERE:
        import qualm.runners.servers.transport

        qualm.runners.servers.transport.BoundedTransport = Handed  # type: ignore[misc]
    made.openai_client()
    return made


NOWHERE = "http://127.0.0.1:9/v1"


def case(asked: Client, body: dict[str, Any]) -> str:
    """What came of one request: `answer`, or the name of the exception.

    Raises:
        Wrong: something that must not be.
    """
    before, start = asked.budget.spent, time.monotonic()
    asked._stop.clear()
    asked._unusable.clear()
    try:
        reply = asked.ask({"model": "m", "messages": TALK, **body})
    except (RequestRejectedError, RequestFailedError, FatalRequestError) as error:
        message = str(error)
        if not message.isprintable() or "very-secret" in message or len(message) > 1000:
            raise Wrong(f"message {message!r}") from None
        outcome = type(error).__name__
    else:
        outcome = "answer"
        _check(reply, body)
    if time.monotonic() - start > SLOW:
        raise Wrong(f"{time.monotonic() - start:.1f} s")
    if not 0 <= asked.budget.spent - before < 1e3:
        raise Wrong(f"spent {asked.budget.spent - before}")
    return outcome


def _check(reply: Completion, body: dict[str, Any]) -> None:
    _hold(all(c is None or 0 <= c <= 10**7 for c in reply.usage), f"counts {reply.usage}")
    _hold(1 <= len(reply.choices) <= body.get("n", 1), f"{len(reply.choices)} choices")
    for choice in reply.choices:
        _text(choice.text)
        _hold(len(choice.text) <= 128 * body["max_tokens"], f"{len(choice.text)} characters")
        for name, value in {"true": true_probability(choice.tops), "yes": yes_share(choice.tops)}.items():
            _hold(isinstance(value, str) or 0 <= value <= 1.02, f"{name} {value}")
        options = option_logits(choice.tops, 2)
        _hold(isinstance(options, str) or all(-9000 <= p <= 0.02 for p in options), f"options {options}")
        kept, _ = undefine_invalid(
            "answer", Part(choice.text, choice.ids, choice.logprobs, entropy_lower_bounds(choice.tops) if choice.tops else None)
        )
        _hold(all(math.isfinite(p) and -9000 <= p <= 0 for p in kept.logprobs or ()), f"log-probabilities {kept.logprobs}")
        _hold(all(math.isfinite(e) and 0 <= e <= 30 for e in kept.entropies or ()), f"entropies {kept.entropies}")
        _hold(all(0 <= i < 2**31 for i in kept.tokens or ()), f"ids {kept.tokens}")
        if reply.prompt is not None and choice.ids:
            found = logprobs_in_prompt(reply.prompt, choice.ids) or []
            _hold(all(p <= 0 for p in found), f"prior {found}")


def _text(text: str) -> None:
    _hold(isinstance(text, str) and "very-secret" not in text, f"text {text!r}")
    text.encode()


def _hold(holds: bool, what: str) -> None:
    if not holds:
        raise Wrong(what)


def honest(rng: random.Random, body: dict[str, Any]) -> dict[str, Any]:
    talk = [*TALK, {"role": "assistant", "content": "red"}] if "prompt_logprobs" in body else TALK
    answer: dict[str, Any] = json.loads(Toy()({"messages": talk, "seed": rng.randrange(2**31), **body}, 0)[1])
    return answer


def handed_over(cases: int, seed: int) -> Counter[str]:
    """Bytes handed over beneath the client."""
    outcomes: Counter[str] = Counter()
    asked = line(NOWHERE)
    for number in range(cases):
        rng = random.Random(f"{seed} {number}")
        body = rng.choice(BODIES)
        asked._transport.reply = draw(rng, honest(rng, body))
        outcomes[_tried(number, lambda body=body: case(asked, body))] += 1
    asked.close()
    return outcomes


def over_http(cases: int, seed: int) -> Counter[str]:
    """From a server that also lies about lengths, sends in pieces and goes away."""
    outcomes: Counter[str] = Counter()
    rng = random.Random(f"{seed} over http")

    def script(body: dict[str, Any], nth: int) -> Any:
        status, data, headers = draw(rng, honest(rng, {k: v for k, v in body.items() if k not in ("model", "messages")}))
        headers = {k: v for k, v in headers.items() if v.isprintable()}
        how = rng.randrange(8)
        if how == 0:
            headers["content-length"] = str(rng.choice([0, len(data) // 2, len(data) + 9, -1, "x", 10**20]))
            headers["connection"] = "close"
        elif how == 1:
            return status, (data[at : at + 7] for at in range(0, min(len(data), 7000), 7)), headers
        elif how == 2:
            return status, data, {**headers, "transfer-encoding": "chunked", "connection": "close"}
        return status, data, headers

    with serving(script) as server:
        for number in range(cases):
            asked = line(server.url)
            outcomes[_tried(number, lambda asked=asked: case(asked, rng.choice(BODIES)))] += 1
            asked.close()
    return outcomes


def _tried(number: int, work: Callable[[], str]) -> str:
    try:
        return work()
    except BaseException as error:
        error.add_note(f"case {number}")
        raise


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--over-http", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(arguments)
    os.environ[VARIABLE] = KEY
    for name, work, cases in (("over HTTP", over_http, chosen.over_http), ("handed over", handed_over, chosen.cases)):
        start = time.monotonic()
        outcomes = work(cases, chosen.seed)
        told = ", ".join(f"{n:,} {what}" for what, n in outcomes.most_common())
        print(f"{name}: {cases:,} cases in {time.monotonic() - start:.0f} s: {told}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
