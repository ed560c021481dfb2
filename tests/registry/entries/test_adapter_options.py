"""Which arguments an adapter needs to read an entry: none, or the first part of several that can be read."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from qualm.registry.entries.entries import Entry
from qualm.registry.entries.new_card import MAX_CANDIDATES, options_for
from tests.support.data.recordings import leh, leh_open

HEAD = "kind: dataset\ntitle: T\ndescription: D.\nsource: https://example.org\nlicence: CC0\ncitation: ''\nlayout: [{files: '**'}]\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for folder in ("registry/cards", "registry/data/mine", "specs"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "params.yaml").write_text("default: t\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def entry(root: Path, card: str) -> Entry:
    (root / "registry/cards/mine.yaml").write_text(f"name: mine\n{HEAD}{card}")
    return Entry(root, "mine", "mine", "0" * 32)


TABLE = "adapter: image_table\nargs: {files: {test: t.csv}, image: file, question: query, answer: null, images: .}\n"


def write_table(root: Path, *names: str) -> None:
    folder = root / "registry/data/mine"
    (folder / "t.csv").write_text("file,query\n" + "".join(f"{name},?\n" for name in names))


def test_none_are_needed_where_it_can_be_read(root: Path) -> None:
    mine = entry(root, TABLE)
    write_table(root, "a.png")
    Image.new("RGB", (4, 4)).save(root / "registry/data/mine/a.png")
    assert options_for(mine) == ""


def test_nothing_is_known_by_which_it_reads(root: Path) -> None:
    mine = entry(root, TABLE)
    write_table(root, "gone.png")
    assert options_for(mine) is None
    assert options_for(Entry(root, "mine", None, "0" * 32)) is None
    assert options_for(entry(root, "missing: an adapter\n")) is None


def test_one_record_is_enough(root: Path) -> None:
    mine = entry(root, TABLE)
    write_table(root, "a.png", "gone.png")
    Image.new("RGB", (4, 4)).save(root / "registry/data/mine/a.png")
    assert options_for(mine) == ""


LOGS = "adapter: recorded_samples\nargs: {format: lm-eval}\n"


def log(root: Path, *tasks: str) -> None:
    for task in tasks:
        leh(root / "registry/data/mine", leh_open(0, f"{task}?", "Lima", "Lima"), task=task)


def test_the_first_task_of_a_log_of_several(root: Path) -> None:
    mine = entry(root, LOGS)
    log(root, "capitals")
    assert options_for(mine) == ""
    log(root, "rivers", "authors")
    assert options_for(mine) == " -O task=authors"


def test_a_log_that_nobody_can_read(root: Path) -> None:
    mine = entry(root, LOGS)
    (root / "registry/data/mine/samples_a.jsonl").write_text("no log\n")
    assert options_for(mine) is None


def test_the_file_s_name_where_one_argument_is_required(root: Path) -> None:
    mine = entry(root, "adapter: vlm_uncertainty_bench\n")
    assert options_for(mine) is None
    record = {
        "id": 1,
        "question": "Which?",
        **dict.fromkeys("ABCD", "x"),
        "answer": "A",
        "hint": None,
        "logits": np.zeros(6),
        "image_path": "x.png",
    }
    file = root / "registry/data/mine/output/some/oodcv.pkl"
    file.parent.mkdir(parents=True)
    file.write_bytes(pickle.dumps([record]))
    Image.new("RGB", (4, 4)).save(file.parent / "aaa.png")  # a picture's name is no part's
    for n in range(MAX_CANDIDATES - 1):
        (file.parent / f"a{n}.txt").write_text("")
    assert options_for(mine) == " -O dataset=oodcv"
    (file.parent / "b.txt").write_text("")
    assert options_for(mine) is None


def test_two_arguments_that_are_required_are_not_guessed(root: Path) -> None:
    (root / "registry/adapters").mkdir()
    (root / "registry/adapters/own.py").write_text(
        '"""Own."""\n\n\ndef own(context, *, a: str, b: str):\n    """Own."""\n    yield from ()\n'
    )
    (root / "registry/data/mine/x.txt").write_text("")
    assert options_for(entry(root, "adapter: own\n")) is None
