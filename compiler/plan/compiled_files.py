"""Recognize compiled files by their header; find and remove those of deleted specs, with their results."""

import re
import shutil
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

HEADER = "# Compiled from specs/{spec}.yaml by `qualm compile`. Do not edit: edit the spec and compile again.\n"
_OURS = re.compile(r"^# Compiled from specs/([^ ]+)\.yaml by `qualm compile`")


def owner(path: Path) -> str | None:
    """Return the name of the spec that a dvc.yaml was compiled from, else None."""
    try:
        with path.open(encoding="utf-8") as lines:
            match = _OURS.match(lines.readline())
    except (OSError, UnicodeDecodeError):
        return None
    return match.group(1) if match else None


@dataclass(frozen=True)
class Leftover:
    """Remains of a deleted spec: compiled files and result folders."""

    spec: str
    compiled: tuple[Path, ...]
    results: tuple[Path, ...]

    @property
    def places(self) -> list[str]:
        """Return its paths as text, a folder instead of the files in it."""
        folder = Path("specs", self.spec)
        files = [p for p in self.compiled if not p.is_relative_to(folder)]
        folders = [*([folder] if len(files) < len(self.compiled) else []), *self.results]
        return [*map(str, files), *(f"{p}/" for p in folders)]


def leftovers(root: Path, specs: Collection[str]) -> list[Leftover]:
    """Return a `Leftover` per compiled spec that is not in `specs`, sorted by name."""
    owners = {p.parent.parent.name for p in (root / "specs").glob("*/stages/*.json")}
    owners |= {name for name in map(owner, (*(root / "results").glob("*/.gitignore"), *(root / "specs").glob("*/dvc.yaml"))) if name}
    return [list_compiled(root, name) for name in sorted(owners - set(specs))]


def list_compiled(root: Path, spec: str) -> Leftover:
    """Return a spec's compiled files and result folders that exist."""
    compiled = [p.relative_to(root) for p in _compiled(root, spec) if p.is_file()]
    results = [Path("results", spec), Path(".qualm/runs", spec), Path(".qualm/calibrations", spec)]
    return Leftover(spec, tuple(compiled), tuple(p for p in results if (root / p).is_dir()))


def _compiled(root: Path, spec: str) -> Iterator[Path]:
    folder = root / "specs" / spec
    yield from sorted((folder / "stages").glob("*.json"))
    for pipeline in (folder / "dvc.yaml", root / "dvc.yaml"):
        if owner(pipeline) == spec:
            yield from (pipeline, pipeline.with_suffix(".lock"))


def remove(root: Path, leftover: Leftover) -> None:
    """Delete a leftover's compiled files and result folders; keep other files.

    Of a result folder that is a symbolic link, only the link is deleted.
    """
    for path in leftover.compiled:
        (root / path).unlink(missing_ok=True)
    for folder in (root / "specs" / leftover.spec / "stages", root / "specs" / leftover.spec):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    for path in leftover.results:
        folder = root / path
        if folder.is_symlink():
            folder.unlink()
        else:
            shutil.rmtree(folder)
