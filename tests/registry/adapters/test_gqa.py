import json

import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.gqa import gqa
from qualm.registry.sample import Image, Sample
from qualm.runners.plugins.saliency.gqa import gqa as saliency
from tests.support.data.targets import context as pair_context

GRAPH = {
    "width": 90, "height": 45, "location": "street",
    "objects": {
        "1": {"name": "car", "x": 30, "y": 20, "w": 15, "h": 10, "attributes": ["red"], "relations": []},
        "2": {"name": "car", "x": 50, "y": 22, "w": 30, "h": 10, "attributes": [], "relations": []},
    },
}  # fmt: skip


def record(image="n1", structural="query", **changes):
    made = {
        "question": "What color is the car?", "imageId": image, "isBalanced": True, "answer": "red", "fullAnswer": "The car is red.",
        "types": {"structural": structural, "semantic": "attr", "detailed": "colorA"}, "groups": {"global": "color", "local": "c"},
        "semantic": [{"operation": "select", "dependencies": [], "argument": "car (1)"}], "semanticStr": "select: car (1)",
        "annotations": {"question": {"4": "1"}, "answer": {}, "fullAnswer": {"1": "1"}}, "entailed": [], "equivalent": ["q1"],
    }  # fmt: skip
    return {**made, **changes}


def folder(root, records, part="train", graphs=("n1", "n2"), name=None):
    (root / "images").mkdir(parents=True, exist_ok=True)
    path = root / (name or f"{part}_balanced_questions.json")
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(records))
    if graphs:
        (root / f"{part}_sceneGraphs.json").write_text(json.dumps(dict.fromkeys([*graphs, "other"], GRAPH)))
    for one in records.values():
        (root / f"images/{one['imageId']}.jpg").write_bytes(one["imageId"].encode())
    return root


def read(source, out, **arguments):
    selects = arguments.pop("selects", lambda sample: True)
    return list(gqa(AdapterContext(out, source=source, selects=selects), **arguments))


def test_questions_by_their_keys(tmp_path):
    source = folder(tmp_path / "in", {"q1": record(), "q2": record(structural="verify", answer="yes")})
    image, first, second = read(source, tmp_path, parts=["train"])
    assert image == Image("n1", b"n1", "images/n1.jpg")
    assert first == Sample(
        "q1", "What color is the car?", "n1", ("red",), category="query", split="train", source="gqa", group="n1",
        meta={"structural": "query", "semantic": "attr", "detailed": "colorA", "answer_kind": "open", "full_answer": "The car is red."},
    )  # fmt: skip
    assert (second.category, second.meta["answer_kind"], second.references) == ("verify", "binary", ("yes",))


def test_what_saliency_reads_lies_beside_the_samples(tmp_path):
    source = folder(tmp_path / "in", {"q1": record(), "q2": record("n2")})
    made = read(source, tmp_path, parts=["train"], selects=lambda s: s.sample_id == "q1")
    kept = json.loads((tmp_path / "scenes/train_sceneGraphs.json").read_text())
    assert kept == {"n1": GRAPH}
    assert list(json.loads((tmp_path / "scenes/train_questions.json").read_text())) == ["q1"]
    row = {"sample_id": "q1", "image_id": "n1", "question": made[1].question, "references": ["red"], "answerable": True, "meta": []}
    (target,) = saliency(pair_context(), tmp_path, [row])
    assert target.thing.name == "car" and target.thing.boxes == ((30, 20, 15, 10), (50, 22, 30, 10))


def test_parts_without_graphs_or_answers(tmp_path):
    source = folder(tmp_path / "in", {"q1": record()}, "testdev", ())
    bare = {"q9": {key: record()[key] for key in ("question", "imageId", "isBalanced")}}
    folder(source, bare, "challenge", ())
    made = [s for s in read(source, tmp_path, parts=["testdev", "challenge"]) if isinstance(s, Sample)]
    assert [(s.sample_id, s.split, s.references, s.category) for s in made] == [
        ("q1", "testdev", ("red",), "query"),
        ("q9", "challenge", (), ""),
    ]
    assert not (tmp_path / "scenes").exists()


def test_all_questions_lie_in_ten_files(tmp_path):
    source = folder(tmp_path / "in", {"q10": record()}, name="train_all_questions/train_all_questions_10.json")
    folder(source, {"q2": record(isBalanced=False)}, name="train_all_questions/train_all_questions_2.json")
    made = read(source, tmp_path, parts=["train"], balanced=False, graphs=False)
    assert [s.sample_id for s in made if isinstance(s, Sample)] == ["q2", "q10"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"surprise": 1}, r"train_balanced_questions.json: line 1, record 0 \(q1\): unknown keys surprise"),
        ({"types": {"structural": "ask", "semantic": "", "detailed": ""}}, "types.structural: expected one of query, verify"),
        ({"types": {"structural": "query"}}, "types: missing semantic, detailed"),
        ({"answer": ""}, "answer: expected text"),
        ({"imageId": "../../n1"}, r"expected its image at images/\.\./\.\./n1\.jpg within"),
    ],
)
def test_what_is_not_as_in_the_release(tmp_path, changes, says):
    with pytest.raises(AdapterError, match=says):
        read(folder(tmp_path / "a" / "in", {"q1": record(**changes)}), tmp_path / "out", parts=["train"])


def test_graphs_that_are_missing(tmp_path):
    source = folder(tmp_path / "in", {"q1": record(), "q2": record("n2"), "q3": record("n3")}, graphs=("n1",))
    with pytest.raises(AdapterError, match="has no scene graph of image 'n2' and 1 more"):
        read(source, tmp_path, parts=["train"])
    (source / "train_sceneGraphs.json").unlink()
    with pytest.raises(AdapterError, match="expected GQA's scene graphs"):
        read(source, tmp_path, parts=["train"])
    assert len(read(source, tmp_path, parts=["train"], graphs=False)) == 6


def laid_out(root):
    """Official files and arguments, for what is tested of every adapter."""
    return folder(root, {"q1": record(), "q2": record(structural="verify", answer="yes")}, graphs=("n1",)), {"parts": ["train"]}
