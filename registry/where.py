"""Select samples by an expression: `where: LQI >= 4 and INV <= 2 and category in ("other", "number")`.

The syntax is a part of Python's, read by `ast.parse` and never run: comparisons, which may chain, `in (...)`, `not in (...)`, `and`, `or`,
`not`, parentheses, numbers, texts in quotes, `true`, `false`, and names. A name is a field of a sample, a key of its `meta` (`meta.LQI` or
just `LQI`), or a subset that the dataset's card defines.

A comparison with a missing value is undefined. `not` of undefined is undefined, `and` with something false is false, and `or` with
something true is true (Kleene's logic). A sample is selected only where the whole expression is true.
"""

from __future__ import annotations

import ast
import difflib
import math
import operator
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from qualm.registry.formats.picture_lists import COUNTED, picture_ids

if TYPE_CHECKING:
    from qualm.registry.sample import Sample

MAX_LENGTH = 10_000
MAX_DEPTH = 50
"""Parentheses and `not` within each other."""
FIELDS: dict[str, str] = {
    **dict.fromkeys(("sample_id", "image_id", "question", "category", "split", "source", "group", "pair_id"), "text"),
    "answer_index": "number",
    COUNTED: "number",
    "answerable": "boolean",
}
"""Fields of a sample that an expression can name, and the kind of their values.

A key of `meta` is a text; it is read as a number where it is compared with one."""
META = "meta."
_ANY_KIND = "any"
_TEXT_OR_NAME = re.compile(r"""'[^']*'|"[^"]*"|\b[A-Za-z_]\w*(?:-\w+)+""", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w*(?:-\w+)*", re.ASCII)
_HYPHEN = "\u01c0"
"""Stands for the hyphen of a name such as `l2-category` while Python parses it: a letter to Python, and as long as the hyphen."""
_MEANT = {"&&": "and", "||": "or", "<>": "!=", "=<": "<=", "=>": ">=", "&": "and", "|": "or", "!": "not", "=": "=="}
_FOREIGN_SIGN = re.compile(r"""'[^']*'|"[^"]*"|==|!=|<=(?!>)|>=|(&&|\|\||<>|=<|=>|[&|!=])""")
_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*", re.ASCII)
_WORDS = ("and", "or", "not", "in", "is", "if", "else", "lambda", "true", "false", "True", "False", "None")
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
Value = str | float | bool
Verdict = Callable[["Sample"], bool | None]
"""True, False, or None for undefined."""


class WhereError(Exception):
    """Error in a `where:` expression: what is wrong, at which character, what to do."""

    def __init__(self, message: str, at: int, hint: str = "") -> None:
        super().__init__(f"character {at + 1}: {message}" + (f" ({hint})" if hint else ""))
        self.message, self.at, self.hint = message, at, hint


class ValueOfFieldError(Exception):
    """Error that a value of `meta` that is compared with a number is no number."""


class Expression:
    """A valid `where:` expression; `str` gives its canonical text, subsets expanded."""

    def __init__(self, tree: ast.expr) -> None:
        self.tree = tree

    def __str__(self) -> str:
        return ast.unparse(self.tree).replace(_HYPHEN, "-")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


def parse(text: str, meta: Collection[str] | None = None, subsets: Mapping[str, str] | None = None) -> Expression:
    """Return a `where:` text as checked expression; WhereError at its first mistake.

    Args:
        meta: the keys that a sample's `meta` may have; None allows any name.
        subsets: name -> expression; a name alone stands for its expression.
    """
    if not text.strip():
        raise WhereError("expected a comparison, got nothing", 0)
    if len(text) > MAX_LENGTH:
        raise WhereError(f"expected at most {MAX_LENGTH:,} characters, got {len(text):,}", 0)
    for sign in _FOREIGN_SIGN.finditer(text):
        if sign[1]:
            raise WhereError(f"expected a word or sign of this language, got {sign[1]!r}", sign.start(), f"write `{_MEANT[sign[1]]}`")
    one_line = re.sub(r"\s", " ", text)
    python = _TEXT_OR_NAME.sub(lambda found: found[0] if found[0][0] in "'\"" else found[0].replace("-", _HYPHEN), one_line)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes in texts, and of numbers before words
            tree = ast.parse(f"({python}\n)", mode="eval").body
    except SyntaxError as error:
        at = min(max(0, (error.offset or 2) - 2), len(text.rstrip())) if error.lineno == 1 else len(text.rstrip())
        hint = "write comparisons such as `LQI >= 4` with `and` or `or` between them, and texts in quotes"
        raise WhereError(error.msg.partition(".")[0].partition(" (detected at line ")[0], at, hint) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise WhereError(f"cannot be read: {error or type(error).__name__}", 0) from None
    return Expression(_Checker(python, meta, subsets or {}).condition(tree, 0))


def is_subset_name(name: str) -> bool:
    return bool(_NAME.fullmatch(name)) and name not in (*FIELDS, *_WORDS)


def meta_keys(expression: Expression) -> set[str]:
    return {node.attr.replace(_HYPHEN, "-") for node in ast.walk(expression.tree) if isinstance(node, ast.Attribute)}


def verdict(expression: Expression) -> Verdict:
    """Return a function from a sample to True, False, or None if undefined.

    The function raises ValueOfFieldError if it compares a text of `meta` with a number.
    """
    return _verdict(expression.tree)


class _Checker:
    """Checker of an expression's syntax tree; returns trees with subsets expanded."""

    def __init__(self, text: str, meta: Collection[str] | None, subsets: Mapping[str, str]) -> None:
        self.text, self.meta, self.subsets = text, meta, subsets

    def at(self, node: ast.expr) -> int:
        """Return a node's character position in the expression, from 0.

        Python counts bytes from the parenthesis added before it.
        """
        return len(self.text.encode()[: max(0, node.col_offset - 1)].decode(errors="ignore"))

    def condition(self, node: ast.expr, depth: int) -> ast.expr:
        if depth > MAX_DEPTH:
            raise WhereError(f"nested more than {MAX_DEPTH} deep", self.at(node))
        match node:
            case ast.BoolOp(op, values):
                return ast.BoolOp(op, [self.condition(value, depth + 1) for value in values])
            case ast.UnaryOp(ast.Not(), operand):
                return ast.UnaryOp(ast.Not(), self.condition(operand, depth + 1))
            case ast.Compare(left, ops, comparators):
                return self.comparison(node, left, ops, comparators)
            case ast.Name(id=name) if name in self.subsets and name not in FIELDS:
                try:
                    return parse(self.subsets[name], self.meta).tree
                except WhereError as error:
                    raise WhereError(f"the card's subset '{name}': {error}", self.at(node)) from None
        operand = self.operand(node)
        if _kind(operand) != "boolean":
            got = Expression(operand)
            hint = "" if isinstance(operand, ast.Constant) else f"such as `{got} >= 2`"
            raise WhereError(f"expected a comparison, got {got} alone", self.at(node), hint)
        return operand

    def comparison(self, node: ast.expr, left: ast.expr, ops: Sequence[ast.cmpop], comparators: Sequence[ast.expr]) -> ast.expr:
        if isinstance(ops[0], ast.In | ast.NotIn) and len(ops) == 1:
            operand, values = self.operand(left), comparators[0]
            listed = [self.operand(value) for value in (values.elts if isinstance(values, ast.Tuple) else [values])]
            if not listed:
                raise WhereError("expected at least one value between the parentheses", self.at(values))
            for value in listed:
                if not isinstance(value, ast.Constant) and not _is_boolean_word(value):
                    raise WhereError(f"expected a value, got the field {Expression(value)}", self.at(values), "texts stand in quotes")
                self.check(operand, value, ops[0], values)
                self.check(listed[0], value, ops[0], values)
            return ast.Compare(operand, [ops[0]], [ast.Tuple(listed, ast.Load())])
        if any(type(op) not in _COMPARISONS for op in ops):
            raise WhereError("expected a comparison by == != < <= > >= in, or not in", self.at(node))
        operands = [self.operand(each) for each in (left, *comparators)]
        for op, one, other, place in zip(ops, operands, operands[1:], comparators, strict=False):
            self.check(one, other, op, place)
        return ast.Compare(operands[0], list(ops), operands[1:])

    def operand(self, node: ast.expr) -> ast.expr:
        match node:
            case ast.Constant(value=str() as value):
                return ast.Constant(value)
            case ast.Constant(value=bool() as value):
                return ast.Name(str(value).lower(), ast.Load())
            case ast.Constant(value=int() | float() as value):
                return self.number(float(value), node)
            case ast.UnaryOp(ast.USub(), ast.Constant(value=int() | float() as value)) if not isinstance(value, bool):
                return self.number(-float(value), node)
            case ast.Name(id="true" | "false" as name):
                return ast.Name(name, ast.Load())
            case ast.Name(id=name) if name in FIELDS:
                return ast.Name(name, ast.Load())
            case ast.Name(id=name) | ast.Attribute(ast.Name(id="meta"), name):
                return self.key(name.replace(_HYPHEN, "-"), node)
        raise WhereError("expected a field, a number or a text in quotes", self.at(node))

    def number(self, value: float, node: ast.expr) -> ast.expr:
        if not math.isfinite(value):
            raise WhereError("expected a finite number", self.at(node))
        return ast.Constant(int(value) if value.is_integer() and abs(value) < 1e15 else value)

    def key(self, key: str, node: ast.expr) -> ast.expr:
        if self.meta is not None and key not in self.meta:
            fields = [*FIELDS, *self.meta, *self.subsets]
            near = difflib.get_close_matches(key, fields, 1, 0.6)
            hint = f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(fields)}"
            raise WhereError(f"samples have no field '{Expression(node)}'", self.at(node), hint)
        return ast.Attribute(ast.Name("meta", ast.Load()), key.replace("-", _HYPHEN), ast.Load())

    def check(self, left: ast.expr, right: ast.expr, op: ast.cmpop, place: ast.expr) -> None:
        """Raise WhereError if two compared operands cannot be compared by `op`."""
        kinds = {_kind(left), _kind(right)}
        sides = f"{Expression(left)} and {Expression(right)}"
        if "boolean" in kinds and (len(kinds) > 1 or not isinstance(op, ast.Eq | ast.NotEq)):
            raise WhereError(f"{sides} cannot be compared so", self.at(place), "true and false are compared with == and != only")
        if kinds == {"number", "text"}:
            raise WhereError(f"expected two numbers or two texts, got {sides}", self.at(place))


def _is_boolean_word(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("true", "false")


def _kind(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return "text" if isinstance(node.value, str) else "number"
    return "boolean" if _is_boolean_word(node) else FIELDS[node.id] if isinstance(node, ast.Name) else _ANY_KIND


def _verdict(node: ast.expr) -> Verdict:
    match node:
        case ast.BoolOp(op, values):
            return _joined([_verdict(value) for value in values], isinstance(op, ast.Or))
        case ast.UnaryOp(ast.Not(), operand):
            return _negated(_verdict(operand))
        case ast.Compare(left, [ast.In() | ast.NotIn() as op], [ast.Tuple(elts=values)]):
            value, among = _value(left, _kind(values[0]) == "number"), frozenset(_value(v, False)(None) for v in values)
            inside: Verdict = lambda sample: None if (found := value(sample)) is None else found in among  # noqa: E731
            return inside if isinstance(op, ast.In) else _negated(inside)
        case ast.Compare(left, ops, comparators):
            return _joined(list(_compared([left, *comparators], ops)), False)
    value = _value(node, False)
    return lambda sample: value(sample)  # type: ignore[return-value]


def _negated(inner: Verdict) -> Verdict:
    return lambda sample: None if (truth := inner(sample)) is None else not truth


def _joined(verdicts: list[Verdict], decides: bool) -> Verdict:
    """Return the `or` (if `decides`) or `and` of verdicts, in three-valued logic.

    Undefined if none of them decides and one is undefined.
    """

    def judge(sample: Sample) -> bool | None:
        result: bool | None = not decides
        for part in verdicts:
            truth = part(sample)
            if truth is decides:
                return decides
            if truth is None:
                result = None
        return result

    return judge


def _compared(operands: Sequence[ast.expr], ops: Sequence[ast.cmpop]) -> Iterator[Verdict]:
    for left, op, right in zip(operands, ops, operands[1:], strict=False):
        kinds = (_kind(left), _kind(right))
        yield _comparison(
            _value(left, "number" in kinds), _COMPARISONS[type(op)], _value(right, "number" in kinds), kinds == (_ANY_KIND, _ANY_KIND)
        )


def _comparison(
    left: Callable[[Any], Value | None], compare: Callable[[Any, Any], bool], right: Callable[[Any], Value | None], both_meta: bool
) -> Verdict:
    def judge(sample: Sample) -> bool | None:
        a, b = left(sample), right(sample)
        if a is None or b is None:
            return None
        if both_meta and _NUMBER.fullmatch(str(a)) and _NUMBER.fullmatch(str(b)):
            return compare(float(a), float(b))
        return compare(a, b)

    return judge


def _value(node: ast.expr, as_number: bool) -> Callable[[Any], Value | None]:
    if isinstance(node, ast.Constant):
        return lambda _: node.value  # type: ignore[return-value]
    if isinstance(node, ast.Name):
        if _is_boolean_word(node):
            return lambda _: node.id == "true"
        return (lambda sample: len(picture_ids(sample.image_id))) if node.id == COUNTED else operator.attrgetter(node.id)
    assert isinstance(node, ast.Attribute)
    key = node.attr.replace(_HYPHEN, "-")
    if not as_number:
        return lambda sample: sample.meta.get(key)

    def number(sample: Sample) -> float | None:
        text = sample.meta.get(key)
        if text is not None and not _NUMBER.fullmatch(text):
            raise ValueOfFieldError(
                f"sample '{sample.sample_id}': expected a number in meta.{key}, got {text!r}; compare it with a text in quotes"
            )
        return None if text is None else float(text)

    return number
