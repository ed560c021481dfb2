import json

import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.llava_instruct import llava_instruct
from qualm.registry.sample import Image, Sample

COCO = "coco/train2017/000000000042.jpg"


def talk(*texts):
    return [{"from": "human" if i % 2 == 0 else "gpt", "value": text} for i, text in enumerate(texts)]


TALK = talk("<image>\nWhat is it?", "A dog.", "What color is it?", " Brown. ")


def record(conversations=TALK, **changes):
    return {"id": "000000000042", "image": COCO, "conversations": conversations, **changes}


def folder(root, records):
    (root / "llava_v1_5_mix665k.json").write_text(json.dumps(records))
    for one in records:
        if "image" in one:
            (root / one["image"]).parent.mkdir(parents=True, exist_ok=True)
            (root / one["image"]).write_bytes(b"jpg")
    return root


def read(source, **arguments):
    return list(llava_instruct(AdapterContext(source, source=source), **arguments))


def test_a_sample_of_each_turn(tmp_path):
    image, first, second = read(folder(tmp_path, [record()]))
    assert image == Image(COCO, b"jpg", COCO)
    assert first == Sample(
        first.sample_id, "What is it?", COCO, ("A dog.",), split="train", source="llava_instruct", group=COCO,
        meta={"turn": "0", "origin": "coco"},
    )  # fmt: skip
    assert (second.question, second.references, second.meta["turn"]) == ("What color is it?", ("Brown.",), "1")
    assert json.loads(second.meta["history"]) == [["What is it?", "A dog."]] and "history" not in first.meta
    assert all("history" not in x.meta for x in read(tmp_path, turns="each")[1:])
    assert first.sample_id.startswith("000000000042-") and first.sample_id[:-1] == second.sample_id[:-1]
    assert len(read(tmp_path, turns="first")) == 2


def test_ids_that_come_again(tmp_path):
    same, other = record(), record(talk("Is it a cat?\n<image>", "No."))
    made = [s for s in read(folder(tmp_path, [same, other, same])) if isinstance(s, Sample)]
    assert len({s.sample_id for s in made}) == 5
    assert made[3].sample_id == made[0].sample_id.replace("/0", "-2/0")
    assert made[2].question == "Is it a cat?"


def test_conversations_without_a_picture(tmp_path):
    text = {"id": "wgByO4Y_0", "model": "", "conversations": talk("What is <image> in SVG?", "A tag.")}
    source = folder(tmp_path, [text, record()])
    first = read(source)[0]
    assert (first.image_id, first.meta["origin"]) == (None, "text") and first.group
    assert first.question == "What is <image> in SVG?"
    assert len(read(source, text_only=False)) == 3


def test_a_conversation_that_gpt_opens_or_the_human_ends(tmp_path):
    said = [{"from": "gpt", "value": "So."}, *talk("<image> What is it?", "A dog.", "And then?")]
    made = [s for s in read(folder(tmp_path, [record(said)])) if isinstance(s, Sample)]
    assert [(s.question, s.references) for s in made] == [("What is it?", ("A dog.",))]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"conversations": talk("What is it?", "A dog.")}, "expected one <image> in what the human says, found 0"),
        ({"conversations": talk("<image><image>?", "A dog.")}, "expected one <image> in what the human says, found 2"),
        ({"conversations": [{"from": "user", "value": "x"}]}, r"conversations\[0\]: expected words from human or gpt"),
        ({"conversations": []}, "expected a list of turns"),
        ({"conversations": "What?"}, "expected a list of turns, got 'What[?]'"),
        ({"conversations": [*TALK, {"from": "gpt", "value": 3}]}, r"conversations\[4\]: expected words from human or gpt"),
        ({"conversations": talk("<image> What?", "A dog.", "And?", " ")}, "expected questions of human, each with an answer of gpt"),
        ({"conversations": [{"from": "human", "value": "<image> What?"}]}, "expected questions of human, each with an answer of gpt"),
        ({"conversations": talk("<image>", "A dog.")}, "expected questions of human, each with an answer of gpt"),
        ({"surprise": 1}, "record 0: unknown keys surprise"),
        ({"image": "../../x.jpg"}, "expected its image at"),
    ],
)
def test_what_is_not_as_described(tmp_path, changed, says):
    (tmp_path / "a/in").mkdir(parents=True)
    with pytest.raises(AdapterError, match=says):
        read(folder(tmp_path / "a/in", [record(**changed)]))


def laid_out(root):
    """Official files and arguments, for what is tested of every adapter."""
    return folder(root, [record(), {"id": "t", "conversations": talk("What is a tag?", "A mark.")}]), {}
