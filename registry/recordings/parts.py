"""Files of a recording: the format of each, and selection of the one that a spec means."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from qualm.registry.formats.faults import Fault as Fault
from qualm.registry.plugins.extras import install_line
from qualm.registry.recordings import (
    every_eval_ever,
    helm,
    inspect,
    lighteval,
    lm_eval,
    lmms_eval,
    named_columns,
    opencompass,
    seedbench,
    vlcb,
    vlmevalkit,
)
from qualm.registry.recordings.record import MAX_DRAWS, ReadOptions, Record, RecordingError, drop_impossible

EVERY_EVAL_EVER = "every-eval-ever"
TABLE = "table"
"""Any table of ids and answers, by its columns' names."""
FORMATS: dict[str, ModuleType] = {
    "lm-eval": lm_eval, "lmms-eval": lmms_eval, "vlmevalkit": vlmevalkit, "seedbench": seedbench, "inspect": inspect,
    "lighteval": lighteval, "helm": helm, "opencompass": opencompass, "vlcb": vlcb, EVERY_EVAL_EVER: every_eval_ever, TABLE: named_columns,
}  # fmt: skip
"""Name of a format in a spec -> its module."""


@dataclass(frozen=True)
class RecordingFile:
    """One file of a recording: path, format, and the (run, task) pairs that select it."""

    path: Path
    format: str
    names: frozenset[tuple[str, str]]
    task: str | None = None
    """Chosen task, for files that hold several; None = all rows."""

    def has(self, run: str | None, task: str | None) -> bool:
        return any(run in (None, r) and task in (None, t) for r, t in self.names)

    def read(self, how: ReadOptions) -> Iterator[Record | Fault]:
        for item in _module(self.format).read(self.path, replace(how, task=self.task)):
            yield _checked(item) if isinstance(item, Record) else item


def _checked(record: Record) -> Record | Fault:
    """Return the record without impossible numbers; a Fault for text or draws that no table can hold."""
    try:
        "".join(record.texts()).encode()
    except UnicodeEncodeError as error:  # JSON can hold halves of characters; tables cannot
        return Fault(record.where, "text that is not Unicode", str(error))
    if record.draw + len(record.draws) > MAX_DRAWS:
        return Fault(record.where, "more draws than a table has room for", str(record.draw + len(record.draws)))
    for i, draw in enumerate(record.draws):
        record.draws[i], reasons = drop_impossible(draw)
        record.impossible += reasons
    return record


def find_parts(source: Path, form: str = "auto", how: ReadOptions | None = None) -> list[RecordingFile]:
    """Return all recognised files of a folder, by path; RecordingError if none or mixed.

    Plain tables count only where no file is of a tool's format.
    """
    if not source.exists():
        raise RecordingError(f"{source}: not on this disk; `dvc pull {source}.dvc` brings it from the remote")
    forms = [name for name in FORMATS if name != TABLE] if form == "auto" else [form]
    parts = []
    for path in sorted(_files(source)):
        for name in forms:
            reader = _module(name)
            names = reader.names(path, source, how or ReadOptions()) if name == TABLE else reader.names(path)
            if names is not None:
                parts.append(RecordingFile(path, name, names))
                break
    if not parts and form in ("auto", EVERY_EVAL_EVER):
        _refuse_aggregates(source)
    if not parts and form == "auto":
        return find_parts(source, TABLE, how)
    there = sorted({p.format for p in parts})
    if len(there) > 1:
        raise RecordingError(f"{source}: holds recordings of {' and of '.join(there)}; say which with `format:`")
    if not parts:
        kind = f"of {', '.join(FORMATS) if form in ('auto', TABLE) else form}"
        hint = "docs/how-to/exchange.md says what their files are called; `fields: {id: NAME, prediction: NAME}` names a table's columns"
        if form == TABLE:
            hint += _describe_columns(source)
        if any(p.suffix == ".xlsx" for p in _files(source)) and find_spec("openpyxl") is None:
            hint = f"its Excel tables need openpyxl, which is not installed: `{install_line('tables')}`"
        raise RecordingError(f"{source}: no recording {kind} in it; {hint}")
    return parts


def choose(
    source: Path, parts: Sequence[RecordingFile], run: str | None, task: str | None, fallback: str = "", first: bool = False
) -> RecordingFile:
    """Return the one file of run and task; RecordingError for none or several.

    Args:
        run: a folder, model, date or id in it; None = any.
        task: the tool's name for the data; None = `fallback` if there is such a task, else the only one.
        fallback: the dataset's name in the spec.
        first: take the first by path of several runs, as for questions, which all runs share.
    """
    of_run = [p for p in parts if p.has(run, None)]
    if not of_run:
        files = Counter(name for part in parts for name in {r for r, _ in part.names})
        # Similar names first, then those of more files: a model's name before a date.
        names = sorted(files, key=lambda name: (str(run) not in name, -files[name], name))
        raise RecordingError(f"{source}: no run '{run}'; there are: {_listed(names)}")
    if task is None:
        tasks = {t for p in of_run for _, t in p.names}
        task = fallback if fallback in tasks else tasks.pop() if len(tasks) == 1 else None
    fitting = [p for p in of_run if p.has(run, task)]
    of = f" of run '{run}'" if run else ""
    if not fitting:
        raise RecordingError(f"{source}: no task '{task}'{of}; there are: {_listed(sorted({t for p in of_run for _, t in p.names}))}")
    if len(fitting) == 1 or (first and task is not None):
        return replace(fitting[0], task=task)
    paths = ", ".join(p.path.relative_to(source).as_posix() if p.path != source else p.path.name for p in fitting[:8])
    if task is None and len({t for p in fitting for _, t in p.names}) > 1:
        raise RecordingError(f"{source}: holds several tasks{of}: {paths}; say which is meant")
    raise RecordingError(f"{source}: task '{task}' lies there {len(fitting)} times{of}: {paths}; say which with `run:`, a folder or a date")


def _refuse_aggregates(source: Path) -> None:
    """Raise RecordingError if any file in `source` is an Every Eval Ever log of scores alone."""
    if (path := next((path for path in sorted(_files(source)) if every_eval_ever.is_aggregate(path)), None)) is not None:
        raise RecordingError(
            f"{path}: an Every Eval Ever log of scores alone, without answers; add the file of its answers, `{path.stem}_samples.jsonl` "
            "(`detailed_evaluation_results` says whether there is one)"
        )


def task_of(part: RecordingFile, run: str | None) -> str:
    """Return the longest of a file's task names for `run`, or for any run if it is None."""
    return max((t for r, t in part.names if run in (None, r)), key=lambda t: (len(t), t))


def _describe_columns(source: Path) -> str:
    """Return "; FILE has: COLUMNS" of the first table, for a message; "" if none."""
    found = ((path, columns) for path in sorted(_files(source)) if (columns := named_columns.columns_of(path)))
    path, columns = next(found, (source, []))
    return f"; {path.name} has: {_listed(columns)}" if columns else ""


def _module(form: str) -> ModuleType:
    if form not in FORMATS:
        raise RecordingError(f"no format '{form}'; there are: {', '.join(FORMATS)}")
    return FORMATS[form]


def _files(source: Path) -> Iterator[Path]:
    """Yield regular files below a folder, or the file itself; skip links and hidden ones."""
    if source.is_file():
        yield source
        return
    for path in source.rglob("*"):
        if path.is_file() and not path.is_symlink() and not any(part.startswith(".") for part in path.relative_to(source).parts):
            yield path


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "") or "none"
