"""What is said of a card with mistakes in it, held to tests/golden/cards.json.

After a change that is meant: HELD=write pytest tests/registry/entries/test_golden_cards.py
"""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import pytest

from qualm.registry.entries.card import CardError, load_card, read_card
from tests.compiler.test_mutations import of_text, of_values
from tests.support.checks.held_numbers import held

CASES = 90
CARD = """\
name: x
kind: dataset
title: A made-up dataset
description: Questions with pictures, some of which have no answer.
adapter: vqav2
source: https://example.org/x
licence: CC BY 4.0
citation: "@misc{x, title={X}}"
layout:
  - {files: "a/*.json", count: 2}
  - {files: "images/**/*.jpg", at_least: 5, format: image}
splits:
  test: {files: "a/*.json", records: 3}
  val: {files: "b.json", records: 30}
subsets: {hard: "answerable and category == 'x'", known: answer_index >= 0}
fetch:
  urls: {a.zip: {url: "https://example.org/a.zip", sha256: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef, bytes: 12}}
  unpack: {a.zip: a}
  also: The pictures are on request.
"""


@pytest.mark.parametrize("mutate", [of_text, of_values])
def test_mistakes_in_a_card_are_told_as_ever(mutate, tmp_path: Path) -> None:
    shown = {}
    for case in range(CASES):
        folder = tmp_path / str(case)
        folder.mkdir()
        (folder / "x.yaml").write_text(mutate(CARD, random.Random(f"card/{mutate.__name__}/{case}")), encoding="utf-8")
        read_card.cache_clear()
        try:
            text = load_card("x", folder).model_dump_json()
            shown[str(case)] = ["sound", hashlib.sha256(text.encode()).hexdigest()[:10]]
        except CardError as error:
            shown[str(case)] = str(error).replace(str(folder), "~")[:300]
    held("cards.json", mutate.__name__, shown)
