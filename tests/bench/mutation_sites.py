"""Small mistakes that one could make in a module: every place where one fits, and the text with it.

Swapped comparisons, `min` for `max`, `list` for `sorted`, `any` for `all`, `+` for `-`, `and` for `or`, a lost `not` or sign, numbers off
by one, flags turned over, bounds of parameters; the last axis of an array becomes the first, since of a table's two it is the second as
well. Left alone are texts, annotations but for their bounds, what only type checkers read, whole numbers of two digits and more, which are
sizes, widths and limits where one more makes no difference, tolerances below a millionth, and arguments that change nothing in a program
without mistakes: `strict=True` and `frozen=True`, which, as `assert`, guard against mistakes in the code itself, `slots`, `maxsize` and
`compress_level`, which are memory and time, and `repr` of a field and `usedforsecurity`.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
}  # fmt: skip
CALLS = {"min": "max", "max": "min", "sorted": "list", "any": "all", "all": "any", "Ge": "Gt", "Gt": "Ge", "Le": "Lt", "Lt": "Le"}
LARGEST, LEAST = 9, 1e-6
NO_RESULT = ("strict", "frozen", "slots", "maxsize", "compress_level", "repr", "usedforsecurity")
AXES = ("axis", "dim")


@dataclass(frozen=True)
class Mutant:
    """One mistake: the source between two positions (in bytes of its UTF-8) stands for `text`."""

    path: str
    line: int
    start: int
    end: int
    text: str
    touched: frozenset[str] = frozenset()
    """Names of the module that stand for the changed place: the function, class or constant it is in, and those that use it."""

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]

    def diff(self, source: bytes) -> str:
        """The line before and after, as `file:line` and two lines."""
        first = source.rfind(b"\n", 0, self.start) + 1
        last = source.find(b"\n", self.end)
        before, after = source[first:last], self.apply(source[: last if last >= 0 else None])[first:]
        return f"{self.path}:{self.line}\n  - {before.decode().strip()}\n  + {after.decode().strip()}"


def mutants(path: str, source: bytes) -> list[Mutant]:
    """Every mistake that fits into a module."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    places = []
    tree = ast.parse(source)
    uses = [(_bound(statement), {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}) for statement in tree.body]
    for statement, (names, _) in zip(tree.body, uses, strict=True):
        touched = _with_users(names, uses)
        for node, text in _changes(statement, annotation=False):
            assert node.end_lineno is not None and node.end_col_offset is not None
            start, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
            places.append(Mutant(path, node.lineno, start, end, text, touched))
    return places


def _with_users(names: set[str], uses: list[tuple[set[str], set[str]]]) -> frozenset[str]:
    """Names of a module with those whose statements use them, directly or not; `uses` has what each statement binds and uses."""
    while True:
        more = names.union(*(bound for bound, used in uses if used & names))
        if more == names:
            return frozenset(names)
        names = more


def _bound(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        methods = [part.name for part in ast.walk(statement) if isinstance(part, ast.FunctionDef)]
        return {statement.name, *(name for name in methods if not name.startswith("_"))}
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _changes(node: ast.AST, annotation: bool) -> Iterator[tuple[ast.expr, str]]:
    """Expressions below a node, each with the text of a mistake in its place."""
    if (
        isinstance(node, ast.JoinedStr | ast.Assert)
        or _for_type_checkers(node)
        or (isinstance(node, ast.keyword) and node.arg in NO_RESULT)
    ):
        return
    if isinstance(node, ast.keyword) and node.arg in AXES and ast.unparse(node.value) == "-1":
        yield node.value, "0"
        return
    if isinstance(node, ast.expr) and (not annotation or isinstance(node, ast.Call)):
        for changed in _of(node):
            yield node, ast.unparse(changed) if isinstance(changed, ast.Call | ast.Constant) else f"({ast.unparse(changed)})"
    if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
        return  # -1 for 1 is tried already, and -2 for -1 says the same to much of NumPy
    for field, child in ast.iter_fields(node):
        inside = annotation and not isinstance(node, ast.Call)
        for one in child if isinstance(child, list) else [child]:
            if isinstance(one, ast.AST):
                yield from _changes(one, inside or field in ("annotation", "returns"))


def _for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _of(node: ast.expr) -> Iterator[ast.expr]:
    changed = copy.copy(node)
    match changed:
        case ast.Compare(ops=[first, *_]) if type(first) in COMPARISONS:
            changed.ops = [COMPARISONS[type(first)](), *changed.ops[1:]]
        case ast.BinOp(op=operator) if type(operator) in ARITHMETIC and not _text(node):
            changed.op = ARITHMETIC[type(operator)]()
        case ast.BoolOp(op=operator):
            changed.op = ast.Or() if isinstance(operator, ast.And) else ast.And()
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            changed = operand
        case ast.Call(func=ast.Name(id=name)) if name in CALLS:
            changed.func = ast.Name(CALLS[name])
            if name == "sorted":
                changed.keywords = []
        case ast.Constant(value=bool(flag)):
            changed = ast.Constant(not flag)
        case ast.Constant(value=int(number)) if abs(number) <= LARGEST:
            changed = ast.Constant(number + 1)
        case ast.Constant(value=float(number)) if not 0 < abs(number) < LEAST:
            changed = ast.Constant(number * 2 or 1.0)
        case _:
            return
    yield changed


def _text(node: ast.expr) -> bool:
    """Is it a text that is put together? Then `-` for `+` is met at once by whoever reads it."""
    return any(isinstance(part, ast.JoinedStr) or isinstance(getattr(part, "value", None), str | bytes) for part in ast.walk(node))
