import re
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from qualm.registry.sample import SAMPLES
from qualm.runners.prompts.few_shot import COLUMNS, choose_examples
from qualm.runners.prompts.question import Prompt
from qualm.runners.prompts.templates import PromptError, fill_placeholders, find_misfit, read_prompt, replace_sections


def test_our_own_prompts_and_a_users(tmp_path):
    assert read_prompt("salient_object") == read_prompt("salient_object").strip() and "<!--" not in read_prompt("salient_object")
    mine = tmp_path / "mine.md"
    mine.write_text("<!-- a note\nof two lines -->\n\nRate {answer}.\n")
    assert read_prompt("salient_object", str(mine)) == "Rate {answer}."


def test_a_prompt_that_is_not_there():
    with pytest.raises(PromptError, match=r"gone.md: expected a prompt as a text file"):
        read_prompt("salient_object", "gone.md")


def test_every_place_is_filled_once_and_values_are_no_places():
    assert fill_placeholders("{a} and {b}, {a}; {A} {}", {"a": "{b}", "b": "2"}, "p.md") == "{b} and 2, {b}; {A} {}"


@pytest.mark.parametrize(
    "prompt, message",
    [("{a} {c}", "p.md: {c}: no such placeholder; there are: a, b"), ("{a}", "p.md: expected the placeholder {b} in it, found none")],
)
def test_places_and_values_must_match(prompt, message):
    with pytest.raises(PromptError, match=re.escape(message)):
        fill_placeholders(prompt, {"a": "1", "b": "2"}, "p.md")


PROMPT = "Intro\n\n## One\n\nfirst\n\n## Two\n\nsecond"


@pytest.mark.parametrize(
    "sections, expected",
    [
        ({"one": "new"}, "Intro\n\n## one\n\nnew\n\n## Two\n\nsecond"),
        ({"Two": "new"}, "Intro\n\n## One\n\nfirst\n\n## Two\n\nnew"),
        ({"Zero": "new"}, "Intro\n\n## Zero\n\nnew\n\n## One\n\nfirst\n\n## Two\n\nsecond"),
        ({}, PROMPT),
    ],
)
def test_sections_are_replaced_or_put_before_the_others(sections, expected):
    assert replace_sections(PROMPT, sections) == expected


def test_without_headings_a_section_is_put_at_the_beginning():
    assert replace_sections("plain", {"A": "b"}) == "## A\n\nb\n\nplain"


def test_every_prompt_of_ours_can_be_read():
    for path in (Path(__file__).parents[3] / "specs" / "prompts").glob("*.md"):
        assert read_prompt(path.stem)


@pytest.mark.parametrize(
    ("prompt", "choices", "said"),
    [
        ({"template": "{question}"}, [], "expected {instruction} in the template, which states the `confidence_target`"),
        ({}, ["a", "b"], "`confidence_target` needs answers in words"),
        ({"answer_format": "letter"}, ["a", "b"], "`confidence_target` needs answers in words"),
        ({"answer_format": "free"}, ["a", "b"], ""),
        ({}, [], ""),
    ],
)
def test_a_confidence_target_is_stated_and_can_be_declined(prompt, choices, said):
    questions = SimpleNamespace(samples=[{"choices": choices}], hints=[""])
    found = find_misfit(Prompt(confidence_target=0.75, **prompt), questions, judge_reads_words=True)
    assert found.startswith(said) and bool(found) == bool(said)


def test_an_example_with_more_options_than_letters_is_refused():
    row = {"sample_id": "many", "image_id": None, "question": "Which?", "references": [], "choices": ["x"] * 30, "answer_index": 27}
    row |= {"answerable": True, "split": "train", "group": "", "meta": []}
    dataset = SimpleNamespace(name="d", table=pa.Table.from_pylist([row], schema=pa.schema([SAMPLES.field(name) for name in COLUMNS])))
    with pytest.raises(PromptError, match="dataset d: prompt: examples: sample 'many' has 30 options, but only 26 letters exist; leave"):
        choose_examples({"split": "train", "shots": 1}, Prompt(), dataset, [False], 7)
