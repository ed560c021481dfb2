"""Which links are followed: those that DVC makes, and no others.

With `cache.type symlink` the files of an entry are links into DVC's cache. Any other link, and any name with `..`, could show a file
of this machine to whoever sees the results.
"""

import os
import shutil
from functools import cache
from pathlib import Path

from qualm.registry.dvc.config import cache_folder
from qualm.registry.dvc.state import listing, object_path


def lies_in(folder: Path, path: Path) -> bool:
    """Return whether a path leads to something in the folder, or to DVC's cache by a link.

    Raises:
        OSError, ValueError: no file can have such a name.
    """
    plain = Path(os.path.normpath(path))
    if not plain.is_relative_to(os.path.normpath(folder)):
        return False
    target = path.resolve()
    return target.is_relative_to(folder.resolve()) or is_cached(folder, target)


def link(cache: Path, md5: str, place: Path) -> None:
    """Put links to a file, or to all files of a folder, at a place that is free; the cache has them (`state.holds`).

    Where the system allows no symbolic links, as Windows does by default, hard links take their place, or copies on another disk.
    """
    files = (listing(cache, md5) or {}) if md5.endswith(".dir") else {"": md5}
    for relative, hashed in files.items():
        (place / relative).parent.mkdir(parents=True, exist_ok=True)
        _link_file(object_path(cache, hashed), place / relative)


def _link_file(source: Path, place: Path) -> None:
    for way in (place.symlink_to, place.hardlink_to):
        try:
            way(source)
        except FileExistsError:
            raise
        except OSError:
            continue
        return
    shutil.copyfile(source, place)


def is_cached(folder: Path, target: Path) -> bool:
    """Whether a path, resolved, is an object in the cache of the project that a folder lies in."""
    objects = _objects(folder.resolve())
    return objects is not None and target.is_relative_to(objects)


@cache
def _objects(folder: Path) -> Path | None:
    root = next((p for p in (folder, *folder.parents) if (p / ".dvc").is_dir()), None)
    return (cache_folder(root) / "files").resolve() if root is not None else None
