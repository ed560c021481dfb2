import pytest

from qualm.compiler.spec.yaml_positions import mark_within, parse


def place(text, value, word):
    """Line and column of the word within the text at `a`."""
    document = parse(text, "s.yaml")
    assert document.data["a"] == value
    mark = mark_within(document, ("a",), value.index(word))
    return mark.line, mark.col


@pytest.mark.parametrize(
    "text, value, word, expected",
    [
        ("a: one TWO\n", "one TWO", "TWO", (1, 8)),
        ("b: 1\na:   one TWO\n", "one TWO", "TWO", (2, 10)),
        ("a: 'it''s TWO'\n", "it's TWO", "TWO", (1, 11)),
        ('a: "x\\ty TWO"\n', "x\ty TWO", "TWO", (1, 10)),
        ('a: "\\u00e9 TWO"\n', "é TWO", "TWO", (1, 12)),
        ('a: "x\\n\\n TWO"\n', "x\n\n TWO", "TWO", (1, 11)),
        ("a: one\n   TWO three\n", "one TWO three", "three", (2, 8)),
        ("a: >\n  one\n  TWO\n", "one TWO\n", "TWO", (3, 3)),
        ("a: |\n  one\n\n  TWO\n", "one\n\nTWO\n", "TWO", (4, 3)),
        ("a: &x one TWO\n", "one TWO", "TWO", (1, 11)),
        ('a: "one\\\n  TWO"\n', "oneTWO", "TWO", (2, 3)),
        ("a: one TWO\n", "one TWO", "one", (1, 4)),
    ],
)
def test_a_character_is_found_however_the_text_is_written(text, value, word, expected):
    assert place(text, value, word) == expected


def test_what_is_no_text_has_its_beginning():
    document = parse("a: 12\n", "s.yaml")
    assert mark_within(document, ("a",), 1) == document.mark(("a",))
