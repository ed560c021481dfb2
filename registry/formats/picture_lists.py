"""Samples with several pictures: how their `image_id` names all of them, and how a question says where each is to stand.

`image_id` of a sample with several pictures is a JSON list of their ids, in the order in which they are shown: `["left", "right"]`. So
a table of samples has the columns that it always had, one with one picture is as it was, and whatever looks up a single picture under
such a name finds nothing instead of showing the first of them.

A question may hold the mark `<image>` once for each of its pictures: they then stand in its places, in order. Without marks all stand
before the question. Marks are read in questions with several pictures alone; elsewhere `<image>` is text.
"""

import json
import re
from collections.abc import Iterable, Sequence

MOST = 64
"""Pictures of one sample; more are refused when it is read."""
MARK = "<image>"
"""Where a picture stands in a question that has several."""
COUNTED = "pictures"
"""The field of a sample that says how many it has, in `where:`, slices and whatever else names a field."""
_BEGINS = '["'


def picture_ids(image_id: str | None) -> tuple[str, ...]:
    """Ids of all pictures that an `image_id` names, in the order in which they are shown.

    >>> picture_ids(None), picture_ids("a.png"), picture_ids('["a", "b"]')
    ((), ('a.png',), ('a', 'b'))
    """
    if image_id is None:
        return ()
    return tuple(json.loads(image_id)) if image_id.startswith(_BEGINS) else (image_id,)


def image_id_of(ids: Sequence[str]) -> str | None:
    """The `image_id` of a sample with these pictures.

    >>> image_id_of([]), image_id_of(["a.png"]), image_id_of(["a", "b"])
    (None, 'a.png', '["a", "b"]')
    """
    return json.dumps(list(ids), ensure_ascii=False) if len(ids) > 1 else ids[0] if ids else None


def all_ids(image_ids: Iterable[str | None]) -> set[str]:
    """Ids of all pictures that these name."""
    return {name for image_id in image_ids for name in picture_ids(image_id)}


def problem_of_ids(image_id: str | None) -> str:
    """What is wrong with an `image_id`, to follow a sample's name; empty for a good one."""
    if image_id is None or not image_id.startswith(_BEGINS):
        return ""
    try:
        ids = json.loads(image_id)
    except (ValueError, RecursionError):
        return f": image_id {image_id[:60]!r} begins like a list of pictures but is not one; no picture's id may begin with {_BEGINS!r}"
    if len(ids) < 2 or not all(isinstance(name, str) and name and not name.startswith(_BEGINS) for name in ids):
        return f": image_id {image_id[:60]!r}: expected a list of two or more ids of pictures"
    return f": has {len(ids):,} pictures; at most {MOST} are taken" if len(ids) > MOST else ""


def marked(question: str, pictures: int) -> bool:
    """Whether a question says where each of its pictures stands: several, and as many marks."""
    return pictures > 1 and question.count(MARK) == pictures


def segments(question: str, pictures: int) -> list[str]:
    """The text before, between and behind the pictures of a marked question; otherwise no text before them, and the question behind.

    >>> segments("Is <image> like <image>?", 2), segments("Same?", 2), segments("Is <image> red?", 1)
    (['Is ', ' like ', '?'], ['', '', 'Same?'], ['', 'Is <image> red?'])
    """
    return question.split(MARK) if marked(question, pictures) else [*[""] * pictures, question]


def unmarked(question: str, pictures: int) -> str:
    """A question whose pictures are not shown, without its marks.

    >>> unmarked("Is <image> like <image>?", 2), unmarked("What does <image> mean?", 1)
    ('Is like ?', 'What does <image> mean?')
    """
    return re.sub(r"[ \t]{2,}", " ", question.replace(MARK, "")).strip() if marked(question, pictures) else question


def problem_of_marks(question: str, pictures: int) -> str:
    """What is wrong with the marks of a question with several pictures; empty if they are right."""
    count = question.count(MARK)
    if pictures < 2 or count in (0, pictures):
        return ""
    return f"the question has {count} marks {MARK} and the sample {pictures} pictures; expected one for each, or none"
