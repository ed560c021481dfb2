import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.vlm_uncertainty_bench import vlm_uncertainty_bench
from qualm.registry.sample import Image

FIXTURES = Path(__file__).resolve().parents[4] / "shared" / "fixtures" / "vlm_uncertainty_bench"


def record(**changes):
    base = {"id": 7, "question": "How many?", "A": "one", "B": "two", "C": "three", "D": "four", "answer": "B", "logits": np.zeros(6)}
    return base | {"hint": None, "image_path": "datasets/x/7.png"} | changes


def layout(folder, records, run="run", dataset="oodcv"):
    path = folder / "output" / run / f"{dataset}.pkl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(records, 4))
    return folder


def read(source, dataset="oodcv", **args):
    return list(vlm_uncertainty_bench(AdapterContext(folder=source, source=source), dataset=dataset, **args))


def test_one_record(tmp_path):
    (sample,) = read(layout(tmp_path, [record(situation="weather", hint="Look.")]))
    assert sample.sample_id == "7"
    assert sample.question == "Look.\nHow many?"
    assert sample.choices == ("one", "two", "three", "four", "I don’t know", "None of the above")
    assert sample.answer_index == 1
    assert (sample.category, sample.group, sample.source) == ("weather", "datasets/x/7.png", "vlm_uncertainty_bench/oodcv")
    assert sample.meta["situation"] == "weather"
    assert sample.image_id is None


def test_rotations_of_a_question_are_one_group(tmp_path):
    source = layout(tmp_path, [record(id=241), record(id=1_000_241), record(id=242)], dataset="mmbench")
    first, rotation, other = read(source, "mmbench")
    assert first.group == rotation.group != other.group


def test_seedbench_dimension_by_its_own_names(tmp_path):
    (sample,) = read(layout(tmp_path, [record(question_type_id=3)], dataset="seedbench"), "seedbench")
    assert sample.meta["dimension"] == sample.category == "Instance Attributes"


def test_option_without_text(tmp_path):
    (sample,) = read(layout(tmp_path, [record(D=float("nan"))]))
    assert sample.choices[3] == ""
    assert sample.meta["missing_options"] == "D"


def test_images_beside_the_outputs(tmp_path):
    source = layout(tmp_path / "repo", [record(), record(id=8), record(id=9, image_path="../secret.png")])
    (tmp_path / "secret.png").write_bytes(b"no")
    (source / "datasets" / "x").mkdir(parents=True)
    (source / "datasets" / "x" / "7.png").write_bytes(b"png")
    image, first, second, third = read(source)
    assert image == Image("datasets/x/7.png", b"png", "datasets/x/7.png")
    assert first.image_id == second.image_id == image.image_id
    assert third.image_id is None


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([record(logits=np.zeros(7))], r"record 0: logits: expected six numbers.*got shape \(7,\).*refused"),
        ([record(logits=np.array([1, 2, 3, 4, 5, np.nan]))], "expected finite numbers"),
        ([record(logits="abc")], "logits: expected six numbers"),
        ([record(answer="E")], "answer: expected one of A, B, C, D, got 'E'"),
        ([record(), record()], "record 1: id 7 occurs twice"),
        ([record(question=3)], "question: expected text"),
        ([{"id": 1}], "missing question, answer, logits, A, B, C, D"),
        ({"a": 1}, "expected a list of records, got dict"),
        ([], "expected a list of records"),
        ([3], "expected a dict, got int"),
        ([record(extra=Path("x"))], "refused: it asks for 'pathlib"),
    ],
)
def test_damaged(tmp_path, records, message):
    with pytest.raises(AdapterError, match=message):
        read(layout(tmp_path, records))


def test_absent(tmp_path):
    source = layout(tmp_path, [record()])
    with pytest.raises(AdapterError, match="no output/RUN/ai2d"):
        read(source, "ai2d")
    with pytest.raises(AdapterError, match="no such run; there are: run"):
        read(source, run="other")
    with pytest.raises(AdapterError, match="expected a plain name"):
        read(source, run="../run")


@pytest.mark.slow
def test_released_outputs():
    if not FIXTURES.is_dir():
        pytest.skip(f"{FIXTURES} is absent: the released outputs are not part of the repository")
    mmbench, oodcv = read(FIXTURES, "mmbench"), read(FIXTURES, "oodcv")
    assert (len(mmbench), len(oodcv)) == (4377, 2844)
    assert len({s.group for s in mmbench}) == 1176
    assert len({s.group for s in oodcv}) == 2347
    assert sum("missing_options" in s.meta for s in mmbench) == 17
    assert Counter(s.meta["situation"] for s in oodcv) == {
        "texture": 512,
        "iid": 463,
        "shape": 455,
        "context": 382,
        "pose": 374,
        "weather": 358,
        "occlusion": 300,
    }
    assert len({s.meta["l2-category"] for s in mmbench}) == 6
