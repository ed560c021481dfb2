"""The known-truth test of attribution, shrunk, from a clone by real `dvc repro`: a small VLM, spoilt scenes, and what the report claims."""

from __future__ import annotations

import re

import polars as pl
import pytest

from qualm.runners.results.attribution import GROUP, beats_the_floor
from tests.end_to_end.clone import Clone, make_clone

SPEC = "attribution_scenes"
R = f"results/{SPEC}"
SMALLER = {
    r"scenes: 200": "scenes: 100",
    r"draws: 10": "draws: 2",
    r"  - (cutout|gaussian_noise|dark|pixelate|salt_and_pepper|dropwords|shuffle): .*\n": "",
    r"  - (semantic_entropy|lexical_similarity)\n": "",
    r"bootstrap: \d+": "bootstrap: 200",
}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def rebuilt(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    clone = make_clone(tmp_path_factory.mktemp("attribution") / "clone", SPEC, forked=True)
    spec = clone.root / f"specs/{SPEC}.yaml"
    text = spec.read_text()
    for old, new in SMALLER.items():
        text, found = re.subn(old, new, text)
        assert found, old
    spec.write_text(text)
    clone.run("dvc", "pull", "-q", "registry/data/scene-vlm-base.dvc")
    clone.qualm("compile")
    clone.repro()
    return clone


def test_the_spoilt_modality_is_named_more_often_than_by_always_naming_one(rebuilt: Clone) -> None:
    rows = {row["held_out"]: row for row in pl.read_parquet(rebuilt.root / R / "blames.parquet").to_dicts()}
    assert (rows[GROUP]["n"], rows[GROUP]["floor"]) == (200, 0.5)
    assert beats_the_floor(rows[GROUP]) and rows[GROUP]["accuracy"] > 0.6 and rows[GROUP]["auroc_low"] > 0.6


def test_what_was_spoilt_is_the_truth(rebuilt: Clone) -> None:
    samples = pl.read_parquet(rebuilt.root / R / "attributions.parquet")
    assert dict(samples["truth"].value_counts().iter_rows()) == {"clean": 100, "image": 100, "text": 100}
    spoilt = samples["sample_id"].str.split("-").list.last()
    assert samples["truth"].to_list() == [{"none": "clean", "picture": "image", "question": "text"}[s] for s in spoilt.to_list()]


def test_the_report_says_how_it_was_checked(rebuilt: Clone) -> None:
    page = (rebuilt.root / R / "report.html").read_text()
    assert "for base, the known modality is named for" in page and "the majority baseline has 0.500" in page
