"""Saliency from GQA's own annotations: the objects in the question, with all others of the same name.

Drew Hudson, Christopher Manning, "GQA: A New Dataset for Real-World Visual Reasoning and Compositional Question Answering",
CVPR 2019. CertainlyUncertain (appendix F.1) removes every object of the name, so that the question cannot be about another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qualm.registry.formats.json_stream import JsonStreamError, members
from qualm.runners.contracts.pairs import PairContext, PairError
from qualm.runners.contracts.saliency import Row, Target, Thing, answer_of

if TYPE_CHECKING:
    from qualm.registry.plugins.registry import Artifact

COLORS = {"red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "white", "gray", "grey", "tan", "beige"}
"""Attributes that answer "What color is ...?"."""


def gqa(context: PairContext, folder: Path, rows: Sequence[Row], *, graphs: Artifact | None = None) -> Iterator[Target]:
    """Yield a Target per usable row: the GQA objects whose names its question annotates.

    Args:
        folder: the dataset, whose `image_id`s are GQA's and whose `sample_id`s (or meta `question_id`) are the questions' keys.
        rows: its samples.
        graphs: the entry of registry/data/ with the official `*_sceneGraphs.json` and `*questions*.json`, at any depth; by
            default the dataset's own folder.

    Dropped and counted: "no scene graph", "no question annotation", "no object in the question", "asks whether it is there"
    (without it the answer is no), "no answer".

    Raises:
        PairError: files that are missing or are not GQA's.
    """
    place = Path(graphs) if graphs else folder
    ids: dict[str, str] = {row["sample_id"]: dict(row["meta"] or ()).get("question_id") or row["sample_id"] for row in rows}
    scenes = _read(place, "*_sceneGraphs.json", {row["image_id"] for row in rows} | {_scene_graph_key(row["image_id"]) for row in rows})
    questions = _read(place, "*questions*.json", set(ids.values()))
    for row in rows:
        scene = scenes.get(row["image_id"]) or scenes.get(_scene_graph_key(row["image_id"]))
        question = questions.get(ids[row["sample_id"]])
        target = _target(row, scene, question)
        if isinstance(target, str):
            context.drop(target)
        else:
            yield target


def _scene_graph_key(image_id: str) -> str:
    """Return the image's key in the scene graphs: its id without folders and suffix."""
    return image_id.rpartition("/")[2].partition(".")[0]


def _target(row: Row, scene: Mapping[str, Any] | None, question: Mapping[str, Any] | None) -> Target | str:
    answer = answer_of(row)
    if answer is None:
        return "no answer"
    if scene is None:
        return "no scene graph"
    if question is None:
        return "no question annotation"
    if any(str(step.get("operation", "")).startswith("exist") for step in question.get("semantic") or ()):
        return "asks whether it is there"
    objects: Mapping[str, Any] = scene["objects"]
    notes = question.get("annotations") or {}
    places = [i for i in _object_ids_by_word(notes.get("question") or {}) if i in objects]
    if not places:
        return "no object in the question"
    attached = {objects[str(i)]["name"] for part in notes.values() for i in (part or {}).values() if str(i) in objects}
    names = list(dict.fromkeys(objects[i]["name"] for i in places))
    boxes = tuple(_box(o) for o in objects.values() if o["name"] in names)
    others = tuple(_thing(o["name"], [o]) for o in objects.values() if o["name"] not in attached)
    thing = Thing(names[0], names[0], boxes)
    return Target(row["sample_id"], row, row["question"], answer, thing, partial(_other_questions, objects, names, row["question"]), others)


def _object_ids_by_word(words: Mapping[str, Any]) -> list[str]:
    """Return object ids in the order of their words; keys are numbers or spans like `4:6`."""
    return [str(i) for _, i in sorted(words.items(), key=lambda item: int(str(item[0]).partition(":")[0]))]


def _thing(name: str, objects: Sequence[Mapping[str, Any]]) -> Thing:
    return Thing(name, name, tuple(map(_box, objects)))


def _box(thing: Mapping[str, Any]) -> tuple[float, float, float, float]:
    return float(thing["x"]), float(thing["y"]), float(thing["w"]), float(thing["h"])


def _other_questions(objects: Mapping[str, Any], names: Sequence[str], question: str) -> list[tuple[str, str]]:
    """Return (question, answer) pairs about colour and relations of uniquely named objects."""
    pairs: list[tuple[str, str]] = []
    for name in names:
        named = [o for o in objects.values() if o["name"] == name]
        if len(named) != 1:
            continue
        colors = [a for a in named[0].get("attributes") or () if a in COLORS]
        if len(colors) == 1:
            pairs.append((f"What color is the {name}?", colors[0]))
        relations = [(r["name"], objects[str(r["object"])]["name"]) for r in named[0].get("relations") or () if str(r["object"]) in objects]
        once = Counter(relation for relation, _ in relations)
        pairs += [(f"What is the {name} {relation}?", other) for relation, other in relations if once[relation] == 1]
    return [(text, answer) for text, answer in pairs if text != question]


def _read(place: Path, pattern: str, keys: Collection[str]) -> dict[str, Any]:
    files = sorted(place.rglob(pattern))
    if not files:
        raise PairError(f"{place}: expected GQA's {pattern}, found none; name the entry of registry/data/ that holds them as `graphs`")
    entries: dict[str, Any] = {}
    try:
        for file in files:
            entries.update((key, value) for key, value in members(file) if key in keys)
    except JsonStreamError as error:
        raise PairError(str(error)) from error
    return entries
