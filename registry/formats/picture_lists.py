"""Samples with several images: their `image_id` and the images' places in a question.

`image_id` of a sample with several images is a JSON list of their ids, in the order in which they are shown: `["left", "right"]`.
A lookup of a single image under such a name finds nothing instead of the first image.

A question may hold the mark `<image>` once for each of its images: they are then shown there, in order. Without marks all are shown
before the question. Marks are read in questions with several images only; elsewhere `<image>` is text.
"""

import json
import re
from collections.abc import Iterable, Sequence

MAX_IMAGES = 64
"""Images of one sample; more are refused when it is read."""
MARK = "<image>"
"""Placeholder of an image in a question with several."""
COUNTED = "pictures"
"""The field of a sample that says how many it has, in `where:`, slices and whatever else names a field."""
_BEGINS = '["'


def picture_ids(image_id: str | None) -> tuple[str, ...]:
    """Return the image ids in an `image_id`, in display order; () for None.

    >>> picture_ids(None), picture_ids("a.png"), picture_ids('["a", "b"]')
    ((), ('a.png',), ('a', 'b'))
    """
    if image_id is None:
        return ()
    return tuple(json.loads(image_id)) if image_id.startswith(_BEGINS) else (image_id,)


def image_id_of(ids: Sequence[str]) -> str | None:
    """Return the `image_id` of image ids: None, the only one, or a JSON list.

    >>> image_id_of([]), image_id_of(["a.png"]), image_id_of(["a", "b"])
    (None, 'a.png', '["a", "b"]')
    """
    return json.dumps(list(ids), ensure_ascii=False) if len(ids) > 1 else ids[0] if ids else None


def all_ids(image_ids: Iterable[str | None]) -> set[str]:
    return {name for image_id in image_ids for name in picture_ids(image_id)}


def find_id_problem(image_id: str | None) -> str:
    """Return why an `image_id` is malformed, as a message's end; "" if valid."""
    if image_id is None or not image_id.startswith(_BEGINS):
        return ""
    try:
        ids = json.loads(image_id)
    except (ValueError, RecursionError):
        return f": image_id {image_id[:60]!r} begins like a list of images but is not one; no image's id may begin with {_BEGINS!r}"
    if len(ids) < 2 or not all(isinstance(name, str) and name and not name.startswith(_BEGINS) for name in ids):
        return f": image_id {image_id[:60]!r}: expected a list of two or more ids of images"
    return f": has {len(ids):,} images; more than {MAX_IMAGES} cannot be read" if len(ids) > MAX_IMAGES else ""


def has_marks(question: str, n_images: int) -> bool:
    """Return whether a question has one `<image>` mark for each of 2 or more images."""
    return n_images > 1 and question.count(MARK) == n_images


def split_at_images(question: str, n_images: int) -> list[str]:
    """Return n_images + 1 texts around the `<image>` marks; all in the last unless marks fit.

    >>> split_at_images("Is <image> like <image>?", 2), split_at_images("Same?", 2), split_at_images("Is <image> red?", 1)
    (['Is ', ' like ', '?'], ['', '', 'Same?'], ['', 'Is <image> red?'])
    """
    return question.split(MARK) if has_marks(question, n_images) else [*[""] * n_images, question]


def remove_marks(question: str, n_images: int) -> str:
    """Return a question without `<image>` marks; unchanged if they do not fit.

    >>> remove_marks("Is <image> like <image>?", 2), remove_marks("What does <image> mean?", 1)
    ('Is like ?', 'What does <image> mean?')
    """
    return re.sub(r"[ \t]{2,}", " ", question.replace(MARK, "")).strip() if has_marks(question, n_images) else question


def find_mark_problem(question: str, n_images: int) -> str:
    """Return why `<image>` marks do not fit 2 or more images; "" if none, as many, or 1 image."""
    count = question.count(MARK)
    if n_images < 2 or count in (0, n_images):
        return ""
    return f"the question has {count} marks {MARK} and the sample {n_images} images; expected one for each, or none"
