"""Scene graphs of a dataset's images, in CLEVR's files `scenes/CLEVR_{split}_scenes.json`."""

import json
from collections.abc import Collection
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from qualm.registry.scenes.world import LEVELS, Scene


class SceneGraphError(Exception):
    """Error of missing or malformed scene graphs; names the file and what to do."""


def read_scenes(folder: Path, images: Collection[str] | None = None, drawn: bool = True) -> dict[str, Scene]:
    """Return the dataset's scene graphs by image id; SceneGraphError without a scenes file.

    Args:
        folder: of a `data` stage.
        images: to keep; all unless given.
        drawn: require that scenes can be rendered; False accepts CLEVR's own too.

    Raises:
        SceneGraphError: there are none, or they cannot be read or drawn.
    """
    files = sorted((folder / "scenes").glob("CLEVR_*_scenes.json"))
    if not files:
        raise SceneGraphError(f"{folder}: expected scene graphs as scenes/CLEVR_*_scenes.json, found none; only scenes have them")
    ids = _ids_by_file(folder / "images")
    by_image: dict[str, Scene] = {}
    for file in files:
        try:
            scenes = json.loads(file.read_text(encoding="utf-8"))["scenes"]
            for scene in scenes:
                image_id = ids.get(scene["image_filename"])
                if image_id is not None and (images is None or image_id in images):
                    by_image[image_id] = scene
        except (ValueError, KeyError, TypeError) as error:
            raise SceneGraphError(f"{file}: expected a CLEVR scenes file: {type(error).__name__}: {error}") from error
    unknown = next((s for s in by_image.values() if s.get("level") not in LEVELS), None)
    if drawn and unknown is not None:
        raise SceneGraphError(
            f"{folder}: scene {unknown['image_filename']} is of level {unknown.get('level')!r}; "
            f"only {', '.join(LEVELS)} can be drawn again, so pairs of scenes need `synthetic_scenes`"
        )
    return by_image


def _ids_by_file(folder: Path) -> dict[str, str]:
    ids: dict[str, str] = {}
    for path in sorted(folder.glob("*.parquet")):
        try:
            table = pq.ParquetFile(path).read(columns=["image_id", "image.path"])
        except (pa.ArrowInvalid, OSError) as error:
            raise SceneGraphError(f"{path}: not a readable table of images: {error}") from error
        paths = [struct["path"] for struct in table.column("image").to_pylist()]
        ids.update(zip(paths, table.column("image_id").to_pylist(), strict=True))
    return ids
