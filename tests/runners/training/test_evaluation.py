"""Held-out questions: right is who says every token of the answer; by a learner whose answers are known."""

import numpy as np
import pytest
import torch

from qualm.registry.sample import IMAGES, SAMPLES
from qualm.runners.contracts.finetunes import FinetuneError
from qualm.runners.prompts.question import render_question
from qualm.runners.runtime.records import write_table
from qualm.runners.training import evaluation
from qualm.runners.training.curriculum import Curriculum
from qualm.runners.training.data import ASSISTANT, END, build_tokenizer, vocabulary
from qualm.runners.training.evaluation import Evaluation
from qualm.runners.training.packing import IGNORE
from qualm.runners.training.pictures import normalise
from tests.support.projects.asking import picture, png, sample

TOKENIZER = build_tokenizer(vocabulary())
CURRICULUM = Curriculum(None, TOKENIZER, 7, 4, 0, 1, 1, 1, 1)


class Knowing:
    """Says the right answers, but for one token of those at `wrong`."""

    device = "cpu"

    def __init__(self, wrong=()):
        self.wrong, self.asked, self.pixels = wrong, [], []

    def answer_logits(self, batch):
        logits = torch.zeros(*batch["labels"].shape, len(TOKENIZER))
        for row, labels in enumerate(batch["labels"]):
            places = (labels != IGNORE).nonzero()[:, 0]
            for at in places:
                logits[row, at, labels[at]] = 1.0
            if len(self.asked) in self.wrong:
                logits[row, places[-1], 0] = 2.0
            self.asked.append(TOKENIZER.decode([t for t, s in zip(batch["input_ids"][row], batch["segment"][row], strict=True) if s == 1]))
            self.pixels.append(batch["pixel_values"][row])
        return logits


def folder(tmp_path, n, name="d"):
    rows = []
    for i in range(n):
        row = sample(f"s{i}", f"p{i % 2}", "What color is the cube?", ["red", "blue"] if i % 3 == 2 else ())
        rows.append({**row, "references": ["red", "blue"], "answer_index": 1 if i % 3 == 2 else None})
    write_table(tmp_path / name / "samples.parquet", rows, SAMPLES)
    pictures = [{"image_id": f"p{i}", "image": {"bytes": png(picture(i, 32)), "path": ""}} for i in range(2)]
    write_table(tmp_path / name / "images" / "00000.parquet", pictures, IMAGES)
    return tmp_path / name


@pytest.mark.parametrize(("wrong", "share"), [((), 1.0), ((0,), 0.75), ((1, 2, 3), 0.25), ((0, 1, 2, 3), 0.0)])
def test_the_share_of_answers_that_are_right_to_the_last_token(tmp_path, wrong, share):
    learner = Knowing(wrong)
    assert Evaluation(learner, CURRICULUM, {"a": folder(tmp_path, 4)})() == {"heldout/a": share}
    open_, choice = (f"{render_question('What color is the cube?', options)}{ASSISTANT}" for options in ((), ("red", "blue")))

    def plain(text):
        return text.replace(" ", "").replace("\n", "")

    for place, (question, answer) in enumerate([(open_, "red"), (open_, "red"), (choice, "B"), (open_, "red")]):
        assert plain(learner.asked[place]) == plain(question + answer + END)
        np.testing.assert_array_equal(learner.pixels[place], normalise(np.asarray(picture(place % 2, 32))[None])[0])


@pytest.mark.parametrize("size", [1, 3, 4, 64])
def test_parts_of_any_size_ask_everything_once(tmp_path, monkeypatch, size):
    monkeypatch.setattr(evaluation, "SIZE", size)
    learner = Knowing((4,))
    made = Evaluation(learner, CURRICULUM, {"a": folder(tmp_path, 4), "b": folder(tmp_path, 2, "e")})()
    assert made == {"heldout/a": 1.0, "heldout/b": 0.5} and len(learner.asked) == 6


def test_a_question_with_more_options_than_letters_is_refused(tmp_path):
    path = folder(tmp_path, 1) / "samples.parquet"
    write_table(path, [{**sample("many", "p0", "Which?", ["x"] * 30), "answer_index": 27}], SAMPLES)
    with pytest.raises(FinetuneError, match="heldout: dataset 'a': sample 'many' has 30 options, but only 26 letters exist; leave"):
        Evaluation(Knowing(), CURRICULUM, {"a": path.parent})()
