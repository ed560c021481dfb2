from dataclasses import replace

import pytest

from qualm.registry.sample import SAMPLES
from qualm.runners.contracts.finetunes import FinetuneError
from qualm.runners.data.dataset import DatasetFolder
from qualm.runners.prompts.question import Prompt
from qualm.runners.runtime.records import write_table
from qualm.runners.training.examples import Row, preferences, read_rows, verifications


def row(name, target, pair=None, rejected=None, choices=()):
    return Row("d", 0, name, f"{name}?", choices, True, pair, True, (target,), target, rejected)


def test_what_an_answer_is_preferred_to():
    rows = [
        row("a", "red", "p"),
        row("b", "I don't know.", "p"),
        row("rated", "Two dogs.", rejected="A cat."),
        row("equal", "A cat.", rejected="A cat."),
        row("c", "yes", "q"),
        row("d", "yes", "q"),
        row("alone", "blue"),
        row("e", "three", "r", rejected="four"),
        row("f", "none", "r"),
    ]
    assert [(e.answer, e.rejected) for e in preferences(rows)] == [
        ("Two dogs.", "A cat."),
        ("three", "four"),
        ("red", "I don't know."),
        ("I don't know.", "red"),
        ("none", "three"),
    ]


def test_what_was_said_before_stands_before_the_question():
    later = replace(row("b", "Brown."), history=(("What is it?", "A dog."), ("Is it big?", "No.")))
    said = [(turn["role"], [part.get("text", part["type"]) for part in turn["content"]]) for turn in later.conversation]
    assert said == [
        ("user", ["image", "What is it?"]),
        ("assistant", ["A dog."]),
        ("user", ["Is it big?"]),
        ("assistant", ["No."]),
        ("user", ["b?"]),
    ]
    assert [turn["role"] for turn in row("a", "red").conversation] == ["user"]


def asked(rows, **options):
    """Question, answer that is asked about, verdict."""
    return [
        (e.conversation[0]["content"][1]["text"], e.conversation[1]["content"][0]["text"], e.answer) for e in verifications(rows, **options)
    ]


def test_members_of_pairs_are_asked_about_their_own_and_their_partners_answer():
    rows = [row("a", "red", "p"), row("b", "I don't know.", "p"), row("c", "yes", "q"), row("d", "yes", "q"), row("alone", "blue")]
    assert asked(rows) == [
        ("a?", "red", "yes"), ("a?", "I don't know.", "no"), ("b?", "I don't know.", "yes"), ("b?", "red", "no"),
    ]  # fmt: skip


def test_plain_rows_are_asked_about_the_answer_of_another_row_that_asks_the_same():
    same = [replace(row(n, t), question="What color?") for n, t in (("a", "red"), ("b", "blue"), ("c", "red"))]
    others = [row("d", "green"), replace(row("e", "A"), question="What color?", choices=("A", "B"))]
    unanswerable = replace(row("f", "No idea."), question="What color?", answerable=False)
    assert asked([*same, *others, unanswerable]) == []
    assert asked([*same, *others, unanswerable], plain=True) == [
        ("What color?", "red", "yes"), ("What color?", "blue", "no"), ("What color?", "blue", "yes"), ("What color?", "red", "no"),
        ("What color?", "red", "yes"), ("What color?", "blue", "no"),
    ]  # fmt: skip
    kinder = [replace(same[0], references=("red", "blue")), same[1]]
    assert asked(kinder, plain=True) == [("What color?", "blue", "yes"), ("What color?", "red", "no")], "blue is right for a too"


def test_examples_have_the_text_and_answer_format_of_their_prompt():
    def made(prompt, **changes):
        return replace(row("a", "B", choices=("red", "blue")), prompt=prompt, **changes).example()

    short = made(Prompt(system="Be brief.", template="{question}\n{options}\n{instruction}", answer_format="short"))
    assert [turn["role"] for turn in short.conversation] == ["system", "user"] and short.answer == "blue"
    assert short.conversation[1]["content"][1]["text"] == "a?\nA. red\nB. blue\nAnswer with a single word or a short phrase."
    assert made(Prompt(answer_format="letter")).answer == "B"
    as_json = made(Prompt(answer_format="json"), rejected="A")
    assert as_json.answer == '{"answer": "B"}' and as_json.rejected is None
    rated = replace(row("a", "A dog.", rejected="A cat."), prompt=Prompt(answer_format="json"))
    (preference,) = preferences([rated])
    assert (preference.answer, preference.rejected) == ('{"answer": "A dog."}', '{"answer": "A cat."}')


def test_answers_are_verified_and_earlier_turns_told_as_the_prompt_has_them():
    prompt = Prompt(system="Be brief.", template="Look. {question}", answer_format="json")
    both = [replace(r, prompt=prompt) for r in (row("a", "red", "p"), row("b", "none", "p"))]
    first = verifications(both)[0]
    texts = [turn["content"][-1]["text"] for turn in first.conversation]
    assert texts[:3] == ["Be brief.", "Look. a?", '{"answer": "red"}'] and first.answer == "yes"
    later = replace(both[0], history=(("What is it?", "A dog."),))
    assert [turn["content"][-1]["text"] for turn in later.conversation] == [
        "Be brief.",
        "Look. What is it?",
        '{"answer": "A dog."}',
        "Look. a?",
    ]


def sample(name, **more):
    usual = {"image_id": None, "question": "Look left.\nWhat is it?", "references": ["a cube"], "choices": [], "pair_id": None}
    about = {"category": "plain", "answerable": True, "split": "train", "source": "test", "group": "", "meta": {"hint": "Look left."}}
    return {"sample_id": name, **usual, **about, **more}


def test_rows_take_their_hint_and_refuse_a_prompt_that_does_not_fit(tmp_path):
    write_table(tmp_path / "samples.parquet", [sample("a")], SAMPLES)
    data = DatasetFolder("d", tmp_path)
    (found,) = read_rows(data, dict, prompt=Prompt(template="{question} ({hint})"))
    assert found.example().conversation[0]["content"][0]["text"] == "What is it? (Look left.)"
    with pytest.raises(FinetuneError, match=r"dataset d: prompt: \{options\} needs questions with options, and all"):
        read_rows(data, dict, prompt=Prompt(template="{question}\n{options}"))
    schema = {"properties": {"answer": {}, "reason": {}}, "required": ["answer", "reason"]}
    with pytest.raises(FinetuneError, match="dataset d: prompt: samples have an answer alone, and the JSON schema requires more"):
        read_rows(data, dict, prompt=Prompt(answer_format="json", schema=schema))


def test_a_question_with_more_options_than_letters_is_refused(tmp_path):
    write_table(tmp_path / "samples.parquet", [sample("a", choices=["x"] * 30, answer_index=27)], SAMPLES)
    with pytest.raises(FinetuneError, match="dataset 'd': sample 'a' has 30 options, but only 26 letters exist; leave the sample"):
        read_rows(DatasetFolder("d", tmp_path), dict)
