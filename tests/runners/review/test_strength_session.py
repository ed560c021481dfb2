"""One person's look: which samples are on the page, what turning and moving do, votes, and what is written down."""

from collections import Counter

import numpy as np
import PIL.Image
import pytest

from qualm.registry.plugins.registry import get
from qualm.runners.review.bench import AdjustablePerturbation, Answer, Bench, open_dataset
from qualm.runners.review.knobs import numeric_knobs
from qualm.runners.review.strength_session import SampleSide, SampleView, StrengthSession, WriteError, _equal, _pictures_apart
from qualm.runners.review.votes import Votes
from tests.support.projects.asking import picture, png, sample, write_samples


class Said:
    """A model whose answer is the name of the variant, long enough; it remembers what it was asked."""

    def __init__(self):
        self.asked = []

    def ask(self, dataset, variants):
        names = [s["sample_id"] for s in dataset.samples]
        self.asked.append((variants[0].name, names))
        return {
            v.name: {n: Answer(f"{v.name} {n}", "loud" if "sigma=50" in v.name and n < "s2" else "same", 0.5) for n in names}
            for v in variants
        }


def session(tmp_path, n=10, write=None, broken=(), plugin="gaussian_noise", respondent=None, **args):
    pictures = {f"p{i}": b"no picture" if i in broken else png(picture(i, 8)) for i in range(n)}
    rows = [sample(f"s{i}", f"p{i}", f"What is {i}?", ["x", "y"] if i == 1 else ()) for i in range(n)]
    modality = "image" if plugin == "gaussian_noise" else "text"
    dataset = open_dataset("d", write_samples(tmp_path / "d", rows, pictures), None, modality, 99, 7)
    own = {"sigma": 40.0, "channels": "each"} if plugin == "gaussian_noise" else {"p": 0.0}
    subject = AdjustablePerturbation(
        get("perturbations", plugin), {**own, **args}, lambda a: f"{plugin}@" + ",".join(f"{k}={v}" for k, v in sorted(a.items()))
    )
    knobs = numeric_knobs(subject.plugin, subject.args)
    return StrengthSession(Bench(dataset, subject, 7, respondent), knobs, Votes(tmp_path / "votes.csv"), "ann", write)


def test_four_samples_are_on_the_page_and_it_goes_round(tmp_path):
    looked = session(tmp_path)
    assert (looked.rows, looked.place) == ([0, 1, 2, 3], (1, 4, 10))
    looked.move(1)
    assert (looked.rows, looked.place) == ([4, 5, 6, 7], (5, 8, 10))
    looked.move(1)
    assert (looked.rows, looked.place) == ([8, 9], (9, 10, 10))
    looked.move(1)
    assert looked.rows == [0, 1, 2, 3]
    looked.move(-1)
    assert looked.rows == [8, 9]
    looked.move(-4)
    assert looked.rows == [4, 5, 6, 7]


@pytest.mark.parametrize(("n", "batches"), [(1, 1), (4, 1), (5, 2), (8, 2)])
def test_a_last_batch_may_be_short_and_none_is_empty(tmp_path, n, batches):
    looked, seen = session(tmp_path, n), []
    for _ in range(batches):
        seen += looked.rows
        looked.move(1)
    assert sorted(seen) == list(range(n)) and looked.rows == list(range(min(4, n)))


def test_turning_rounds_and_leaves_alone_what_is_no_number(tmp_path):
    looked = session(tmp_path)
    assert looked.values == {"sigma": 40.0} and looked.variant == "gaussian_noise@channels=each,sigma=40.0"
    for given, value in (
        ({"sigma": 12.3456}, 12.3),
        ({"sigma": None}, 12.3),
        ({}, 12.3),
        ({"sigma": float("nan")}, 12.3),
        ({"sigma": float("inf")}, 12.3),
        ({"sigma": -5.0}, 0.0),
        ({"sigma": 0.0}, 0.0),
        ({"other": 3.0}, 0.0),
    ):
        looked.turn(given)
        assert looked.values == {"sigma": value}


def test_pictures_are_shown_apart():
    assert _pictures_apart(["a", "a", "b", "a", "b", "c"]) == [0, 2, 5, 1, 4, 3]
    assert _pictures_apart([None, None, "a"]) == [0, 1, 2] and _pictures_apart([]) == []


def test_a_view_is_before_and_after_and_says_whether_anything_changed(tmp_path):
    looked = session(tmp_path)
    first, second, *_ = looked.views()
    assert (first.sample_id, first.options, second.options, first.same) == ("s0", [], ["x", "y"], False)
    assert first.before.picture.tobytes() == picture(0, 8).tobytes() != first.after.picture.tobytes()
    assert first.before.question == first.after.question == "What is 0?" and first.before.answer is None
    looked.turn({"sigma": 0.0})
    assert looked.views()[0].same


def test_a_picture_that_cannot_be_read_has_no_sides(tmp_path):
    first, second, *_ = session(tmp_path, broken=(0,)).views()
    assert (first.before, first.after, first.same, first.changed) == (None, None, False, False) and second.before is not None


def test_the_model_answers_what_is_on_the_page_once(tmp_path):
    said = Said()
    looked = session(tmp_path, respondent=said)
    assert looked.views()[0].before.answer is None and said.asked == []
    looked.ask()
    names = ["s0", "s1", "s2", "s3"]
    assert said.asked == [("clean", names), ("gaussian_noise@channels=each,sigma=40.0", names)]
    assert looked.views()[0].before.answer.text == "clean s0"
    looked.turn({"sigma": 50.0})
    assert looked.views()[0].after.answer is None, "not asked at this strength"
    looked.ask()
    assert said.asked[2:] == [("gaussian_noise@channels=each,sigma=50.0", names)]
    assert [view.changed for view in looked.views()] == [True, True, False, False]


def test_whether_an_answer_counts_as_another():
    def side(key):
        return SampleSide(None, "?", None if key is None else Answer("x", key, 0.5))

    views = [SampleView("s", [], a and side(a), b and side(b), False) for a, b in (("a", "b"), ("a", "a"), ("a", None), (None, None))]
    assert [view.changed for view in views] == [True, False, False, False]
    assert not SampleView("s", [], side("a"), side(None), False).changed


def test_equal_pictures_and_questions():
    a, same, other = (PIL.Image.fromarray(np.full((2, 2, 3), v, np.uint8)) for v in (1, 1, 2))
    assert _equal((a, "?"), (a, "?")) and _equal((a, "?"), (same, "?")) and _equal((None, "?"), (None, "?"))
    assert not _equal((a, "?"), (other, "?")) and not _equal((a, "?"), (a, "!")) and not _equal((a, "?"), (None, "?"))
    assert not _equal((None, "?"), (a, "?"))


def test_votes_are_of_the_batch_at_these_strengths(tmp_path):
    looked = session(tmp_path)
    looked.vote("too weak")
    looked.vote("right")
    looked.move(1)
    looked.vote("right")
    looked.turn({"sigma": 50.0})
    looked.vote("too strong")
    names = [f"gaussian_noise@channels=each,sigma={sigma}" for sigma in (40.0, 50.0)]
    assert looked.tally == {names[0]: Counter({"right": 2}), names[1]: Counter({"too strong": 1})}
    lines = (tmp_path / "votes.csv").read_text().splitlines()
    assert lines[0].endswith(",d,s0 s1 s2 s3,ann,too weak") and lines[2].endswith(",d,s4 s5 s6 s7,ann,right")


def test_only_what_differs_from_the_spec_is_written_with_its_votes(tmp_path):
    done = []
    looked = session(tmp_path, write=lambda *what: done.append(what) or f"{what[0]} set")
    assert looked.write(True) == ["the spec has these values already; nothing was written"] and done == []
    looked.turn({"sigma": 50.0})
    assert looked.write(False) == ["sigma set"] and done == [("sigma", 50.0, False, "")]
    assert looked.write(False) == ["the spec has these values already; nothing was written"]
    looked.turn({"sigma": 60.0})
    looked.vote("right")
    looked.move(1)
    looked.vote("right")
    looked.move(1)
    looked.vote("too weak")
    looked.write(True)
    assert done[1] == ("sigma", 60.0, True, "by eye, votes: 2 right, 1 too weak")
    looked.turn({"sigma": 40.0})
    assert looked.write(False) == ["sigma set"], "back to what the spec had is a change again"


def test_a_spec_that_is_extended_cannot_be_written(tmp_path):
    with pytest.raises(WriteError, match="in a spec that this one extends; set the strengths there"):
        session(tmp_path).write(False)
