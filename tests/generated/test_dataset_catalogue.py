"""docs/reference/datasets.md: one row per dataset, and nothing in it that is not so."""

from __future__ import annotations

import re

import pytest

from qualm.registry.entries.card import UNVERIFIED, card_names, load_card
from qualm.registry.plugins.registry import names
from tests.generated_pages import catalogue

DATASETS = [name for name in card_names() if load_card(name).kind == "dataset"]


def test_every_data_set_has_its_line() -> None:
    listed = [name for name in DATASETS if load_card(name).adapter != "recorded_samples"]
    assert re.findall(r"^- `([^`]+)`: \S", catalogue(), re.MULTILINE) == sorted(listed)


def test_the_data_sets_of_the_three_papers_are_read() -> None:
    """Each has its row, and an adapter that reads it."""
    papers = (
        "vqav2 gqa vizwiz vizwiz_ans_difference docci clevr vq_focusambiguity mmbench oodcv_vqa scienceqa seedbench ai2d unk_vqa "
        "tdiuc_absurd mmhal_bench pope amber hallusionbench mme shr certainly_uncertain llava_instruct lrv_instruction vlfeedback"
    )
    assert set(papers.split()) <= set(DATASETS)
    assert [name for name in DATASETS if load_card(name).adapter is None] == []


def test_a_line() -> None:
    line = next(line for line in catalogue().splitlines() if line.startswith("- `vizwiz`: "))
    assert line.startswith(
        "- `vizwiz`: [VizWiz-VQA](https://vizwiz.org); train 20,523, val 4,319, test 8,000; VQA accuracy: `vqa_accuracy`"
    )
    assert line.endswith("; CC BY 4.0*") and "*verified*" not in line


@pytest.mark.parametrize("name", DATASETS)
def test_what_a_scoring_rule_names_is_here(name: str) -> None:
    """In backquotes stand plugins and nothing else, so that the table cannot promise a metric that there is not."""
    known = {*names("metrics"), *names("judges"), *names("estimators")}
    assert set(re.findall(r"`([^`]+)`", load_card(name).scoring)) <= known


def test_what_was_not_checked_says_so() -> None:
    assert load_card("vizwiz").caveat == UNVERIFIED and load_card("vlm_uncertainty_bench").caveat == ""
