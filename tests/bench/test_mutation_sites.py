import ast

import pytest

from tests.bench.mutation_sites import mutants


def mutated(source):
    return [mutant.apply(source.encode()).decode() for mutant in mutants("m.py", source.encode())]


@pytest.mark.parametrize(
    "source, results",
    [
        ("a < b", {"(a <= b)"}),
        ("a and b or c", {"((a and b) and c)", "(a or b) or c"}),
        ("not a", {"(a)"}),
        ("max(a)", {"min(a)"}),
        ("sorted(a, key=k)", {"list(a)"}),
        ("f(é, x + 1)", {"f(é, (x - 1))", "f(é, x + 2)"}),
        ("x: Annotated[int, Ge(1)] = 5", {"x: Annotated[int, Gt(1)] = 5", "x: Annotated[int, Ge(2)] = 5", "x: Annotated[int, Ge(1)] = 6"}),
        ("def f(x: Literal[1]) -> Literal[2]: ...", set()),
        ("if TYPE_CHECKING:\n    a = 1", set()),
        ("f'{a + 1}' + b", set()),
        ("a.sum(axis=-1)", {"a.sum(axis=0)"}),
        ("field(repr=False)", set()),
        ("a.reshape(-1)", {"a.reshape(1)"}),
        ("LIMIT = 65536", set()),
        ("zip(a, b, strict=True)", set()),
        ("assert a < b", set()),
        ("round(x, ndigits=3) == True", {"round(x, ndigits=4) == True", "(round(x, ndigits=3) != True)", "round(x, ndigits=3) == False"}),
    ],
)
def test_every_mistake_that_fits(source, results):
    assert set(mutated(source)) == results


def test_mutants_are_python_and_say_where_they_are():
    source = 'def f(a):\n    """Doc 1."""\n    return [\n        a + 1,\n        0.5,\n    ]\n'
    for text in mutated(source):
        ast.parse(text)
    (first, *_) = mutants("m.py", source.encode())
    assert first.line == 4 and first.diff(source.encode()) == "m.py:4\n  - a + 1,\n  + (a - 1),"


def test_a_mistake_names_what_it_touches():
    source = b"LEAST = 1\n\ndef _inner(): return LEAST\n\ndef outer(): return _inner()\n\nclass Other:\n    def method(self): return 2\n"
    first, second = mutants("m.py", source)
    assert first.touched == {"LEAST", "_inner", "outer"} and second.touched == {"Other", "method"}
