from pathlib import Path

import numpy as np
import pytest
from scipy.special import log_softmax

from qualm.runners.data.dataset import Variant
from qualm.runners.plugins.exports._parts import ExportEntry, ExportPart, slug
from qualm.runners.prompts.question import render_question


def entry(logits=None, text="B", choices=("cat", "dog", "cow"), right=1, **more):
    sample = {"sample_id": 7, "choices": choices, "answer_index": right, "references": ["dog"]}
    return ExportEntry(0, sample, "What?", [{"option_logits": logits, "text": text}], **more)


def test_options_have_their_log_probabilities_among_themselves():
    logits = [1000.0, 1002.0, 990.0]
    options = entry(logits)
    np.testing.assert_allclose(options.log_probabilities, log_softmax(logits))
    assert options.by_numbers and options.predicted == 1 and options.correct == 1 and entry([3.0, 1.0, 2.0]).correct == 0


@pytest.mark.parametrize("logits, choices", [(None, ("a", "b")), ([], ("a", "b")), ([1.0, 2.0], ()), ([1.0], ("a", "b"))])
def test_without_a_number_for_every_option_there_are_none(logits, choices):
    without = entry(logits, choices=choices)
    assert without.log_probabilities is None and without.predicted is None and without.correct is None and not without.by_numbers


def test_the_answer_as_text_is_the_words_else_the_likeliest_letter():
    assert [entry(text="A dog").reply, entry([0.0, 0, 1], text=None).reply, entry(text=None).reply] == ["A dog", "C", ""]
    assert entry([1.0, 2, 3], right=None).correct is None


def test_the_prompt_is_ours_unless_it_was_recorded_elsewhere():
    assert entry().prompt == render_question("What?", ["cat", "dog", "cow"])
    assert entry(recorded=True, sent="theirs").prompt == "theirs" and entry(recorded=True).prompt is None
    assert entry().name == "7" and entry(choices=None).choices == []


def test_tasks_are_named_after_data_set_and_variant():
    def task(dataset, variant):
        return ExportPart("m", dataset, Variant(variant), 7, Path(), Path()).task

    assert task("my data", "clean") == "my-data" and task("d", "blur@radius=2.0") == "d@blur@radius=2.0"


@pytest.mark.parametrize(
    "label, name", [("a b/c", "a-b-c"), ("--x--", "x"), ("é", "unnamed"), ("a_b.c@d=e-f", "a_b.c@d=e-f"), ("", "unnamed")]
)
def test_labels_as_file_names(label, name):
    assert slug(label) == name
