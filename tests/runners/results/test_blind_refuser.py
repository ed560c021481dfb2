"""The blind refuser: what it learns from, and that it says nothing where there is nothing to learn from."""

import numpy as np
import pyarrow as pa

from qualm.registry.sample import SAMPLES
from qualm.runners.data.aligned import Samples
from qualm.runners.results.blind_refuser import IN_TURN, OWN, POOLED, predict_refusals


def made(name, *parts):
    """Of each (split, n, whether there are unanswerable ones): half of these ask for tomorrow."""
    rows = []
    for split, n, both in parts:
        for i in range(n):
            lacks = both and i % 2 == 1
            question = f"What colour is thing {i % 5}{' tomorrow' if lacks else ''}?"
            row = {"sample_id": f"{split}{i}", "question": question, "answerable": not lacks, "split": split, "group": f"{split}{i // 2}"}
            rows.append(row)
    return Samples(name, pa.Table.from_pylist(rows, schema=SAMPLES))


def told(*sets):
    scored = {s.name: np.array([v == "test" for v in s.values("split")]) for s in sets}
    return predict_refusals({s.name: s for s in sets}, scored)


def test_it_learns_from_its_own_train_split():
    own = made("own", ("train", 40, True), ("test", 20, True))
    found = told(own, made("other", ("train", 40, False), ("test", 4, False)))["own"]
    assert (found.learnt, found.n_learnt, found.why) == (OWN, 40, "")
    assert ((found.probability > 0.5) == (own.answerable == 0)).all()


def test_without_both_kinds_in_its_own_it_learns_from_the_train_splits_of_all():
    plain = made("plain", ("train", 30, False), ("test", 20, False))
    found = told(made("own", ("train", 40, True), ("test", 20, True)), plain)["plain"]
    assert (found.learnt, found.n_learnt) == (POOLED, 70) and (found.probability < 0.5).all()


def test_without_any_train_split_groups_are_told_of_in_turn():
    alone = made("alone", ("val", 10, True), ("test", 60, True))
    found = told(alone)["alone"]
    assert (found.learnt, found.n_learnt, found.why) == (IN_TURN, 60, "")
    assert np.isnan(found.probability[:10]).all(), "rows that are not scored are not told of"
    assert ((found.probability[10:] > 0.5) == (alone.answerable[10:] == 0)).all()


def test_where_there_is_nothing_to_learn_from_it_has_no_say():
    found = told(made("plain", ("test", 40, False)))["plain"]
    assert np.isnan(found.probability).all() and found.n_learnt == 0
    assert found.why == "one class only: all 32 rows to learn from are answerable"


def pictured(name, *parts):
    """Each row has a picture of its own; those of unanswerable ones are painted."""
    samples = made(name, *parts)
    table = samples.table.set_column(samples.table.column_names.index("image_id"), "image_id", samples.table["sample_id"])
    return Samples(name, table)


def painted(samples):
    """(n, 3) features, the second of which shows the paint."""
    rng = np.random.default_rng(0)
    values = rng.random((samples.n, 3))
    values[:, 1] += 3 * (samples.answerable == 0)
    return lambda rows: values[rows]


def told_by_pictures(*sets):
    scored = {s.name: np.array([v == "test" for v in s.values("split")]) for s in sets}
    return predict_refusals({s.name: s for s in sets}, scored, {s.name: painted(s) for s in sets})


def test_one_that_sees_pictures_learns_from_its_own_or_from_others():
    own, plain = pictured("own", ("train", 80, True), ("test", 40, True)), pictured("plain", ("train", 30, False), ("test", 20, False))
    by_name = told_by_pictures(own, plain)
    found = by_name["own"]
    assert (found.learnt, found.n_learnt, found.why) == (OWN, 80, "")
    assert ((found.probability > 0.5) == (own.answerable == 0)).all()
    assert (by_name["plain"].learnt, by_name["plain"].n_learnt) == (POOLED, 110) and (by_name["plain"].probability < 0.5).all()


def test_one_that_sees_pictures_tells_of_groups_in_turn_and_has_no_say_without_pictures():
    alone, none = pictured("alone", ("test", 60, True)), made("none", ("test", 60, True))
    found = told_by_pictures(alone)["alone"]
    assert found.learnt == IN_TURN and ((found.probability > 0.5) == (alone.answerable == 0)).mean() > 0.9
    silent = told_by_pictures(none)["none"]
    assert silent.why == "no row has an image" and np.isnan(silent.probability).all()
