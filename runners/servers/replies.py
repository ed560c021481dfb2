"""Read chat completions: every reply of every server becomes a `Completion` here, and nowhere else.

A reply is an answer if it is a JSON object with a choice in `choices`: its text, or that it has none. Everything else is optional. A field
that is missing or invalid is undefined, with the reason, and never costs the text. A log-probability is kept only where all tokens of
the answer have a valid one and together spell the answer. A reply without a choice, or one that the server says it broke off, is no
answer: `NotAReplyError`, `InvalidReplyError` and `ImpossibleReplyError` say how often to ask again.

Honest servers round. So a log-probability up to `ROUNDING_TOLERANCE` above 0 counts as 0, the probabilities of one position may add up
to `SUM_TOLERANCE` more than 1, and a token's log-probability may differ by `MAX_DIFFERENCE` from the one it has among the likeliest.
Sizes, time and hosts are limited in `qualm.runners.servers.transport`; numbers are checked again where they are stored
(`qualm.runners.data.answers`).
"""

import json
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from qualm.registry.formats.plausible import MIN_LOGPROB, ROUNDING_TOLERANCE, SUM_TOLERANCE
from qualm.runners.servers.protocol import (
    ImpossibleReplyError,
    InvalidReplyError,
    NotAReplyError,
    answer_limit,
    excerpt,
    is_count,
    read_usage,
    token_bounds,
)

MAX_DIFFERENCE = 0.01
MAX_ID = 2**31 - 1
MAX_NAME = 1000
_MIN_LOGPROB = -1e300
ENDED = ("stop", "eos", "eos_token", "stop_sequence", "end_turn", "")
CUT = ("length", "max_tokens", "model_length", "max_output_tokens", "max_length")
FILTERED = (
    "content_filter", "content_filtered", "safety", "recitation", "blocklist", "prohibited_content", "spii", "image_safety", "refusal",
    "guardrail_intervened",
)  # fmt: skip
BROKEN = ("error", "abort", "aborted", "cancelled", "canceled", "failed", "insufficient_system_resource")
"""Reasons to end an answer, in lower case. BROKEN ones are failures of the server; reasons that are not listed count as ENDED."""
EXTRA_TOKENS = 1
"""Tokens beyond the limit that are let pass: some servers list the mark that ends an answer."""
EXTRA_COUNTED = 2
"""Excess tokens of a count in `usage` that are accepted: some servers include marks at both ends."""
MAX_END_MARKS = 4
MAX_TOKEN_BYTES = 128
"""Bytes of the longest tokens of published vocabularies."""
_BASE_BYTES, _TOKEN_BYTES = 2**20, 512
"""Maximum bytes of a reply: fixed part, and per token or alternative token."""
END_MARK = re.compile(r"<\|[^<>]{1,40}\|>|<[^<>\s]{1,40}>|\[/?[A-Z_]{1,20}\]")
"""Marks that servers show as tokens: ends of an answer or turn."""
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_UNREADABLE = "\ufffd"

TOO_MANY_TOKENS = "replies longer than the request allows"
EXTRA_LOGPROBS = "replies that list tokens which are not in the answer"
NO_SPELLING = "the tokens that have log-probabilities do not spell the answer"
NO_LOGPROBS = "the reply has no log-probabilities"


@dataclass(frozen=True)
class CompletionChoice:
    """One answer of a completion."""

    text: str
    """Stripped text; "" without one."""
    logprobs: list[float] | None = None
    """Log-probabilities of its tokens; None if undefined."""
    tops: list[dict[str, float]] = field(default_factory=list)
    """Likeliest tokens with log-probabilities, by position."""
    ids: list[int] | None = None
    """Token ids, if the server shows them."""
    ended: bool = False
    """True if it ended by itself, with the end mark not among the tokens."""
    filtered: bool = False
    """True if the server's filter ended it."""
    tokens: list[str] | None = None
    """Tokens as text, with undecodable bytes as in `surrogateescape`, if they have log-probabilities."""
    reasoning: str | None = None
    """Thinking, if the server separates it."""
    cut: bool = False
    """True if it reached the token limit."""
    refused: bool = False
    """True if the text is from the message's `refusal` field."""
    too_long: bool = False
    """True if the text is left out because it is longer than allowed."""
    unreadable: str = ""
    """Why the text cannot be read."""
    no_logprobs: str = ""
    """Why `logprobs` is None."""


@dataclass(frozen=True)
class Completion:
    choices: list[CompletionChoice]
    prompt: list[dict[int, float]] | None = None
    """Id and log-probability of every prompt token, if the server shows them."""
    served: tuple[str, str] = ("", "")
    """The model as the server names it, and its fingerprint."""
    usage: tuple[int | None, int | None] = (None, None)
    """Tokens sent and received; None if the server reports none."""
    remarks: tuple[str, ...] = ()
    """Names of counters to raise, each once per reply."""


def max_reply_bytes(body: Mapping[str, Any]) -> int:
    """Return the maximum bytes of a valid reply to a request body."""
    sent, received = token_bounds(body)
    tokens = received * (1 + body.get("top_logprobs", 0)) + (sent if "prompt_logprobs" in body else 0)
    return int(_BASE_BYTES + _TOKEN_BYTES * tokens)


def read_completion(data: bytes, body: Mapping[str, Any]) -> Completion:
    """Parse a server's reply; raise if it is no completion or every choice was broken off.

    Raises:
        NotAReplyError: it is no JSON at all, such as a page of a proxy.
        InvalidReplyError: it is another JSON value, such as an error of the provider.
        ImpossibleReplyError: it is cut off, has no choice, or the server broke it off.
    """
    answer = _parse(data)
    if not isinstance(answer, dict) or "choices" not in answer or (answer.get("error") and not answer["choices"]):
        raise InvalidReplyError(f"expected a chat completion, got {_excerpt(answer)}")
    listed = [raw for raw in _list(answer["choices"]) if isinstance(raw, dict)]
    raw_choices = listed[: body.get("n", 1)]
    whole = [raw for raw in raw_choices if _finish_reason(raw) not in BROKEN and not raw.get("error")]
    if not raw_choices:
        raise ImpossibleReplyError(f"expected a chat completion with a choice, got {_excerpt(answer)}")
    if not whole:
        raise ImpossibleReplyError(
            f"the server broke the reply off: {_excerpt(raw_choices[0].get('error') or _finish_reason(raw_choices[0]))}"
        )
    usage = read_usage(answer)
    counted = usage[1] if body.get("n", 1) == 1 else None
    remarks = ["replies with more answers than were asked for"] if len(listed) > len(raw_choices) else []
    choices = [_read_choice(raw, answer_limit(body), counted, remarks) for raw in whole]
    names = [answer.get(name) for name in ("model", "system_fingerprint")]
    model, fingerprint = (name if isinstance(name, str) and len(name) <= MAX_NAME else "" for name in names)
    return Completion(choices, _read_prompt(answer.get("prompt_logprobs")), (model, fingerprint), usage, tuple(dict.fromkeys(remarks)))


def locate_tokens(tokens: Sequence[str], text: str) -> tuple[int, int] | None:
    """Return the (start, stop) of the tokens at the end that spell `text`; None if none do.

    Only blanks and marks that end an answer may follow.

    >>> locate_tokens(["Hm", ".", " dark", " red", "<|im_end|>"], "dark red"), locate_tokens(["dark"], "dark red")
    ((2, 4), None)
    """
    # Bytes, since a token may be a part of a character; and those that are no text as one character each, which no text holds.
    pieces, wanted = [_to_bytes(token) for token in tokens], text.strip().encode()
    stop, marks = len(pieces), 0
    while wanted and marks <= MAX_END_MARKS:
        while stop and not tokens[stop - 1].strip():
            stop -= 1
        spelled = _to_bytes(b"".join(pieces[:stop]).decode("utf-8", "surrogateescape").rstrip())
        if spelled.endswith(wanted) and (start := _token_at(pieces, len(spelled) - len(wanted))) is not None:
            return start, stop
        if not stop or not _is_end(tokens[stop - 1]):
            break
        stop, marks = stop - 1, marks + 1
    return (0, 0) if not wanted and all(map(_is_end, tokens)) else None


def _token_at(pieces: Sequence[bytes], byte_offset: int) -> int | None:
    """Return the index of the token that begins at a byte offset, blanks aside; or None."""
    begin = 0
    for number, piece in enumerate(pieces):
        if begin <= byte_offset < begin + len(piece):
            if piece[: byte_offset - begin].strip():
                return None
            while number and not pieces[number - 1]:  # a part of a character, which the next token shows whole
                number -= 1
            return number
        begin += len(piece)
    return None


def _to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _is_end(token: str) -> bool:
    return not token.strip() or END_MARK.fullmatch(token.strip()) is not None


def _parse(data: bytes) -> Any:
    """Parse the JSON value, or stream of events, of a reply; NotAReplyError if there is none.

    Comments and blanks around it are ignored; ImpossibleReplyError if it is broken off.
    """
    text = data.decode("utf-8-sig", "replace")
    lines = [line for line in text.splitlines() if not line.startswith(":")]
    try:
        if any(line.startswith("data:") for line in lines):
            return _join_stream([line[5:].strip() for line in lines if line.startswith("data:")])
        value, _ = json.JSONDecoder().raw_decode("\n".join(lines).lstrip())
        if "\\ud" in text.lower():  # half of a surrogate pair cannot be stored
            value = json.loads(json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    except (ValueError, RecursionError):
        kind = ImpossibleReplyError if data.lstrip()[:1] in (b"{", b"[") else NotAReplyError
        raise kind(f"expected a chat completion, got {excerpt(text[:1000])}") from None
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _join_stream(events: Sequence[str]) -> Any:
    """Join the events of a streamed reply to one completion; some gateways stream unasked."""
    chunks = [json.loads(event) for event in events if event and event != "[DONE]"]
    chunks = [chunk for chunk in chunks if isinstance(chunk, dict)]
    choices: dict[Any, dict[str, Any]] = {}
    for raw in (raw for chunk in chunks for raw in _list(chunk.get("choices")) if isinstance(raw, dict)):
        choice = choices.setdefault(str(raw.get("index")), {"message": {}, "logprobs": {"content": []}})
        message, more = choice["message"], raw.get("message") or raw.get("delta")
        for name in ("content", "refusal", "reasoning_content", "reasoning"):
            if isinstance(more, dict) and isinstance(more.get(name), str):
                message[name] = message.get(name, "") + more[name]
        if isinstance(raw.get("logprobs"), dict):
            choice["logprobs"]["content"] += _list(raw["logprobs"].get("content"))
        if raw.get("finish_reason"):
            choice["finish_reason"] = raw["finish_reason"]
    last = {name: value for chunk in chunks for name, value in chunk.items() if value is not None}
    return {**last, "choices": list(choices.values())} if "choices" in last else last


def _read_choice(raw: Mapping[str, Any], limit: int, counted: int | None, remarks: list[str]) -> CompletionChoice:
    message = raw.get("message")
    message = message if isinstance(message, dict) else {"content": message if isinstance(message, str) else raw.get("text", {})}
    said = _read_content(message.get("content"))
    finish, refusal, text = _finish_reason(raw), message.get("refusal"), said.text.strip()
    refusal = refusal if isinstance(refusal, str) else said.refusal
    thought = [_read_content(message.get(name)).text for name in ("reasoning_content", "reasoning")]
    choice = CompletionChoice(
        text or refusal.strip(),
        filtered=finish in FILTERED,
        reasoning=next(filter(None, [*thought, said.thinking]), None),
        cut=finish in CUT,
        refused=bool(refusal.strip()) and not text,
        unreadable="" if text or refusal else said.problem,
    )
    if (message.get("tool_calls") or message.get("function_call")) and not choice.text:
        remarks.append("replies that call a tool and answer nothing")
    choice = _add_tokens(choice, raw, finish in ENDED or finish not in (*CUT, *FILTERED), remarks)
    return _enforce_limit(choice, limit, counted, remarks)


@dataclass
class _Content:
    text: str = ""
    thinking: str = ""
    refusal: str = ""
    problem: str = ""


def _read_content(value: Any) -> _Content:
    """Read a message's content, a text or a list of parts, as text, thinking and refusal."""
    if value is None or isinstance(value, str):
        return _Content(value or "")
    if not isinstance(value, list | dict):
        return _Content(problem=f"content: expected a text, got {_excerpt(value)}")
    content, others = _Content(), 0
    for part in value if isinstance(value, list) else [value]:
        part = {"text": part} if isinstance(part, str) else part if isinstance(part, dict) else {}
        kind, text = part.get("type") or "text", part.get("text")
        text = text.get("value") if isinstance(text, dict) else text
        if kind in ("text", "output_text") and isinstance(text, str):
            content.text += text
        elif kind == "refusal" and isinstance(part.get("refusal"), str):
            content.refusal += part["refusal"]
        elif kind in ("thinking", "reasoning"):
            thoughts = part.get(kind, text)
            for thought in thoughts if isinstance(thoughts, list) else [thoughts]:
                thought = thought.get("text") if isinstance(thought, dict) else thought
                content.thinking += thought if isinstance(thought, str) else ""
        else:
            others += 1
    if others and not content.text:
        content.problem = "content: expected a text, got parts of which none is a text"
    return content


def _add_tokens(choice: CompletionChoice, raw: Mapping[str, Any], ended: bool, remarks: list[str]) -> CompletionChoice:
    """Return a choice with valid token ids, log-probabilities, alternatives; extend `remarks`."""
    ids = raw.get("token_ids")
    ids = ids if isinstance(ids, list) and all(is_count(i, MAX_ID) for i in ids) else None
    try:
        entries = _read_entries(raw.get("logprobs"))
        if not entries:
            return replace(choice, ids=ids, no_logprobs=NO_LOGPROBS)
        own, tops = zip(*(_read_entry(entry, f"logprobs[{n}]") for n, entry in enumerate(entries)), strict=True)
    except ImpossibleReplyError as error:
        return replace(choice, ids=ids, no_logprobs=str(error))
    logprobs, alternatives = list(own), list(tops)
    spellings = [[spell(entry) for entry in entries] for spell in (_by_bytes, _by_token, _by_piece)]
    # Thinking that the reply tells apart, or that its text holds, is parted from the answer by whoever reads it.
    tokens, place = next(((s, p) for s in spellings if (p := locate_tokens(s, choice.text)) is not None), (spellings[0], None))
    if place is None and any(_spells_roughly(spelling, choice.text) for spelling in spellings):
        place = (0, len(entries))
    if ids is not None and not 0 <= len(ids) - len(entries) <= 1:
        ids = None
    if choice.reasoning is None and place is None:
        return replace(choice, ids=ids, no_logprobs=NO_SPELLING)
    if choice.reasoning is None and place is not None and not all(map(_is_end, tokens[: place[0]])):
        start = place[0]
        remarks.append(EXTRA_LOGPROBS)
        tokens, logprobs, alternatives, ids = tokens[start:], logprobs[start:], alternatives[start:], None if ids is None else ids[start:]
        place = (0, place[1] - start)
    hides_end = place is not None and bool(tokens) and not any(token.strip() for token in tokens[place[1] :])
    return replace(choice, logprobs=logprobs, tops=alternatives, ids=ids, tokens=tokens, ended=ended and hides_end)


def _enforce_limit(choice: CompletionChoice, limit: int, reported_tokens: int | None, remarks: list[str]) -> CompletionChoice:
    """Return a choice cut to `limit` tokens (0: any), or emptied; extend `remarks` if changed."""
    size = len(choice.text.encode())
    listed = choice.tokens if choice.tokens is not None else choice.ids
    if listed is not None and choice.reasoning is None:
        over = len(listed) > limit + EXTRA_TOKENS
    else:  # a count above the bytes of the text is of tokens that are not shown, such as thinking
        over = choice.reasoning is None and reported_tokens is not None and limit + EXTRA_COUNTED < reported_tokens <= size
    over = over and size > limit  # a token has at least one byte
    if not limit or not (over or size > limit * MAX_TOKEN_BYTES):
        return choice
    remarks.append(TOO_MANY_TOKENS)
    tokens, ids = choice.tokens, choice.ids
    if not over or tokens is None or choice.logprobs is None or (place := locate_tokens(tokens, choice.text)) is None or place[0]:
        return replace(choice, text="", too_long=True, logprobs=None, tops=[], ids=None, tokens=None, ended=False, refused=False)
    text = _to_bytes("".join(tokens[:limit])).decode("utf-8", "ignore").strip()
    kept = {"logprobs": choice.logprobs[:limit], "tops": choice.tops[:limit], "ids": None if ids is None else ids[:limit]}
    return replace(choice, text=text, tokens=tokens[:limit], cut=True, ended=False, **kept)  # type: ignore[arg-type]


def _finish_reason(raw: Mapping[str, Any]) -> str:
    """Return a choice's finish reason in lower case; "" without one."""
    reason = raw.get("finish_reason")
    return reason.strip().lower().rpartition(".")[2] if isinstance(reason, str) else ""


def _read_entries(logprobs: Any) -> list[Any] | None:
    """Return each token's entry in `logprobs`, None without; ImpossibleReplyError if invalid."""
    if not isinstance(logprobs, dict):
        return None
    content = logprobs.get("content") or logprobs.get("refusal")
    if content is None and isinstance(logprobs.get("tokens"), list) and isinstance(logprobs.get("token_logprobs"), list):
        tops = _list(logprobs.get("top_logprobs")) or [None] * len(logprobs["tokens"])
        rows = [logprobs["tokens"], logprobs["token_logprobs"], tops]
        if len(set(map(len, rows))) > 1:
            raise ImpossibleReplyError("logprobs: expected as many tokens as log-probabilities")
        return [
            {"token": token, "logprob": p, "top_logprobs": [{"token": t, "logprob": q} for t, q in _items(top)]}
            for token, p, top in zip(*rows, strict=True)
        ]
    if content is not None and not isinstance(content, list):
        raise ImpossibleReplyError(f"logprobs.content: expected a list, got {_excerpt(content)}")
    return content


def _read_entry(entry: Any, where: str) -> tuple[float, dict[str, float]]:
    """Return a token's log-probability and {alternative: its own}; else ImpossibleReplyError.

    Raises:
        ImpossibleReplyError: the probabilities add up to more than 1, or contradict each other.
    """
    own = _read_logprob(entry, where)
    if own <= MIN_LOGPROB:
        raise ImpossibleReplyError(f"{where}: the server does not show the log-probability ({own:g})")
    listed = [top for top in _list(entry.get("top_logprobs")) if not _is_hidden(top)]
    tops = [(str(top.get("token")), _read_logprob(top, f"{where}.top_logprobs")) for top in listed if isinstance(top, dict)]
    same = [p for token, p in tops if token == entry.get("token")] or [p for _, p in tops if _is_near(own, p)]
    _expect_sum([*(p for _, p in set(tops)), *(() if same else (own,))], where)
    if same and not any(_is_near(own, p) for p in same):
        raise ImpossibleReplyError(f"{where}: expected {max(same)} as among the likeliest, got {own}")
    if tops and not same and own > (least := min(p for _, p in tops)):
        raise ImpossibleReplyError(f"{where}: expected at most {least}, as it is not among the likeliest, got {own}")
    return own, dict(tops)


def _is_hidden(top: Any) -> bool:
    """Return whether an alternative's log-probability is missing or a placeholder."""
    value = top.get("logprob") if isinstance(top, dict) else None
    return value is None or (type(value) in (int, float) and value <= MIN_LOGPROB)


def _read_logprob(entry: Any, where: str) -> float:
    if not isinstance(entry, dict) or not isinstance(entry.get("token", ""), str):
        raise ImpossibleReplyError(f"{where}: expected a token, got {_excerpt(entry)}")
    value: Any = entry.get("logprob")
    if type(value) not in (int, float) or not _MIN_LOGPROB <= value <= ROUNDING_TOLERANCE:
        raise ImpossibleReplyError(f"{where}: expected a finite log-probability of at most 0, got {_excerpt(value)}")
    return min(float(value), 0.0)


def _read_prompt(listed: Any) -> list[dict[int, float]] | None:
    """Return a dict token id -> log-probability per prompt position; None if any is invalid."""
    if not isinstance(listed, list):
        return None
    prompt = []
    try:
        for entry in listed:
            scored = {_read_id(token): _read_logprob(of, "prompt_logprobs") for token, of in _items(entry)}
            _expect_sum(scored.values(), "prompt_logprobs")
            prompt.append(scored)
    except ImpossibleReplyError:
        return None
    return prompt


def _read_id(token: str) -> int:
    if not (token.isascii() and token.isdecimal() and len(token) <= 10 and int(token) <= MAX_ID):
        raise ImpossibleReplyError("prompt_logprobs: expected ids of tokens")
    return int(token)


def _expect_sum(logprobs: Iterable[float], where: str) -> None:
    total = math.fsum(math.exp(p) for p in logprobs)
    if total > 1 + SUM_TOLERANCE:
        raise ImpossibleReplyError(f"{where}: expected probabilities that add up to 1 at most, got {total:.4f}")


def _is_near(first: float, second: float) -> bool:
    return abs(first - second) <= MAX_DIFFERENCE * max(1.0, abs(first))


def _by_bytes(entry: Mapping[str, Any]) -> str:
    """Return a token's text from its bytes, else from `token`; may hold part of a character."""
    listed = entry.get("bytes")
    if isinstance(listed, list) and listed and all(is_count(b, 255) for b in listed):
        return bytes(listed).decode("utf-8", "surrogateescape")
    return _by_token(entry)


def _by_token(entry: Mapping[str, Any]) -> str:
    return str(entry.get("token", ""))


def _by_piece(entry: Mapping[str, Any]) -> str:
    """Return a token's text from its vocabulary spelling (`▁red`, `Ġred`, `<0xE7>`)."""
    token = _by_token(entry)
    if byte := _BYTE.fullmatch(token):
        return bytes([int(byte[1], 16)]).decode("utf-8", "surrogateescape")
    return token.replace("\u2581", " ").replace("\u0120", " ").replace("\u010a", "\n")


def _spells_roughly(tokens: Sequence[str], text: str) -> bool:
    """Return whether tokens spell a text but for blanks, end tokens and unreadable characters.

    End tokens count as nothing at the end only. Unreadable characters may stand for any text up to their number.
    """
    stop = next((n for n in range(len(tokens), 0, -1) if not _is_end(tokens[n - 1])), 0)
    joined, wanted = (
        unicodedata.normalize("NFC", "".join(t.split())) for t in (_to_bytes("".join(tokens[:stop])).decode("utf-8", "replace"), text)
    )
    runs = re.split(f"({_UNREADABLE}+)", joined)
    pattern = "".join(f".{{1,{len(run)}}}" if run[:1] == _UNREADABLE else re.escape(run) for run in runs)
    return joined != "" and re.fullmatch(pattern, wanted, re.DOTALL) is not None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _items(value: Any) -> Iterable[tuple[str, Any]]:
    return value.items() if isinstance(value, dict) else ()


def _excerpt(value: Any) -> str:
    """Return a value as a short text for messages."""
    if type(value) is int and abs(value) >= 10**20:
        return f"an integer of {value.bit_length()} bits"
    try:
        return "nothing" if value is None else excerpt(json.dumps(value))
    except (ValueError, RecursionError):
        return "a value that is too deep"
