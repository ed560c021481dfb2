import pytest

from qualm.registry.scenes.questions import KINDS, OPTION_KINDS, ask
from qualm.registry.scenes.world import make_scene, stream
from qualm.runners.prompts.question import LETTERS, render_question
from qualm.runners.training.small_vlm.data import describe, place_question, vocabulary
from qualm.runners.training.small_vlm.words import UNKNOWN, build_tokenizer, split_words


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer(vocabulary())


def test_option_letters_are_single_and_distinct(tokenizer):
    ids = [tokenizer.encode(letter, add_special_tokens=False) for letter in LETTERS[:6]]
    assert all(len(i) == 1 for i in ids)
    assert len({i[0] for i in ids} | {tokenizer.unk_token_id, tokenizer.encode("a", add_special_tokens=False)[0]}) == 8


@pytest.mark.parametrize("level", ["easy", "hard"])
def test_every_question_and_answer_is_known(tokenizer, level):
    for i in range(60):
        scene, rng = make_scene(1, level, "test", i), stream(i)
        texts = [t for made in (describe(scene), place_question(rng, scene)) for t in made[:2]]
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
