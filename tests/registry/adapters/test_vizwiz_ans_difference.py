"""Counts of reasons as meta, the trap of picture names, and VLM-UQBench's subsets over them."""

import itertools
import json

import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.vizwiz_ans_difference import META, REASONS, vizwiz_ans_difference
from qualm.registry.entries.card import load_card
from qualm.registry.sample import Image, Sample
from qualm.registry.where import parse, verdict

NAME = "VizWiz_train_{:012d}.jpg"


def record(number=0, counts=(1, 2, 0, 0, 5, 0, 3, 4, 0, 0), **changes):
    made = {
        "qid": f"VizWiz_train_{number:012d}",
        "image": NAME.format(number),
        "question": "What is this?",
        "answers": ["soup"] * 8 + ["unanswerable", "can"],
        "ans_type": "yes/no",
        "src_dataset": "VIZWIZ",
        "ans_dis_labels": list(counts),
    }
    return {**made, **changes}


def folder(root, records, name="Annotations/vizwiz_ans_difference_val.json"):
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / "images").mkdir(exist_ok=True)
    (root / name).write_text(json.dumps(records))
    for one in records:
        (root / "images" / one["image"]).write_bytes(one["image"].encode())
    return root


def read(source, **arguments):
    return list(vizwiz_ans_difference(AdapterContext(source, source=source), **arguments))


def test_counts_become_meta(tmp_path):
    image, sample = read(folder(tmp_path, [record(7)]))
    assert image == Image("VizWiz_train_000000000007", b"VizWiz_train_000000000007.jpg", "images/VizWiz_train_000000000007.jpg")
    assert [sample.meta[reason] for reason in REASONS] == ["1", "2", "0", "0", "5", "0", "3", "4", "0", "0"]
    assert sample.meta["said_unanswerable"] == "1" and set(sample.meta) == set(META)
    assert (sample.sample_id, sample.category, sample.split, len(sample.references)) == ("VizWiz_train_000000000007", "yes-no", "val", 10)
    assert tuple(META[:10]) == REASONS


def test_both_layouts_and_no_pictures(tmp_path):
    (sample,) = read(folder(tmp_path, [record()], "vizwiz/data/vizwiz_test.json"), split="test", images=False)
    assert sample.image_id is None and sample.group == "VizWiz_train_000000000000"
    with pytest.raises(AdapterError, match=r"expected the annotations at .*vqa_ans_difference_val\.json, found none"):
        read(tmp_path, dataset="vqa")


def test_pictures_are_never_matched_by_number(tmp_path):
    source = folder(tmp_path, [record(1), record(2)])
    for number in (1, 2):
        (source / "images" / NAME.format(number)).unlink()
    (source / "val").mkdir()
    for number in (1, 2):
        (source / "val" / f"VizWiz_val_{number:08d}.jpg").write_bytes(b"another")
    with pytest.raises(AdapterError, match=r"record 0: expected its image at images/.*cannot be matched by number.*images: false"):
        read(source)
    names = {NAME.format(1): "val/VizWiz_val_00000002.jpg", NAME.format(2): "val/VizWiz_val_00000001.jpg"}
    (source / "image_names.json").write_text(json.dumps(names))
    images = [x for x in read(source) if isinstance(x, Image)]
    assert [(i.image_id, i.path) for i in images] == [
        ("VizWiz_train_000000000001", "val/VizWiz_val_00000002.jpg"),
        ("VizWiz_train_000000000002", "val/VizWiz_val_00000001.jpg"),
    ]
    for wrong, says in (
        ({NAME.format(1): "val/VizWiz_val_00000002.jpg"}, "record 1: image_names.json has no image for"),
        (dict.fromkeys(names, "val/VizWiz_val_00000001.jpg"), "two names stand for one image"),
        ([1], "expected an object"),
        ({NAME.format(1): 7, NAME.format(2): "a"}, "expected an object"),
        ({**names, NAME.format(1): "../secret.jpg"}, "expected its image at ../secret.jpg"),
    ):
        (source / "image_names.json").write_text(json.dumps(wrong))
        with pytest.raises(AdapterError, match=says):
            read(source)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"ans_dis_labels": [0] * 9}, "record 0: ans_dis_labels: expected 10 whole numbers from 0 to 5, for LQI, IVE, .*; got"),
        ({"ans_dis_labels": [6] + [0] * 9}, "ans_dis_labels: expected"),
        ({"ans_dis_labels": [True] + [0] * 9}, "ans_dis_labels: expected"),
        ({"ans_dis_labels": [1.0] + [0] * 9}, "ans_dis_labels: expected"),
        ({"ans_dis_labels": [-1] + [0] * 9}, "ans_dis_labels: expected"),
        ({"ans_dis_labels": "0123401234"}, "ans_dis_labels: expected"),
        ({"answers": ["a"] * 9}, "answers: expected 10 texts"),
        ({"answers": "abcdefghij"}, "answers: expected 10 texts, got 'abcdefghij'"),
        ({"answers": ["a"] * 9 + [1]}, "answers: expected 10 texts"),
        ({"extra": 1}, "unknown keys extra; expected qid, image, question"),
        ({"qid": 5}, "qid: expected text, got 5"),
    ],
)
def test_what_is_unknown_is_reported_and_never_guessed(tmp_path, changes, says):
    with pytest.raises(AdapterError, match=says):
        read(folder(tmp_path, [record(**changes)]))


# -- VLM-UQBench's subsets ---------------------------------------------------------------------------------------------------


def paper(c):
    """The paper's rules in plain Python, cross in its strict reading."""
    questions = ("IVE", "INV", "DFF", "AMB", "SBJ", "SYN")
    calm = all(c[r] <= 2 for r in questions)
    return {
        "clean": c["LQI"] <= 1 and calm,
        "image": c["LQI"] >= 4 and calm,
        "text": c["LQI"] <= 1 and (c["INV"] >= 3 or c["SBJ"] >= 3) and max(c["AMB"], c["IVE"]) < 5,
        "cross": 5 in (c["AMB"], c["IVE"]),
    }


def test_the_card_s_subsets_are_the_paper_s_and_share_nothing():
    subsets = load_card("vizwiz_ans_difference").subsets
    verdicts = {name: verdict(parse(text, META)) for name, text in subsets.items()}
    sizes = dict.fromkeys(verdicts, 0)
    for five in itertools.product(range(6), *[range(2, 6)] * 4):
        for dff, syn in ((0, 0), (2, 2), (3, 0), (0, 3)):
            counts = dict(zip(("LQI", "IVE", "INV", "AMB", "SBJ"), five, strict=True)) | {"DFF": dff, "SYN": syn}
            one = Sample("s", "?", meta={k: str(v) for k, v in counts.items()})
            found = {name: judge(one) for name, judge in verdicts.items()}
            assert found == paper(counts)
            assert sum(map(bool, found.values())) <= 1
            for name in found:
                sizes[name] += bool(found[name])
    assert all(sizes.values())


def laid_out(root):
    """Official files and arguments, for what is tested of every adapter."""
    return folder(root, [record()]), {}
