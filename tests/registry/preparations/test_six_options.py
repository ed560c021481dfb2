from collections import Counter
from dataclasses import replace

import pytest
from scipy.stats import chisquare

from qualm.registry.formats.vub_layout import APPENDED
from qualm.registry.preparations import PreparationContext, PreparationError
from qualm.registry.preparations.six_options import six_options
from qualm.registry.sample import Sample


def question(number, n=2, right=0, group="", choices=None):
    texts = tuple(choices or (f"option {number}-{k}" for k in range(n)))
    return Sample(f"q{number}", f"Question {number}?", choices=texts, answer_index=right, group=group)


MANY = [question(n, 2 + n % 4, n % 2) for n in range(400)]


def prepare(samples, spec_seed=7, **arguments):
    return list(six_options(PreparationContext("mmb", spec_seed), samples, **arguments))


def truth(sample):
    return sample.choices[sample.answer_index]


def test_four_real_options_and_two_that_are_never_right():
    made = prepare(MANY)
    texts = {t for s in MANY for t in s.choices}
    for before, after in zip(MANY, made, strict=True):
        assert len(after.choices) == 6 and after.choices[4:] == APPENDED and after.answer_index < 4
        assert truth(after) == truth(before) and after.sample_id == before.sample_id and after.question == before.question
        assert len(set(after.choices)) == 6 and set(after.choices[:4]) <= texts
        own = set(after.choices) & set(before.choices)
        assert len(own) == min(4, len(before.choices)) and after.meta["fillers"] == str(4 - len(own))


def test_the_right_option_is_anywhere_alike():
    places = Counter(s.answer_index for s in prepare([question(n, 3) for n in range(4000)]))
    assert chisquare([places[k] for k in range(4)]).pvalue > 1e-4


def test_of_five_options_any_wrong_one_goes():
    fives = [question(n, 5, right=2) for n in range(4000)]
    gone = Counter(k for s in prepare(fives) for k in range(5) if f"option {s.sample_id[1:]}-{k}" not in s.choices)
    assert gone.total() == 4000 and gone.keys() == {0, 1, 3, 4} and chisquare(list(gone.values())).pvalue > 1e-4


def test_draws_hang_on_seed_and_id_alone():
    one = prepare(MANY)
    assert one == prepare(MANY) == prepare(MANY, seed=7) and one != prepare(MANY, 8) and one != prepare(MANY, seed=8)
    full = [s for s in MANY if len(s.choices) == 4]
    assert prepare(full) == [s for s in one if s.sample_id in {f.sample_id for f in full}]  # no fillers, so no pool


def test_fillers_are_of_other_questions_and_groups():
    rotations = [question(n, choices=[f"{n // 2} yes, {n}", f"{n // 2} no, {n}"], group=f"g{n // 2}") for n in range(20)]
    for sample in (*prepare(rotations), *prepare(rotations, fillers="with_replacement")):
        own = sample.group.removeprefix("g")
        assert Counter(t.split()[0] == own for t in sample.choices[:4])[True] == 2
        assert sample.group


def test_equal_options_are_met_whatever_their_letters():
    samples = [
        question(0, choices=["Red", "red ", "blue", "BLUE"], right=0),
        question(1, choices=["BLUE", "red", "green", "grey"], right=3),
    ]
    first, second, _ = prepare([*samples, question(2, choices=["Red", "pink"])])
    assert {t.strip().casefold() for t in first.choices[:4]} >= {"red", "blue"} and len({t.strip().casefold() for t in first.choices}) == 6
    assert truth(first) == "Red" and truth(second) == "grey"


def test_options_that_speak_of_others_stay_and_are_no_fillers():
    fixed = [question(0, choices=["a", "b", "c", "All of the above"], right=3), question(1, choices=["x", "y", "both A and B"], right=1)]
    made = prepare([*fixed, *(question(n, choices=[f"w{n}", "both A, B, and C"]) for n in range(2, 9)), question(10, 4)])
    assert made[0].choices[:4] == fixed[0].choices and made[0].meta["order"] == "kept" and made[-1].meta["order"] == "drawn"
    assert made[1].choices[:3] == fixed[1].choices and made[1].answer_index == 1
    assert all("both A, B, and C" not in s.choices[2:] for s in made[2:-1])
    assert all("above" not in t.casefold() for s in made[1:] for t in s.choices[:4])


def test_letters_in_an_option_never_come_to_mean_others():
    fives = [
        question(0, choices=["a", "b", "both A and B", "d", "e"], right=2),  # the last one goes, whatever is drawn
        question(1, choices=["a", "b", "c", "d", "both B and C"], right=4),  # one of those it names would have to go
        question(2, choices=["a", "a", "b", "both A and C"], right=3),  # and here one of two that are equal
        question(3, choices=["a", "I don't know", "c", "B or C"], right=0),
        question(4, choices=["a", "b", "c", "d", "all of the above"], right=4),  # says so whichever is dropped
    ]
    others = [question(n, 4) for n in range(10, 20)]
    for seed in range(20):
        first, last, *_ = prepare([*fives, *others], seed)
        assert (first.sample_id, first.choices[:4], truth(first)) == ("q0", ("a", "b", "both A and B", "d"), "both A and B")
        assert (last.sample_id, last.choices[3]) == ("q4", "all of the above")
    assert len(prepare([*fives, *others])) == 2 + len(others)


def test_what_is_never_right_must_not_be():
    samples = [
        question(0, choices=["a", "none of the  above"], right=1),
        question(1, choices=["b", "I don't know", "c"], right=0),
        replace(question(2), answer_index=None),
        *MANY,
    ]
    made = prepare([*samples, question(900, choices=["x", "y", "z", "None of the above"])])
    assert [s.sample_id for s in made[:2]] == ["q1", "q0"] and len(made) == len(MANY) + 2
    assert "I don't know" not in made[0].choices
    assert made[-1].choices.count("None of the above") == 1 and made[-1].meta["order"] == "drawn"


def test_their_ways_one_at_a_time():
    digits = [question(n, choices=["One", "Zero"]) for n in range(50)]
    repeated = prepare(digits, fillers="with_replacement")
    assert all(len(s.choices) == 6 and set(s.choices[:4]) == {"One", "Zero"} for s in repeated)
    kept = prepare(MANY, place="as_given")
    assert all(a.answer_index == b.answer_index for a, b in zip(MANY, kept, strict=True) if len(a.choices) <= 4)
    five = prepare([question(n, 5, 3) for n in range(200)], surplus="truth_first", place="as_given")
    assert {s.answer_index for s in five} == {0} and any(len(set(s.choices)) < 6 for s in five)
    assert all(truth(s).endswith("-3") and not any(t.endswith("-3") for t in s.choices[1:4]) for s in five)
    grouped = [replace(s, group="g") for s in MANY if len(s.choices) == 4]
    assert {s.group for s in prepare(grouped)} == {"g"} and {s.group for s in prepare(grouped, rotations="independent")} == {""}


def test_nothing_to_fill_up_with():
    with pytest.raises(PreparationError, match=r"dataset mmb: sample 'q0' has 2 options, and the other questions have no further options"):
        prepare([question(0), question(1, choices=["Option 0-0", "c", "all of the above"])])
    with pytest.raises(PreparationError, match="sample 'q9' has no options"):
        prepare([Sample("q9", "Question?")])
