"""Rows of the table: all answers, in an order in which what is shown together lies together."""

import numpy as np
import polars as pl
import pytest

from qualm.compiler.viewing.answers import AnswerTable, question_hash
from qualm.runners.results.results import Results
from tests.support.projects.viewed_project import ASKED, HOSTILE


def test_all_answers_question_by_question(results: Results, answers: AnswerTable) -> None:
    rows = answers.rows
    assert rows.height == results.answers(variant=None).height == 2 * 24 * 3 * 2
    assert rows["sample"].is_sorted() and answers.variants[0] == "clean"
    first = rows.filter(pl.col("sample") == 0).select("variant", "model").rows()
    assert first == [(variant, model) for variant in answers.variants for model in answers.models]


def test_columns_say_what_the_results_say(results: Results, answers: AnswerTable) -> None:
    columns = {c.name: c for c in answers.columns}
    texts = {n: np.array([*(c.values or ()), None], dtype=object)[c.data] for n, c in columns.items() if c.values}
    correct = columns["correct"].data
    rows = results.scores.filter(slice="all", label="accuracy").to_dicts()
    assert len(rows) == 12
    for row in rows:
        here = (texts["model"] == row["model"]) & (texts["dataset"] == row["dataset"]) & (texts["variant"] == row["variant"])
        assert (np.count_nonzero(~np.isnan(correct[here])), np.nanmean(correct[here])) == (row["n"], pytest.approx(row["value"], abs=1e-6))
    assert "uncertainty[mean_token_entropy]" in columns and "covered[half/lac]" in columns
    assert not {"text", "question", "sample_id"} & set(columns)


def test_questions_and_texts_are_there_in_parts(answers: AnswerTable) -> None:
    questions = answers.questions(0)
    assert questions[0]["question"] == ASKED and questions[0]["pictures"] == [0] and len(questions) == 48
    assert {len(q.get("choices", ())) for q in questions} == {0, 6}
    texts = answers.texts(0)
    assert len(texts) == answers.rows.height and HOSTILE[:1000] in texts and answers.texts(1) == []


def test_an_answer_of_logits_alone_is_its_options_letter(results: Results, answers: AnswerTable, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = results.answers(variant=None).with_columns(text=pl.lit(""))
    monkeypatch.setattr(results, "answers", lambda variant: rows)
    of_logits = AnswerTable(results, answers.models).rows
    letters = ["" if number is None else "ABCDEF"[number] for number in of_logits["predicted"].to_list()]
    assert of_logits["text"].to_list() == letters and set(letters) > {"", "A", "B"}


def test_options_beyond_the_letters_have_numbers(results: Results, answers: AnswerTable, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = results.answers(variant=None).with_columns(text=pl.lit(""), predicted=pl.lit(27, pl.Int64))
    monkeypatch.setattr(results, "answers", lambda variant: rows)
    assert set(AnswerTable(results, answers.models).rows["text"]) == {"28"}
    rows = rows.with_columns(predicted=pl.lit(None, pl.Int64))
    assert set(AnswerTable(results, answers.models).rows["text"]) == {""}


def test_the_index_names_what_there_is(results: Results, answers: AnswerTable) -> None:
    index = answers.index()
    assert (index["rows"], index["samples"]) == (288, 48)
    assert index["datasets"] == [{"name": name, "samples": 24} for name in results.datasets]
    assert index["detail_samples"] == 66, "six answers to each: 66 questions have 396 of the 400"
    assert [c["name"] for c in index["columns"]] == [c.name for c in answers.columns] and index["columns"][0] == {
        "name": "sample",
        "type": "u4",
        "values": None,
    }
    assert "mean_token_entropy" in index["estimators"] and not [name for name in index["estimators"] if "[" in name or "]" in name]


def test_addresses_of_questions() -> None:
    assert question_hash("", "") == 0x050C5D1F, "as published of one byte that is 0"
    assert question_hash("scenes", "a") != question_hash("scenesa", "") and question_hash("d", "é") < 2**32
