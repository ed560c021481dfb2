import pytest

from qualm.compiler.spec.errors import MAX_PROBLEMS, Position, Problem, Problems, SpecError, nearest, quoted
from qualm.registry.text import COMPARED, LISTED


def problem(line=1, col=1, path="a.b", message="wrong", hint=""):
    return Problem(Position("s.yaml", line, col), path, message, hint)


def test_a_problem_is_one_line_with_its_place_and_hint():
    assert str(problem(3, 7, hint="do this")) == "s.yaml:3:7: a.b: wrong (do this)"
    assert str(problem(path="", message="two\nlines\x1b")).count("\n") == 0 and str(problem(path="")) == "s.yaml:1:1: wrong"
    assert problem(3, 7).as_dict() == {"file": "s.yaml", "line": 3, "col": 7, "path": "a.b", "message": "wrong", "hint": ""}


def test_problems_are_sorted_by_place_and_said_once():
    error = SpecError([problem(10, 1), problem(2, 9), problem(2, 3), problem(10, 1)])
    assert [(p.mark.line, p.mark.col) for p in error.problems] == [(2, 3), (2, 9), (10, 1)]
    assert str(error).splitlines() == [str(p) for p in error.problems]


def test_a_file_with_too_many_ends_the_reading():
    problems = Problems()
    for n in range(MAX_PROBLEMS - 1):
        problems.append(problem(n))
    with pytest.raises(SpecError, match="there may be more: 200 mistakes are named at once") as error:
        problems.append(problem(999))
    assert len(error.value.problems) == MAX_PROBLEMS + 1


def test_the_caret_stands_below_the_place():
    error = SpecError([problem(2, 4), problem(9, 1)], {"s.yaml": "first\nab\tcd\n"})
    assert error.snippet(error.problems[0]) == "    ab cd\n       ^" and error.snippet(error.problems[1]) == ""
    assert error.render() == "s.yaml:2:4: a.b: wrong\n    ab cd\n       ^\ns.yaml:9:1: a.b: wrong"
    assert error.snippet(problem(0)) == ""


def test_of_a_long_line_the_part_around_the_place_is_shown():
    error = SpecError([problem(1, 301)], {"s.yaml": "x" * 300 + "HERE" + "y" * 300})
    line, caret = error.snippet(error.problems[0]).splitlines()
    assert line[caret.index("^")] == "H" and len(line) == 4 + 120 and caret.index("^") == 4 + 60
    hostile = SpecError([problem()], {"s.yaml": "a\x1b[31mb"})
    assert "\x1b" not in hostile.snippet(hostile.problems[0])


@pytest.mark.parametrize(
    "word, known, said",
    [
        ("blurr", ["noise", "blur"], "did you mean 'blur'?"),
        ("xyz", ["b", "a"], "there are: a, b"),
        ("xyz", [], "there are none"),
        ("xyz", [f"n{i:03}" for i in range(LISTED)], ", ".join(f"n{i:03}" for i in range(LISTED))),
        ("xyz", [f"n{i:03}" for i in range(LISTED + 2)], " and 2 more"),
    ],
)
def test_the_nearest_name_or_what_there_is(word, known, said):
    assert nearest(word, known).endswith(said)
    assert len(nearest("x" * 10**6, [str(i) for i in range(2 * COMPARED)])) < 1000


@pytest.mark.parametrize(
    "value, text",
    [
        (None, "nothing"), (True, "the boolean true"), ("a", "the text 'a'"), ({}, "a mapping {}"), ([1], "a list [1]"), (3, "3"),
        ("x" * 58, "the text '" + "x" * 58 + "'"), ("x" * 59, "the text '" + "x" * 56 + "..."), ("a\nb", "the text 'a\\nb'"),
    ],
)  # fmt: skip
def test_values_as_they_are_quoted(value, text):
    assert quoted(value) == text
