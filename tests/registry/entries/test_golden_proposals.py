"""Which columns are taken for what in tables of many shapes, held to tests/golden/proposals.json.

The tables are put together at random from columns that datasets have. After a change that is meant:
HELD=write pytest tests/registry/entries/test_golden_proposals.py
"""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from typing import Any

from qualm.registry.entries.infer_columns import NewCardError, propose
from tests.support.checks.held_numbers import held

CASES, ROWS = 80, 12
COLUMNS: dict[str, Any] = {
    "id": lambda i, rng: i,
    "question_id": lambda i, rng: f"q{i}",
    "index": lambda i, rng: i // 2,
    "question": lambda i, rng: f"What is {i}?",
    "query": lambda i, rng: f"Is it {i}?",
    "Question": lambda i, rng: "",
    "prompt": lambda i, rng: "Describe it.",
    "answer": lambda i, rng: ["red", "blue"][i % 2],
    "Answer": lambda i, rng: "AB"[i % 2],
    "answers": lambda i, rng: ["red", "a red one"],
    "label": lambda i, rng: i % 4,
    "gt": lambda i, rng: rng.choice(["yes", "no"]),
    "answer_index": lambda i, rng: 1 + i % 2,
    "A": lambda i, rng: f"a{i}",
    "B": lambda i, rng: f"b{i}",
    "C": lambda i, rng: ["c", None][i % 2],
    "option_a": lambda i, rng: "red",
    "option_b": lambda i, rng: "blue",
    "choices": lambda i, rng: ["red", "blue", "green"],
    "options": lambda i, rng: "['red', 'blue']",
    "image": lambda i, rng: f"images/{i}.jpg",
    "image_path": lambda i, rng: f"{i % 3}.png",
    "file_name": lambda i, rng: f"images/{i}",
    "images": lambda i, rng: [f"images/{i}.jpg", f"images/{i + 1}.jpg"],
    "image_id": lambda i, rng: i % 3,
    "url": lambda i, rng: f"https://x/{i}",
    "category": lambda i, rng: ["counting", "colour"][i % 2],
    "type": lambda i, rng: f"t{i}",
    "topic": lambda i, rng: ["x", "y", "z"][i % 3],
    "answerable": lambda i, rng: bool(i % 2),
    "is_answerable": lambda i, rng: i % 2,
    "hint": lambda i, rng: rng.choice(["", "look"]),
    "split": lambda i, rng: ["train", "test"][i % 2],
    "source": lambda i, rng: "web",
    "difficulty": lambda i, rng: rng.randrange(3),
}
FILES = ("test.jsonl", "data.json", "val.csv", "all.tsv", "test-0.jsonl", "train/part.csv", "questions.json")


def table(rng: random.Random) -> list[dict[str, Any]]:
    names = ["question"] * (rng.random() < 0.8) + ["answer"] * (rng.random() < 0.5) + rng.sample(list(COLUMNS), rng.randint(2, 7))
    return [{name: COLUMNS[name](i, rng) for name in dict.fromkeys(names)} for i in range(ROWS)]


def written(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    else:
        with path.open("w", newline="") as handle:
            writer = csv.DictWriter(handle, list(rows[0]), delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writeheader()
            writer.writerows(rows)


def test_columns_are_taken_for_what_they_ever_were(tmp_path: Path) -> None:
    shown: dict[str, Any] = {}
    for case in range(CASES):
        rng, folder = random.Random(f"table/{case}"), tmp_path / str(case)
        for name in rng.sample(FILES, rng.choice([1, 1, 2])):
            written(folder / name, table(rng))
        for number in range(ROWS + 2):
            (folder / "images").mkdir(exist_ok=True)
            (folder / "images" / f"{number}.jpg").write_bytes(b"x")
        try:
            proposal = propose(folder)
            shown[str(case)] = [proposal.adapter, proposal.args, "; ".join(proposal.columns.values())[:80], proposal.notes]
        except NewCardError as error:
            shown[str(case)] = str(error).replace(str(folder), "~")[:300]
    assert sum(isinstance(of, list) for of in shown.values()) > CASES * 0.7
    held("proposals.json", "tables", shown)
