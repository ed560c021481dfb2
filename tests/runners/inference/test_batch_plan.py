"""Plans: batches are alike, full and complete; whoever goes on takes the same ones; what is known is not asked again."""

import random
from contextlib import chdir
from types import SimpleNamespace

import pytest

from qualm.runners.contracts.models import Decoding, Part
from qualm.runners.data.answers import Store, decoding_bytes, part_key, subject_digest
from qualm.runners.inference.batch_plan import PLANS, WINDOW, AnswerTask, PlanFile, Work, look_up, make_batches, remove_plan
from qualm.runners.inference.requests import Place, SampleVariant
from qualm.runners.runtime.settings import Settings


class Asker:
    """Wants the same of every cell of a kind."""

    def __init__(self, batch_size=4, draws=0):
        self.stage = SimpleNamespace(spec="t", name="infer", settings=Settings(batch_size=batch_size))
        self.decoding = Decoding()
        self.draws = draws

    def parts(self, options):
        return ("options",) if options else ("answer", "p_true", *(f"draw {k}" for k in range(1, self.draws + 1)))

    def key(self, place, part, subject=b""):
        return part_key(place.base, decoding_bytes(part, {}), 0, subject)


def cell(i, options=0, pixels=None, length=0):
    return SampleVariant(Place(0, i, 0, i.to_bytes(32, "big")), options, f"picture {i}" if pixels is None else pixels, length, "")


def cells(n, seed):
    rng = random.Random(seed)
    return [cell(i, rng.choice([0, 6]), rng.choice(["", f"picture {i // 3}"]), rng.randrange(50)) for i in range(n)]


def put(asker, store, batch):
    wanted = [(place, part) for place in batch.places for part in batch.parts]
    about = subject_digest(Part("x"))
    keys = [asker.key(place, part, about if part == "p_true" else b"") for place, part in wanted]
    store.put(keys, [part for _, part in wanted], [Part("x")] * len(wanted))


@pytest.fixture(autouse=True)
def here(tmp_path):
    with chdir(tmp_path):
        yield


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store", "m", "e")


def planned(asker, every, store, size=4):
    return PlanFile(asker, every).remaining_work(asker, look_up(asker, every, store).missing, store, lambda _: size).batches


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_whoever_goes_on_takes_the_rest_of_the_plan(store, seed):
    """Any batches may be done before a kill, in any order: several processes share them."""
    asker, every = Asker(), cells(57, seed)
    whole = planned(asker, every, store)
    rng, left = random.Random(seed), list(whole)
    while left:
        put(asker, store, left.pop(rng.randrange(len(left))))
        assert planned(asker, every, store) == left


def test_batches_are_alike_bounded_and_complete():
    asker, every = Asker(), cells(100, 3)
    batches = make_batches([AnswerTask(c, asker.parts(c.options)) for c in every], lambda _: 8)
    assert sorted(p.row for b in batches for p in b.places) == list(range(100))
    by_row = {c.place.row: c for c in every}
    for batch in batches:
        assert len({(bool(by_row[p.row].pixels), by_row[p.row].options > 0) for p in batch.places}) == 1 and len(batch.places) <= 8
    assert sum(len(b.places) < 8 for b in batches) <= 4


def test_like_lengths_and_one_picture_go_together():
    tasks = [AnswerTask(cell(i, length=(i * 37) % 101, pixels=f"picture {i % 25}"), ("answer",)) for i in range(100)]
    batches = make_batches(tasks, lambda _: 10)
    pictures = [{p.row % 25 for p in batch.places} for batch in batches]
    assert sum(len(found) for found in pictures) <= 25 + len(batches)  # hardly any picture is in two batches
    plain = make_batches([AnswerTask(cell(i, length=(i * 37) % 101), ("answer",)) for i in range(100)], lambda _: 10)
    assert [((p.row * 37) % 101) for b in plain for p in b.places] == sorted(((i * 37) % 101 for i in range(100)), reverse=True)


def test_lengths_are_sorted_among_neighbours_only():
    """Pictures of neighbours lie together on disk."""
    tasks = [AnswerTask(cell(i, length=i), ("answer",)) for i in range(3 * WINDOW * 4)]
    for number, batch in enumerate(make_batches(tasks, lambda _: 4)):
        window = number // WINDOW
        assert all(window * WINDOW * 4 <= p.row < (window + 1) * WINDOW * 4 for p in batch.places)


def test_only_what_is_missing_is_asked_each_once(store):
    asker = Asker(draws=2)
    one, two, same = cell(1), cell(2), SampleVariant(Place(0, 9, 0, cell(1).place.base), 0, "picture 1", 0, "")
    first = look_up(asker, [one, two, same], store)
    assert [(t.cell.place.row, t.parts) for t in first.missing] == [(i, ("answer", "p_true", "draw 1", "draw 2")) for i in (1, 2)]
    assert first.repeats == 4 and first.stored == {}
    for batch in make_batches(first.missing, lambda _: 1):
        put(asker, store, batch)
    asker.draws = 4
    more = look_up(asker, [one, two, same], store)
    assert [t.parts for t in more.missing] == [("draw 3", "draw 4")] * 2 and more.stored["answer"] == 3
    assert [b.parts for b in make_batches(more.missing, lambda _: 8)] == [("draw 3", "draw 4")]


def test_another_wish_has_another_plan(store):
    asker, every = Asker(), cells(20, 1)
    planned(asker, every, store)
    (kept,) = (PLANS / "t.infer").iterdir()
    planned(asker, every, store)
    assert list((PLANS / "t.infer").iterdir()) == [kept]
    planned(Asker(batch_size=5), every, store)
    (other,) = (PLANS / "t.infer").iterdir()
    planned(asker, every[:19], store)
    assert {kept, other}.isdisjoint((PLANS / "t.infer").iterdir())
    remove_plan(asker.stage)
    assert not (PLANS / "t.infer").exists()
    remove_plan(asker.stage)


def test_what_was_lost_meanwhile_is_planned_too(store, tmp_path):
    asker, every = Asker(), cells(40, 1)
    put(asker, store, make_batches(look_up(asker, every, store).missing, lambda _: 40)[0])
    rest = planned(asker, every, store)
    for path in store.folder.glob("*.segment"):
        path.write_bytes(b"lost")
    whole = planned(asker, every, Store(tmp_path / "store", "m", "e"))
    assert whole[: len(rest)] == rest and sum(len(b.places) for b in whole) == 40
    assert planned(asker, every, Store(tmp_path / "store", "m", "e")) == whole


def test_a_plan_that_is_no_plan_is_made_anew(store, capfd):
    asker, every = Asker(), cells(20, 1)
    before = planned(asker, every, store)
    (path,) = (PLANS / "t.infer").iterdir()
    path.write_text("[{}]")
    assert planned(asker, every, store) == before
    assert "not readable as a plan" in capfd.readouterr().err


def test_what_memory_holds_is_remembered(store):
    asker, every = Asker(), [cell(i) for i in range(8)]
    work = PlanFile(asker, every).remaining_work(asker, look_up(asker, every, store).missing, store, lambda _: 8)
    (batch,) = work.batches
    assert work.limit(batch) == 8
    work.halve(batch)
    again = PlanFile(asker, every).remaining_work(asker, look_up(asker, every, store).missing, store, lambda _: 8)
    assert again.limit(batch) == 4 and [len(p.places) for p in batch.cut(4)] == [4, 4]
    assert Work((), {"another": 2}).limit(batch) == 8
