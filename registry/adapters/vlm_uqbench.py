"""VLM-UQBench as released on the Hugging Face hub: Wang et al., 2026.

The release is known to be JSON of ten to a hundred thousand rows; names of its files and fields were not seen by us, so every JSON file of
the entry is read, and fields go by the names that such releases use.
"""

from collections import Counter
from collections.abc import Iterator

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._official import number_repeats, read_records
from qualm.registry.adapters._unseen import CATEGORIES, IDS, IMAGES, Unseen, find_image, wrap_record
from qualm.registry.sample import Image, Sample

META = ["file", {"of": "meta"}]


def vlm_uqbench(
    context: AdapterContext,
    *,
    files: str = "**/*.json*",
    pictures: bool = True,
    meta: list[str] = [],  # noqa: B006 - a literal, never changed
) -> Iterator[Image | Sample]:
    """Yield VLM-UQBench's questions, all in split `test`; no images with `pictures: false`.

    Args:
        files: pattern of the JSON files (lists, or JSON Lines).
        pictures: the rows' images lie in the entry; false = questions alone, for counting and `where:`.
        meta: fields to keep as text, such as the one that says which perturbation a row has.

    Raises:
        AdapterError: there is no such file, or its fields have other names than those known; the message says which it has.
    """
    source = context.need_source("vlm_uqbench")
    paths = sorted(p for p in source.glob(files) if p.is_file() and not any(part.startswith(".") for part in p.relative_to(source).parts))
    if not paths:
        raise AdapterError(f"{source}: expected JSON files ({files}), found none")
    for path in paths:
        name = path.relative_to(source).as_posix()
        repeated: Counter[str] = Counter()
        for number, (where, record) in enumerate(read_records(path, "rows of VLM-UQBench", context=context)):
            with context.record():
                one = wrap_record(record, where)
                sample = _sample(one, number_repeats(f"{name}-{one.text(IDS) or number}", repeated), name, pictures, meta)
                yield from context.selected(sample, find_image, source, sample.image_id, sample.image_id, where)


def _sample(one: Unseen, sample_id: str, file: str, pictures: bool, meta: list[str]) -> Sample:
    question, answers = one.talk()
    image = one.text(IMAGES)
    if question is None or (pictures and image is None):
        raise one.unlike("a question (`question`...) and an image (`image`..., or `pictures: false`)")
    return Sample(
        sample_id=sample_id,
        question=question,
        image_id=image if pictures else None,
        references=answers,
        category=one.text(CATEGORIES) or "",
        answerable=one.answerable() is not False,
        split="test",
        source="vlm_uqbench",
        group=image or sample_id,
        meta=one.extras(meta) | {"file": file},
    )
