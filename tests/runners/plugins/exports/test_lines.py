import io
import json
import math
import statistics
from types import SimpleNamespace

import pytest

from qualm.runners.plugins.exports import ExportEntry
from qualm.runners.plugins.exports._lines import HarnessTask, document, responses, sha256, target

SAMPLE = {
    "sample_id": "s", "image_id": "i", "answer_index": 1, "category": "c", "answerable": True, "split": "test", "pair_id": None,
    "meta": [("k", "v")], "choices": ["cat", "dog"], "references": ["dog", "B"], "question": "clean?",
}  # fmt: skip


LOGITS = (0.0, math.log(3))


def entry(logits=LOGITS, texts=("B",), **sample):
    return ExportEntry(3, {**SAMPLE, **sample}, "blurred?", [{"option_logits": logits, "text": text} for text in texts])


def test_the_document_is_the_sample_with_the_question_of_its_variant():
    made = document(entry())
    assert made["question"] == "blurred?" and made["meta"] == {"k": "v"} and made["sample_id"] == "s" and made["choices"] == ["cat", "dog"]
    assert document(entry(meta=None))["meta"] == {}


@pytest.mark.parametrize(
    "asked, expected",
    [
        (entry(), "1"),
        (entry(logits=None), "B"),
        (entry(logits=None, answer_index=None), ""),
        (entry(answer_index=None), ""),
        (entry(choices=[], references=["red"]), "red"),
        (entry(choices=[], references=["red", "blue"]), "['red', 'blue']"),
        (entry(choices=[], references=[]), ""),
    ],
)
def test_targets_are_as_the_harnesses_log_them(asked, expected):
    assert target(asked) == expected


@pytest.mark.parametrize("sign", [1, -1])
def test_options_are_pairs_of_a_number_and_whether_they_were_written(sign):
    each, filtered = responses(entry(texts=(" B ",)), sign)
    assert each == [[pair] for pair in filtered] and [written for _, written in filtered] == ["False", "True"]
    assert [float(number) for number, _ in filtered] == pytest.approx([sign * math.log(0.25), sign * math.log(0.75)])


def test_a_number_of_nothing_has_no_sign_and_texts_are_all_draws():
    assert responses(entry(logits=(0.0,), choices=["only"]), -1)[1] == [["0.0", "False"]]
    assert responses(entry(logits=None, texts=("B", None, "C")), 1) == ([["B", "", "C"]], ["B"])


def test_means_and_standard_errors_are_over_the_lines_with_a_value():
    handle = io.StringIO()
    task = HarnessTask("t", True, handle)
    for value, once in ((1.0, None), (None, 0.5), (0.0, None), (1.0, None)):
        task.write({"a": 1}, {"acc": value, "rare": once}, "hash")
    means = task.means()
    assert means["acc,none"] == pytest.approx(2 / 3) and means["rare,none"] == 0.5 and means["rare_stderr,none"] == "N/A"
    assert means["acc_stderr,none"] == pytest.approx(statistics.stdev([1, 0, 1]) / math.sqrt(3))
    lines = [json.loads(line) for line in handle.getvalue().splitlines()]
    assert lines[0] == {"a": 1, "metrics": ["acc", "rare"], "acc": 1.0, "rare": None} and task.n == len(lines) == len(task.hashes) == 4
    assert HarnessTask("empty", True, SimpleNamespace()).means() == {}


def test_numbers_that_json_has_no_word_for_are_refused():
    with pytest.raises(ValueError, match="JSON compliant"):
        HarnessTask("t", True, io.StringIO()).write({}, {"acc": math.nan}, "")


def test_sha256():
    assert sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
