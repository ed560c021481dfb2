import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qualm.runners.prompts import labelled
from qualm.runners.prompts.labelled import (
    BETWEEN,
    CUT,
    MISSING,
    NONE,
    SEVERAL,
    Form,
    UnreadableReplyError,
    expand_tables,
    find_json,
    read_labelled,
)

FORM = Form({"C": ("color", "main color"), "S": ("size",)})
KINDS = Form({"Q1": ("q1",), "A1": ("a1",), "Q2": ("q2",), "A2": ("a2",)}, {"question": ("Q1", "Q2"), "answer": ("A1", "A2")})
SIDES = Form(
    {"Q1": ("q1", "unanswerable question"), "A1": ("a1", "unanswerable answer"), "Q2": ("q2", "answerable question"),
     "A2": ("a2", "answerable answer")},
    {**KINDS.unnumbered, "a": ("A1", "A2")},
)  # fmt: skip
PAIR = {"Q1": "a?", "A1": "b", "Q2": "c?", "A2": "d"}


def test_docs():
    assert doctest.testmod(labelled).failed == 0


@pytest.mark.parametrize(
    "text",
    [
        "Color: red\nSize: big",
        "Size: big\nMain color: red",
        "Main_Color - red\nSIZE - big",
        "### Color\nred\n### Size\nbig",
        '{"main color": "red", "size": "big"}',
        '{"color": "red", "extra": {"size": "big"}}',
        'Thus [as asked]: {"color": "red", "size": "big",}',
        "| color | red |\n| size | big |",
        "Color: red Size: big",
        "Color: red\nNote: it is bright\nSize: big\n\nGoodbye.",
        "Color: red\nSize: big\nColor: red",
        "Color: red)\nSize: big ] )",
        "{'color': 'red', 'size': 'big'}.",
        '{"kind": "size", "color": {"Value": "red"}, "size": "big"}',
        '{"a": {"b": {"c": {"d": {"e": {"f": {"g": {"color": "red", "size": "big"}}}}}}}}',
    ],
)
def test_parts_in_any_style(text):
    assert read_labelled(text, FORM) == {"C": "red", "S": "big"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("red and big", NONE),
        ("Color: red", MISSING),
        ('{"a": {"b": {"c": {"d": {"e": {"f": {"g": {"h": {"color": "red", "size": "big"}}}}}}}}}', MISSING),
        ('{"color": "red"}\nSize: big', MISSING),
        ("Color: red\nColor: blue\nSize: big", SEVERAL),
        ("Color: red\nor so\nSize: big", BETWEEN),
        ("Color: red\nSize: big\nand heavy", CUT),
        ("Color: red\nSize: big,\nHeavy", CUT),
        ("Color: red\nSize: these:\n- big", CUT),
    ],
)
def test_why_parts_cannot_be_told(text, why):
    with pytest.raises(UnreadableReplyError) as error:
        read_labelled(text, FORM)
    assert str(error.value) == why


def test_names_without_numbers_go_by_their_order():
    assert read_labelled("Question: a?\nAnswer: b\nQuestion: c?\nAnswer: d", KINDS) == {"Q1": "a?", "A1": "b", "Q2": "c?", "A2": "d"}
    assert read_labelled("Q1: a?\nAnswer: b\nQ2: c?\nAnswer: d", KINDS) == {"Q1": "a?", "A1": "b", "Q2": "c?", "A2": "d"}


@pytest.mark.parametrize(
    "text",
    [
        "Answerable question: c?\nAnswer: d\nUnanswerable question: a?\nAnswer: b",
        "Q1: Unanswerable\na?\nA1: b\nQ2: Answerable\nc?\nA2: d",
        "Pair 1:\nQ1: Unanswerable\na?\n---\nA1: b\nQ2: c?\nA2: (answerable)\nd",
        "Answer:\nQ1: a?\nAnswer: b\nQ2: c?\nAnswer: d",
        "Question - a?\nAnswer - b\nQuestion - c?\nAnswer - d",
        "A - pair for you\nQ1: a?\nA1: b\nQ2: c?\nA2: d",
    ],
)
def test_which_of_two_questions_is_told_by_words_around_it(text):
    assert read_labelled(text, SIDES) == PAIR


def test_a_part_may_say_that_it_is_answerable():
    assert read_labelled("Q1: a?\nA1: b\nQ2: c?\nA2: answerable", SIDES) == {**PAIR, "A2": "answerable"}
    assert read_labelled("Q1: a?\nA1: b\nQ2: c?\nA2: answerable\nNote: it is.", SIDES) == {**PAIR, "A2": "answerable"}


@pytest.mark.parametrize(
    ("form", "rows", "lines"),
    [
        (FORM, ["|Color|Size|", "|---|---|", "|red|big|", "| blue | small", "| green |"], ["Color: red", "Size: big", "| blue | small",
                                                                                       "| green |"]),
        (FORM, ["| Color | Size |", "|---|---|"], []),
        (FORM, ["| Color | Other |", "|---|---|", "| red | big |"], None),
        (Form({"C": ("color",)}), ["| Color | Other |", "|---|---|", "| red | big |"], ["Color: red"]),
        (Form({"C": ("color",)}), ["| Hue | Other |", "|---|---|", "| red | big |"], None),
    ],
)  # fmt: skip
def test_a_table_names_every_part_but_a_lone_one_in_its_heads(form, rows, lines):
    assert expand_tables(rows, form) == (rows if lines is None else lines)


def test_marks_and_brackets_of_a_part_s_own_stay():
    assert read_labelled("**Color**: **red**\n**Size: (big))**", FORM) == {"C": "**red**", "S": "(big)"}


def test_dictionaries_in_python_s_notation_are_read_up_to_a_length_and_without_twins():
    for letters, count in ((labelled.MAX_LITERAL - 10, 1), (labelled.MAX_LITERAL - 9, 0)):
        assert len(list(find_json("{'a': '" + "x" * (letters + 1) + "'}"))) == count
    assert list(find_json("{'a': {'b': 'x', 'b': 'y'}}")) == []
    assert list(find_json("""{'a': {"b": 1}, 'c': [1]}""")) == [{"a": {"b": 1}, "c": [1]}], "outermost values alone"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("{" * 8 + "'" + "\\'" * 10_000, []),  # in linear time
        ("{'a': 'see http://a.b', 'c': 'x,}'} // a URL", [{"a": "see http://a.b", "c": "x,}"}]),
        ("Here's {'a': 1}, that's {'b': '} it'} and {\"c\": 3}.", [{"a": 1}, {"b": "} it"}, {"c": 3}]),
        ("""{"a": 1, // it's 'b', ok\n "c": ["it's",],}""", [{"a": 1, "c": ["it's"]}]),
    ],
)
def test_objects_in_python_s_notation_end_at_their_bracket_and_keep_their_texts(text, values):
    assert list(find_json(text)) == values


def test_of_names_that_begin_alike_the_longest_is_taken():
    form = Form({"C": ("main", "main color"), "S": ("size",)})
    assert read_labelled("Main - color: red\nSize: big", form) == {"C": "red", "S": "big"}


@given(st.text('Color: Sizebgred\n"{}[],*-|', max_size=120))
def test_parts_are_text_of_the_reply(text):
    try:
        parts = read_labelled(text, FORM)
    except UnreadableReplyError as why:
        assert str(why) in (NONE, MISSING, SEVERAL, BETWEEN, CUT)
    else:
        assert parts.keys() == {"C", "S"} and all(" ".join(part.split()) in " ".join(text.split()) for part in parts.values())
