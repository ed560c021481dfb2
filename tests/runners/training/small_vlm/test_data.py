"""Lessons: every one has the answer that the scene gives, every word is in the vocabulary, and none lacks an answer."""

from collections import Counter

import numpy as np
import pytest

from qualm.registry.scenes.contrast import CATEGORIES, contrast, refusals, understand
from qualm.registry.scenes.world import make_scene, stream
from qualm.runners.prompts.question import p_true, verification
from qualm.runners.training.small_vlm.data import category_question, judged, open_question, option_question, vocabulary, where_question
from qualm.runners.training.small_vlm.words import ASSISTANT, END, USER, build_tokenizer, split_words

SCENES = [make_scene(5, "easy", "train", i) for i in range(150)]


@pytest.fixture(scope="module")
def known():
    return {word for text in vocabulary() for word in split_words(text)}


def test_every_word_of_pairs_and_lessons_is_known(known):
    for i, scene in enumerate(SCENES):
        rng = stream(1, i)
        texts = []
        for category in (c for c in CATEGORIES if c != "extraneous"):
            pair = contrast(rng, scene, category)
            if pair is not None:
                texts += [pair.answerable.text, pair.unanswerable.text, *refusals(category, pair.unanswerable.text)]
        lessons = [open_question(rng, scene), option_question(rng, scene), where_question(rng, scene), category_question(rng, scene)]
        texts += [text for lesson in lessons if lesson for text in lesson[:2]]
        assert {w for text in texts for w in split_words(text)} <= known


def test_half_of_the_judged_answers_are_right_and_the_rest_are_another_answer():
    said = Counter()
    for i, scene in enumerate(SCENES):
        rng = stream(2, i)
        lesson = open_question(rng, scene)
        question, verdict, _ = judged(rng, lesson, as_turn=True)
        answer = question.split(ASSISTANT)[1].split(END)[0]
        assert (verdict == "yes") == (answer == lesson[1])
        said[verdict] += 1
        question, verdict, _ = judged(rng, lesson, as_turn=False)
        answer = question.split("Possible answer: ")[1].split("\n")[0]
        assert question == p_true(lesson[0], answer)
        assert (verdict == "True") == (answer == lesson[1])
    assert 55 < said["yes"] < 95


def test_a_judged_answer_is_put_as_inference_puts_it():
    tokenizer = build_tokenizer(vocabulary())
    lesson = ("What color is the cube?", "red", ((0,),))
    for seed in range(4):
        question, _, _ = judged(np.random.default_rng(seed), lesson, as_turn=True)
        answer = question.split(ASSISTANT)[1].split(END)[0]
        rendered = tokenizer.apply_chat_template(verification(lesson[0], answer), add_generation_prompt=True, tokenize=False)
        assert rendered == f"{USER}<image>{question}{ASSISTANT}"


def test_category_questions_are_answerable_and_mean_what_they_say():
    made = [category_question(stream(3, i), scene) for i, scene in enumerate(SCENES)]
    assert sum(m is not None for m in made) > 120
    for lesson in (m for m in made if m is not None):
        assert understand(lesson[0]).when == "now"


def test_the_tokenizer_gives_back_sentences_as_they_are_written():
    tokenizer = build_tokenizer(vocabulary())
    for text in ("I don't know.", "There is no red cube in the image.", "Which one do you mean?", "to the left and in front"):
        assert tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"]) == text
