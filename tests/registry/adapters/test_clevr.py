import json
from collections import Counter

import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.clevr import CATEGORIES, clevr
from qualm.registry.sample import Image, Sample
from tests.support.data.clevr_folder import clevr_folder


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return clevr_folder(tmp_path_factory.mktemp("clevr"), 12)


def read(source, folder, **arguments):
    selects = arguments.pop("selects", lambda sample: True)
    return list(clevr(AdapterContext(folder, source=source, selects=selects), **arguments))


def test_questions_in_order_with_their_answers(source, tmp_path):
    made = read(source, tmp_path)
    samples, images = [x for x in made if isinstance(x, Sample)], [x for x in made if isinstance(x, Image)]
    official = json.loads((source / "questions/CLEVR_val_questions.json").read_text())["questions"]
    assert [(s.question, s.references, s.sample_id) for s in samples] == [
        (q["question"], (q["answer"],), f"val_{q['question_index']:06d}") for q in official
    ]
    assert [i.image_id for i in images] == [f"CLEVR_val_{i:06d}" for i in range(12)]
    assert images[0].data == (source / "images/val/CLEVR_val_000000.png").read_bytes()
    assert all(s.group == s.image_id and s.split == "val" for s in samples)
    assert Counter(s.category for s in samples).keys() == {"attribute", "existence", "counting"}
    assert samples[0].meta == {"family": "5", "function": "query_color"}
    first = {x.image_id: k for k, x in enumerate(made) if isinstance(x, Image)}
    assert all(first[x.image_id] < k for k, x in enumerate(made) if isinstance(x, Sample))


def test_scene_graphs_lie_beside_the_samples(source, tmp_path):
    read(source, tmp_path)
    name = "scenes/CLEVR_val_scenes.json"
    assert (tmp_path / name).read_bytes() == (source / name).read_bytes()


def test_the_test_split_has_no_answers(tmp_path):
    made = read(clevr_folder(tmp_path / "source", 2, "test"), tmp_path, split="test")
    assert all(s.references == () and s.category == "" for s in made if isinstance(s, Sample))
    assert not (tmp_path / "scenes").exists()


def test_answers_and_programs_as_the_generator_writes_them(source, tmp_path):
    path = clevr_folder(tmp_path / "source", 1) / "questions/CLEVR_val_questions.json"
    whole = json.loads(path.read_text())
    for answer, function, said, category in (
        (True, "exist", "yes", "existence"),
        (3, "count", "3", "counting"),
        (False, "less_than", "no", "comparison"),
    ):
        record = whole["questions"][0] | {"answer": answer, "program": [{"type": function, "inputs": []}]}
        path.write_text(json.dumps({"questions": [record]}))
        (_, sample) = read(tmp_path / "source", tmp_path)
        assert (sample.references, sample.category) == ((said,), category)
    assert set(CATEGORIES.values()) == {"attribute", "existence", "counting", "comparison"}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"answer": None}, r"questions.json: line 1, record 1: answer: expected text, got None"),
        ({"program": []}, "record 1: program: expected its last step to be one of count, "),
        ({"program": [{"function": "guess"}]}, "got 'guess'"),
        ({"program": [{"function": ["count"]}]}, r"got \['count'\]"),
        ({"question": ""}, "record 1: question: expected text, got ''"),
        ({"question_index": "7"}, "question_index: expected a whole number"),
        ({"image_filename": "../../etc/passwd"}, "expected its image at images/val/../../etc/passwd"),
        ({"image_filename": "gone.png"}, "expected its image at images/val/gone.png within"),
    ],
)
def test_damaged(tmp_path, change, says):
    path = clevr_folder(tmp_path / "source", 1) / "questions/CLEVR_val_questions.json"
    whole = json.loads(path.read_text())
    whole["questions"][1] |= change
    path.write_text(json.dumps(whole))
    with pytest.raises(AdapterError, match=says):
        read(tmp_path / "source", tmp_path)


def laid_out(root):
    """Official files and arguments, for what is tested of every adapter."""
    return clevr_folder(root, scenes=1), {}
