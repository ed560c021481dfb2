"""Client of servers with OpenAI's protocol: OpenAI itself, vLLM, SGLang, `transformers serve`.

The client is the official one. What is added is what decides whether a night's run is lost: every answer is handed over (and
kept) as it comes, what may pass is tried again with growing pauses, what will not pass stops the run at once, and a run never
spends more than it was given. What comes back is bounded (`qualm.runners.servers.transport`) and read by
`qualm.runners.servers.replies`. What is asked is the caller's; no answer depends on this module.
"""

import base64
import itertools
import math
import os
import re
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar
from urllib.parse import quote, urlsplit

from qualm.registry.text import count, one_line
from qualm.runners.runtime.server_config import Server
from qualm.runners.runtime.spending_limit import WAIT, SpendingLimitError
from qualm.runners.servers.protocol import (
    ImpossibleReplyError,
    InvalidReplyError,
    NotAReplyError,
    ReplyTooLargeError,
    excerpt,
    token_bounds,
)
from qualm.runners.servers.rate_limits import Budget, RateLimiter, RetryPolicy
from qualm.runners.servers.replies import Completion, max_reply_bytes, read_completion

FATAL_STATUSES = (401, 402, 403, 404, 405, 501)
"""HTTP statuses that every other request would get too."""
REJECTED_STATUSES = (400, 413, 422)
"""HTTP statuses that concern one request, such as a prompt that is too long."""
MAX_FAILURES_IN_A_ROW = 3
"""Failed requests in a row, with no answer in between, that stop the run."""
MAX_IMPOSSIBLE_RETRIES = 2
"""Retries after an impossible reply, which the server will likely repeat."""
FIRST_CONNECT = 4.0
"""Seconds for the first connection to a server; later ones have `timeout`."""
MAX_ANSWERS_PER_REQUEST = 64
"""Maximum `n` of one request; OpenAI allows 128."""
NO_KEY = "none"
T = TypeVar("T")
R = TypeVar("R")


class ServerError(Exception):
    """The run cannot go on; the message says why. Earlier answers are stored."""


class FatalRequestError(Exception):
    """Every other request would fail too; the message says why."""


class RequestFailedError(Exception):
    """All tries of one request failed; another request may succeed."""


class RequestRejectedError(Exception):
    """The server always refuses this request; the message says why."""


class UnusableReplyError(RequestRejectedError):
    """Every try returned an invalid reply; the message describes the last."""


class ReplyPendingError(Exception):
    """The reply will come with a batch; ask again in the next round."""


class RetryableError(Exception):
    """A failed try that may be repeated, after the seconds that the server asked for."""

    def __init__(self, message: str, after: float | None = None, silent: bool = False) -> None:
        super().__init__(message)
        self.after = after
        self.silent = silent
        """True if the server received the request and may charge for it."""


class Exchange(Protocol):
    """Source of replies to requests that are sent in batches."""

    def ask(self, place: int, about: str, body: Mapping[str, Any]) -> Completion:
        """Return the reply to a request for part `about` of item number `place`, as `Client.ask`.

        Raises:
            ReplyPendingError: not yet.
        """


def format_attempts(n: int) -> str:
    return "once" if n == 1 else f"{n} times"


class Client:
    """Connection to one model of one server; `ask` is thread-safe.

    Building it sends nothing and looks for no key: the first request does.
    """

    def __init__(self, who: str, model: str, base_url: str, server: Server) -> None:
        """Check the addresses; nothing is sent.

        Args:
            who: for messages to people.
            model: as the server names it.
            base_url: as the spec has it.
            server: how it is reached.

        Raises:
            ValueError: an address that is not valid, or that holds a secret.
        """
        for place, address in (("base_url", base_url), ("`address` of qualm.toml", server.address or base_url)):
            parts = urlsplit(address)
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password or parts.query:
                raise ValueError(f"{place}: expected http(s)://HOST[:PORT]/PATH without user, password or query")
        self.model, self.base_url, self.server = model, base_url, server
        self.name = f"{who} ({model} at {server.address or base_url})"
        self.budget = Budget(server.price, server.max_spend, server.spending)
        self.counters: Counter[str] = Counter()
        """Counts of repeated tries and spent cents."""
        self.tokens: Counter[str] = Counter()
        """Tokens sent and received, as the server counts them."""
        self._retry_policy = RetryPolicy(server.retries, server.pause)
        self._rate_limiter = RateLimiter(server.requests_per_minute, server.tokens_per_minute)
        self._client: Any = None
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._item = threading.local()
        self.exchange: Exchange | None = None
        """Source of replies for requests that go in batches (`qualm.runners.inference`)."""
        self._unusable: set[int] = set()
        """Places of the items with invalid replies since the last valid one."""
        self._was_reached = False
        """True once the server has replied; before that, a failed connection stops the run."""
        self._reason_to_stop = ""

    def ask(self, body: Mapping[str, Any], about: str = "", now: bool = False) -> Completion:
        """Send a chat completion request and return the reply, retrying as the settings allow.

        Args:
            body: of the request.
            about: the part of the item's answer that it is for; a part asks for nothing twice by the same body.
            now: in no batch, whatever the settings say.

        Raises:
            RequestRejectedError: this request has no answer, or none that can be used.
            RequestFailedError: every try failed.
            FatalRequestError: no other request will fare better.
            ReplyPendingError: it is on its way in a batch.
        """
        if self._stop.is_set():
            raise RequestFailedError("was stopped with the others")
        if self.exchange is not None and not now:
            return self.exchange.ask(self._item.place, about, body)
        self.openai_client()
        # What it may cost at most is set aside first, so that requests on their way can never pass the cap together.
        sent, received = token_bounds(body)
        most = self.budget.price.dollars(sent, received)
        for attempt in itertools.count(1):
            try:
                held = self.budget.hold(most, self._stop.is_set)
            except SpendingLimitError as error:
                raise FatalRequestError(str(error)) from None
            if held == WAIT:
                raise RequestFailedError("was stopped with the others")
            cost = 0.0
            try:
                if self._stop.wait(self._rate_limiter.reserve(sent // 4 + received)):
                    raise RequestFailedError("was stopped with the others")
                completion = self._send_once(body)
                cost = self._settle(completion.usage, most, sent // 4 + received)
                self._unusable.clear()
                return completion
            except (RetryableError, InvalidReplyError) as error:
                # A reply that cannot be used was paid for all the same; so may be one that never came.
                cost = most if isinstance(error, InvalidReplyError) or error.silent else cost
                retries = self._retry_policy.retries
                if isinstance(error, ImpossibleReplyError):
                    retries = 0 if isinstance(error, ReplyTooLargeError) else min(retries, MAX_IMPOSSIBLE_RETRIES)
                if attempt > retries:
                    raise self.final_error(error, attempt) from None
                after = getattr(error, "after", None)
                # What one thread is told to wait holds for all of them.
                if after:
                    self._rate_limiter.pause(after)
                if self._stop.wait(self._retry_policy.seconds_before(attempt, after)):
                    raise RequestFailedError("was stopped with the others") from None
            finally:
                self.budget.settle(held, cost)
            with self._lock:
                self.counters["tries repeated"] += 1
        raise AssertionError("unreachable")

    def final_error(self, last_error: Exception, attempts: int) -> Exception:
        """Return the exception for a request whose last try failed; count it if it was invalid."""
        message = self.plain(str(last_error))
        if not isinstance(last_error, InvalidReplyError) or isinstance(last_error, NotAReplyError):
            return RequestFailedError(f"failed {format_attempts(attempts)}, the last time: {message}")
        with self._lock:
            self.counters["replies that cannot be used"] += 1
            self._unusable.add(getattr(self._item, "place", 0))
            in_a_row = len(self._unusable)
        if (
            in_a_row >= self.server.concurrency - 1 + MAX_FAILURES_IN_A_ROW
        ):  # those on their way may all be at the one thing that it gets wrong
            return FatalRequestError(f"no reply to {in_a_row} requests in a row can be used; the last: {message}")
        if attempts == 1:
            return UnusableReplyError(f"the reply cannot be used: {message}")
        return UnusableReplyError(f"none of {attempts} replies can be used; the last: {message}")

    def pooled(self, items: Sequence[T], work: Callable[[T], Iterable[R]], what: str = "request") -> Iterator[list[tuple[int, R]]]:
        """Run `work` on `concurrency` items at a time; yield batches of (item index, result).

        Whatever comes from an item before its work fails is handed over too. Requests are only to be made within this.

        Args:
            items: what there is to do.
            work: does one; called on threads, and may call `ask`.
            what: an item is called, in messages.

        Raises:
            ServerError: the run ended before everything was done.
        """
        waiting, running, streak = deque(enumerate(items)), 0, 0
        done: SimpleQueue[tuple[int, R | None, BaseException | None, bool]] = SimpleQueue()
        failed: list[str] = []
        stop = ""
        fault: BaseException | None = None
        self._reason_to_stop = ""
        self._stop.clear()
        self._unusable.clear()

        def run(place: int, item: T) -> None:
            self._item.place = place
            try:
                for results in work(item):
                    done.put((place, results, None, False))
                done.put((place, None, None, True))
            # A thread's error would be lost in its future; here it reaches whoever waits for results.
            except BaseException as error:  # noqa: BLE001 - raised where the result is awaited
                done.put((place, None, error, True))

        with ThreadPoolExecutor(self.server.concurrency, thread_name_prefix="asking") as pool:
            try:
                while running or (waiting and not stop):
                    while waiting and not stop and running < self.server.concurrency:
                        pool.submit(run, *waiting.popleft())
                        running += 1
                    results: list[tuple[int, R]] = []
                    for place, result, error, ended in _drain(done):
                        running -= ended
                        if result is not None:
                            results.append((place, result))
                            # Only failures in a row, with no answer between them, mean that the server is gone.
                            streak = 0
                        elif isinstance(error, RequestFailedError):
                            failed.append(f"{what} {place + 1} of {len(items)}: {error}")
                            streak += 1
                        elif isinstance(error, FatalRequestError):
                            failed.append(str(error))
                            stop = stop or failed[-1]
                        elif error is not None:
                            fault = fault or error
                            stop = stop or str(error) or type(error).__name__
                    if streak >= MAX_FAILURES_IN_A_ROW:
                        stop = stop or failed[-1]
                    if stop:
                        self._stop.set()
                    if results:
                        yield results
                    stop = stop or self._reason_to_stop
            finally:
                self.close()
        if fault is not None:
            raise fault
        if stop or failed:
            missing = f"{count(len(failed), what)} failed and {len(waiting)} {'was' if len(waiting) == 1 else 'were'} not sent"
            raise ServerError(f"{self.name}: {stop or failed[0]}. {missing}; what was answered is kept, run again to go on")

    def stop(self, reason: str) -> None:
        """End `pooled` after the running requests, whose replies are already paid for."""
        self._reason_to_stop = reason

    def close(self) -> None:
        """Cancel running requests; store the spent cents, if any, in `counters["cents spent"]`."""
        self._stop.set()
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()  # and the transport beneath it
        if self.budget.spent:
            self.counters["cents spent"] = math.ceil(100 * self.budget.spent - 1e-6)

    def openai_client(self) -> Any:
        """Return OpenAI's client, created on first use; raise FatalRequestError without a key."""
        import httpx
        from openai import OpenAI

        from qualm.runners.servers.transport import BoundedTransport

        with self._lock:
            if self._client is None:
                address, key = self.server.address or self.base_url, self._key()
                self._transport = BoundedTransport(address)
                # No proxies and credentials from the environment: what is sent goes where the spec says, and nowhere by redirection.
                http: Any = httpx.Client(transport=self._transport, follow_redirects=False, trust_env=False)
                self._client = OpenAI(base_url=address, api_key=key, timeout=self.server.timeout, max_retries=0, http_client=http)
            return self._client

    def _key(self) -> str:
        """Return the API key, "none" if the server wants none; FatalRequestError if it is not set.

        It is read on the first request only, since stored answers need none.
        """
        if not self.server.key:
            return NO_KEY
        key = os.environ.get(self.server.key)
        if not key:
            raise FatalRequestError(
                f"expected a key in the environment variable {self.server.key}, which is not set; export it, or name another by "
                f'`key` under [servers."{self.base_url}"] in qualm.toml (empty: the server wants none)'
            )
        return key

    def _send_once(self, body: Mapping[str, Any]) -> Completion:
        """Send a request once and return its reply.

        Raises:
            InvalidReplyError, RequestRejectedError, FatalRequestError, RetryableError: there is none, by whose fault.
        """
        rest = {name: value for name, value in body.items() if name not in ("model", "messages")}

        def call(client: Any) -> Any:
            return client.chat.completions.with_raw_response.create(model=body["model"], messages=body["messages"], extra_body=rest)

        return self.parse_reply(self.call(call, max_reply_bytes(body), self.server.deadline).http_response.content, body)

    def call(self, request: Callable[[Any], T], max_bytes: int, seconds: float) -> T:
        """Return `request(openai_client)`, with its reply limited in bytes and seconds.

        Raises:
            InvalidReplyError, RequestRejectedError, FatalRequestError, RetryableError: it gives none, by whose fault.
        """
        import openai as api

        from qualm.runners.servers.transport import is_unreachable

        client = self.openai_client()
        try:
            with self._transport.bounds(max_bytes, seconds, 0.0 if self._was_reached else FIRST_CONNECT):
                result = request(client)
            self._was_reached = True
            return result
        except api.APIStatusError as error:
            self._was_reached, response = True, error.response
            raise self.status_error(response.status_code, response.text, response.headers.get("retry-after")) from None
        except api.APIConnectionError as error:  # time-outs are of this kind too
            if isinstance(error.__cause__, InvalidReplyError):
                raise error.__cause__ from None
            why = f" ({error.__cause__})" if error.__cause__ else ""
            if not self._was_reached and is_unreachable(error.__cause__):
                address = self.server.address or self.base_url
                raise FatalRequestError(
                    self.plain(
                        f"cannot connect to {address}{why}; start the server, or correct the address: `base_url` in the spec, or `address` "
                        f'under [servers."{self.base_url}"] in qualm.toml'
                    )
                ) from None
            silent = isinstance(error, api.APITimeoutError) and type(error.__cause__).__name__ != "ConnectTimeout"
            raise RetryableError(self.plain(f"{error}{why}"), silent=silent) from None

    def parse_reply(self, data: bytes, body: Mapping[str, Any]) -> Completion:
        """Parse a reply's bytes and count its remarks; raise InvalidReplyError if invalid."""
        key = os.environ.get(self.server.key, "") if self.server.key else ""
        if reveals(data.decode("utf-8", "replace"), key):  # before any message quotes a part of it
            raise ImpossibleReplyError("expected an answer, got one that repeats the key it was asked with; it is not kept")
        completion = read_completion(data, body)
        with self._lock:
            self.counters.update(completion.remarks)
        return completion

    def status_error(self, status: int, reply_text: str, retry_after: str | None = None) -> Exception:
        """Return the exception to raise for an HTTP status other than 200."""
        message = self.plain(f"status {status}: {excerpt(self.plain(reply_text))}")
        if 300 <= status < 400:
            return FatalRequestError(
                f"{message}; redirects are not followed: give the final address (`base_url`, or `address` in qualm.toml)"
            )
        if status in REJECTED_STATUSES:
            return RequestRejectedError(message)
        if status in FATAL_STATUSES or "insufficient_quota" in reply_text:
            return FatalRequestError(message)
        return RetryableError(message, _parse_retry_after(retry_after))

    def _settle(self, usage: tuple[int | None, int | None], max_dollars: float, reserved_tokens: int) -> float:
        """Return a reply's cost, or `max_dollars` without usage; correct the rate, count tokens."""
        read, written = usage
        if not read or not written:  # nobody reads a request of no tokens
            return max_dollars
        self._rate_limiter.correct(read + written - reserved_tokens)
        with self._lock:
            self.tokens.update(sent=read, received=written)
        return self.budget.price.dollars(read, written)

    def plain(self, text: str) -> str:
        """Return a message on one line, without the API key."""
        key = os.environ.get(self.server.key, "") if self.server.key else ""
        return one_line(redact(text, key))


def _drain(queue: SimpleQueue[R]) -> Iterator[R]:
    """Wait for a queue's first item; yield it and all others that are already there."""
    yield queue.get()
    while True:
        try:
            yield queue.get_nowait()
        except Empty:
            return


def _parse_retry_after(text: str | None) -> float | None:
    """Parse `Retry-After`, in seconds or as a date; None if it is neither."""
    try:
        seconds = float(text) if text else math.nan
        return seconds if math.isfinite(seconds) else None
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(str(text)).timestamp() - time.time())
    except (ValueError, TypeError, IndexError, OverflowError):  # neither: our own pauses do as well
        return None


MIN_KEY_LENGTH = 8
"""Minimum length of a key to search for; shorter ones (EMPTY, none, token) occur by chance."""


def redact(text: str, key: str) -> str:
    """Replace the key in a text, in any encoding, by `[key]`."""
    return key_pattern(key).sub("[key]", text.replace("\0", "")) if key else text


def reveals(text: str, key: str) -> bool:
    """Return whether a text contains the key in any encoding; False for very short keys."""
    return len(key) >= MIN_KEY_LENGTH and key_pattern(key).search(text.replace("\0", "")) is not None


def key_pattern(key: str) -> re.Pattern[str]:
    """Return a pattern that finds a key plain, URL-, JSON-, HTML-, hex- or base64-encoded.

    >>> [bool(key_pattern("sk-1").search(t)) for t in ("SK-1", "%73k%2D1", "736b2d31", "c2stMQ", "sk-2")]
    [True, True, True, True, False]
    """
    letters = "".join(rf"(?:{re.escape(c)}|{re.escape(quote(c, safe=''))}|%{ord(c):02x}|\\+u00{ord(c):02x}|&\#{ord(c)};)" for c in key)
    raw = key.encode("utf-8", "surrogatepass")
    return re.compile("|".join([letters, raw.hex(), *_base64_forms(raw)]), re.IGNORECASE)


def _base64_forms(raw: bytes) -> list[str]:
    """Return regular expressions of a key in base64 at byte offsets 0 to 2, without the ends."""
    forms = []
    for before in range(3):
        coded = base64.b64encode(b"\0" * before + raw).decode().rstrip("=")
        whole = 8 * (before + len(raw)) // 6
        inner = coded[-(-8 * before // 6) : whole]
        if len(inner) >= MIN_KEY_LENGTH * 3 // 4 or before == 0:
            forms.append("".join({"+": "[+-]", "/": "[/_]"}.get(c, c) for c in inner))
    return forms
