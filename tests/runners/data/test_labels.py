"""Labels by people are matched with answers, and nothing of them is guessed."""

import numpy as np
import pyarrow as pa
import pytest

from qualm.registry.sample import SAMPLES
from qualm.runners.data.aligned import Samples
from qualm.runners.data.labels import LabelError, read_answer_labels
from qualm.runners.runtime.stage import StageError

HEAD = "model,dataset,sample_id,prediction,rating\n"
CELL = ("m", "d", "clean")
ANSWERS = pa.table({"sample_id": ["a", "b", "c"], "text": ["red", "two\nlines", "=1"]})


def read(tmp_path, text):
    (tmp_path / "labels.csv").write_text(text, encoding="utf-8")
    return read_answer_labels(tmp_path)


def samples(*others):
    return Samples("d", pa.Table.from_pylist([{"sample_id": name} for name in "abc"], SAMPLES), pa.array(others) if others else None)


def test_labels_are_columns_with_the_mean_of_several(tmp_path):
    labels = read(tmp_path, HEAD + 'm,d,b,"two  lines",1\nm,d,b,two lines,0.5\nm,d,c,\'=1,0\nm,d,a,red,\n')
    columns, why = labels.columns(CELL, samples(), ANSWERS)
    np.testing.assert_array_equal(columns["labelled"], [0, 1, 1])
    np.testing.assert_array_equal(columns["people_rating"], [0, 0.75, 0])
    assert why == ""


def test_a_model_without_labels_says_so(tmp_path):
    labels = read(tmp_path, "variant," + HEAD + "blur,m,d,a,red,1\n")
    assert labels.columns(CELL, samples(), ANSWERS) == ({}, f"no answer of 'm' to 'd' has a rating in {tmp_path / 'labels.csv'}")
    assert "(blur@radius=2)" in labels.columns(("m", "d", "blur@radius=2"), samples(), ANSWERS)[1]
    assert labels.columns(("m", "d", "blur"), samples(), ANSWERS)[0]["labelled"].sum() == 1


def test_labels_of_changed_answers_leave_no_random_sample(tmp_path):
    labels = read(tmp_path, HEAD + "m,d,a,red,1\nm,d,b,three,1\n")
    columns, why = labels.columns(CELL, samples(), ANSWERS)
    assert columns == {} and "labels.csv:3: 1 of 2 labels are of answers that have changed since" in why


def test_samples_that_are_not_scored_are_left_out_and_unknown_ones_an_error(tmp_path):
    labels = read(tmp_path, HEAD + "m,d,a,red,1\nm,d,z,x,1\n")
    assert labels.columns(CELL, samples("z"), ANSWERS)[0]["labelled"].sum() == 1
    with pytest.raises(StageError, match=r"labels.csv:3: sample_id: dataset 'd' has no sample 'z'"):
        labels.columns(CELL, samples(), ANSWERS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("question,prediction,rating\n", r"missing model, dataset, sample_id; `qualm export SPEC FOLDER --to labels` writes such a file"),
        (HEAD + "m,d,a,red,1.5\n", r"labels.csv:2: rating: expected a number from 0 to 1, or nothing, got '1.5'"),
        (HEAD + "m,d,a,red,yes\n", r"labels.csv:2: rating: expected a number from 0 to 1, or nothing, got 'yes'"),
        (HEAD + "m,d,a,red,nan\n", r"labels.csv:2: rating: .* got 'nan'"),
        (HEAD + "m,,a,red,1\n", r"labels.csv:2: dataset: expected a name, got nothing"),
        (HEAD + "m,d,a,1\n", r"labels.csv:2: expected 5 cells, got 4"),
        (HEAD + "m,d,a,red,\n", "expected a rating in some rows, found none"),
        ("", "expected a rating in some rows, found none"),
        ("model;dataset;sample_id;prediction;rating\n", "its columns are parted by semicolons"),
    ],
)
def test_bad_files(tmp_path, text, message):
    with pytest.raises(LabelError, match=message):
        read(tmp_path, text)
    with pytest.raises(LabelError, match="expected a CSV file of labelled answers"):
        read_answer_labels(tmp_path / "nothing.csv")
