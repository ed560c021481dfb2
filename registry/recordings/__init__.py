"""Recordings: answers that other evaluation tools have logged, one module per format.

    lm_eval.py      lm-evaluation-harness   samples_TASK_DATE.jsonl
    lmms_eval.py    lmms-eval               DATE_samples_TASK.jsonl
    vlmevalkit.py   VLMEvalKit              MODEL_DATA.xlsx, .tsv or .json, and its input DATA.tsv
    seedbench.py    SEED-Bench              MODEL.json of its released predictions
    inspect.py      Inspect                 .eval (a zip) and .json, EvalLog version 2

The dataset adapter takes questions from them and the `recorded` model answers, so both read through here. A format module has

    def names(path: Path) -> frozenset[tuple[str, str]] | None
        The (run, task) pairs that a file may be called by; None where it is no file of this format. Reads its head only.
    def read(path: Path, how: How) -> Iterator[Record | Fault]
        Its rows in order, one in memory at a time. A row that is not as the format has it is a Fault, never a guess.

The files are other people's: nothing in them is run or unpacked to disk, and lines, cells and archive members have a size
beyond which they are refused.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from registry.faults import Fault as Fault

FORMATS = ("lm-eval", "lmms-eval", "vlmevalkit", "seedbench", "inspect")
"""What a spec calls them."""

MOST_DRAWS = 2**15

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 100


ODD = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
"""What reading a row that is not as its format has it may raise; it becomes a fault, whatever a stranger put there."""


class RecordingError(Exception):
    """A recording that cannot be read at all. The message names the file, what was expected, what came, what to do."""


@dataclass(slots=True)
class Record:
    """One row: a question as far as the format keeps it, and one model's answers to it."""

    where: str
    id: str
    question: str = ""
    prompt: str = ""
    """What the model was sent, where that is more than the question."""
    choices: tuple[str, ...] = ()
    answer_index: int | None = None
    doubt: str = ""
    """Why `answer_index` cannot be known, where there are options; that is for those to mind who take questions from here."""
    references: tuple[str, ...] = ()
    category: str = ""
    split: str = ""
    meta: dict[str, str] = field(default_factory=dict)
    image: bytes | None = None
    draws: list[dict[str, Any]] = field(default_factory=list)
    """Columns of GENERATIONS, an answer each; empty where the row is a question only."""
    draw: int = 0
    """Number of the first of them."""

    def texts(self) -> Iterator[str]:
        """Every text in it."""
        yield from (self.id, self.question, self.prompt, self.category, self.split, *self.choices, *self.references)
        yield from (text for pair in self.meta.items() for text in pair)
        yield from (value for draw in self.draws for value in draw.values() if isinstance(value, str))


@dataclass(frozen=True)
class How:
    """What the spec says about reading."""

    fields: Mapping[str, str] = field(default_factory=dict)
    """Our word -> the recording's field: id, question, choices, target, category."""
    filter: str | None = None
    """Whose answers are taken where the format has several readings of one; None = as the model gave them."""


@dataclass(frozen=True)
class Part:
    """One file: the answers of one run to one task."""

    path: Path
    format: str
    names: frozenset[tuple[str, str]]
    """(run, task) pairs that it may be asked for by."""

    def has(self, run: str | None, task: str | None) -> bool:
        return any(run in (None, r) and task in (None, t) for r, t in self.names)

    def read(self, how: How) -> Iterator[Record | Fault]:
        for item in _module(self.format).read(self.path, how):
            try:
                if isinstance(item, Record):
                    "".join(item.texts()).encode()
            except UnicodeEncodeError as error:  # JSON can hold halves of characters; tables cannot
                yield Fault(item.where, "text that is no Unicode", str(error))
            else:
                if isinstance(item, Record) and item.draw + len(item.draws) > MOST_DRAWS:
                    yield Fault(item.where, "more draws than a table of ours has room for", str(item.draw + len(item.draws)))
                else:
                    yield item


def find_parts(source: Path, form: str = "auto") -> list[Part]:
    """Every file of a recording, in order of path.

    Raises:
        RecordingError: there is none, or there are several formats and none is named.
    """
    if not source.exists():
        raise RecordingError(f"{source}: not on this disk; `dvc pull {source}.dvc` brings it from the remote")
    forms = list(FORMATS) if form == "auto" else [form]
    found = []
    for path in sorted(_files(source)):
        for name in forms:
            names = _module(name).names(path)
            if names is not None:
                found.append(Part(path, name, names))
                break
    there = sorted({p.format for p in found})
    if len(there) > 1:
        raise RecordingError(f"{source}: holds recordings of {' and of '.join(there)}; say which with `format:`")
    if not found:
        wanted = "of " + (", ".join(FORMATS) if form == "auto" else form)
        hint = "docs/exchange.md says what their files are called"
        if any(p.suffix == ".xlsx" for p in _files(source)) and find_spec("openpyxl") is None:
            hint = "its Excel tables need openpyxl, which is not here: `pip install openpyxl`"
        raise RecordingError(f"{source}: no recording {wanted} in it; {hint}")
    return found


def choose(source: Path, parts: Sequence[Part], run: str | None, task: str | None, fallback: str = "", first: bool = False) -> Part:
    """The one file that is meant.

    Args:
        source: of the parts, for messages.
        parts: to choose from.
        run: a folder, model, date or id in it; None = whichever.
        task: the tool's name for the data; None = `fallback` if there is such a task, else the only one.
        fallback: the dataset's name in the spec.
        first: of several runs of one task take the first by path, as for questions, which are the same in all.

    Raises:
        RecordingError: none, or several fit.
    """
    of_run = [p for p in parts if p.has(run, None)]
    if not of_run:
        raise RecordingError(f"{source}: no run '{run}'; there are: {_listed(r for p in parts for r, _ in p.names)}")
    if task is None:
        task = fallback if any(p.has(run, fallback) for p in of_run) else None
    fitting = [p for p in of_run if p.has(run, task)]
    of = f" of run '{run}'" if run else ""
    if not fitting:
        raise RecordingError(f"{source}: no task '{task}'{of}; there are: {_listed(t for p in of_run for _, t in p.names)}")
    if len(fitting) == 1 or (first and task is not None):
        return fitting[0]
    names = ", ".join(p.path.relative_to(source).as_posix() if p.path != source else p.path.name for p in fitting[:8])
    if task is None and len({t for p in fitting for _, t in p.names}) > 1:
        raise RecordingError(f"{source}: holds several tasks{of}: {names}; say which is meant")
    raise RecordingError(f"{source}: task '{task}' lies there {len(fitting)} times{of}: {names}; say which with `run:`, a folder or a date")


def task_of(part: Part, run: str | None) -> str:
    """What a part's task is called: the longest name that it has under this run."""
    return max((t for r, t in part.names if run in (None, r)), key=lambda t: (len(t), t))


def texts(value: Any) -> tuple[str, ...]:
    """A target or a list of them as texts; a list that was written as Python or JSON text is opened."""
    if isinstance(value, str):
        return _opened(value)
    if isinstance(value, list | tuple):
        return tuple(str(v) for v in value if v is not None)
    return () if value is None else (str(value),)


def letter_index(value: str, n: int) -> int | None:
    """Place of a letter among n options; "(B)" and "B." are B."""
    bare = value.strip().strip("().").upper()
    return LETTERS.index(bare) if len(bare) == 1 and bare in LETTERS[:n] else None


def shown(value: Any) -> str:
    """A value of the file in a message: short, on one line."""
    return _SHORT.repr(value)


def small(values: Mapping[str, Any], but: Iterable[str] = ()) -> dict[str, str]:
    """The fields that may be worth slicing by: short, and no lists."""
    left = set(but)
    return {
        str(k): str(v) for k, v in values.items() if k not in left and isinstance(v, str | int | float) and v == v and 0 < len(str(v)) <= 80
    }


def _opened(value: str) -> tuple[str, ...]:
    import ast

    if value[:1] == "[" and value[-1:] == "]" and len(value) <= 100_000:
        try:
            found = ast.literal_eval(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return (value,)
        if isinstance(found, list) and found and all(isinstance(v, str | int | float) for v in found):
            return tuple(map(str, found))
    return (value,)


def _module(form: str) -> ModuleType:
    from registry.recordings import inspect, lm_eval, lmms_eval, seedbench, vlmevalkit

    modules: dict[str, ModuleType] = {
        "lm-eval": lm_eval,
        "lmms-eval": lmms_eval,
        "vlmevalkit": vlmevalkit,
        "seedbench": seedbench,
        "inspect": inspect,
    }
    if form not in modules:
        raise RecordingError(f"no format '{form}'; there are: {', '.join(FORMATS)}")
    return modules[form]


def _files(source: Path) -> Iterator[Path]:
    """Ordinary files beneath a folder, or the one file; links are not followed."""
    if source.is_file():
        yield source
        return
    for path in source.rglob("*"):
        if path.is_file() and not path.is_symlink() and not any(part.startswith(".") for part in path.relative_to(source).parts):
            yield path


def _listed(names: Iterable[str]) -> str:
    known = sorted(set(names))
    return ", ".join(known[:12]) + (f" and {len(known) - 12} more" if len(known) > 12 else "") or "none"
