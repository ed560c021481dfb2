"""docs/reference/models.md: a row for every published model."""

from __future__ import annotations

import re

from qualm.compiler.generated import published_models
from qualm.registry.published.models import published

TABLE, FAMILIES = published_models().split("## Families examined")
ROWS = [line for line in TABLE.splitlines() if line.startswith("| `")]


def test_every_model_has_its_row() -> None:
    assert [re.match(r"\| `([^`]+)`", row)[1] for row in ROWS] == list(published())  # type: ignore[index]


def test_rows() -> None:
    """Of a model that gives everything, of one that lacks signals, and of one that cannot be asked."""
    row = {line.split("`")[1]: line.split(" | ", 1)[1] for line in ROWS}
    assert row["Qwen/Qwen2-VL-7B-Instruct"] == "8.29 | 15.4 | apache-2.0 |  |"
    assert row["google/paligemma-3b-mix-224"].endswith("| no logprobs_without_image, logprobs_without_both; needs `template` |")
    assert row["OpenGVLab/InternVL2_5-8B"].startswith("8.08 |  | mit | not supported: its remote code")
    assert "plain passes" in row["meta-llama/Llama-3.2-11B-Vision-Instruct"]


def test_families_stand_with_how_they_were_read() -> None:
    rows = dict(line.strip("| ").split(" | ") for line in FAMILIES.splitlines() if line.startswith("| `"))
    assert "qwen3_vl" in rows["`one pass`"] and "florence2" in rows["`plain passes`"]
    assert "llama4" in rows["`plain passes, with torchvision 0.28.0`"]
    assert "gemma3n" in rows["`one pass, with torchvision and timm 1.0.29`"]
