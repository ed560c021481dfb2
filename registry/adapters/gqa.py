"""GQA: compositional questions about Visual Genome's photographs, made from scene graphs. Hudson, Manning, 2019 (CVPR)."""

import json
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Literal

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._official import read_records, require_record, require_text, select
from qualm.registry.sample import Image, Sample

META = ["answer_kind", "structural", "semantic", "detailed", "full_answer"]
LABELLED = ("train", "val", "testdev")
GRAPHS = ("train", "val")
"""Parts whose scene graphs are released."""
STRUCTURAL = ("query", "verify", "logical", "choose", "compare")
BARE = ("question", "imageId", "isBalanced")
KEYS = (*BARE, "answer", "fullAnswer", "types", "semantic", "annotations")
OPTIONAL_KEYS = ("groups", "semanticStr", "entailed", "equivalent")


def gqa(
    context: AdapterContext,
    *,
    parts: list[Literal["train", "val", "testdev", "test", "challenge"]] | None = None,
    balanced: bool = True,
    graphs: bool = True,
) -> Iterator[Image | Sample]:
    """Yield the questions of these GQA parts; store the scene graphs of their images.

    The files are `train_balanced_questions.json`, `images/ID.jpg`, and likewise. `sample_id` is the question's key, `image_id` the
    image's. Questions on one image are a group. The category is the question's structural type (query, verify, logical, choose, compare),
    as in the official evaluator; meta has its three types, the full answer, and `answer_kind` (`open` for query, `binary` for all
    others). The parts test and challenge have no answers: their samples have no references and no categories.

    For the recipe `inpainted` with saliency `gqa`, the selected questions' scene graphs and annotations are written to
    `scenes/PART_sceneGraphs.json` and `scenes/PART_questions.json`.

    Args:
        parts: `train` and `val` unless given.
        balanced: the balanced questions; false takes all (`train_all_questions/` where there is a folder of them).
        graphs: keep the scene graphs; testdev, test and challenge have none.

    Raises:
        AdapterError: a file, key or value is not as in the release. Nothing is guessed.
    """
    source = context.need_source("gqa")
    for split in parts or ["train", "val"]:
        keeps = graphs and split in GRAPHS
        pictures: set[str] = set()
        with _object_file(context.folder / "scenes" / f"{split}_questions.json" if keeps else None) as add_annotations:
            for path in _files(source, split, balanced):
                for where, (key, record) in read_records(path, "GQA's questions", "*", context):
                    with context.record():
                        sample = _sample(key, record, split, where)
                        if not context.selects(sample):
                            continue
                        yield from select(context, sample, (f"images/{sample.image_id}.jpg",), where)
                        pictures.add(str(sample.image_id))
                        # What saliency reads: the operations of a question, and the objects that its words and answers are attached to.
                        add_annotations(key, {"semantic": record.get("semantic"), "annotations": record.get("annotations")})
        if keeps:
            _keep_graphs(source / f"{split}_sceneGraphs.json", context, split, pictures)


def _files(source: Path, split: str, balanced: bool) -> list[Path]:
    folder = source / f"{split}_all_questions"
    if balanced or not folder.is_dir():
        return [source / f"{split}_{'balanced' if balanced else 'all'}_questions.json"]
    files = sorted(folder.glob(f"{split}_all_questions_*.json"), key=lambda p: (len(p.name), p.name))
    if not files:
        raise AdapterError(f"{folder}: expected {split}_all_questions_0.json and so on, found none")
    return files


def _sample(key: str, record: Any, split: str, where: str) -> Sample:
    where = f"{where} ({key})"
    labelled = split in LABELLED
    require_record(record, KEYS if labelled else BARE, where, others=OPTIONAL_KEYS if labelled else (*KEYS, *OPTIONAL_KEYS))
    image_id = require_text(record, "imageId", where)
    question = require_text(record, "question", where)
    sample = Sample(key, question, image_id, split=split, source="gqa", group=image_id)
    if not labelled:
        return sample
    types = require_record(record["types"], ("structural", "semantic", "detailed"), f"{where}: types", others=())
    if types["structural"] not in STRUCTURAL:
        raise AdapterError(f"{where}: types.structural: expected one of {', '.join(STRUCTURAL)}, got {types['structural']!r:.60}")
    meta = {name: str(value) for name, value in types.items()}
    meta["answer_kind"] = "open" if types["structural"] == "query" else "binary"
    references = (require_text(record, "answer", where),)
    meta["full_answer"] = require_text(record, "fullAnswer", where)
    return replace(sample, references=references, category=types["structural"], meta=meta)


def _keep_graphs(path: Path, context: AdapterContext, split: str, pictures: Collection[str]) -> None:
    """Write the scene graphs of images `pictures` to a file; AdapterError if one is missing."""
    present: set[str] = set()
    with _object_file(context.folder / "scenes" / f"{split}_sceneGraphs.json") as add_graph:
        for where, (image_id, graph) in read_records(path, "GQA's scene graphs (or say `graphs: false`)", "*", context):
            if image_id in pictures:
                with context.record():
                    require_record(graph, ("width", "height", "objects"), f"{where} ({image_id})", others=("location", "weather"))
                    add_graph(image_id, graph)
                    present.add(image_id)
    if lacking := sorted(set(pictures) - present):
        more = f" and {len(lacking) - 1:,} more" if len(lacking) > 1 else ""
        raise AdapterError(f"{path}: has no scene graph of image '{lacking[0]}'{more}, which questions are about; or say `graphs: false`")


@contextmanager
def _object_file(path: Path | None) -> Iterator[Callable[[str, Any], None]]:
    """Yield a function that adds a member to the JSON object in a file; without a path it does nothing."""
    if path is None:
        yield lambda key, value: None
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="\n") as handle:
        between = chain([""], repeat(",\n"))

        def add(key: str, value: Any) -> None:
            handle.write(f"{next(between)}{json.dumps(key)}: {json.dumps(value, ensure_ascii=False, separators=(',', ':'))}")

        handle.write("{")
        try:
            yield add
        finally:
            handle.write("}\n")
