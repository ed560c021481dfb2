import json

import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.seedbench import DIMENSIONS, seedbench
from qualm.registry.sample import Image, Sample

TYPES = {name: n for n, name in enumerate(DIMENSIONS, 1)} | {"Action Recognition": 10, "Action Prediction": 11}


def question(number, kind, data_id, **more):
    return {
        "question_id": str(number),
        "question_type_id": kind,
        "question": "How many towels are in the image?",
        **{f"choice_{letter}": f"{n}" for n, letter in enumerate("abcd")},
        "answer": "D",
        "data_id": data_id,
        "data_type": "image",
        **more,
    }


OFFICIAL = [
    question(101669, 1, "1454426_2591111986"),
    question(101670, 4, "1454426_2591111986", answer="A", choice_a=3),
    question(104933, 3, "2203_77"),
    question(7, 11, "clip_1", data_type="video", segment=[0.5, 2]),
]


def layout(folder, questions, types=TYPES):
    (folder / "SEED-Bench-image").mkdir(exist_ok=True)
    for record in questions:
        if record.get("data_type") == "image":
            (folder / "SEED-Bench-image" / record["data_id"]).write_bytes(record["data_id"].encode())
    (folder / "SEED-Bench.json").write_text(json.dumps({"question_type": types, "questions": questions}))
    return folder


def read(source, selects=lambda sample: True, **arguments):
    return list(seedbench(AdapterContext(source, source=source, selects=selects), **arguments))


def test_questions_on_pictures_in_order(tmp_path):
    made = read(layout(tmp_path, OFFICIAL))
    assert [type(x).__name__ for x in made] == ["Image", "Sample", "Sample", "Image", "Sample"]
    assert made[0] == Image("1454426_2591111986", b"1454426_2591111986", "SEED-Bench-image/1454426_2591111986")
    found = [x for x in made if isinstance(x, Sample)]
    assert [(s.sample_id, s.category, s.meta["type_id"], s.answer_index) for s in found] == [
        ("101669", "Scene Understanding", "1", 3),
        ("101670", "Instance Location", "4", 0),
        ("104933", "Instance Attributes", "3", 3),
    ]
    last = next(x for x in read(layout(tmp_path, [question(1, 9, "x", choice_a=0.5)])) if isinstance(x, Sample))
    assert (last.category, last.choices[0]) == (tuple(DIMENSIONS)[8], "0.5")
    assert found[1].choices == ("3", "1", "2", "3") and found[0].group == found[1].group == found[0].image_id


def test_the_paper_has_two_labels_the_other_way_round(tmp_path):
    made = read(layout(tmp_path, OFFICIAL), labels="vlm_uncertainty_bench")
    assert [(x.category, x.meta["type_id"]) for x in made if isinstance(x, Sample)] == [
        ("Scene Understanding", "1"),
        ("Instance Attributes", "4"),
        ("Instance Location", "3"),
    ]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"answer": "E"}, r"SEED-Bench\.json: line 1, record 0: answer: expected one of A, B, C, D, got 'E'"),
        ({"question_type_id": 10}, "question_type_id: expected 1 to 9 for an image question, got 10"),
        ({"question_type_id": 0}, "question_type_id: expected 1 to 9 for an image question, got 0"),
        ({"question_type_id": True}, "question_type_id: expected 1 to 9 for an image question, got True"),
        ({"choice_b": True}, "choice_b: expected text or a number, got True"),
        ({"data_type": "audio"}, "data_type: expected image or video, got 'audio'"),
        ({"choice_b": None}, "choice_b: expected text or a number, got None"),
        ({"extra": 1}, "unknown keys extra"),
        ({"question": ""}, "question: expected text"),
    ],
)
def test_damaged(tmp_path, change, says):
    with pytest.raises(AdapterError, match=says):
        read(layout(tmp_path, [OFFICIAL[0] | change]))


def test_names_and_file(tmp_path):
    with pytest.raises(AdapterError, match="question_type: expected 3 to be 'Instance Attributes', got 'Instance Location'"):
        read(layout(tmp_path, OFFICIAL, TYPES | {"Instance Location": 3, "Instance Attributes": 4}))
    with pytest.raises(AdapterError, match=r"expected SEED-Bench's questions .*, got an empty 'questions'"):
        read(layout(tmp_path, []))


def laid_out(root):
    """Official files and arguments, for what is tested of every adapter."""
    return layout(root, OFFICIAL), {}
