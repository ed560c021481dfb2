"""Read DVC's settings, `.dvc` files and locks, checked before anything uses them."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal, Required

import yaml
from pydantic import Field, NonNegativeInt, StringConstraints, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from qualm.registry.system import textfiles
from qualm.registry.system.textfiles import NoFileError, TextFileError


class DvcStateError(Exception):
    """Error of an unreadable DVC file or repository; the message says what to do."""


Md5 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}(\.dir)?$")]


class _Item(TypedDict, total=False):
    path: Required[str]
    md5: Md5 | None
    size: NonNegativeInt | None
    nfiles: NonNegativeInt | None


class _Meta(TypedDict, total=False):
    qualm: dict[str, str | bool] | None


class _DvcFile(TypedDict, total=False):
    outs: Required[Annotated[list[_Item], Field(min_length=1)]]
    deps: list[dict[str, Any]] | None
    meta: _Meta | None


class _Stage(TypedDict, total=False):
    cmd: str | list[str]
    deps: list[_Item] | None
    outs: list[_Item] | None
    params: dict[str, dict[str, Any] | None] | None


class _Lock(TypedDict, total=False):
    schema: Required[Literal["2.0"]]
    stages: dict[str, _Stage] | None


@dataclass(frozen=True)
class RecordedOutput:
    """Path and MD5 of an output as a lock or `.dvc` file records it."""

    path: str
    """From the root."""
    md5: str
    """Ends in `.dir` for folders."""


def read_lock(path: str | Path) -> dict[str, Any]:
    """Return {stage: {"cmd", "deps", "params", "outs"}} of a dvc.lock; {} if missing.

    Raises DvcStateError if it is malformed.
    """
    return parse_lock(_text(path), str(path))


def parse_lock(text: str | bytes | None, where: str) -> dict[str, Any]:
    """Return {stage: entry} of a dvc.lock's text, {} for None; `where` is for messages."""
    raw = _parse_yaml(text, where)
    if raw is None:
        return {}
    _check(_Lock, raw, where, "a DVC lock")
    stages = raw.get("stages") or {}
    return {name: {key: value for key, value in entry.items() if value is not None} for name, entry in stages.items()}


def read_dvc_file(path: str | Path) -> dict[str, Any]:
    """Return the content of a `.dvc` file with an output; else DvcStateError."""
    return parse_dvc_file(_text(path), str(path))


def parse_dvc_file(text: str | bytes | None, where: str) -> dict[str, Any]:
    """Return the content of a `.dvc` file's text; DvcStateError names `where`."""
    raw: dict[str, Any] = _parse_yaml(text, where)
    _check(_DvcFile, raw, where, "a DVC file with an output")
    return raw


def read_run(path: str | Path) -> dict[str, Any]:
    """Return a record of DVC's run cache: cmd, deps, params, outs; else DvcStateError."""
    raw: dict[str, Any] = _parse_yaml(_text(path), str(path))
    _check(_Stage, raw, str(path), "a record of a run")
    return raw


def find_dvc_file(root: Path, path: str | Path) -> tuple[str, str | None] | None:
    """Return (`.dvc` file that tracks the path or a parent, its MD5 or None); or None."""
    for tracked in (Path(path), *Path(path).parents):
        file = Path(f"{tracked}.dvc")
        if tracked != Path() and textfiles.is_file(root / file):
            return file.as_posix(), read_dvc_file(root / file)["outs"][0].get("md5")
    return None


def locked_outputs(lock: Path) -> dict[str, str]:
    """Return {path: MD5} of all outputs in a dvc.lock; {} if it is missing."""
    return {out["path"]: out["md5"] for entry in read_lock(lock).values() for out in entry.get("outs") or [] if out.get("md5")}


def find_records(root: Path, paths: Iterable[str]) -> list[RecordedOutput]:
    """Return the recorded outputs that are or contain these paths, each once.

    A path that git tracks, or that no stage has made yet, has none.
    """
    read, records = cache(locked_outputs), list[RecordedOutput]()
    for path in paths:
        if (tracked := find_dvc_file(root, path)) is not None:
            file, md5 = tracked
            records += [RecordedOutput(file.removesuffix(".dvc"), md5)] if md5 else []
        elif path.startswith("results/"):
            outputs = {**read(root / "dvc.lock"), **read(root / "specs" / path.split("/")[1] / "dvc.lock")}
            candidates = (path, *map(Path.as_posix, Path(path).parents))
            records += [RecordedOutput(place, outputs[place]) for place in candidates if place in outputs][:1]
    return list(dict.fromkeys(records))


def read_config(root: Path, shared: bool = False) -> dict[str, Any]:
    """Return DVC's settings as nested dicts; if `shared`, only those in `.dvc/config`."""
    from dvc.config import Config

    with dvc_errors(f"{root / '.dvc' / 'config'}: not a DVC configuration", "correct it, or restore it from git"):
        settings = Config(str(root / ".dvc"))
        found: dict[str, Any] = settings.read("repo") if shared else settings
    return found


def cache_folder(root: Path) -> Path:
    """Return the path of the DVC cache that a checkout uses."""
    return Path(read_config(root)["cache"].get("dir") or root / ".dvc" / "cache")


def local_remote(root: Path) -> Path | None:
    """Return the default remote's folder; None if none is set or it is a URL."""
    settings = read_config(root)
    url = settings["remote"].get(settings["core"].get("remote"), {}).get("url", "")
    return Path(url) if url and "://" not in url else None


def has_default_remote(root: Path) -> bool:
    return bool(read_config(root)["core"].get("remote"))


@contextmanager
def dvc_errors(what: str, advice: str) -> Iterator[None]:
    """Turn any exception but DvcStateError into DvcStateError "WHAT: MESSAGE; ADVICE"."""
    try:
        yield
    except DvcStateError:
        raise
    except Exception as error:  # DVC and its libraries share no exception: pathspec, configobj, each kind of remote have their own
        raise DvcStateError(f"{what}: {' '.join(str(error).split()) or type(error).__name__}; {advice}") from error


def _text(path: str | Path) -> str | None:
    try:
        return textfiles.read_text(path)
    except NoFileError:
        return None
    except TextFileError as error:
        raise DvcStateError(f"{error}; {_restore(path)}") from None


def _parse_yaml(text: str | bytes | None, where: str) -> Any:
    try:
        return None if text is None else textfiles.parse_yaml(text, where, _loader())
    except TextFileError as error:
        raise DvcStateError(f"{error}; {_restore(where)}") from error


def _check(shape: Any, raw: Any, where: str, what: str) -> None:
    try:
        _adapter(shape).validate_python(raw, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        got = "" if isinstance(first["input"], dict | list) else f", got {textfiles.shorten(first['input'])}"
        raise DvcStateError(f"{where}: not {what}: {place and f'{place}: '}{first['msg']}{got}; {_restore(where)}") from None


_adapter = cache(partial(TypeAdapter[Any]))


def _restore(where: str | Path) -> str:
    """Return advice on a malformed file, or on one of a commit ("PATH at COMMIT")."""
    if re.search(r" at [0-9a-f]{7,40}$", str(where)):
        return "compare with another revision"
    if str(where).endswith(".dvc"):
        return f"restore it with `git checkout {where}`"
    return f"restore it with `git checkout {where}`, or delete it and run again"


@cache
def _loader() -> type[Any]:
    """Return a YAML loader class that reads scalars by YAML 1.2, as DVC does.

    `no` and `1:30` are text, `1e-4` is a number.
    """

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012 - PyYAML's own way

    for tag, pattern, first in (
        ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
        ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
        ("int", r"[-+]?0b[01_]+|[-+]?0o?[0-7_]+|[-+]?[0-9_]+|[-+]?0x[0-9a-fA-F_]+", "-+0123456789"),
        (
            "float",
            r"[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+"
            r"|[-+]?\.[0-9_]+(?:[eE][-+][0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
            "-+.0123456789",
        ),
    ):
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(f"^(?:{pattern})$"), list(first))
    return Loader
