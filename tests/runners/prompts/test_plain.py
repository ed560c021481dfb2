import doctest
import json
import time

import pytest

from qualm.runners.prompts import plain
from qualm.runners.prompts.plain import clean_reply, strip_thoughts


def test_docs():
    assert doctest.testmod(plain).failed == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Color: red", "Color: red"),
        ('"Color: red\nSize: big"', "Color: red\nSize: big"),
        (json.dumps("Color: red\nSize: big"), "Color: red\nSize: big"),
        ('{\\"color\\": \\"red\\"}', '{"color": "red"}'),
        ('"color": "red", "size": "big"', '"color": "red", "size": "big"'),
        ("<p>Color: <em>red</em></p>", "\nColor: *red*\n"),
        (r"\textbf{Color:} \emph{red}", "**Color:** *red*"),
        ("\u200bColor: red \\", "Color: red"),
        ("Assistant: red</s>", "red\n"),
        ("Is 3 < 4 and 5 > 4?", "Is 3 < 4 and 5 > 4?"),
    ],
)
def test_what_stands_around_the_words_goes(text, expected):
    assert clean_reply(text) == expected


@pytest.mark.parametrize("text", ["<think>a</think>red", "<thinking>a</thinking>red", "[THINK]a[/THINK]red", "\ufeff◁think▷a◁/think▷red"])
def test_thoughts_go_in_the_marks_of_every_model(text):
    assert strip_thoughts(text) == "red"


def test_thoughts_that_do_not_end_stay():
    assert strip_thoughts("<think>red") == "<think>red"


@pytest.mark.parametrize("piece", [" ", "\\", "$", "<p ", "\\boxed{", "-"])
def test_long_runs_take_no_time(piece):
    start = time.process_time()
    clean_reply("a" + piece * 200_000 + "b")
    assert time.process_time() - start < 60


@pytest.mark.parametrize(("text", "expected"), [('"red"', "red"), ('""', ""), ('"', '"'), ('"red', '"red'), ('"a" and "b"', '"a" and "b"')])
def test_a_string_of_json_is_what_it_says(text, expected):
    assert clean_reply(text) == expected
