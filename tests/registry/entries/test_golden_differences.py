"""What is said of two versions of data, held to tests/golden/differences.json.

After a change that is meant: HELD=write pytest tests/registry/entries/test_golden_differences.py
"""

from __future__ import annotations

import copy
import hashlib
import json
import random
from pathlib import Path
from typing import Any

import pytest

from qualm.registry.entries.differences import COMPARED, VersionDifferences, compare
from qualm.registry.entries.versions import Version
from qualm.registry.sample import IMAGES, SAMPLES
from qualm.runners.runtime.records import write_table
from tests.support.checks.held_numbers import held
from tests.support.data.clevr_folder import clevr_folder

CASES = 12
Tables = tuple[dict[str, dict[str, Any]], dict[str, bytes]]
"""Samples and pictures by their ids."""


def version(folder: Path, label: str, card: str | None = None) -> Version:
    """A folder as a version."""
    files = {p.relative_to(folder).as_posix(): p for p in sorted(folder.rglob("*")) if p.is_file()}
    hashes = {name: hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest() for name, path in files.items()}
    return Version(label, folder.name, "0" * 32, hashes, card, folder)


def made(folder: Path, tables: Tables) -> Version:
    """A dataset as a stage writes it."""
    samples, pictures = tables
    write_table(folder / "samples.parquet", [{"sample_id": name, **sample} for name, sample in samples.items()], SAMPLES)
    rows = [{"image_id": name, "image": {"bytes": data, "path": ""}} for name, data in pictures.items()]
    write_table(folder / "images" / "00000.parquet", rows, IMAGES)
    return version(folder, folder.name)


def begin() -> Tables:
    sample = {"question": "How many?", "references": ["two"], "choices": [], "answerable": True, "split": "test", "category": "c"}
    names = [*("p", "q"), None, "p", "q", "p"]
    return {f"s{i}": {**sample, "image_id": name, "meta": {"n": str(i)}} for i, name in enumerate(names)}, {"p": b"one", "q": b"two"}


def edited(tables: Tables, draw: random.Random) -> tuple[Tables, list[str]]:
    """Some changes, and what they are."""
    samples, pictures = copy.deepcopy(tables)
    told = []
    for _ in range(draw.randint(1, 4)):
        name = draw.choice(sorted(samples))
        field, value = draw.choice(
            [
                ("question", "Why?"), ("references", ["2", "two"]), ("choices", ["a", "b"]), ("answerable", False), ("split", "val"),
                ("category", ""), ("meta", {"n": "9", "kind": "x"}), ("image_id", None), ("image_id", "q"), ("group", "g"),
                ("answer_index", 1), ("picture", b"three"), ("gone", None), ("new", None), ("order", None),
            ]
        )  # fmt: skip
        told.append(f"{name}: {field}")
        if field == "picture":
            pictures["q"] = value
        elif field == "gone":
            del samples[name]
        elif field == "new":
            samples[f"{name}x"] = dict(samples[name])
        elif field == "order":
            samples = dict(reversed(samples.items()))
        else:
            samples[name][field] = value
    return (samples, pictures), told


def shown(difference: VersionDifferences, tables_only: bool = False) -> dict[str, Any]:
    files, samples = difference.files, difference.samples
    return {
        "files": sorted(files.changed) if tables_only else files.as_json(),
        "samples": None if samples is None else samples.as_json(),
        "fields": None if samples is None else samples.by_field(),
        "why": difference.why,
    }


@pytest.mark.parametrize("case", range(CASES))
def test_changed_samples_and_pictures_are_told_as_ever(case: int, tmp_path: Path) -> None:
    tables, told = edited(begin(), random.Random(f"differences/{case}"))
    before, after = made(tmp_path / "before", begin()), made(tmp_path / "after", tables)
    difference = compare(before, after, [], tmp_path / "beneath")
    held("differences.json", f"made {case}", {"edits": told, **shown(difference, tables_only=True)})
    back = compare(after, before, [], tmp_path / "beneath").samples
    assert difference.samples is not None and back is not None, "the same seen from the other side"
    assert (back.added, back.removed, back.same) == (difference.samples.removed, difference.samples.added, difference.samples.same)
    assert {name: set(of) for name, of in back.changed.items()} == {name: set(of) for name, of in difference.samples.changed.items()}
    assert {field for of in difference.samples.changed.values() for field in of} <= set(COMPARED)


def test_the_same_files_are_not_read(tmp_path: Path) -> None:
    one = made(tmp_path / "one", begin())
    held("differences.json", "the same", shown(compare(one, one, [], tmp_path / "beneath")))


@pytest.mark.parametrize("card", ["clevr", "reviews", "no-such-card", None])
def test_official_files_are_told_as_ever(card: str | None, tmp_path: Path) -> None:
    folders = [clevr_folder(tmp_path / name, scenes=3) for name in ("before", "after")]
    questions = folders[1] / "questions/CLEVR_val_questions.json"
    content = json.loads(questions.read_text())
    content["questions"][0]["question"] = "What else is there?"
    del content["questions"][1]
    questions.write_text(json.dumps(content))
    (folders[1] / "more.txt").write_text("x")
    asked: list[tuple[str, int]] = []
    versions = [version(folder, folder.name, card) for folder in folders]
    difference = compare(*versions, [], tmp_path / "beneath", lambda label, n: asked.append((label, n)))
    held("differences.json", f"official, {card}", shown(difference))
    assert not list((tmp_path / "beneath").iterdir()), "nothing is left behind"
