"""A random sample of answers for people to rate; filled in, it corrects scores."""

import csv
from dataclasses import replace

import pytest

from qualm.registry.formats.text_tables import unescape_formula
from qualm.runners.data.labels import read_answer_labels
from qualm.runners.plugins.exports import ExportError
from qualm.runners.plugins.exports.labels import COLUMNS, labels
from qualm.runners.results.judge_reliability import read_labels
from tests.support.projects.exported import TEXTS, context, write


def rows_of(folder):
    with (folder / "labels.csv").open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


def test_it_is_a_random_sample_that_a_larger_one_keeps(tmp_path):
    source = write(tmp_path / "source", n_open=40, n_choice=5)
    few, many, other = (tmp_path / name for name in ("few", "many", "other"))
    first = context(source, few)
    labels(first, n=10)
    assert (first.counts["answers"], first.counts["samples"]) == (10, 10)
    labels(context(source, many), n=25)
    labels(context(source, other), n=10, seed=8)
    ids = [row["sample_id"] for row in rows_of(few)]
    assert len(set(ids)) == 10 and ids == [row["sample_id"] for row in rows_of(many)][:10]
    assert ids != sorted(ids) and set(ids) != {row["sample_id"] for row in rows_of(other)}


def test_rows_hold_what_a_rater_needs_and_no_rating_of_the_judge(tmp_path):
    source = write(tmp_path / "source", n_open=10, n_choice=6)
    out = context(source, tmp_path / "out")
    labels(out)
    rows = {row["sample_id"]: row for row in rows_of(tmp_path / "out")}
    assert len(rows) == 10 and out.lost == {"answers without words, which no judge rates": 6}
    assert tuple(next(iter(rows.values()))) == COLUMNS
    assert {(row["rating"], row["is_refusal"]) for row in rows.values()} == {("", "")}
    assert rows["id/003 x"]["reference"] == "a cube|cube's" and rows["id/002 x"]["reference"] == "", "abstaining is right"
    assert all(unescape_formula(row["prediction"]) == TEXTS[int(name[3:6]) % len(TEXTS)] for name, row in rows.items())
    assert (tmp_path / "out" / rows["id/003 x"]["pictures"]).read_bytes().startswith(b"\x89PNG") and rows["id/001 x"]["pictures"] == ""


def test_several_models_are_rated_on_the_same_questions(tmp_path):
    source = write(tmp_path / "source", n_open=30, n_choice=0)
    out = context(source, tmp_path / "out")
    out = replace(out, parts=(*out.parts, replace(out.parts[0], model="other")))
    labels(out, n=5)
    rows = rows_of(tmp_path / "out")
    assert [row["model"] for row in rows] == ["m", "other"] * 5
    assert [row["sample_id"] for row in rows[::2]] == [row["sample_id"] for row in rows[1::2]]


def test_only_scored_questions_are_labelled(tmp_path):
    source = write(tmp_path / "source", n_open=4, n_choice=0)
    with pytest.raises(ExportError, match="no answers in words"):
        labels(context(write(tmp_path / "choices", n_open=0), tmp_path / "none"))
    with pytest.raises(Exception, match="it has no rows of 'val'"):
        labels(context(source, tmp_path / "out", scoring={"splits": {"d": ["val"]}}))


def test_filled_in_it_is_read_as_labels_of_answers_and_of_judges(tmp_path):
    source = write(tmp_path / "source", n_open=20, n_choice=0)
    labels(context(source, tmp_path / "out"), n=8)
    rows = rows_of(tmp_path / "out")
    with (tmp_path / "out" / "labels.csv").open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, COLUMNS)
        writer.writeheader()
        writer.writerows(row | {"rating": "1" if k < 5 else ""} for k, row in enumerate(rows))
    read = read_answer_labels(tmp_path / "out")
    assert len(read.by_answer_set["m", "d", "clean"]) == 5
    assert [label.answer.prediction for label in read_labels(tmp_path / "out")] == [unescape_formula(row["prediction"]) for row in rows[:5]]
