"""Thinking in texts: what a spec may say, what a chat template shows, and where the answer begins."""

import pytest

from qualm.runners.prompts.thinking import (
    TAGS,
    Thinking,
    ThinkingError,
    close_thinking,
    complete_thinking,
    detect_thinking,
    ends_in_thinking,
    parse_thinking,
    split_thinking,
)

QWEN = (
    "{% for m in messages %}{{ m['content'] }}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
R1 = "{% for m in messages %}{{ m['content'] }}{% endfor %}{% if add_generation_prompt %}<|Assistant|><think>\n{% endif %}"
GEMMA = "{% if enable_thinking %}<|think|>{% endif %}{% for m in messages %}{{ m['content'].split('<channel|>')[-1] }}{% endfor %}"
THINK = ("<think>", "</think>")


def test_what_a_spec_may_say():
    assert parse_thinking(None) is None and parse_thinking(True) == Thinking() and parse_thinking(False) == Thinking(on=False)
    assert parse_thinking({"tags": ["[T]", "[/T]"], "budget": 7, "of": "both"}) == Thinking(True, ("[T]", "[/T]"), 7, "both")
    assert parse_thinking({"budget": 1}).budget == 1
    assert parse_thinking({}).answer_settings == {"on": True, "tags": None, "budget": 1024, "switch": "", "effort": "", "parting": 2}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"tag": []}, "expected tags, budget, of, switch, effort, got 'tag'"),
        (dict.fromkeys(("tag", "say", "on", "off", "ends", "by", "at", "all")), "effort, got 'all'"),
        ({"tags": ["<think>"]}, r"tags: expected the text before the thinking and the one after it"),
        ({"tags": ["<think>", " "]}, "tags: expected"),
        ({"tags": ["***", "***"]}, r"tags: expected a text after the thinking that cannot be taken for the one before it, got \['\*\*\*'"),
        ({"tags": ["[T", "[T]"]}, "tags: expected a text after the thinking that cannot be taken"),
        ({"budget": 0}, "budget: expected a whole number of tokens, at least 1, got 0"),
        ({"budget": True}, "budget: expected"),
        ({"of": "answers"}, "of: expected one of answer, thinking, both, got 'answers'"),
        ({"switch": 1}, "switch: expected a word, got 1"),
    ],
)
def test_what_it_may_not_say(value, words):
    with pytest.raises(ThinkingError, match=words):
        parse_thinking(value)


def test_what_a_template_shows():
    assert detect_thinking(QWEN) == Thinking(tags=THINK, switch="enable_thinking")
    assert detect_thinking(R1) is None, "it opens the thinking and shows no end"
    assert detect_thinking(GEMMA) == Thinking(tags=("<|channel>thought", "<channel|>"), switch="enable_thinking")
    assert detect_thinking("{{ messages[0]['content'] }}") is None
    assert detect_thinking("{% enable_thinking %}").switch == "enable_thinking", "one that cannot be parsed is searched for the words"


def test_what_is_left_out_is_the_template_s():
    assert complete_thinking(Thinking(budget=5), QWEN) == Thinking(tags=THINK, budget=5, switch="enable_thinking")
    assert complete_thinking(Thinking(switch="enable_thinking"), QWEN) == Thinking(tags=THINK, switch="enable_thinking")
    assert complete_thinking(Thinking(tags=("[T]", "[/T]")), R1).switch == ""
    with pytest.raises(ThinkingError, match="shows no tags of thinking; name them"):
        complete_thinking(Thinking(), R1)
    with pytest.raises(ThinkingError, match="has no variable 'reason'"):
        complete_thinking(Thinking(switch="reason"), QWEN)
    with pytest.raises(ThinkingError, match="effort: it is sent to servers only, got 'high'; leave it out of a model that runs here"):
        complete_thinking(Thinking(effort="high"), QWEN)


def test_a_reply_without_thinking():
    assert close_thinking("Q: ? A:", Thinking(tags=THINK)) == "Q: ? A:<think>\n\n</think>\n\n"
    assert close_thinking("Q: ? A:<think>\n", Thinking(tags=THINK, switch="enable_thinking")) == "Q: ? A:<think>\n\n</think>\n\n"
    assert close_thinking("Q: ? A:", Thinking(tags=THINK, switch="enable_thinking")) == "Q: ? A:", "its template has seen to it"
    assert ends_in_thinking("A:<think>\n", THINK) and not ends_in_thinking("A:<think>\n\n</think>\n\n", THINK)


@pytest.mark.parametrize("tags", TAGS)
def test_texts_are_parted_by_each_pair_of_tags(tags):
    begin, end = tags
    assert (
        split_thinking(f"{begin}\nRed or blue?\n{end}\n\nRed.", tags)
        == ("Red or blue?", "Red.")
        == split_thinking(f"Red or blue?{end}Red.")
    )
    assert split_thinking(f"{begin} Red or", tags) == ("Red or", None) and split_thinking("Red.", tags) == (None, "Red.")


@pytest.mark.parametrize("tags", TAGS)
@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("B a B b E c EBlue.", ("a B b E c", "Blue.")),
        ("B a B b EBlue.", ("a B b", "Blue.")),  # one end is missing
        ("a B b EBlue.", ("a B b", "Blue.")),
        ("B a EBlue, thenB b ERed.", ("a\n\nBlue, thenB b", "Red.")),  # thinks twice
        ("B a EB b", ("a\n\nb", None)),
        ("B a EBlue E.", ("a", "Blue E.")),
        ("B a", ("a", None)),
        ("Blue, B they say.", (None, "Blue, B they say.")),
    ],
)
def test_thoughts_within_thoughts_and_missing_ends(tags, text, parts):
    def said(words):
        return None if words is None else words.replace("B ", tags[0] + " ").replace(" E", " " + tags[1])

    thought, answer = split_thinking(said(text), None if "they" not in text else tags)
    assert (thought, answer) == tuple(map(said, parts))
