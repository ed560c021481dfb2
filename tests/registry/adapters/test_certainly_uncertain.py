import json

import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.certainly_uncertain import certainly_uncertain
from qualm.registry.sample import Image, Sample


def line(number=0, answerable=True, **changes):
    made = {
        "id": f"p{number}-{'au'[not answerable]}", "question": "What color is the car?",
        "answers": ["red" if answerable else "There is no car."],
        "answerable": answerable, "category": "epistemic/extraneous", "pair_id": f"p{number}", "contrast": "image",
        "image": f"images/{'with' if answerable else 'without'}.png",
        "image_id": "with" if answerable else "without", "group": "g", "source": "inpainted",
        "meta": {"object": "car"},
    }  # fmt: skip
    return {**made, **changes}


def folder(root, *lines, part="test"):
    (root / "images").mkdir(exist_ok=True)
    (root / f"{part}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    for name in ("with", "without"):
        (root / f"images/{name}.png").write_bytes(name.encode())
    return root


def read(source, **arguments):
    return list(certainly_uncertain(AdapterContext(source, source=source), **arguments))


def test_a_pair(tmp_path):
    first, one, second, other = read(folder(tmp_path, line(), line(answerable=False)))
    assert first == Image("with", b"with", "images/with.png") and second.image_id == "without"
    assert one == Sample(
        "p0-a", "What color is the car?", "with", ("red",), category="epistemic/extraneous", split="test", source="inpainted", group="g",
        meta={"object": "car", "contrast": "image"}, pair_id="p0",
    )  # fmt: skip
    assert (other.answerable, other.references, other.pair_id) == (False, ("There is no car.",), "p0")


def test_parts_are_splits(tmp_path):
    folder(tmp_path, line(), line(answerable=False), part="train")
    folder(tmp_path, line(1), line(1, False), part="test")
    assert [s.split for s in read(tmp_path) if isinstance(s, Sample)] == ["test", "test", "train", "train"]
    assert [s.split for s in read(tmp_path, parts=["train"]) if isinstance(s, Sample)] == ["train", "train"]
    with pytest.raises(AdapterError, match=r"expected val\.jsonl or data/val-\*\.parquet; its parts are: test, train"):
        read(tmp_path, parts=["val"])


def test_a_lone_question_without_a_picture(tmp_path):
    alone = line(pair_id=None, contrast=None, image=None, image_id=None)
    (sample,) = read(folder(tmp_path, alone))
    assert (sample.image_id, sample.pair_id, sample.meta) == (None, None, {"object": "car"})


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([line()], "pair 'p0': expected one answerable and one unanswerable member, got 1 in all"),
        ([line(), line(answerable=False, category="aleatoric/temporal")], "its members are of two categories"),
        ([line(), line(answerable=False, contrast="question")], "contrast says image and question, its members differ in image"),
        ([line(surprise=1)], r"test\.jsonl: line 1, record 0: unknown keys surprise"),
        ([line(answers=[])], "answers: expected a list of texts"),
        ([line(answerable="no")], "answerable: expected true or false, got 'no'"),
        ([line(meta={"x": 1})], "meta: expected an object of texts"),
        ([line(contrast=None)], "contrast: expected one of question, image, both, got None"),
        ([line(pair_id=None)], "contrast: expected null without a pair_id, got 'image'"),
        ([line(image=None)], "expected image and image_id both, or both null"),
        ([line(image="../../x.png")], "expected its image at"),
    ],
)
def test_what_is_not_in_the_layout(tmp_path, lines, says):
    with pytest.raises(AdapterError, match=says):
        read(folder(tmp_path, *lines))


def laid_out(root):
    """Official files and arguments, for what is tested of every adapter."""
    return folder(root, line(), line(answerable=False)), {}
