from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from qualm.registry.entries import layout as layout_module
from qualm.registry.entries.card import Card, load_card
from qualm.registry.entries.layout import inspect, map_in_order, matches

CARD = {
    "name": "x",
    "kind": "dataset",
    "title": "X",
    "description": "d",
    "adapter": "x",
    "source": "https://example.org",
    "licence": "MIT",
    "citation": "",
    "layout": [{"files": "ann/*.json", "count": 2, "about": "questions"}, {"files": "img/**", "at_least": 0, "format": "any"}],
    "splits": {"test": {"files": "ann/test.json", "records": 3}},
}


def card(**changes: object) -> Card:
    return Card.model_validate({**CARD, **changes})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    (root / "ann").mkdir(parents=True)
    (root / "img/deep").mkdir(parents=True)
    (root / "ann/test.json").write_text("[1, 2, 3]")
    (root / "ann/train.json").write_text("[]")
    (root / "img/deep/1").write_text("x")
    (root / "notes.txt").write_text("mine")
    (root / ".git").mkdir()
    (root / ".git/config").write_text("[x]")
    return root


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("a/*/x.pkl", "a/b/x.pkl", True),
        ("a/*/x.pkl", "a/b/c/x.pkl", False),
        ("**/x", "x", True),
        ("**/x", "a/b/x", True),
        ("a/**", "a/b/c", True),
        ("a/**", "a", False),
        ("*.json", "b/a.json", False),
        ("a?", "a/", False),
        ("a+(b).c", "a+(b).c", True),
        ("*", "a\nb", True),
    ],
)
def test_patterns(pattern: str, name: str, fits: bool) -> None:
    assert matches(pattern, name) is fits


def test_what_is_right_is_found(folder: Path) -> None:
    told: list[tuple[str, int]] = []
    found = inspect(folder, card(), lambda name, size, total: told.append((name, size)))
    assert found.problems == [] and found.left_out == ["notes.txt"]
    assert found.files == {"ann/test.json": 9, "ann/train.json": 2, "img/deep/1": 1} and found.size == 12
    assert found.splits == {"test": [3]}
    assert told == list(found.files.items())


def test_all_problems_at_once(folder: Path, tmp_path: Path) -> None:
    (folder / "ann/test.json").write_text("[1, 2")
    (folder / "ann/train.json").unlink()
    (folder / "ann/link.json").symlink_to("/etc/passwd")
    (folder / "img/up").symlink_to(tmp_path)
    (folder / "img/a\nb").write_text("x")
    problems = inspect(folder, card(layout=[*CARD["layout"], {"files": "LICENSE", "about": "the terms"}])).problems  # type: ignore[misc]
    for expected in (
        "img/up: a link to",
        "ann/link.json: a link to /etc/passwd; links are not taken",
        r"'img/a\nb': a file name with control characters",
        "LICENSE (the terms): expected at least 1, found 0",
        "ann/test.json: cut short or not JSON: line 1",
    ):
        assert any(p.startswith(expected) for p in problems), (expected, problems)
    assert len(problems) == 5


def test_names_that_no_terminal_shows_and_links_that_lead_nowhere(folder: Path) -> None:
    (folder / "loop").symlink_to("loop")
    (folder / "img/loop").symlink_to("loop")
    for place in ("", "img/"):
        (folder / os.fsdecode(os.fsencode(place) + b"caf\xe9")).write_text("x")
    found = inspect(folder, card())
    assert found.left_out == [r"'caf\udce9'", "loop", "notes.txt"]
    assert [p.partition(";")[0] for p in found.problems] == [
        r"'img/caf\udce9': a file name with control characters or '\', or not in UTF-8",
        "img/loop: a link to loop",
    ]


def test_counts_and_digests(folder: Path) -> None:
    (folder / "ann/more.json").write_text("{}")
    (folder / "ann/test.json").write_text('{"a": 1}')
    problems = inspect(folder, card(digests={"ann/train.json": "0" * 64})).problems
    assert problems[0] == "ann/*.json (questions): expected 2, found 3"
    assert problems[1] == "ann/test.json: expected 3 records of 'test', found no list of records"
    assert problems[2].startswith("ann/train.json: SHA-256 4f53cda18c2b… where the card has 000000000000…")


def test_as_many_files_as_are_asked_for_and_one_fewer(folder: Path) -> None:
    for rule, said in (
        ({"at_least": 2}, None),
        ({"at_least": 3}, "ann/*.json: expected at least 3, found 2"),
        ({"count": 2}, None),
        ({"count": 1}, "ann/*.json: expected 1, found 2"),
        ({"count": 3}, "ann/*.json: expected 3, found 2"),
    ):
        found = inspect(folder, card(layout=[{"files": "ann/*.json", **rule}]))
        assert found.problems == [said] * bool(said) and found.excusable == bool(said)
        assert inspect(folder, card(layout=[{"files": "ann/*.json", **rule}]), skip_bad=True).skipped == found.problems


def test_a_pattern_of_which_all_files_are_bad(folder: Path) -> None:
    (folder / "ann/test.json").write_text("[")
    (folder / "ann/train.json").write_text("[")
    found = inspect(folder, card(), skip_bad=True)
    assert len(found.problems) == 1 and found.problems[0].startswith(
        "ann/*.json: no file is whole, and at least one must be (2 bad); the first: ann/test.json: cut short or not JSON"
    )
    optional = card(layout=[{"files": "ann/*.json", "at_least": 0}, CARD["layout"][1]])  # type: ignore[index]
    assert inspect(folder, optional, skip_bad=True).problems == []
    strict = inspect(folder, card())
    assert (len(strict.problems), strict.excusable) == (2, 2)


def test_what_could_be_excused_where_nothing_is_left(tmp_path: Path) -> None:
    assert inspect(tmp_path, card()).excusable == 0


@pytest.mark.parametrize("beside", ["..", "ann"])
def test_one_level_beside_is_told(folder: Path, beside: str) -> None:
    problems = inspect((folder / beside).resolve(), card()).problems
    assert problems[-1].endswith(f"it seems to lie in {folder.resolve()}")


def test_what_is_missing_altogether(tmp_path: Path) -> None:
    assert inspect(tmp_path, card()).problems[-1].endswith("nothing of the layout of 'x' is here")


def test_the_official_outputs(outputs: Path, model: Callable[..., Path]) -> None:
    assert inspect(outputs, load_card("vlm_uncertainty_bench")).splits == {"oodcv": [2844, 2844]}
    (outputs / "output/A-7b/oodcv.pkl").write_bytes(pickle.dumps([{"id": 1}] * 7))
    assert inspect(outputs, load_card("vlm_uncertainty_bench")).problems == [
        "output/A-7b/oodcv.pkl: expected 2,844 records of 'oodcv', found 7"
    ]
    assert inspect(model(), load_card("scene-vlm-base")).problems == []


@pytest.mark.slow
def test_the_real_outputs() -> None:
    real = Path(__file__).resolve().parents[3].parent / "shared/fixtures/vlm_uncertainty_bench"
    if not real.is_dir():
        pytest.skip("../shared/fixtures/vlm_uncertainty_bench is not beside this checkout")
    found = inspect(real, load_card("vlm_uncertainty_bench"))
    assert found.problems == [] and found.splits == {"mmbench": [4377] * 4, "oodcv": [2844] * 4}


def test_bad_files_are_left_out_where_it_is_asked_for(tmp_path: Path) -> None:
    root = tmp_path / "data"
    (root / "img").mkdir(parents=True)
    (root / "q.json").write_text("[1, 2]")
    (root / "img/a.txt").write_text("whole")
    (root / "img/b.txt").write_bytes(b"\xff")
    (root / "img/c.txt").symlink_to("/etc/passwd")
    (root / "lines.jsonl").write_text('{"a": 1}\nx\n')
    layout = [{"files": "q.json"}, {"files": "img/*.txt", "count": 3}, {"files": "*.jsonl"}]
    ours = card(layout=layout, splits={"test": {"files": "q.json", "records": 3}, "log": {"files": "*.jsonl"}})
    assert len(inspect(root, ours).problems) == 4
    found = inspect(root, ours, skip_bad=True)
    assert found.problems == [] and list(found.files) == ["img/a.txt", "lines.jsonl", "q.json"]
    assert found.splits == {"test": [2], "log": [1]}
    starts = ("img/c.txt: a link", "img/b.txt: not UTF-8", "lines.jsonl: line 2: expected one JSON", "q.json: expected 3 records")
    assert len(found.skipped) == 4 and all(any(line.startswith(start) for line in found.skipped) for start in starts)
    (root / "q.json").write_text("[1, ")
    assert [p.partition(":")[0] for p in inspect(root, ours, skip_bad=True).problems] == ["q.json"]  # named by itself: needed whole
    (root / "q.json").unlink()
    assert inspect(root, ours, skip_bad=True).problems == ["q.json: expected at least 1, found 0"]


def test_results_come_in_the_order_of_the_items_whatever_is_done_first(monkeypatch):
    monkeypatch.setattr(layout_module, "MAX_QUEUED", 3)
    assert list(map_in_order(lambda n: n * n, range(10))) == [n * n for n in range(10)] and list(map_in_order(str, [])) == []


def test_no_more_items_are_taken_than_are_worked_on(monkeypatch):
    monkeypatch.setattr(layout_module, "MAX_QUEUED", 4)
    taken = []
    results = map_in_order(lambda n: n, (taken.append(n) or n for n in range(100)))
    assert next(results) == 0 and len(taken) == 4


def test_work_is_done_on_other_threads_and_the_first_exception_ends_it():
    names = set(map_in_order(lambda _: threading.current_thread().name, range(8)))
    assert all(name.startswith("files") for name in names)

    def fail(n):
        if n == 2:
            raise ValueError("two")
        return n

    results = map_in_order(fail, range(5))
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ValueError, match="two"):
        next(results)
