"""Which samples a spec selects: `where: LQI >= 4 and INV <= 2 and category in ("other", "number")`.

A small language of its own, read here and never evaluated as code. Comparisons `== != < <= > >=` (they chain, as in
`1 <= LQI <= 3`), `in (...)`, `not in (...)`, `and`, `or`, `not`, parentheses, numbers, texts in quotes, `true`, `false`, and
names: fields of a sample, keys of its `meta` (as `meta.LQI` or just `LQI`), and subsets that the data set's card defines.

What is missing makes a comparison undefined, and undefined is neither true nor false: `not` of it is undefined, `and` with
something false is false, `or` with something true is true. A sample is selected only where the whole is true.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from qualm.registry.formats.picture_lists import COUNTED

MAX_LENGTH = 10_000
"""Characters of an expression."""
MAX_DEPTH = 50
"""Parentheses and `not` within each other."""

FIELDS: dict[str, str] = {
    **dict.fromkeys(("sample_id", "image_id", "question", "category", "split", "source", "group", "pair_id"), "text"),
    "answer_index": "number",
    COUNTED: "number",
    "answerable": "boolean",
}
"""Fields of a sample that can be asked about, and what they hold."""
META = "meta."
ANY_KIND = "any"
"""What a key of `meta` holds: text, read as a number where it is compared with one."""

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]))
    | (?P<text>'[^']*'|"[^"]*")
    | (?P<name>(?:meta\.)?[A-Za-z_]\w*(?:-\w+)*)
    | (?P<sign>==|!=|<=|>=|<|>|\(|\)|,)
    )""",
    re.VERBOSE | re.ASCII,
)
_SIGNS = ("==", "!=", "<", "<=", ">", ">=")
_WORDS = ("and", "or", "not", "in", "true", "false")
_MEANT = {"=": "==", "&&": "and", "&": "and", "||": "or", "|": "or", "!": "not", "<>": "!=", "=<": "<=", "=>": ">="}


class WhereError(Exception):
    """What is wrong with an expression, at which of its characters (from 0), and what to do."""

    def __init__(self, message: str, at: int, hint: str = "") -> None:
        super().__init__(f"character {at + 1}: {message}" + (f" ({hint})" if hint else ""))
        self.message, self.at, self.hint = message, at, hint


Value = str | float | bool


@dataclass(frozen=True)
class Operand:
    """A field (`name`) or a value."""

    name: str = ""
    value: Value | None = None
    at: int = field(default=0, compare=False)

    @property
    def holds(self) -> str:
        if not self.name:
            return "boolean" if isinstance(self.value, bool) else "text" if isinstance(self.value, str) else "number"
        return FIELDS.get(self.name, ANY_KIND)

    def __str__(self) -> str:
        if self.name:
            return self.name
        if isinstance(self.value, bool):
            return str(self.value).lower()
        if isinstance(self.value, str):
            return f"'{self.value}'" if "'" not in self.value else f'"{self.value}"'
        number = float(self.value or 0)
        return repr(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


@dataclass(frozen=True)
class Relation:
    """`a < b`."""

    left: Operand
    sign: str
    right: Operand

    def __str__(self) -> str:
        return f"{self.left} {self.sign} {self.right}"


@dataclass(frozen=True)
class Within:
    """`a in (b, c)`."""

    left: Operand
    values: tuple[Operand, ...]

    def __str__(self) -> str:
        return f"{self.left} in ({', '.join(map(str, self.values))})"


@dataclass(frozen=True)
class Truth:
    """A boolean by itself."""

    of: Operand

    def __str__(self) -> str:
        return str(self.of)


@dataclass(frozen=True)
class Not:
    """`not a`."""

    of: Node

    def __str__(self) -> str:
        return f"not ({self.of})" if isinstance(self.of, All | Any) else f"not {self.of}"


@dataclass(frozen=True)
class All:
    """`a and b`."""

    parts: tuple[Node, ...]

    def __str__(self) -> str:
        return " and ".join(f"({p})" if isinstance(p, Any | All) else str(p) for p in self.parts)


@dataclass(frozen=True)
class Any:
    """`a or b`."""

    parts: tuple[Node, ...]

    def __str__(self) -> str:
        return " or ".join(f"({p})" if isinstance(p, Any) else str(p) for p in self.parts)


Node = Relation | Within | Truth | Not | All | Any


def parse(text: str, meta: Collection[str] | None = None, subsets: Mapping[str, str] | None = None) -> Node:
    """Read an expression. `str` of the result is the same expression in one fixed spelling, subsets written out.

    Args:
        meta: the keys of `meta` there are; None = not known, any name may be one.
        subsets: expressions that a name by itself stands for.

    Raises:
        WhereError: the first thing that is wrong with it.
    """
    if len(text) > MAX_LENGTH:
        raise WhereError(f"expected at most {MAX_LENGTH:,} characters, got {len(text):,}", 0)
    reader = _Reader(text, meta, subsets or {})
    node = reader.any(0)
    kind, got, at = reader.peek()
    if kind:
        raise WhereError(f"expected `and`, `or` or the end, got {got!r}", at)
    return node


def is_subset_name(name: str) -> bool:
    """Whether an expression can name a subset so."""
    token = _TOKEN.fullmatch(name)
    return token is not None and token["name"] == name and not name.startswith(META) and name not in (*FIELDS, *_WORDS)


class _Reader:
    """Reads by recursive descent; `depth` counts parentheses and `not`."""

    def __init__(self, text: str, meta: Collection[str] | None, subsets: Mapping[str, str]) -> None:
        self.text, self.meta, self.subsets = text, meta, subsets
        self.tokens = list(_tokens(text))
        self.next = 0

    def peek(self) -> tuple[str, str, int]:
        """Kind, text and place of the next token; ("", "", end) behind the last."""
        return self.tokens[self.next] if self.next < len(self.tokens) else ("", "", len(self.text.rstrip()))

    def took(self, *words: str) -> bool:
        if self.peek()[0] != "text" and self.peek()[1] in words:
            self.next += 1
            return True
        return False

    def any(self, depth: int) -> Node:
        parts = [self.all(depth)]
        while self.took("or"):
            parts.append(self.all(depth))
        return parts[0] if len(parts) == 1 else Any(tuple(parts))

    def all(self, depth: int) -> Node:
        parts = [self.negation(depth)]
        while self.took("and"):
            parts.append(self.negation(depth))
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def negation(self, depth: int) -> Node:
        at = self.peek()[2]
        if depth > MAX_DEPTH:
            raise WhereError(f"nested more than {MAX_DEPTH} deep", at)
        if self.took("not"):
            return Not(self.negation(depth + 1))
        if not self.took("("):
            return self.comparison()
        node = self.any(depth + 1)
        self.expect(")", f"the '(' at character {at + 1} is not closed")
        if self.peek()[1] in (*_SIGNS, "in"):
            raise WhereError("expected a field or value before it, got parentheses", self.peek()[2], "only fields and values are compared")
        return node

    def expect(self, sign: str, hint: str) -> None:
        if not self.took(sign):
            kind, got, at = self.peek()
            raise WhereError(f"expected '{sign}', got {repr(got) if kind else 'the end'}", at, hint)

    def comparison(self) -> Node:
        left = self.operand("a comparison", alone=True)
        comparisons: list[Node] = []
        start = left
        while True:
            sign, at = self.peek()[1:]
            if self.peek()[0] == "sign" and sign in _SIGNS:
                self.next += 1
                right = self.operand(f"a field or value after '{sign}'")
                _check(left, right, sign, at)
                comparisons.append(Relation(left, sign, right))
                left = right
            elif not comparisons and self.took("in"):
                return Within(left, self.values(left))
            elif not comparisons and sign == "not" and self.tokens[self.next + 1 : self.next + 2] and self.tokens[self.next + 1][1] == "in":
                self.next += 2
                return Not(Within(left, self.values(left)))
            else:
                break
        if not comparisons:
            return self.alone(start)
        return comparisons[0] if len(comparisons) == 1 else All(tuple(comparisons))

    def alone(self, operand: Operand) -> Node:
        """A boolean, or the subset of a name."""
        if operand.name in self.subsets and operand.name not in FIELDS:
            try:
                return parse(self.subsets[operand.name], self.meta)
            except WhereError as error:
                raise WhereError(f"the card's subset '{operand.name}': {error}", operand.at) from None
        if operand.holds != "boolean":
            raise WhereError(f"expected a comparison, got {operand} alone", operand.at, f"such as `{operand} >= 2`" if operand.name else "")
        return Truth(operand)

    def values(self, left: Operand) -> tuple[Operand, ...]:
        self.expect("(", "`in` is followed by values in parentheses")
        values: list[Operand] = []
        while not self.took(")"):
            if values:
                self.expect(",", "values are parted by commas")
                if self.took(")"):
                    break
            value = self.operand("a value")
            if value.name:
                raise WhereError(f"expected a value, got the field {value}", value.at, "texts stand in quotes")
            _check(values[0] if values else left, value, "in", value.at)
            _check(left, value, "in", value.at)
            values.append(value)
        if not values:
            raise WhereError("expected at least one value between the parentheses", self.tokens[self.next - 1][2])
        return tuple(values)

    def operand(self, expected: str, alone: bool = False) -> Operand:
        kind, text, at = self.peek()
        if kind == "number":
            if not math.isfinite(float(text)):
                raise WhereError(f"expected a finite number, got {text}", at)
            operand = Operand(value=float(text), at=at)
        elif kind == "text":
            operand = Operand(value=text[1:-1], at=at)
        elif kind == "name" and text in ("true", "false"):
            operand = Operand(value=text == "true", at=at)
        elif kind == "name" and text not in _WORDS:
            operand = Operand(self.named(text, at, alone), at=at)
        else:
            raise WhereError(f"expected {expected}, got {repr(text) if kind else 'the end'}", at)
        self.next += 1
        return operand

    def named(self, text: str, at: int, alone: bool) -> str:
        """A field by its full name, `meta.` before a key of `meta`; of a name that is not compared perhaps that of a subset."""
        after = [token[1] for token in self.tokens[self.next + 1 : self.next + 2]]
        if text in FIELDS or (alone and text in self.subsets and not {*after} & {*_SIGNS, "in", "not"}):
            return text
        key = text.removeprefix(META)
        if self.meta is not None and key not in self.meta:
            fields = [*FIELDS, *self.meta, *self.subsets]
            near = difflib.get_close_matches(key, fields, 1, 0.6)
            hint = f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(fields)}"
            raise WhereError(f"samples have no field '{text}'", at, hint)
        return META + key


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            while text[at].isspace():
                at += 1
            raise _no_token(text, at)
        kind = str(match.lastgroup)
        yield kind, match[kind], match.start(kind)
        at = match.end()


def _no_token(text: str, at: int) -> WhereError:
    if text[at] in "'\"":
        return WhereError(f"the text is not closed by a second {text[at]}", at)
    for length in (2, 1):
        if text[at : at + length] in _MEANT:
            got = text[at : at + length]
            return WhereError(f"expected a word or sign of this language, got {got!r}", at, f"write `{_MEANT[got]}`")
    return WhereError(f"expected a field, value, sign or word, got {text[at]!r}", at, "texts stand in quotes")


def _check(left: Operand, right: Operand, sign: str, at: int) -> None:
    """Both sides hold the same kind of thing, and one that can be compared so."""
    kinds = {left.holds, right.holds}
    if "boolean" in kinds and (len(kinds) > 1 or sign not in ("==", "!=")):
        raise WhereError(f"{left} and {right} cannot be compared by '{sign}'", at, "true and false are compared with == and != only")
    if kinds == {"number", "text"}:
        number, text = (left, right) if left.holds == "number" else (right, left)
        raise WhereError(f"expected two numbers or two texts, got the number {number} and the text {text}", at)
