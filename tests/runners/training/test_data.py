"""Training examples: every one has the answer that the scene gives, every word is in the vocabulary, and none lacks an answer."""

from collections import Counter

import numpy as np
import pytest

from qualm.registry import LETTERS
from qualm.registry.scenes.contrast import CATEGORIES, contrast, parse_query, refusals
from qualm.registry.scenes.questions import KINDS, OPTION_KINDS, ask
from qualm.registry.scenes.world import make_scene, stream
from qualm.runners.prompts.question import p_true_prompt, render_question, verification
from qualm.runners.training.data import (
    ASSISTANT,
    END,
    UNKNOWN,
    USER,
    build_tokenizer,
    category_question,
    description_question,
    judging_question,
    open_question,
    option_question,
    place_question,
    split_words,
    vocabulary,
    where_question,
)

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
        examples = [open_question(rng, scene), option_question(rng, scene), where_question(rng, scene), category_question(rng, scene)]
        texts += [text for example in examples if example for text in example[:2]]
        assert {w for text in texts for w in split_words(text)} <= known


def test_half_of_the_judged_answers_are_right_and_the_rest_are_another_answer():
    said = Counter()
    for i, scene in enumerate(SCENES):
        rng = stream(2, i)
        example = open_question(rng, scene)
        question, verdict, _ = judging_question(rng, example, as_turn=True)
        answer = question.split(ASSISTANT)[1].split(END)[0]
        assert (verdict == "yes") == (answer == example[1])
        said[verdict] += 1
        question, verdict, _ = judging_question(rng, example, as_turn=False)
        answer = question.split("Possible answer: ")[1].split("\n")[0]
        assert question == p_true_prompt(example[0], answer)
        assert (verdict == "True") == (answer == example[1])
    assert 55 < said["yes"] < 95


def test_a_judged_answer_is_put_as_inference_puts_it():
    tokenizer = build_tokenizer(vocabulary())
    example = ("What color is the cube?", "red", ((0,),))
    for seed in range(4):
        question, _, _ = judging_question(np.random.default_rng(seed), example, as_turn=True)
        answer = question.split(ASSISTANT)[1].split(END)[0]
        rendered = tokenizer.apply_chat_template(verification(example[0], answer), add_generation_prompt=True, tokenize=False)
        assert rendered == f"{USER}<image>{question}{ASSISTANT}"


def test_category_questions_are_answerable_and_mean_what_they_say():
    made = [category_question(stream(3, i), scene) for i, scene in enumerate(SCENES)]
    assert sum(m is not None for m in made) > 120
    for example in (m for m in made if m is not None):
        assert parse_query(example[0]).when == "now"


def test_the_tokenizer_gives_back_sentences_as_they_are_written():
    tokenizer = build_tokenizer(vocabulary())
    for text in ("I don't know.", "There is no red cube in the image.", "Which one do you mean?", "to the left and in front"):
        assert tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"]) == text


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer(vocabulary())


def test_option_letters_are_single_and_distinct(tokenizer):
    ids = [tokenizer.encode(letter, add_special_tokens=False) for letter in LETTERS[:6]]
    assert all(len(i) == 1 for i in ids)
    assert len({i[0] for i in ids} | {tokenizer.unk_token_id, tokenizer.encode("a", add_special_tokens=False)[0]}) == 8


@pytest.mark.slow
@pytest.mark.parametrize("level", ["easy", "hard"])
def test_every_question_and_answer_is_known(tokenizer, level):
    for i in range(60):
        scene, rng = make_scene(1, level, "test", i), stream(i)
        texts = [t for made in (description_question(scene), place_question(rng, scene)) for t in made[:2]]
        for options, kinds in ((False, KINDS), (True, OPTION_KINDS)):
            for kind in kinds:
                question = ask(rng, scene, kind, options)
                if question is not None:
                    texts += [render_question(question.text, question.choices), question.answer]
        for text in texts:
            assert tokenizer.unk_token_id not in tokenizer.encode(text, add_special_tokens=False), text


@pytest.mark.parametrize("text", ["", "whta clor is teh cueb??", "日本語 é ß", "a_b\tc\n\nd", "12,5 - (x)"])
def test_any_text_is_encoded_as_split(tokenizer, text):
    known = tokenizer.get_vocab()
    expected = [w if w in known else UNKNOWN for w in split_words(text)]
    assert tokenizer.convert_ids_to_tokens(tokenizer.encode(text, add_special_tokens=False)) == expected


def test_order_of_texts_does_not_matter(tokenizer):
    assert build_tokenizer(reversed(vocabulary())).get_vocab() == tokenizer.get_vocab()


def test_questions_about_signs_add_no_word():
    """The tokenizer of the published base model was built before they could be asked."""
    texts = vocabulary()
    later = {"Where was the {x} before?", "What color is inside the {x}?"}
    assert later < set(texts)
    before = {word for text in texts if text not in later for word in split_words(text)}
    assert {word for text in texts for word in split_words(text)} == before


def test_a_picture_is_described_from_left_to_right_and_by_rows_and_columns():
    """Of sixteen fields of 16 pixels each, rows from above."""
    base = {"material": "metal", "size": "small"}
    things = [
        {**base, "color": "red", "shape": "cube", "pixel_coords": [40.0, 5.0, 1.0]},
        {**base, "color": "blue", "shape": "sphere", "pixel_coords": [5.0, 60.0, 2.0]},
    ]
    scene = {"level": "easy", "objects": things}
    assert description_question(scene)[:2] == ("Describe the picture.", "small blue metal sphere, small red metal cube")
    told = {place_question(stream(i), scene) for i in range(40)}
    assert told == {
        ("Where is the red cube?", "row 1 column 3", ((0,),)),
        ("Where is the blue sphere?", "row 4 column 1", ((1,),)),
        ("What is at row 1 column 3?", "small red metal cube", ((0,),)),
        ("What is at row 4 column 1?", "small blue metal sphere", ((1,),)),
    }
    things.append({**things[0], "color": "green", "pixel_coords": [47.9, 15.9, 1.0]})
    crowded = {place_question(stream(i), scene)[0] for i in range(60)}
    assert "Describe the picture." in crowded and "What is at row 1 column 3?" not in crowded, "two things are there"
    things[:] = [things[0], {**things[0], "pixel_coords": [5.0, 60.0, 2.0]}]
    assert not any(place_question(stream(i), scene)[0].startswith("Where") for i in range(40)), "there are two red cubes"
