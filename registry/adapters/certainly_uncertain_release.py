"""CertainlyUncertain_v0.1 as its authors released it on the Hugging Face hub: Chandu et al., 2025 (ICLR).

The files are known by their names and sizes and by the release's README ("the training data (questions + answers) and testing
questions"), and their fields only by third parties' readers; no file was seen by us. The pictures are not in the release: its own
download.py fetches them.
"""

from collections.abc import Iterator

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._official import read_records
from qualm.registry.adapters._unseen import CATEGORIES, IDS, IMAGES, PAIRS, Unseen, beside, unseen
from qualm.registry.sample import Image, Sample

META = ["category", {"of": "meta"}]
FILES = {"train": "certainlyuncertain_v0.1_train.json", "test": "certainlyuncertain_v0.1_test.jsonl"}
PATHS = {
    **{name: f"epistemic/{name}" for name in ("knowledge", "complexity", "extraneous")},
    **{name: f"aleatoric/{name}" for name in ("temporal", "ambiguity")},
}


def certainly_uncertain_release(
    context: AdapterContext,
    *,
    parts: list[str] | None = None,
    unlabelled: bool = False,
    meta: list[str] = [],  # noqa: B006 - a literal, never changed
) -> Iterator[Image | Sample]:
    """Questions of the released files, in their order; each part is a split.

    The release's test questions come without answers: their `references` are empty, and only whether a model declines can be scored.
    A category that names one of the paper's five becomes its path in the taxonomy; any other is left in `meta.category`.

    Args:
        parts: `train`, `test`; both unless given.
        unlabelled: take questions of which no field says whether they have an answer, as if they had one: for asking and tuning, not for
            scores. Otherwise they end the run.
        meta: fields to keep as text.

    Raises:
        AdapterError: a file is missing, or has other fields than the names that are known; the message says which it has.
    """
    source = context.need_source("certainly_uncertain_release")
    for part in parts or list(FILES):
        if part not in FILES:
            raise AdapterError(f"{source}: expected parts among {', '.join(FILES)}, got '{part}'")
        records = read_records(source / FILES[part], f"questions of CertainlyUncertain_v0.1, split {part}", context=context)
        for number, (where, record) in enumerate(records):
            with context.record():
                one = unseen(record, where)
                sample = _sample(one, part, number, unlabelled, meta)
                yield from context.selected(sample, beside, source, sample.image_id, sample.image_id, where)


def _sample(one: Unseen, part: str, number: int, unlabelled: bool, meta: list[str]) -> Sample:
    question, answers = one.talk()
    image = one.text(IMAGES)
    if question is None or image is None:
        raise one.unlike("a question (`question` or `conversations`) and a picture (`image`...)")
    answerable = one.answerable()
    if answerable is None and not unlabelled:
        raise one.unlike(
            "a field `answerable` (or `unlabelled: true`, which takes every question as one that has an answer: not for scores)"
        )
    category = one.text(CATEGORIES) or ""
    return Sample(
        sample_id=f"{part}-{one.text(IDS) or number}",
        question=question,
        image_id=image,
        references=answers,
        category=next((path for name, path in PATHS.items() if name in category.lower()), ""),
        answerable=answerable is not False,
        split=part,
        source="certainly_uncertain_v0.1",
        group=image,
        meta=one.extras(meta) | ({"category": category} if category else {}),
        pair_id=one.text(PAIRS),
    )
