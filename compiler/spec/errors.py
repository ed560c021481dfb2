"""Mistakes in a spec: where they are, what is expected, and how to fix them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from qualm.registry.text import ProjectError as ProjectError
from qualm.registry.text import masked, one_line
from qualm.registry.text import nearest as nearest


@dataclass(frozen=True, order=True)
class Position:
    """A place in a file: name, line and column from 1; sorts in that order."""

    file: str
    line: int = 1
    col: int = 1


@dataclass(frozen=True)
class Problem:
    """One mistake in a spec: its position, key path, message and hint."""

    mark: Position
    path: str
    message: str
    hint: str = ""
    at: tuple[Any, ...] = field(default=(), compare=False)
    """The path in the document, as a tuple of keys and indices."""

    def __str__(self) -> str:
        where = f"{self.mark.file}:{self.mark.line}:{self.mark.col}"
        path = f" {self.path}:" if self.path else ""
        hint = f" ({self.hint})" if self.hint else ""
        return one_line(f"{where}:{path} {self.message}{hint}")

    def as_dict(self) -> dict[str, Any]:
        return {
            "file": self.mark.file,
            "line": self.mark.line,
            "col": self.mark.col,
            "path": self.path,
            "message": self.message,
            "hint": self.hint,
        }


MAX_PROBLEMS = 200
"""Maximum number of mistakes per reading: a file with more is not a spec, and finding 60,000 positions takes a minute."""


class Problems(list[Problem]):
    """List of mistakes; `append` raises SpecError at MAX_PROBLEMS."""

    def append(self, problem: Problem) -> None:
        super().append(problem)
        if len(self) >= MAX_PROBLEMS:
            super().append(Problem(problem.mark, "", f"there may be more: {MAX_PROBLEMS} mistakes are named at once"))
            raise SpecError(self)


class SpecError(Exception):
    """Error with all problems of one spec, sorted by position."""

    def __init__(self, problems: Iterable[Problem], sources: dict[str, str] | None = None) -> None:
        unique = dict.fromkeys(problems)
        self.problems = sorted(unique, key=lambda p: (p.mark, p.path, p.message))
        self.sources = sources or {}
        self._split: dict[str, list[str]] = {}
        super().__init__("\n".join(map(str, self.problems)))

    def snippet(self, problem: Problem) -> str:
        """Return the problem's source line and a caret below; "" without its source."""
        lines = self._lines(problem.mark.file)
        if not 0 < problem.mark.line <= len(lines):
            return ""
        line = lines[problem.mark.line - 1].replace("\t", " ")
        start = max(0, problem.mark.col - 1 - 60)
        excerpt = masked(line[start : start + 120])
        return f"    {excerpt}\n    {' ' * (problem.mark.col - 1 - start)}^"

    def _lines(self, file: str) -> list[str]:
        if file not in self._split:
            self._split[file] = self.sources.get(file, "").splitlines()
        return self._split[file]

    def render(self) -> str:
        """Return all problems as text, each followed by its source line."""
        return "\n".join(f"{p}\n{s}" if (s := self.snippet(p)) else str(p) for p in self.problems)


def quoted(value: Any) -> str:
    """Return a value for a message, on one line, cut to 60: "the text 'abc'"."""
    if value is None:
        return "nothing"
    kind = {bool: "the boolean ", str: "the text ", dict: "a mapping ", list: "a list "}.get(type(value), "")
    text = repr(value) if not isinstance(value, bool) else str(value).lower()
    text = text.replace("\n", "\\n")
    return kind + (text if len(text) <= 60 else text[:57] + "...")
