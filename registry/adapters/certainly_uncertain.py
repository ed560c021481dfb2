"""CertainlyUncertain (Chandu et al., 2025, ICLR) in a layout of ours.

`qualm export SPEC OUT --to certainly_uncertain` writes it, so that pairs made here can be handed on, published and read again:

    SPLIT.jsonl                 a question per line, with the keys of KEYS, or
    data/SPLIT-*.parquet        the same as rows, with the image inside (`load_dataset` opens them)
    images/NAME.png             images of the former, as `image` names them

- `id`, `question`, `answers`: what a right answer is; of an unanswerable question, how declining may be put.
- `answerable`, and `category`, a path in the taxonomy: `epistemic/knowledge`, `epistemic/complexity`, `epistemic/extraneous`,
  `aleatoric/temporal`, `aleatoric/ambiguity`.
- `pair_id`: what the answerable and the unanswerable member of a contrastive pair share. `contrast`: what tells them apart, `question`
  (two questions about one image) or `image` (one question about two images) or `both`. Both null for a lone question.
- `image` and `image_id`: its file and its name, both null without an image; `group`: what is not independent of each other;
  `source`: what made it; `meta`: anything else, an object of texts.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._official import check_image, read_image, read_records, require_record, require_text
from qualm.registry.adapters._parquet import cell_image, rows
from qualm.registry.sample import Image, Sample

KEYS = ("id", "question", "answers", "answerable", "category", "pair_id", "contrast", "image", "image_id", "group", "source", "meta")
CONTRAST = "contrast"
"""Key of meta, where samples keep what tells them from their pair's other member."""
CONTRASTS = ("question", "image", "both")


def certainly_uncertain(context: AdapterContext, *, parts: list[str] | None = None) -> Iterator[Image | Sample]:
    """Yield CertainlyUncertain's questions from files in Qualm's layout; each part is a split.

    References are the answers. The category is the path in the taxonomy. `meta.contrast` is the difference between a pair's members.

    Args:
        parts: names of splits (`train`, `test`); all there are unless given, in the order of their names.

    Raises:
        AdapterError: a file, key or value is not as described above, or a pair is not an answerable and an unanswerable question of
            one category, distinguished by `contrast`.
    """
    source = context.need_source("certainly_uncertain")
    there = _parts(source)
    for part in parts or sorted(there):
        if part not in there:
            raise AdapterError(f"{source}: expected {part}.jsonl or data/{part}-*.parquet; its parts are: {', '.join(sorted(there))}")
        pairs: dict[str, tuple[str, list[Sample]]] = {}
        for where, record in _records(there[part], context):
            with context.record():
                sample = _sample(record, part, where)
                if sample.pair_id is not None:
                    pairs.setdefault(sample.pair_id, (where, []))[1].append(sample)
                yield from context.selected(sample, _picture, source, record, sample.image_id, where)
        for where, members in pairs.values():
            with context.record():
                _check(members, where)


def contrast_of(members: list[Sample]) -> str:
    """Return in what two samples differ: "question" (same image), "image" or "both"."""
    one, other = members
    if one.image_id == other.image_id:
        return "question"
    return "image" if one.question == other.question else "both"


def _parts(source: Path) -> dict[str, list[Path]]:
    """Return {split: its files}, one JSON Lines or several Parquet; AdapterError if none."""
    files = {path.stem: [path] for path in source.glob("*.jsonl")}
    for path in sorted((source / "data").glob("*.parquet")):
        files.setdefault(path.name.rpartition("-of-")[0].rpartition("-")[0] or path.stem, []).append(path)
    if not files:
        raise AdapterError(f"{source}: expected SPLIT.jsonl or data/SPLIT-*.parquet, found neither")
    return files


def _records(paths: list[Path], context: AdapterContext) -> Iterator[tuple[str, Any]]:
    if paths[0].suffix == ".jsonl":
        return read_records(paths[0], "questions of CertainlyUncertain", context=context)
    return (row for path in paths for row in rows(path, context=context))


def _sample(record: Any, part: str, where: str) -> Sample:
    require_record(record, KEYS, where, others=())
    answers, meta = record["answers"], record["meta"]
    if not isinstance(answers, list) or not answers or not all(isinstance(a, str) and a.strip() for a in answers):
        raise AdapterError(f"{where}: answers: expected a list of texts, got {answers!r:.60}")
    if not isinstance(record["answerable"], bool):
        raise AdapterError(f"{where}: answerable: expected true or false, got {record['answerable']!r:.60}")
    if isinstance(meta, list) and all(isinstance(item, dict) and item.keys() == {"key", "value"} for item in meta):  # as Parquet has it
        meta = {item["key"]: item["value"] for item in meta}
    if not isinstance(meta, Mapping) or not all(isinstance(v, str) for v in meta.values()):
        raise AdapterError(f"{where}: meta: expected an object of texts, got {meta!r:.60}")
    for key in ("pair_id", "image_id"):
        if record[key] is not None:
            require_text(record, key, where)
    if (record["image"] is None) != (record["image_id"] is None):
        raise AdapterError(f"{where}: expected image and image_id both, or both null")
    if (record["contrast"] not in CONTRASTS) if record["pair_id"] is not None else record["contrast"] is not None:
        expected = f"one of {', '.join(CONTRASTS)}" if record["pair_id"] is not None else "null without a pair_id"
        raise AdapterError(f"{where}: contrast: expected {expected}, got {record['contrast']!r:.60}")
    return Sample(
        sample_id=require_text(record, "id", where),
        question=require_text(record, "question", where),
        image_id=record["image_id"],
        references=tuple(answers),
        category=require_text(record, "category", where),
        answerable=record["answerable"],
        split=part,
        source=require_text(record, "source", where),
        group=str(record["group"]),
        meta=dict(meta) | ({CONTRAST: record["contrast"]} if record["contrast"] else {}),
        pair_id=record["pair_id"],
    )


def _picture(source: Path, record: Mapping[str, Any], image_id: str, where: str) -> Image:
    if isinstance(record["image"], str):
        return read_image(source, (record["image"],), image_id, where)
    data, path = cell_image(source, record["image"], where)
    return Image(image_id, check_image(data, where), path)


def _check(members: list[Sample], where: str) -> None:
    pair = members[0].pair_id
    if sorted(m.answerable for m in members) != [False, True]:
        raise AdapterError(f"{where}: pair '{pair}': expected one answerable and one unanswerable member, got {len(members)} in all")
    if members[0].category != members[1].category:
        raise AdapterError(f"{where}: pair '{pair}': its members are of two categories, {members[0].category} and {members[1].category}")
    declared, actual = {m.meta[CONTRAST] for m in members}, contrast_of(members)
    if declared != {actual}:
        raise AdapterError(f"{where}: pair '{pair}': contrast says {' and '.join(sorted(declared))}, its members differ in {actual}")
