"""Whatever stands in a record, reading it gives samples that a table can hold or an AdapterError; never a traceback."""

from __future__ import annotations

import copy
import csv
import io
import json
import random
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from registry.adapters import AdapterContext, AdapterError
from registry.cards import card_names, load_card
from registry.plugins import load
from registry.sample import IMAGES, SAMPLES, Image, Sample
from runners.data import as_row
from tests.registry.adapters import (
    test_ai2d,
    test_amber,
    test_certainly_uncertain,
    test_docci,
    test_gqa,
    test_hallusionbench,
    test_llava_instruct,
    test_lrv_instruction,
    test_mmbench,
    test_mme,
    test_mmhal_bench,
    test_oodcv_vqa,
    test_pope,
    test_scienceqa,
    test_seedbench,
    test_shr,
    test_tdiuc,
    test_unk_vqa,
    test_vizwiz,
    test_vizwiz_ans_difference,
    test_vlfeedback,
    test_vq_focusambiguity,
    test_vqav2,
)

Build = Callable[[Path], Path]


def coco(root: Path) -> Path:
    (root / "a.jpg").write_bytes(b"p")
    annotations = [{"id": 1, "image_id": 9, "q": "What?", "answer": "cat", "category_id": 3}]
    files = {"images": [{"id": 9, "file_name": "a.jpg"}], "annotations": annotations, "categories": [{"id": 3, "name": "cat"}]}
    (root / "a.json").write_text(json.dumps(files))
    return root


def own(root: Path) -> Path:
    (root / "a.jpg").write_bytes(b"p")
    row = {"image": "a.jpg", "q": "What?", "a": 1, "o": ["x", "y"], "id": "i", "kind": "k", "ok": True, "of": "g", "m": 1.5}
    (root / "a.jsonl").write_text(json.dumps(row) + "\n")
    return root


def graphs(root: Path) -> Path:
    return test_gqa.folder(root, {"q1": test_gqa.record(), "q2": test_gqa.record(structural="verify", answer="yes")}, graphs=("n1",))


def llava(root: Path) -> Path:
    text = {"id": "t", "conversations": test_llava_instruct.talk("What is a tag?", "A mark.")}
    return test_llava_instruct.folder(root, [test_llava_instruct.record(), text])


LAYOUTS: dict[str, tuple[Build, dict[str, Any]]] = {
    "ai2d": (lambda root: test_ai2d.layout(root), {"split": "test"}),
    "amber": (
        lambda root: test_amber.folder(
            root,
            [test_amber.query(1), test_amber.query(2)],
            [test_amber.known(1, "generative", ["sky"], hallu=["cloud"]), test_amber.known(2)],
        ),
        {"task": "all"},
    ),
    "certainly_uncertain": (
        lambda root: test_certainly_uncertain.folder(root, *(test_certainly_uncertain.line(answerable=a) for a in (True, False))),
        {},
    ),
    "coco_folder": (coco, {"files": {"test": "*.json"}, "images": ".", "question": "q", "answer": "answer", "category": "category_id"}),
    "docci": (lambda root: test_docci.folder(root, [test_docci.line()]), {}),
    "gqa": (graphs, {"parts": ["train"]}),
    "hallusionbench": (
        lambda root: test_hallusionbench.folder(
            root, [test_hallusionbench.record(), test_hallusionbench.record(**test_hallusionbench.TEXT_ONLY)]
        ),
        {},
    ),
    "image_table": (
        own,
        {
            "files": {"test": "a.jsonl"}, "question": "q", "answer": "a", "answer_is": "index", "choices": ["o"], "id": "id",
            "category": "kind", "answerable": "ok", "group": "of", "meta": ["m"],
        },
    ),
    "llava_instruct": (llava, {}),
    "lrv_instruction": (lambda root: test_lrv_instruction.folder(root, filter_cap1=[test_lrv_instruction.TEAPOT]), {"parts": ["first"]}),
    "mmbench": (lambda root: test_mmbench.table(root, test_mmbench.OFFICIAL), {}),
    "mme": (lambda root: test_mme.folder(root, test_mme.SUBTASKS["cognition"], 1), {"part": "cognition"}),
    "mmhal_bench": (lambda root: test_mmhal_bench.folder(root, [test_mmhal_bench.record(i) for i in range(96)]), {}),
    "oodcv_vqa": (lambda root: test_oodcv_vqa.layout(root, test_oodcv_vqa.OFFICIAL), {"answers": "all"}),
    "pope": (lambda root: test_pope.folder(root, [test_pope.record()]), {}),
    "scienceqa": (lambda root: test_scienceqa.layout(root), {}),
    "seedbench": (lambda root: test_seedbench.layout(root, test_seedbench.OFFICIAL), {}),
    "shr": (lambda root: test_shr.folder(root), {}),
    "tdiuc": (lambda root: test_tdiuc.folder(root), {}),
    "unk_vqa": (lambda root: test_unk_vqa.folder(root, [test_unk_vqa.record(), test_unk_vqa.record(2, binary=False)]), {}),
    "vizwiz": (lambda root: test_vizwiz.folder(root, [test_vizwiz.record()]), {}),
    "vizwiz_ans_difference": (lambda root: test_vizwiz_ans_difference.folder(root, [test_vizwiz_ans_difference.record()]), {}),
    "vlfeedback": (lambda root: test_vlfeedback.folder(root, [test_vlfeedback.record(test_vlfeedback.GOOD, test_vlfeedback.POOR)]), {}),
    "vq_focusambiguity": (lambda root: test_vq_focusambiguity.folder(root, train=[test_vq_focusambiguity.record(1)]), {"parts": ["train"]}),
    "vqav2": (lambda root: test_vqav2.folder(root, [test_vqav2.question(42000)], [test_vqav2.annotation(42000)]), {}),
}  # fmt: skip
"""Adapter -> official files as its own test lays them out, and arguments."""
OTHERS = {"clevr", "clevr_hallucination", "hf_parquet", "recorded_samples", "synthetic_scenes", "vlm_uncertainty_bench", "vlmevalkit_tsv"}
"""Adapters that read no JSON records of a stranger, or whose tests do the like themselves."""
HUGE = "a number of 5,000 digits, which Python does not write"
NASTY: list[Any] = [
    *(None, True, -1, 0, 1.5, float("nan"), float("inf"), HUGE, [], {}, [[]], [None], {"a": 1}, [{}], "", " ", "9" * 5000),
    *("\ud800", "a\0b", "../../x", "/etc/passwd", "x" * 5000, "x" * 200_000, "[" * 5000, "²", "\n", "yes\tno", "{0.__class__}", "NaN"),
]
TRIES = 60
"""Of each adapter."""


def documents(source: Path) -> list[Path]:
    return sorted(p for p in source.rglob("*") if p.suffix in (".json", ".jsonl", ".jsonlines", ".tsv", ".csv", ".txt"))


def read(path: Path) -> Any:
    text = path.read_text()
    if path.suffix == ".tsv":
        return [list(row) for row in csv.reader(io.StringIO(text, newline=""), "excel-tab")]
    if path.suffix in (".csv", ".txt"):
        return text.splitlines()
    try:
        return json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.splitlines()]


def write(path: Path, value: Any, was: str) -> None:
    if path.suffix in (".tsv", ".csv", ".txt"):
        rows = [r if isinstance(r, list) else [r] for r in value] if isinstance(value, list) else [[value]]
        text = "\n".join("\t".join(str(cell) for cell in row) for row in rows)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))  # then no UTF-8 either
    elif isinstance(value, list) and not was.startswith("["):
        path.write_text("\n".join(map(dumped, value)))
    else:
        path.write_text(dumped(value))


def dumped(value: Any) -> str:
    return json.dumps(value).replace(f'"{HUGE}"', "9" * 5000)


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    items = value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*at, key))


def changed(value: Any, at: tuple[Any, ...], to: Any) -> Any:
    if not at:
        return to
    made = copy.deepcopy(value)
    inner = made
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = to
    return made


def mutants(source: Path) -> Iterator[tuple[Path, Any, str, Any]]:
    """A file, what it holds with one thing changed, its text before, and what was changed."""
    rng = random.Random(zlib.crc32(str(sorted(p.name for p in source.iterdir())).encode()))
    every = [(path, at, to) for path in documents(source) for at in places(read(path)) for to in NASTY]
    for path, at, to in rng.sample(every, min(TRIES, len(every))):
        yield path, changed(read(path), at, to), path.read_text(), (path.name, at, to)


def fits_a_table(items: list[Image | Sample]) -> None:
    samples = [as_row(item) for item in items if isinstance(item, Sample)]
    images = [{"image_id": i.image_id, "image": {"bytes": i.data, "path": i.path}} for i in items if isinstance(i, Image)]
    assert pa.Table.from_pylist(samples, schema=SAMPLES).num_rows == len(samples)
    assert pa.Table.from_pylist(images, schema=IMAGES).num_rows == len(images)


@pytest.mark.parametrize("name", LAYOUTS)
def test_any_value_anywhere(tmp_path: Path, name: str) -> None:
    build, args = LAYOUTS[name]
    (tmp_path / "in").mkdir()
    source = build(tmp_path / "in")
    adapter = load("datasets", name)
    assert [i for i in adapter(AdapterContext(tmp_path, source=source), **args) if isinstance(i, Sample)]
    contexts = AdapterContext(tmp_path, source=source), AdapterContext(tmp_path, source=source, bad=lambda error: None)
    for path, value, was, what in mutants(source):
        write(path, value, was)
        for context in contexts:
            try:
                fits_a_table(list(adapter(context, **args)))
            except AdapterError:
                pass
            except Exception as error:
                raise AssertionError(f"{what!r:.200}: {type(error).__name__}: {error!s:.200}") from error
        path.write_text(was)


def test_every_adapter_is_among_them() -> None:
    assert {load_card(name).adapter for name in card_names()} - {None} <= set(LAYOUTS) | OTHERS
