"""docs/reference/models.md: a line for every published model."""

from __future__ import annotations

import re

from qualm.registry.entries.published_models import published
from tests.generated_pages import published_models

MODELS, FAMILIES = published_models().split("## Families examined")
LINES = dict(re.findall(r"^- `([^`]+)`: (.*)$", MODELS, re.MULTILINE))


def test_every_model_has_its_line() -> None:
    assert list(LINES) == list(published())


def test_lines() -> None:
    """Of a model that gives everything, of one that lacks signals, and of one that cannot be asked."""
    assert LINES["Qwen/Qwen2-VL-7B-Instruct"] == "8.29B, apache-2.0"
    assert LINES["google/paligemma-3b-mix-224"].endswith(", no logprobs_without_image, logprobs_without_both; needs `template`")
    assert LINES["OpenGVLab/InternVL2_5-8B"].startswith("8.08B, mit, not supported: its remote code")
    assert "plain passes" in LINES["meta-llama/Llama-3.2-11B-Vision-Instruct"]


def test_families_stand_with_how_they_were_read() -> None:
    rows = dict(line.strip("| ").split(" | ") for line in FAMILIES.splitlines() if line.startswith("| `"))
    assert "qwen3_vl" in rows["`one pass`"] and "florence2" in rows["`plain passes`"]
    assert "llama4" in rows["`plain passes, with torchvision 0.28.0`"]
    assert "gemma3n" in rows["`one pass, with torchvision and timm 1.0.29`"]
