"""A folder of images with a COCO-style annotation file: `images`, `annotations`, `categories`. For data of one's own."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._mapped import Columns, files_by_split, image_path, picture_prefix
from qualm.registry.adapters._official import read_records, require_record, require_text, select
from qualm.registry.formats.json_stream import members
from qualm.registry.sample import Image, Sample

META = [{"of": "meta"}]


def coco_folder(
    context: AdapterContext,
    *,
    files: dict[str, str] = {"test": "annotations/*.json"},  # noqa: B006 - a literal, never changed
    images: str = "images",
    per: Literal["annotation", "image"] = "annotation",
    question: str | None = None,
    instruction: str | None = None,
    answer: str | None = "caption",
    answer_is: Literal["text", "letter", "index", "index_from_1"] = "text",
    choices: list[str] = [],  # noqa: B006
    id: str | None = "id",
    category: str | None = None,
    answerable: str | None = None,
    group: str | None = None,
    meta: list[str] = [],  # noqa: B006
) -> Iterator[Image | Sample]:
    """Yield a question per annotation, or per image, of COCO-style annotation files.

    `images` of the file gives each image's `id` and `file_name`; `annotations` refer to it by `image_id`. If an annotation has a
    `category_id`, the column `category_id` holds the category's name. Everything else is as in `image_table`; `qualm data new` writes the
    card.

    Args:
        files: Split -> path or pattern of the annotation file.
        images: The folder of the images; `{split}` in it stands for the split.
        per: One sample for every annotation; or for every image, whose references are the answers of all its annotations and whose
            id is the image's (captions).
        question: Key of an annotation with the question.
        instruction: Asked of every image where annotations have no questions, or put above them.
        answer: Key with the answer, or a list of them; of multiple choice the right option; null = not known.
        answer_is: With options, what stands there: an option's text, letter or place.
        choices: One key with a list of options, or a key for each.
        id: Key with a stable name of the annotation.
        category: Key with its kind.
        answerable: Key with true or false, 1 or 0, yes or no.
        group: Key of what is not independent; the image unless given.
        meta: Keys to keep as text, for `where:` and slices.

    Raises:
        AdapterError: a file, key, image or value is missing or of another kind.
    """
    source = context.need_source("coco_folder")
    columns = Columns("coco_folder", question, instruction, answer, answer_is, choices, id, category, answerable, group, meta)
    if per == "image" and (choices or question):
        raise AdapterError(
            "coco_folder: `per: image` asks the one `instruction` about every image; `question` and `choices` come from annotations; "
            "leave these out, or say `per: annotation`"
        )
    for split, prefix, path in files_by_split(source, files):
        names, classes = image_file_names(path, context), _classes(path)
        image_prefix = picture_prefix(images, prefix)
        samples = _annotations(path, columns, names, classes, split, prefix, image_prefix, context)
        for where, sample in _merge_by_image(samples, prefix, image_prefix) if per == "image" else samples:
            with context.record():
                place = image_path(images, split, str(sample.image_id).removeprefix(image_prefix))
                yield from select(context, sample, (place,), where)


def image_file_names(path: Path, context: AdapterContext | None = None) -> dict[str, str]:
    """Return {image id as text: file name} of a COCO file; AdapterError if an id repeats."""
    names: dict[str, str] = {}
    for where, record in read_records(path, "a COCO-style annotation file", "images", context):
        require_record(record, ("id", "file_name"), where)
        if str(record["id"]) in names:
            raise AdapterError(f"{where}: the image id {record['id']!r:.60} comes twice")
        names[str(record["id"])] = require_text(record, "file_name", where)
    return names


def _classes(path: Path) -> dict[str, str]:
    found = members(path, {"images", "annotations", "categories"}, lambda error: None)  # errors are reported when the records are read
    classes = (item for key, item in found if key == "categories" and isinstance(item, dict) and "id" in item and "name" in item)
    return {str(item["id"]): str(item["name"]) for item in classes}


def _annotations(
    path: Path,
    columns: Columns,
    names: Mapping[str, str],
    classes: Mapping[str, str],
    split: str,
    prefix: str,
    image_prefix: str,
    context: AdapterContext,
) -> Iterator[tuple[str, Sample]]:
    for where, record in read_records(path, "a COCO-style annotation file", "annotations", context):
        with context.record():
            row: dict[str, Any] = dict(require_record(record, ("image_id",), where))
            name = names.get(str(row["image_id"]))
            if name is None:
                raise AdapterError(f"{where}: image_id: no image {row['image_id']!r:.60} under 'images'")
            if "category_id" in row and classes:
                if str(row["category_id"]) not in classes:
                    raise AdapterError(f"{where}: category_id: no category {row['category_id']!r:.60} under 'categories'")
                row["category_id"] = classes[str(row["category_id"])]
            yield where, columns.sample(row, image_prefix + name, split, prefix, where)


def _merge_by_image(samples: Iterator[tuple[str, Sample]], prefix: str, image_prefix: str) -> Iterator[tuple[str, Sample]]:
    """Yield (place, sample) per image: its first sample, named after it, with all references."""
    by_picture: dict[str, tuple[str, Sample]] = {}
    for where, sample in samples:
        name = str(sample.image_id)
        first = by_picture.get(name)
        if first is None:
            by_picture[name] = where, replace(sample, sample_id=prefix + name.removeprefix(image_prefix))
        else:
            by_picture[name] = first[0], replace(first[1], references=(*first[1].references, *sample.references))
    yield from by_picture.values()
