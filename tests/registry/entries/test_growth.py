"""Data of one's own that have grown: which counts of the card differ, and the card with the new ones, every other byte as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from qualm.registry.entries.card import Card, read_card
from qualm.registry.entries.layout import MARK, Recount, recounts, rewrite_counts

TEXT = f"""\
{MARK} of photos on 2026-03-01; every line may be changed.
name: mine
kind: dataset
title: Mine
description: Questions.
adapter: image_table
source: https://example.org
licence: CC0
citation: ""
layout:
  - {{files: "photos/*.png", count: 2, about: "2 of them"}}
  - {{files: notes.txt, at_least: 0}}
  - {{files: "train.csv", count: 1}}
splits:
  "train": {{files: "train.csv", records: 2}}
  val: {{files: train.csv}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data/photos").mkdir(parents=True)
    for name in ("a", "b"):
        photo(tmp_path / "data", name)
    (tmp_path / "data/train.csv").write_text("image,question\na.png,1?\nb.png,2?\n")
    return tmp_path / "data"


def photo(folder: Path, name: str) -> None:
    from PIL import Image

    Image.new("RGB", (4, 4), (9, 0, 0)).save(folder / f"photos/{name}.png")


def card(folder: Path, text: str = TEXT) -> tuple[Card, Path]:
    path = folder.parent / "mine.yaml"
    path.write_text(text)
    read_card.cache_clear()
    return read_card(path), path


def test_nothing_has_grown(folder: Path) -> None:
    assert recounts(folder, *card(folder)) == []


def test_files_and_records_that_are_more_or_fewer(folder: Path) -> None:
    photo(folder, "c")
    (folder / "train.csv").write_text("image,question\na.png,1?\n")
    changes = recounts(folder, *card(folder))
    assert changes == [Recount("photos/*.png", 2, 3), Recount("train", 2, 1, split=True)]
    assert [str(change) for change in changes] == ["photos/*.png: 2 files before, 3 now", "train: 2 records before, 1 now"]
    assert str(Recount("x", 1000, 20000)) == "x: 1,000 files before, 20,000 now"


def test_cards_of_a_release_and_cards_that_are_gone_have_no_recounts(folder: Path) -> None:
    photo(folder, "c")
    own, path = card(folder)
    assert len(recounts(folder, own, path)) == 1
    path.write_text(TEXT.replace(MARK, "# By hand"))
    assert recounts(folder, own, path) == []
    path.unlink()
    assert recounts(folder, own, path) == []


def test_where_anything_else_is_wrong_nothing_is_recounted(folder: Path) -> None:
    photo(folder, "c")
    (folder / "photos/c.png").write_bytes((folder / "photos/c.png").read_bytes()[:20])
    assert recounts(folder, *card(folder)) == []


def test_where_a_split_has_files_of_different_counts_nothing_is_recounted(folder: Path) -> None:
    photo(folder, "c")
    (folder / "more.csv").write_text("image,question\na.png,1?\n")
    text = TEXT.replace('{files: "train.csv", count: 1}', '{files: "*.csv", count: 1}').replace('"train.csv", records', '"*.csv", records')
    assert recounts(folder, *card(folder, text)) == []


def test_the_card_with_the_new_counts(folder: Path) -> None:
    changes = [Recount("photos/*.png", 2, 30), Recount("train", 2, 40, split=True), Recount("train.csv", 1, 5)]
    expected = TEXT.replace("count: 2,", "count: 30,").replace("records: 2}", "records: 40}").replace("count: 1}", "count: 5}")
    assert rewrite_counts(TEXT, changes) == expected and expected.count("2 of them") == 1
    assert rewrite_counts(TEXT, []) == TEXT


def test_names_may_stand_without_quotation_marks() -> None:
    text = TEXT.replace('"train": {files', "train: {files").replace('files: "train.csv", count', "files: train.csv, count")
    changes = [Recount("train.csv", 1, 5), Recount("train", 2, 3, split=True)]
    assert rewrite_counts(text, changes) == text.replace("count: 1}", "count: 5}").replace("records: 2}", "records: 3}")


def test_a_card_that_was_laid_out_anew_by_hand_is_left_alone() -> None:
    text = TEXT.replace('  - {files: "photos/*.png", count: 2, about: "2 of them"}', '  - files: "photos/*.png"\n    count: 2')
    assert rewrite_counts(text, [Recount("photos/*.png", 2, 3)]) is None
    assert rewrite_counts(TEXT.replace("count: 2,", "count: 0x2,"), [Recount("photos/*.png", 2, 3)]) is None


def test_a_number_is_replaced_whole() -> None:
    text = TEXT.replace("records: 2}", "records: 20}")
    assert rewrite_counts(text, [Recount("train", 20, 21, split=True)]) == text.replace("records: 20}", "records: 21}")
    assert rewrite_counts(text, [Recount("train", 2, 3, split=True)]) is None
