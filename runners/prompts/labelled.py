"""Labelled parts of a reply, in any style: lines, lists, headings, a table, JSON.

Text before the first part and after the last is ignored. Text between two parts makes a reply unreadable, unless it is a heading or
a remark. A part is always one verbatim line.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from qualm.runners.prompts.bare import content_lines
from qualm.runners.prompts.plain import clean_reply

NONE, MISSING, SEVERAL, BETWEEN, CUT = (
    "no part found", "part missing", "several sets of parts", "text between the parts", "part goes on in the next line",
)  # fmt: skip
"""Reasons why a reply cannot be read."""
NAME_DEPTH, MAX_DEPTH, MAX_OPENINGS, MAX_LITERAL = 3, 8, 8, 20_000
"""Keys that make up a name; keys within keys that are looked into; brackets in a reply that are tried as the beginning of JSON; the longest
object in Python's notation."""

_FENCE = re.compile(r"\A[`~]{3,}[\w+-]*\Z|\A(?:[-=]{2,}|[*_]{3,})\Z|\A[\[\]{}(),;|:\s-]+\Z")
_HEADING = re.compile(
    r"\A\d{1,2}[.)]\Z|\A[#*_\s\d.)(\[<-]*(?:(?:the )?(?:un)?answerable|first|second|pairs?|questions?|answers?|parts?)\b"
    r"[\w\s()/#-]{0,40}[:.]?[\])>*_\s]*[:.]?\Z",
    re.IGNORECASE,
)
_REMARK = re.compile(
    r"\A[\W_]*(?:\((?!.*\)\s*\w)|(?:note|notes|explanation|reason|reasons|reasoning|rationale|why|justification|comment|remark|category|"
    r"type|difficulty|here|this|these|i)\b|(?:is[ _]?)?(?:un)?answerable\??\s*[:：]\s*(?:yes|no|true|false)\b)",
    re.IGNORECASE,
)
_SIDE = re.compile(r"\A\W*(?:the )?(?P<side>(?:un)?answerable)(?: (?:question|one|pair))?\W*\Z", re.IGNORECASE)
"""Heading or text after a label that says which question it is."""
_BLOCK_SCALAR = re.compile(r"\A[|>][+-]?\Z")
"""YAML's mark of a text on the next line."""
_EXPLAINS = re.compile(
    r"\A[\W_]*(?:explanations?|reason|reasons|reasoning|rationale|justification|analysis|notes?|why)(?:\s+\w+){0,6}[\W_]*\Z", re.IGNORECASE
)
"""Heading of an explanation, which mentions parts by name."""
_RULE = re.compile(r"\A\|[-:|\s]*-[-:|\s]*\|\Z")
_GOES_ON = re.compile(r"\A(?:[a-zß-ÿ]|[-*•]\s|\d{1,2}[.)]\s)")
_UNFINISHED = (":", ",", ";", "-", "–", "(", " and", " or", " the", " a", " of")
_TAG_OF_SIDE = re.compile(r"<(answerable|unanswerable)(?:\s+\w+=[^<>]*)?>", re.IGNORECASE)
_LONE_TAG = re.compile(r"\A(?:</?\w+(?:\s+\w+=[^<>]*)?>\s*)+\Z")
_NOT_JSON = re.compile(
    r"""("(?:\\.|[^"\\])*"|(?<=[\[{,:\s])'(?:\\.|[^'\\\n])*'(?=\s*[,:\]}]))|,(?=\s*[}\]])|//[^\n]*|/\*.*?\*/""", re.DOTALL
)
"""A string of JSON or Python, or a trailing comma or comment, which JSON lacks."""
_STRING_OR_BRACKET = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|\\.|[{}\[\]]""", re.DOTALL)


_OPENED = {"}": "{", "]": "[", ")": "("}
_YES, _NO = ("yes", "true", "✅", "✓", "✔"), ("no", "false", "❌", "✗", "✘")
_NAMING, _HOLDING = ("label", "id", "name", "key", "part", "type", "kind"), ("text", "value", "content")
"""Keys of an object that names and holds a part: `{"label": "Q1", "text": "Is it?"}`."""


class UnreadableReplyError(ValueError):
    """A reply lacks or repeats parts; the message is a constant such as `MISSING`."""


@dataclass(frozen=True)
class Form:
    """Names of the labelled parts that a reply must have, and patterns that find them."""

    names: Mapping[str, Sequence[str]]
    """Label -> its names in replies, in lower case, words separated by one space."""
    unnumbered: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Name of a kind of part -> labels of its occurrences, in order."""

    @cached_property
    def label_of(self) -> dict[str, str]:
        return {" ".join(_words(name)): label for label, names in self.names.items() for name in names}

    @cached_property
    def line(self) -> re.Pattern[str]:
        """Return a pattern of a line that begins with a part's name, then a separator and text."""
        tag = r"(?:\s*[(\[](?P<tag>[^()\[\]:：]{1,40})[)\]](?=[*_\s]*(?:[:：|]|[-–—=→]+>?\s|\Z)))?"
        ends = r"(?P<by>\.?[:：∶|]+|[-–—=→]+>?(?=\s)|—|[.)\]>](?=\s)|(?<=\t)|(?<=\*\*)(?=\s)|(?<=__)(?=\s)|\Z)"
        before = r"(?:\(?(?:[a-h]|[ivx]{1,4})[.)]\s+)?[^\w*]*?(?P<opened>[*_]*)[^\w*]*"
        after = r"[\"”'`\])>]*(?P<closed>[*_]*)[\"”'`\])>]*"
        return re.compile(rf"\A{before}(?P<name>{self._either}){tag}{after}\s*{ends}(?P<rest>.*)\Z", re.IGNORECASE)

    @cached_property
    def within(self) -> re.Pattern[str]:
        """Return a pattern of the separator before a part's name inside a line, as in `; answer:`."""
        between = r"(?<=[^\s:：*_;,|/])[;,]?(?:\s*(?:[|/–—→]|[-=]{1,4}>|-)\s+|[\s|]+)|(?<=[?？!.])(?=[QA]\d)"
        return re.compile(rf"(?:{between})(?=[*_\"“(]*(?:{self._either})[*_\"”]*[)\]]?\s*[:：]|[*_]*(?:[QA]\d)\)\s)", re.IGNORECASE)

    @cached_property
    def tagged(self) -> re.Pattern[str]:
        """Return a pattern of a part's name in brackets: `Unanswerable (Q1): Is it?`."""
        return re.compile(rf"\A(\W*)[A-Za-z][A-Za-z -]{{0,30}}\s[(\[]({self._either})[)\]](?=[*_]*\s*[:：])", re.IGNORECASE)

    @cached_property
    def _either(self) -> str:
        every = sorted([*self.label_of, *self.unnumbered], key=lambda name: (-len(name), name))
        return "|".join(re.sub(r"(?<=\b[qa])(?=\d)|\\? ", r"[\\s_#.-]*", name) for name in every)

    @cached_property
    def element(self) -> re.Pattern[str]:
        """Return a pattern of an XML element named like a part: `<name>text</name>`."""
        return re.compile(rf"<\s*(?P<name>{self._either})(?:\s+\w+=[^<>]*)?>\s*(?P<text>[^<\n]*?)\s*</\s*(?P=name)\s*>", re.IGNORECASE)

    def numbered(self, row: str) -> bool:
        """Return whether a line begins with a part's full name (`question 1`), not only its kind."""
        match = self.line.match(row)
        return match is not None and " ".join(_words(match["name"])) in self.label_of

    def is_name(self, text: str) -> bool:
        """Return whether a text is the name of a part, with or without its number."""
        name = " ".join(_words(text))
        return name in self.label_of or name in self.unnumbered


def read_labelled(text: str, form: Form) -> dict[str, str]:
    r"""Parse a reply into label -> text, one line each; UnreadableReplyError on failure.

    >>> read_labelled("Sure!\n- **Color:** red\n- Size: big\n\nAnything else?", Form({"C": ["color"], "S": ["size"]}))
    {'C': 'red', 'S': 'big'}

    Raises:
        UnreadableReplyError: a part is missing or repeated; the message says why.
    """
    text = clean_reply(text)
    values = list(find_json(text))
    for value in [*values, values]:
        whole = _collect_parts(list(_walk_json(value, (), form)), form)
        if whole is not None:
            return whole
    if any(list(_walk_json(value, (), form)) for value in values):
        raise UnreadableReplyError(MISSING)
    plain = _TAG_OF_SIDE.sub(r"\n# \1\n", form.element.sub(r"\n\g<name>: \g<text>\n", text))
    rows = expand_tables([form.tagged.sub(r"\1\2", line) for line in content_lines(plain) if not _LONE_TAG.match(line)], form)
    try:
        return _read_lines(rows, form)
    except UnreadableReplyError:
        parted = [piece for line in rows for piece in content_lines(form.within.sub("\n", line))]
        if parted == rows:
            raise
        return _read_lines(parted, form)


def read_json_answer(text: str) -> str | None:
    r"""Return the first `answer` of a JSON object that is a string or number, as text, or None.

    >>> read_json_answer('```json\n{"reason": "It is round.", "answer": 3}\n```')
    '3'
    """
    answers = (value["answer"] for value in find_json(text) if isinstance(value, dict) and "answer" in value)
    answer = next((answer for answer in answers if isinstance(answer, str | int | float)), None)
    return answer if answer is None or isinstance(answer, str) else json.dumps(answer)


def expand_tables(lines: Sequence[str], form: Form) -> list[str]:
    """Replace tables whose heads are part names by a line `head: cell` per cell.

    A cell `answerable` or `unanswerable` applies to its row.

    >>> expand_tables(["| Color | Size |", "|---|---|", "| red | big |"], Form({"C": ["color"], "S": ["size"]}))
    ['Color: red', 'Size: big']
    """
    result: list[str] = []
    heads: list[str] | None = None
    for place, row in enumerate(lines):
        cells = _table_cells(row)
        rule = lines[place + 1] if place + 1 < len(lines) else ""
        if cells and _RULE.match(rule) and sum(form.is_name(cell) for cell in cells) > (len(form.names) > 1):
            heads = cells
        elif heads and _RULE.match(row):
            continue
        elif heads and cells and len(cells) == len(heads):
            side = " ".join(filter(None, (_answerability_of(head, cell) for head, cell in zip(heads, cells, strict=True))))
            side = f"{side.split()[0]} " if side else ""
            result += [f"{side}{head}: {cell}" for head, cell in zip(heads, cells, strict=True) if form.is_name(head) and cell]
        else:
            heads = None
            result.append(row)
    return result


def _table_cells(row: str) -> list[str]:
    """Return the cells of a table's row, without emphasis; [] for other lines."""
    return [cell.strip().strip("*_ ") for cell in row.strip()[1:-1].split("|")] if row.startswith("|") and row.endswith("|") else []


def is_aside(line: str) -> bool:
    """Return whether a line is a fence, heading or remark, and so belongs to no part."""
    return bool(_FENCE.match(line) or _HEADING.match(line) or _REMARK.match(line))


def is_continuation(line: str) -> bool:
    """Return whether a line looks like a continuation of the previous one."""
    return bool(_GOES_ON.match(line))


# -- lines ----------------------------------------------------------------------------------------------------------------


def _read_lines(rows: Sequence[str], form: Form) -> dict[str, str]:
    parts: list[tuple[str, str]] = []
    counts = dict.fromkeys(form.unnumbered, 0)
    awaited: str | None = None
    heading: str | None = None
    loose: str | None = None
    side = ""
    for place, row in enumerate(rows):
        if _FENCE.match(row):
            continue
        if verdict := _SIDE.match(row):
            side = verdict["side"].lower()
        if _EXPLAINS.match(row) and _is_complete(parts, form):
            break
        match = form.line.match(row)
        label = _find_label(match, form, counts, side) if match else None
        if match and not match["by"] and label in dict(parts):
            label = None
        if label is None and awaited is not None and match is None:
            parts.append((awaited, row))
            awaited = None
        elif label is None:
            if parts and loose is None and not _HEADING.match(row) and not _REMARK.match(row):
                loose = row
        else:
            if loose is not None:
                raise UnreadableReplyError(SEVERAL if _is_complete(parts, form) else BETWEEN)
            assert match is not None
            side = next((word for word in _words(match["name"])[:1] if word in ("answerable", "unanswerable")), side)
            rest = _text_after_name(match)
            if _SIDE.match(rest) and place + 1 < len(rows) and not (form.line.match(rows[place + 1]) or is_aside(rows[place + 1])):
                rest = ""
            if awaited is not None and heading in counts:
                counts[heading] -= 1
            awaited, heading = (None, None) if rest else (label, _part_kind(match, form))
            if rest:
                parts.append((label, rest))
    if loose is not None and (_GOES_ON.match(loose) or parts[-1][1].endswith(_UNFINISHED)):
        raise UnreadableReplyError(CUT)
    whole = _collect_parts(parts, form)
    if whole is None:
        raise UnreadableReplyError(MISSING if parts else NONE)
    return whole


def _find_label(match: re.Match[str], form: Form, counts: dict[str, int], answerability: str = "") -> str | None:
    """Return the label of the part that begins on a matched line, or None; update `counts`."""
    label = form.label_of.get(" ".join(_words(match["name"]))) or form.label_of.get(" ".join(_words(match["tag"] or "")))
    if label is not None:
        return label
    generic = _part_kind(match, form)
    if generic is None or (len(generic) == 1 and match["by"] not in (":", "：")) or (not match["by"] and match["rest"].strip()):
        return None
    if answerability and (label := form.label_of.get(f"{answerability} {generic}")):
        return label
    labels = form.unnumbered[generic]
    kin = [n for n in form.unnumbered if form.unnumbered[n] == labels]
    place = sum(counts[n] for n in kin)
    counts[generic] += 1
    return labels[place % len(labels)]


def _part_kind(match: re.Match[str], form: Form) -> str | None:
    """Return the kind of part that a matched line names without a number; None if none."""
    return next((n for n in form.unnumbered if _words(n) == _words(match["name"])), None)


def _text_after_name(match: re.Match[str]) -> str:
    """Return the text after a name on its line, without emphasis, table bars and JSON commas."""
    opened, rest = match["opened"], match["rest"].strip()
    if opened and not match["closed"]:
        rest = rest.removeprefix(opened) if rest.startswith(opened) else rest.removesuffix(opened)
    rest = "" if _BLOCK_SCALAR.match(rest) else rest
    rest = re.sub(r"\A`(?=\s)", "", rest.strip().strip("|").strip()).strip()
    return re.sub(r"(?<=[\"”'])\s*,\Z", "", _strip_brackets(rest))


def _strip_brackets(text: str) -> str:
    """Strip unmatched closing brackets at the end of a text."""
    for _ in range(8):
        if text[-1:] not in _OPENED or text.count(text[-1]) <= text.count(_OPENED[text[-1]]):
            break
        text = text[:-1].rstrip()
    return text


def _is_complete(parts: Sequence[tuple[str, str]], form: Form) -> bool:
    return {label for label, _ in parts} == set(form.names)


def _collect_parts(parts: Sequence[tuple[str, str]], form: Form) -> dict[str, str] | None:
    """Return label -> text of all parts; None if one is missing; raise if one has two texts."""
    values: dict[str, str] = {}
    twice = False
    for label, text in parts:
        twice = values.setdefault(label, text) != text or twice
    if values.keys() != form.names.keys():
        return None
    if twice:
        raise UnreadableReplyError(SEVERAL)
    return {label: values[label] for label in form.names}


# -- JSON -----------------------------------------------------------------------------------------------------------------


def find_json(text: str, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Iterator[Any]:
    """Yield a text's outermost JSON or Python objects and lists, in order.

    Within one that cannot be parsed, inner ones are tried.

    Args:
        pairs: converts (key, value) pairs to an object; a ValueError skips it.
    """
    if "{" not in text and "[" not in text:
        return
    clean = _NOT_JSON.sub(lambda match: match[1] or "", text)
    decoder, at = json.JSONDecoder(strict=False, object_pairs_hook=pairs), 0
    for _ in range(MAX_OPENINGS):
        opening = re.compile(r"[{\[]").search(clean, at)
        if opening is None:
            return
        try:
            value, at = decoder.raw_decode(clean, opening.start())
            yield value
        except (ValueError, RecursionError):
            at = opening.end()
            end = _literal_end(clean, opening.start())
            value = _parse_literal(clean[opening.start() : end])
            if value is not None:
                at = end
                yield value


def _literal_end(text: str, start: int) -> int:
    """Return the end of the Python dict or list that begins at `start`; `start` if it is open."""
    depth = 0
    for token in _STRING_OR_BRACKET.finditer(text, start, start + MAX_LITERAL):
        depth += (token[0] in "{[") - (token[0] in "}]")
        if depth == 0:
            return token.end()
    return start


def _parse_literal(text: str) -> Any:
    """Parse a single-quoted Python dict or list; None on failure."""
    if "'" not in text:
        return None
    try:
        tree = ast.parse(text, mode="eval")
        if any(isinstance(node, ast.Dict) and _has_duplicate_keys(node) for node in ast.walk(tree)):
            return None
        return ast.literal_eval(tree)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None


def _has_duplicate_keys(node: ast.Dict) -> bool:
    keys = [ast.dump(key) for key in node.keys if key is not None]
    return len(set(keys)) < len(keys)


def _walk_json(value: Any, path: tuple[str, ...], form: Form) -> Iterator[tuple[str, str]]:
    """Yield (part label, text) of texts in a JSON value whose keys, after `path`, name a part."""
    if len(path) > MAX_DEPTH:
        return
    if isinstance(value, Mapping):
        side = _answerability(value)
        if path and len(value) == 1 and str(next(iter(value))).lower() in _HOLDING:
            yield from _walk_json(next(iter(value.values())), path, form)
            return
        named = next((str(value[key]) for key in _NAMING if key in value and form.is_name(str(value[key]))), None)
        text = next((value[key] for key in _HOLDING if key in value), None)
        if named is not None and text is not None:
            yield from _walk_json(text, (*path, named), form)
            return
        for key, inner in value.items():
            yield from _walk_json(inner, (*path[:-1], side, str(key)) if side and path else (*path, str(key)), form)
    elif isinstance(value, list):
        lone = len(value) == 1 and isinstance(value[0], str)
        for place, inner in enumerate(value, 1):
            yield from _walk_json(inner, path if lone else (*path, str(place)), form)
    elif isinstance(value, str) and value.lstrip()[:1] in ("{", "[") and (inner := list(find_json(value))):
        for whole in inner:
            yield from _walk_json(whole, (*path, "1"), form)
    elif isinstance(value, str) or (isinstance(value, int | float) and not isinstance(value, bool)):
        for length in range(min(NAME_DEPTH, len(path)), 0, -1):
            name = " ".join(word for key in path[-length:] for word in _words(key))
            only = form.unnumbered.get(name, ())
            label = form.label_of.get(name) or (only[0] if len(only) == 1 else None)
            if label is not None and str(value).strip():
                yield label, " ".join(str(value).split())
                return


def _answerability(value: Mapping[str, Any]) -> str:
    """Return `answerable` or `unanswerable` as an object's items say, else ""."""
    return next(filter(None, (_answerability_of(str(key), label) for key, label in value.items())), "")


def _answerability_of(key: str, value: Any) -> str:
    """Return `answerable` or `unanswerable` as one key and value say, else "".

    >>> _answerability_of("type", "Unanswerable"), _answerability_of("Answerable?", "No"), _answerability_of("question", "Yes")
    ('unanswerable', 'unanswerable', '')
    """
    name, text = "".join(_words(key)), str(value).strip().strip("*_.\ufe0f").lower()
    if text in ("answerable", "unanswerable"):
        return text
    if name.removeprefix("is") in ("answerable", "unanswerable") and text in (*_YES, *_NO):
        return "answerable" if (text in _YES) != ("unanswerable" in name) else "unanswerable"
    return ""


def _words(name: str) -> list[str]:
    """Split a name into words in lower case: `unanswerableQuestion`, `Q1`, `answer_to_q1`."""
    plain = re.sub(r"\b([qa])[\s_.#-]*(\d)\b", r"\1\2", name, flags=re.IGNORECASE)
    if not plain.isascii():
        return re.findall(r"[^\W\d_]+|\d+", plain.lower())
    return [w.lower() for w in re.findall(r"[qaQA]\d\b|[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", plain)]
