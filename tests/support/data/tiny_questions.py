"""A dataset as its adapter leaves it: photographs, ten answers each, and how many of five people named which reason to doubt them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from qualm.registry.entries.card import load_card
from qualm.registry.sample import IMAGES, SAMPLES
from qualm.runners.runtime.records import write_table
from tests.support.data.tiny_pairs import png

SUBSETS = dict(load_card("vizwiz_ans_difference").subsets)
REASONS = ("LQI", "IVE", "INV", "DFF", "AMB", "SBJ", "SYN")
CLEAN, IMAGE, TEXT, CROSS = (0, 0, 0, 1, 2, 0, 0), (5, 1, 0, 0, 0, 0, 0), (0, 0, 4, 0, 1, 0, 0), (1, 5, 0, 0, 0, 0, 0)


def row(name: str, counts: tuple[int, ...], split: str = "val", question: str = "What is this?", **meta: str) -> dict[str, Any]:
    return {
        "sample_id": name,
        "image_id": f"photo-{name}",
        "question": question,
        "references": ["red", *["unanswerable"] * 7, "dark red", "red"],
        "choices": [],
        "answer_index": None,
        "category": "other",
        "answerable": True,
        "split": split,
        "source": "tiny",
        "group": f"photo-{name}",
        "meta": {**dict(zip(REASONS, map(str, counts), strict=True)), **meta},
        "pair_id": None,
    }


def rows(question: str = "What is this?") -> list[dict[str, Any]]:
    """Four questions of each of two subsets, one of each other, and one to train on."""
    made = [row(f"c{i}", CLEAN, question=question, uncertain="0") for i in range(4)]
    made += [row(f"i{i}", IMAGE, question=question, uncertain="1") for i in range(4)]
    return [*made, row("t0", TEXT, question=question), row("x0", CROSS, question=question), row("tr", IMAGE, "train", question)]


def write_questions(folder: Path, question: str = "What is this?") -> Path:
    """The folder that a `data` stage would have written."""
    made = rows(question)
    write_table(folder / "samples.parquet", made, SAMPLES)
    pictures = [{"image_id": r["image_id"], "image": {"bytes": png("#ddd8cc", f"#{i:02x}472f"), "path": ""}} for i, r in enumerate(made)]
    write_table(folder / "images" / "00000.parquet", pictures, IMAGES)
    (folder / "scenes").mkdir(exist_ok=True)
    (folder / "scenes" / "val.jsonl").write_text("{}\n")
    return folder
