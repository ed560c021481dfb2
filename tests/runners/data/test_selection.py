from pathlib import Path

import pytest

from qualm.registry.sample import ASKED, UNCERTAIN, Sample
from qualm.runners.data.selection import StageSelection
from qualm.runners.runtime.stage import StageError


def sample(number=1, **changes):
    return Sample(**{"sample_id": f"s{number}", "question": "Q?", "references": ("a",), "meta": {"level": str(number)}, **changes})


def test_where_selects_and_what_it_leaves_out_is_counted():
    selection = StageSelection("d", {"where": "level >= 2"})
    assert selection.leaves_out
    assert [selection.selects(s) for s in (sample(1), sample(2), sample(3), sample(0, meta={"other": "x"}))] == [False, True, True, False]
    assert selection.finish(2) == {"left_out_by_where": 2, "where_undefined": 1}


def test_without_where_everything_is_selected_and_nothing_counted():
    selection = StageSelection("d", {})
    assert selection.selects(sample()) and selection.mark(sample()) == sample() and selection.finish(0) == {}


def test_uncertain_is_marked_where_it_is_defined():
    selection = StageSelection("d", {"uncertain": "level >= 2"})
    assert not selection.leaves_out
    assert [selection.mark(sample(n)).meta.get(UNCERTAIN) for n in (1, 2)] == ["0", "1"]
    stale = sample(0, meta={UNCERTAIN: "1", ASKED: "old", "k": "v"})
    assert selection.mark(stale).meta == {"k": "v"}, "undefined: nothing stands there, not even what stood there before"


def test_asking_whether_a_question_is_uncertain_puts_another_in_its_stead(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("ask.md").write_text("Is this unclear: {question}\n")
    selection = StageSelection("d", {"ask_answerable": "ask.md"})
    marked = selection.mark(sample(answerable=False))
    assert "Is this unclear: Q?" in marked.question and marked.references == ("yes",) and marked.answerable
    assert marked.meta[ASKED] == "Q?" and marked.meta[UNCERTAIN] == "1"
    assert selection.mark(sample()).references == ("no",)
    with pytest.raises(StageError, match="sample 's1' has options, expected open questions only; select them by `where:`"):
        selection.mark(sample(choices=("a", "b"), answer_index=0))


def test_a_question_whose_uncertainty_is_undefined_cannot_be_asked_about(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("ask.md").write_text("{question}")
    selection = StageSelection("d", {"ask_answerable": "ask.md", "uncertain": "level >= 2"})
    assert [selection.selects(s) for s in (sample(1), sample(2), sample(0, meta={}))] == [True, True, False]
    assert selection.finish(2) == {"left_out_by_where": 1, "where_undefined": 1}


def test_a_question_whose_uncertainty_is_undefined_stays_where_nobody_asks_about_it():
    selection = StageSelection("d", {"where": "level >= 1", "uncertain": "blur == 'yes'"})
    assert [selection.selects(s) for s in (sample(1), sample(2, meta={"level": "2", "blur": "yes"}))] == [True, True]
    assert selection.finish(2) == {"left_out_by_where": 0, "where_undefined": 0}


@pytest.mark.parametrize(
    "params, message",
    [
        ({"where": "lvel >= 2 or ground == 'x'"}, "dataset d: where: no sample has the field 'ground'; there are: .*, also, level$"),
        ({"where": "level > 9"}, "dataset d: where: selects none of 3 samples, undefined for 1 of them: level > 9$"),
        ({"where": "also > 9"}, "dataset d: where: selects none of 3 samples: also > 9$"),
        ({"where": "level > 'x' or level > 9"}, "dataset d: where: "),
        ({"disjoint": {"other": "level >= 1"}}, "disjoint: expected no shared samples, got 2 with 'other': s1, s2; change one"),
    ],
)
def test_what_cannot_be_meant(params, message):
    def run():
        selection = StageSelection("d", params)
        given = (sample(1, meta={"level": "1", "also": "1"}), sample(2, meta={"level": "2", "also": "1"}), sample(3, meta={"also": "1"}))
        chosen = [selection.mark(s) for s in given if selection.selects(s)]
        selection.finish(len(chosen))

    with pytest.raises(StageError, match=message):
        run()


@pytest.mark.parametrize(("shared", "end"), [(10, "s9, s10; change one"), (11, "s9, s10, ...; change one")])
def test_ten_shared_samples_are_named(shared, end):
    selection = StageSelection("d", {"disjoint": {"other": "level >= 1"}})
    for number in range(1, shared + 1):
        selection.mark(sample(number))
        selection.selects(sample(number))
    with pytest.raises(StageError, match=end):
        selection.finish(shared)


def test_none_that_may_be_asked_about_is_an_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("ask.md").write_text("{question}")
    selection = StageSelection("d", {"ask_answerable": "ask.md", "uncertain": "level >= 2"})
    assert not selection.selects(sample(1, meta={})) and selection.selects(sample(1))
    with pytest.raises(StageError, match=r"where: selects none of 1 samples, undefined for 1 of them: ask_answerable$"):
        selection.finish(0)
