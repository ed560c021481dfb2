"""docs/reference/models.md: a row for every published model."""

from __future__ import annotations

import re

from qualm.compiler.generated.published_models import published_models
from qualm.registry.published.models import published

ROWS = [line for line in published_models().splitlines() if line.startswith("| `")]


def test_every_model_has_its_row() -> None:
    assert [re.match(r"\| `([^`]+)`", row)[1] for row in ROWS] == list(published())  # type: ignore[index]


def test_rows() -> None:
    """Of a model that gives everything, of one that lacks signals, and of one that cannot be asked."""
    row = {line.split("`")[1]: line.split(" | ", 1)[1] for line in ROWS}
    assert row["Qwen/Qwen2-VL-7B-Instruct"] == "8.29 | 15.4 | 9.4 | 6.7 | 56 | 391 | apache-2.0 | all signals |"
    assert row["google/paligemma-3b-mix-224"].endswith("| no logprobs_without_image, logprobs_without_both; needs `template` |")
    assert row["OpenGVLab/InternVL2_5-8B"].startswith("8.08 |  |  |  |  | 3328 | mit | not supported: its remote code")
