"""Official files of every adapter that reads records, small, as its own test lays them out: for tests of what all adapters keep."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.clevr_folder import clevr_folder
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
    test_vlmevalkit_tsv,
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


def tsv(root: Path) -> Path:
    one = {"question": "Which?", "A": "x", "B": "y", "answer": "B", "category": "k", "l2-category": "l", "hint": ""}
    rows = [{"index": index, "image": test_vlmevalkit_tsv.cell(index % 10)} for index in (1, 2, 1_000_001)]
    return test_vlmevalkit_tsv.table(root, [one | row for row in rows])


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
    "clevr": (lambda root: clevr_folder(root, scenes=1), {}),
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
    "vlmevalkit_tsv": (tsv, {}),
    "vq_focusambiguity": (lambda root: test_vq_focusambiguity.folder(root, train=[test_vq_focusambiguity.record(1)]), {"parts": ["train"]}),
    "vqav2": (lambda root: test_vqav2.folder(root, [test_vqav2.question(42000)], [test_vqav2.annotation(42000)]), {}),
}  # fmt: skip
"""Adapter -> official files as its own test lays them out, and arguments."""
OTHERS = {"clevr_hallucination", "hf_parquet", "recorded_samples", "synthetic_scenes", "vlm_uncertainty_bench"}
"""Adapters that make questions of their own, or read no text of a stranger's, or whose tests do the like themselves."""
