"""The expressions of `where:`: what they mean against Python's own reading, and what is wrong with others."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qualm.registry.sample import Sample
from qualm.registry.where import ValueOfFieldError, WhereError, is_subset_name, meta_keys, parse, verdict

META = ("LQI", "INV", "AMB", "kind", "l2-category")


def sample(**values):
    fields = {k: values.pop(k) for k in ("category", "answerable", "split", "answer_index", "image_id") if k in values}
    return Sample("s1", "Which?", meta={k: str(v) for k, v in values.items()}, **fields)


def judged(text, **values):
    return verdict(parse(text))(sample(**values))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("LQI >= 4", True),
        ("meta.LQI >= 4.0 and INV<=2", True),
        ("LQI == 4", True),
        ("LQI == '4'", True),
        ("LQI == '4.0'", False),  # texts
        ("LQI > INV", True),  # two counts are compared as numbers: 10 > 9
        ("1 <= INV < 9", False),
        ("1 <= INV < LQI", True),
        ("kind in ('a', \"b\",)", True),
        ("kind not in ('a')", True),
        ("INV in (1, 9)", True),
        ("category == 'epistemic/knowledge' and answerable", True),
        ("not answerable or answerable == false", False),
        ("answer_index < 3", True),
        ("kind < 'c'", True),
        ("not not (answerable and (kind == 'b'))", True),
        ("image_id == 'x'", None),
        ("nothing == 1", None),
        ("not nothing == 1", None),
        ("nothing == 1 or answerable", True),
        ("nothing == 1 and not answerable", False),
        ("nothing in (1, 2)", None),
    ],
)
def test_meaning(text, expected):
    values = {"LQI": "4" if "LQI" in text and "INV" not in text else "10", "INV": 9, "kind": "b", "category": "epistemic/knowledge"}
    values = values | {"LQI": 4, "INV": 2} if text == "meta.LQI >= 4.0 and INV<=2" else values
    assert judged(text, **values, answerable=True, answer_index=2) is expected


# -- against Python ----------------------------------------------------------------------------------------------------

NUMBERS = ("LQI", "INV", "AMB")
"""A busy machine is no fault of an expression."""
COMPARE = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
COUNT = st.integers(-1, 6).map(str) | st.sampled_from(["2.5", ".5", "1e1"])
WORD = st.sampled_from(["'a'", '"b"', "''", "'A b'"])


def chain(operands):
    return st.builds(
        lambda first, rest: " ".join([first, *(f"{sign} {operand}" for sign, operand in rest)]),
        operands,
        st.lists(st.tuples(COMPARE, operands), min_size=1, max_size=2),
    )


LEAF = st.one_of(
    chain(st.sampled_from(NUMBERS) | COUNT),
    st.builds(lambda sign, word: f"kind {sign} {word}", COMPARE, WORD),
    st.builds(lambda no, values: f"INV {no}in ({', '.join(values)},)", st.sampled_from(["", "not "]), st.lists(COUNT, min_size=1)),
    st.builds(lambda no, values: f"kind {no}in ({', '.join(values)},)", st.sampled_from(["", "not "]), st.lists(WORD, min_size=1)),
    st.sampled_from(["answerable", "answerable == True", "answerable != False"]),
)
EXPRESSION = st.recursive(
    LEAF,
    lambda inner: st.one_of(
        st.builds("({})".format, inner),
        st.builds("not {}".format, inner),
        st.builds("not ({})".format, inner),
        st.builds(" and ".join, st.lists(inner, min_size=2, max_size=3)),
        st.builds(" or ".join, st.lists(inner, min_size=2, max_size=3)),
    ),
    max_leaves=8,
)
VALUES = st.fixed_dictionaries(
    {**dict.fromkeys(NUMBERS, st.integers(0, 5)), "kind": st.sampled_from(["a", "b", "", "A b"]), "answerable": st.booleans()}
)


@given(EXPRESSION, VALUES)
def test_as_python_reads_it(text, values):
    expected = bool(eval(text, {"__builtins__": {}}, dict(values)))
    ours = text.replace("True", "true").replace("False", "false")
    assert judged(ours, **values) is expected


@given(EXPRESSION, VALUES)
def test_one_spelling(text, values):
    node = parse(text.replace("True", "true").replace("False", "false"), META)
    again = parse(str(node), META)
    assert again == node and str(again) == str(node)
    assert verdict(again)(sample(**values)) is verdict(node)(sample(**values))


@given(EXPRESSION, VALUES, st.sets(st.sampled_from([*NUMBERS, "kind"])))
def test_undefined_is_what_all_completions_do_not_agree_on_at_least(text, values, missing):
    """With values missing, True and False are said only where every way to fill them in agrees."""
    ours = text.replace("True", "true").replace("False", "false")
    found = verdict(parse(ours))(sample(**{k: v for k, v in values.items() if k not in missing}))
    if found is not None:
        for filled in (0, 3, 9):
            words = {k: ("a" if filled else "zz") if k == "kind" else filled for k in missing}
            assert judged(ours, **{**values, **words}) is found


# -- mistakes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ("", 0, "expected a comparison, got nothing"),
        ("   ", 0, "got nothing"),
        ("LQI", 0, r"expected a comparison, got meta.LQI alone \(such as"),
        ("LQI >=", 6, "invalid syntax"),
        ("LQI = 4", 4, r"got '=' \(write `==`\)"),
        ("LQI > 3 && INV > 2", 8, "write `and`"),
        ("LQI > 3 INV > 2", 0, "invalid syntax .*with `and` or `or` between them"),
        ("(LQI > 3", 0, r"'\(' was never closed"),
        ("LQI > 3)", 8, r"unmatched '\)'"),
        ("(LQI > 3) == true", 1, "expected a field, a number or a text in quotes"),
        ("LQO > 3", 0, r"samples have no field 'LQO' \(did you mean 'LQI'\?\)"),
        ("LQI > 3 or meta.zzzzz > 3", 11, "no field 'meta.zzzzz' .there are: .*category.*LQI"),
        ("categry == 'x'", 0, "did you mean 'category'"),
        ("answerable > 3", 13, "compared with == and != only"),
        ("category == 3", 12, "expected two numbers or two texts"),
        ("answer_index == 'a'", 16, "expected two numbers or two texts"),
        ("LQI in ()", 7, "at least one value"),
        ("LQI >= 1e999", 7, "expected a finite number"),
        ("LQI in (1, 'a')", 7, "expected two numbers or two texts"),
        ("LQI in (INV)", 8, "expected a value, got the field meta.INV"),
        ("LQI in (1 2)", 8, "invalid syntax"),
        ("kind == 'a", 8, "unterminated"),
        ("kind == a'", 9, "unterminated"),
        ("kind == '''a", 8, r"unterminated triple-quoted string literal \(write"),
        ("LQI > 3; INV", 7, "invalid syntax"),
        ("LQI > __import__('os')", 6, "expected a field, a number"),
        ("LQI + 1 > 2", 0, "expected a field, a number"),
        ("kind is 'a'", 0, "expected a comparison by =="),
        ("not", 3, "invalid syntax"),
        ("and", 0, "invalid syntax"),
        ("LQI > 3 \u202e", 8, "invalid"),
        ("kind == 'é' and LQO > 1", 16, "no field 'LQO'"),
        ("LQI > 3 or\nLQO > 2", 11, "no field 'LQO'"),
    ],
)
def test_mistakes_and_their_places(text, at, message):
    with pytest.raises(WhereError, match=message) as caught:
        parse(text, META)
    assert caught.value.at == at


@pytest.mark.parametrize(("opening", "closing"), [("not ", ""), ("not (", ")")])
def test_as_deep_as_may_be_nested(opening, closing):
    levels = 50
    assert parse(opening * levels + "answerable" + closing * levels, META)
    with pytest.raises(WhereError, match="nested more than 50 deep"):
        parse(opening * (levels + 1) + "answerable" + closing * (levels + 1), META)


def test_as_long_as_may_be():
    assert parse("answerable".rjust(10_000), META)
    with pytest.raises(WhereError, match="expected at most 10,000 characters, got 10,001"):
        parse("answerable".rjust(10_001), META)


@pytest.mark.parametrize(
    ("text", "spelling"),
    [
        ("LQI==4.0", "meta.LQI == 4"),
        ("LQI > .50", "meta.LQI > 0.5"),
        ("LQI < 1e15", "meta.LQI < 1000000000000000.0"),
        ("LQI < 999999999999999", "meta.LQI < 999999999999999"),
        ("LQI > -2", "meta.LQI > -2"),
        ('kind == "it\'s"', 'meta.kind == "it\'s"'),
        ('kind in ("a")', "meta.kind in ('a',)"),
        ("not(answerable and answerable)", "not (answerable and answerable)"),
        ("(not answerable) or (answerable and answerable)", "not answerable or (answerable and answerable)"),
        ("1<=LQI<INV", "1 <= meta.LQI < meta.INV"),
        ("answerable != true", "answerable != true"),
    ],
)
def test_the_one_spelling(text, spelling):
    assert str(parse(text, META)) == spelling


def test_names_of_subsets():
    good = {"image", "a-b", "A_1", "clean2"}
    bad = {"", "1a", "a b", "meta.x", "split", "and", "true", "a-", "-a", "a.b", "é", "'a'", "pictures"}
    assert {name for name in good | bad if is_subset_name(name)} == good


def test_a_subset_or_a_field_by_what_follows_it():
    """A name that is compared is a field, by itself a subset."""
    subsets = {"kind": "LQI > 1"}
    assert str(parse("kind and kind == 'a' and kind in ('a') and kind not in ('b')", META, subsets)) == (
        "meta.LQI > 1 and meta.kind == 'a' and (meta.kind in ('a',)) and (meta.kind not in ('b',))"
    )
    with pytest.raises(WhereError, match=r"samples have no field 'knd' \(did you mean 'kind'\?\)"):
        parse("knd", META, subsets)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 60_000,
        "not " * 2_000 + "answerable",
        "(" * 1_000 + "answerable" + ")" * 1_000,
        "answerable and " * 10_000 + "answerable",
        "'" + "x" * 99_999,
        " " * 100_000,
        "\x00" * 9_000,
        "1 <" * 3_300,
        "a" * 100_000,
        "-" * 9_999,
    ],
)
def test_hostile_expressions_are_refused(text):
    """At once: none of them makes work that grows faster than itself, or the suite would stand still here."""
    with pytest.raises(WhereError):
        parse(text, META)


@given(
    st.text(max_size=60) | st.lists(st.sampled_from(["(", ")", "and", "or", "not", "in", "==", "<", "LQI", "4", "'a'", ","])).map(" ".join)
)
def test_any_text_is_an_expression_or_a_mistake_with_a_place(text):
    try:
        parse(text, META)
    except WhereError as error:
        assert 0 <= error.at <= len(text) and error.message


def test_long_but_allowed():
    assert judged(" or ".join(["LQI == 9"] * 800), LQI=9) is True


# -- the rest --------------------------------------------------------------------------------------------------------------


def test_subsets_are_written_out():
    subsets = {"image": "LQI >= 4", "odd": "LQI >= 1 or INV == 1", "bad": "LQO > 1", "split": "LQI > 1"}
    assert str(parse("odd and not image", META, subsets)) == "(meta.LQI >= 1 or meta.INV == 1) and (not meta.LQI >= 4)"
    with pytest.raises(WhereError, match=r"the card's subset 'bad': character 1: samples have no field 'LQO'"):
        parse("image or bad", META, subsets)
    with pytest.raises(WhereError, match="no field 'image'"):
        parse("LQI == image", META, subsets)
    with pytest.raises(WhereError, match="expected a comparison, got split alone"):  # a sample's own field comes first
        parse("split", META, subsets)


def test_a_text_where_a_number_was_expected():
    with pytest.raises(ValueOfFieldError, match=r"sample 's1': expected a number in meta.LQI, got 'many'"):
        judged("LQI > 3", LQI="many")
    for text in ("nan", "inf", "1_0", "0x1", ""):
        with pytest.raises(ValueOfFieldError):
            judged("LQI > 3", LQI=text)


def test_keys():
    assert meta_keys(parse("LQI > 1 and not (l2-category == 'x' or split == 'y' or INV in (1))")) == {"LQI", "l2-category", "INV"}


# -- evaluation -------------------------------------------------------------------------------------------------------

SAMPLE = Sample(
    sample_id="s", question="Q?", category="x/y", answerable=True, meta={"level": "2", "size": "10", "kind": "cat", "odd": "2x"}
)


def says(text, sample=SAMPLE):
    return verdict(parse(text))(sample)


@pytest.mark.parametrize(
    "text, value",
    [
        ("level == 2", True), ("level != 2", False), ("level < 2", False), ("level <= 2", True), ("level > 1", True), ("level >= 3", False),
        ("size > level", True), ("kind > level", True), ("kind == 'cat'", True), ("kind != 'cat'", False), ("level == '2'", True),
        ("level in (1, 2)", True), ("level in (3)", False), ("kind in ('dog', 'cat')", True), ("kind not in ('dog')", True),
        ("answerable", True), ("not answerable", False), ("category == 'x/y'", True), ("gone == 1", None), ("gone in ('a')", None),
        ("size == level", False),
    ],
)  # fmt: skip
def test_comparisons(text, value):
    assert says(text) is value


def test_numbers_in_two_keys_are_compared_as_numbers():
    sample = Sample(sample_id="s", question="", meta={"a": "9", "b": "10", "c": " 9.0 ", "d": "x"})
    assert says("a < b", sample) is True and says("a == c", sample) is True and says("a < d", sample) is True


TRUTH = {True: "level == 2", False: "level == 3", None: "gone == 1"}


@pytest.mark.parametrize("a, b", itertools.product([True, False, None], repeat=2))
def test_the_undefined_spreads_as_it_does_in_kleenes_logic(a, b):
    both = False if False in (a, b) else None if None in (a, b) else True
    either = True if True in (a, b) else None if None in (a, b) else False
    assert says(f"{TRUTH[a]} and {TRUTH[b]}") is both and says(f"{TRUTH[a]} or {TRUTH[b]}") is either
    assert says(f"not ({TRUTH[a]})") is (None if a is None else not a)


def test_a_key_that_is_compared_with_a_number_and_holds_none():
    with pytest.raises(ValueOfFieldError, match=r"sample 's': expected a number in .*odd, got '2x'; compare it with a text in quotes"):
        says("odd > 1")
    assert says("odd == '2x'") is True


def test_keys_that_an_expression_names():
    assert meta_keys(parse("level > 1 and not (kind in ('a') or size == other) and answerable and category == 'c'")) == {
        "level", "kind", "size", "other",
    }  # fmt: skip
