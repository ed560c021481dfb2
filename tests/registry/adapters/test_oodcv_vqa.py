import json

import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.oodcv_vqa import oodcv_vqa
from qualm.registry.sample import Sample


def record(image="phase-1/images/a.jpg", **more):
    return {
        "image": image,
        "question": "How many bicycles are there in the image?",
        "answer": "2",
        "text_answer": "2",
        "options": ["A. 2", "B. 0"],
        "answer_type": "number",
        "phase": "phase-1",
        "situation": "weather",
        **more,
    }


UNICORNS = record("phase-2/images/365.jpg", text_answer=0, options=["0", "1"], situation="occlusion", phase="phase-2")
YES_NO = record(answer="Yes", text_answer="Yes", options=["A. Yes", "B. No"], answer_type="yes/no", question="Is there a bicycle?")
OFFICIAL = [record(), YES_NO, UNICORNS, record()]


def layout(folder, records, inside="ood/oodcv-vqa", name="oodcv-vqa.json"):
    place = folder / inside
    place.mkdir(parents=True, exist_ok=True)
    (place / name).write_text(json.dumps(records))
    for one in records:
        picture = place / one["image"]
        picture.parent.mkdir(parents=True, exist_ok=True)
        picture.write_bytes(one["image"].encode())
    return folder


def read(source, **arguments):
    return list(oodcv_vqa(AdapterContext(source, source=source), **arguments))


def samples(made):
    return [x for x in made if isinstance(x, Sample)]


@pytest.mark.parametrize("inside", [".", "ood/oodcv-vqa", "safety_evaluation_benchmark_datasets/ood/oodcv-vqa"])
def test_digits(tmp_path, inside):
    made = read(layout(tmp_path, OFFICIAL, inside))
    first, unicorns, again = samples(made)
    assert [type(x).__name__ for x in made] == ["Image", "Sample", "Image", "Sample", "Sample"]
    assert first.choices == ("Two", "Zero") and first.answer_index == 0 and unicorns.choices[unicorns.answer_index] == "Zero"
    assert first.category == "weather" and first.group == first.image_id == "phase-1/images/a.jpg"
    assert unicorns.meta == {"situation": "occlusion", "phase": "phase-2", "answer_type": "number", "count": "Zero"}
    assert again.sample_id == f"{first.sample_id}-2" and len({s.sample_id for s in (first, unicorns, again)}) == 3


def test_ids_do_not_hang_on_what_is_asked_for(tmp_path):
    source = layout(tmp_path, OFFICIAL)
    every = {s.sample_id for s in samples(read(source, answers="all"))}
    parts = [{s.sample_id for s in samples(read(source, answers=a))} for a in ("number", "yes-no")]
    assert every == parts[0] | parts[1] and len(parts[1]) == 1


def test_yes_or_no_and_open_questions(tmp_path):
    source = layout(tmp_path, OFFICIAL)
    (asked,) = samples(read(source, answers="yes-no"))
    assert asked.choices == ("Yes", "No") and asked.answer_index == 0 and "count" not in asked.meta
    found = samples(read(source, answers="all", format="open"))
    assert [s.references for s in found] == [("2",), ("Yes",), ("0",), ("2",)] and all(s.choices == () for s in found)


def test_counterfactual(tmp_path):
    source = layout(tmp_path, [UNICORNS], name="oodcv-counterfactual.json")
    assert len(samples(read(source, counterfactual=True))) == 1
    with pytest.raises(AdapterError, match=r"oodcv-vqa\.json: expected OODCV-VQA's questions .*, found none"):
        read(source)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"situation": "night"}, r"record 0: situation: expected one of iid, .*, got 'night'"),
        ({"options": ["one", "two"]}, "expected options and answer of number that end with 0, 1, 2, 3, 4, 5, got 'one'"),
        ({"text_answer": "4"}, "text_answer: expected one of the options Two, Zero, once, got '4'"),
        ({"answer_type": "yes/no"}, "expected options and answer of yes/no that end with Yes, No, got '2'"),
        ({"options": ["2"]}, "options: expected a list of at least two texts"),
        ({"options": "20"}, "options: expected a list of at least two texts, got '20'"),
        ({"options": ["2", " "]}, "options: expected a list of at least two texts"),
        ({"options": ["2", 0]}, "options: expected a list of at least two texts"),
        ({"options": ["2", "A. 2"]}, "text_answer: expected one of the options Two, Two, once, got '2'"),
        ({"options": ["5", "6"], "text_answer": "5"}, "that end with 0, 1, 2, 3, 4, 5, got '6'"),
        ({"surprise": 1}, "unknown keys surprise"),
    ],
)
def test_damaged(tmp_path, change, says):
    with pytest.raises(AdapterError, match=says):
        read(layout(tmp_path, [record(**change)]))


def laid_out(root):
    """Official files and arguments, for what is tested of every adapter."""
    return layout(root, OFFICIAL), {"answers": "all"}
