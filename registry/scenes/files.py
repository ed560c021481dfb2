"""Readers and writers of CLEVR scenes files, one scene at a time; the official ones have up to 70,000 scenes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from qualm.registry.formats.json_stream import JsonStreamError, members
from qualm.registry.scenes.world import RELATIONS, VALUES, Scene


class ScenesFileError(Exception):
    """Error of a missing or malformed scenes file: file, scene, expected."""


def read_scenes_file(path: Path) -> Iterator[Scene]:
    """Yield the scenes of a CLEVR file in order; ScenesFileError if one is invalid."""
    if not path.is_file():
        raise ScenesFileError(f"{path}: expected a CLEVR scenes file, found none; scenes are released for train and val only")
    try:
        number = 0
        for key, scene in members(path, {"scenes"}):
            if key == "scenes":
                if wrong := _fault(scene):
                    raise ScenesFileError(f"{path}: scene {number}: {wrong}")
                yield scene
                number += 1
        if not number:
            raise ScenesFileError(f"{path}: expected a list of scenes under 'scenes', found none")
    except JsonStreamError as error:
        raise ScenesFileError(str(error)) from error


def _fault(scene: Any) -> str:
    if not isinstance(scene, dict):
        return f"expected a mapping, got {type(scene).__name__}"
    for name, kind in (("image_filename", str), ("objects", list), ("relationships", dict), ("directions", dict)):
        if not isinstance(scene.get(name), kind):
            return f"{name}: expected a {kind.__name__}, got {scene.get(name)!r:.60}"
    n = len(scene["objects"])
    for i, thing in enumerate(scene["objects"]):
        for attribute, values in VALUES.items():
            if not isinstance(thing, dict) or thing.get(attribute) not in values:
                got = thing.get(attribute) if isinstance(thing, dict) else thing
                return f"object {i}: {attribute}: expected one of {', '.join(values)}, got {got!r:.60}"
        if not _is_place(thing.get("3d_coords")):
            return f"object {i}: 3d_coords: expected three numbers, got {thing.get('3d_coords')!r:.60}"
    for side in RELATIONS:
        if not _is_place(scene["directions"].get(side)):
            return f"directions: {side}: expected three numbers, got {scene['directions'].get(side)!r:.60}"
        rows = scene["relationships"].get(side)
        if not isinstance(rows, list) or len(rows) != n or not all(isinstance(r, list) and all(j in range(n) for j in r) for r in rows):
            return f"relationships: {side}: expected {n} lists of object indices below {n}, got {rows!r:.60}"
    return ""


def _is_place(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(type(x) in (int, float) and math.isfinite(x) for x in value)


class ScenesFile:
    """Context manager that writes a CLEVR scenes file scene by scene."""

    def __init__(self, folder: Path, split: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = (folder / f"CLEVR_{split}_scenes.json").open("w", encoding="utf-8", newline="\n")
        info = {"date": "", "version": "1.0", "split": split, "license": "CC0-1.0"}
        self.file.write(f'{{"info": {json.dumps(info)}, "scenes": [')
        self.between = "\n"

    def __enter__(self) -> ScenesFile:
        return self

    def write(self, scene: Scene) -> None:
        self.file.write(self.between + json.dumps(scene, separators=(",", ":")))
        self.between = ",\n"

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:  # without its end, an interrupted file is refused by its reader
            self.file.write("\n]}\n")
        self.file.close()
