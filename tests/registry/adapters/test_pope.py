import json
import shutil
from pathlib import Path

import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.pope import pope
from qualm.registry.sample import Image, Sample
from tests.support.projects.scored import scored
from tests.support.projects.stages import ref

FIXTURES = Path(__file__).resolve().parents[3] / ".." / "shared" / "fixtures" / "pope"
METRICS = ("yes_no_accuracy", "yes_no_precision", "yes_no_recall", "yes_no_f1")


def record(number=1, **changes):
    return {
        "question_id": number,
        "image": f"COCO_val2014_{number:012d}.jpg",
        "text": "Is there a dog in the image?",
        "label": "no",
    } | changes


def folder(root, records, name="output/coco/coco_pope_random.json", pictures="val2014", lines=True):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(r) for r in records) + "\n" if lines else json.dumps(records, indent=4))
    (root / pictures).mkdir(parents=True, exist_ok=True)
    for one in records:
        if "/" not in one["image"]:
            (root / pictures / one["image"]).write_bytes(one["image"].encode())
    return root


def read(source, **arguments):
    return list(pope(AdapterContext(source, source=source), **arguments))


def test_lines_of_questions(tmp_path):
    first, image = record(7, label="yes"), record(7)["image"]
    got, one, two = read(folder(tmp_path, [first, record(8, image=image)]))
    assert got == Image(image, image.encode(), f"val2014/{image}")
    assert one == Sample(
        "coco-random-7",
        "Is there a dog in the image?",
        image,
        references=("yes",),
        category="random",
        source="pope",
        group=image,
        meta={"pictures": "coco"},
    )
    assert (two.sample_id, two.references) == ("coco-random-8", ("no",))


@pytest.mark.parametrize(("pictures", "place"), [("gqa", "gqa/images"), ("gqa", "images"), ("aokvqa", "val2014")])
def test_a_list_of_questions_on_other_pictures(tmp_path, pictures, place):
    source = folder(tmp_path, [record(1, image="2405722.jpg")], f"output/seem/{pictures}/{pictures}_pope_seem_popular.json", place, False)
    image, sample = read(source, pictures=pictures, split="popular", instruction="Answer yes or no.")
    assert image.path == f"{place}/2405722.jpg"
    assert (sample.sample_id, sample.category) == (f"{pictures}-popular-1", "popular")
    assert sample.question == "Is there a dog in the image? Answer yes or no."


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"label": "maybe"}, "coco_pope_random.json: line 1, record 0: label: expected yes or no, got 'maybe'"),
        ({"question_id": "1"}, "question_id: expected a whole number, got '1'"),
        ({"extra": 1}, "unknown keys extra; expected question_id, image, text, label"),
        ({"text": ""}, "text: expected text, got ''"),
        ({"image": "../../x.jpg"}, "expected its image at val2014/../../x.jpg or images/../../x.jpg"),
    ],
)
def test_what_is_unknown_is_reported(tmp_path, changes, says):
    with pytest.raises(AdapterError, match=says):
        read(folder(tmp_path, [record(**changes)]))


@pytest.mark.parametrize(
    ("pictures", "split", "n"), [("coco", "random", 48), ("coco", "popular", 48), ("coco", "adversarial", 48), ("gqa", "random", 24)]
)
def test_the_released_files(tmp_path, monkeypatch, pictures, split, n):
    """Scored by the script's own counts: tp, fp, tn, fn of its parse, yes the positive class."""
    if not FIXTURES.is_dir():
        pytest.skip("no ../shared/fixtures/pope here")
    seem = f"output/seem/gqa/gqa_pope_seem_{split}.json"
    name, given = (
        (f"output/coco/coco_pope_{split}.json", f"coco_pope_{split}.head48.jsonl")
        if pictures == "coco"
        else (seem, "gqa_pope_seem_random.head24.json")
    )
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    shutil.copy(FIXTURES / given, path)
    text = path.read_text()
    records = json.loads(text) if text.startswith("[") else [json.loads(line) for line in text.splitlines()]
    folder(tmp_path, records, "unused.json", "images")
    samples = [s for s in read(tmp_path, pictures=pictures, split=split) if isinstance(s, Sample)]
    assert len(samples) == n and len({s.group for s in samples}) == n // 6
    assert sum(s.references == ("yes",) for s in samples) == n // 2

    replies = ["Yes", "No, there is none.", "NO", "It is not there", "Yes. No", "yes"]
    read_as = [1, 0, 1, 0, 1, 1]
    monkeypatch.chdir(tmp_path)
    texts = {s.sample_id: replies[i % 6] for i, s in enumerate(samples)}
    metrics = [ref(m, judge="pope", **({} if m == "yes_no_accuracy" else {"positive": "yes"}), convention="exact") for m in METRICS]
    found = scored(samples, texts, [ref("pope")], [*metrics, ref("yes_rate", judge="pope")])
    said, truth = [read_as[i % 6] for i in range(n)], [int(s.references == ("yes",)) for s in samples]
    tp, fp, fn = (sum(a == x and b == y for a, b in zip(said, truth, strict=True)) for x, y in ((1, 1), (1, 0), (0, 1)))
    precision, recall = tp / (tp + fp), tp / (tp + fn)
    expected = [sum(a == b for a, b in zip(said, truth, strict=True)) / n, precision, recall, 2 * precision * recall / (precision + recall)]
    assert [found["all", m]["value"] for m in METRICS] == pytest.approx(expected)
    assert found["all", "yes_rate"]["value"] == pytest.approx(4 / 6)


def laid_out(root):
    """Official files and arguments, for what is tested of every adapter."""
    return folder(root, [record()]), {}
