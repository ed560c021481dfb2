"""Samples with several pictures, frames of video and text alone, answered by a model that thinks first, in a real browser."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from qualm.compiler.results.scores import read_spec_results
from qualm.compiler.viewing.publish import publish
from qualm.compiler.viewing.site import Site, SitePart
from qualm.registry.formats.picture_lists import picture_ids
from tests.support.processes.chromium import Chromium
from tests.support.projects.pictures_project import CUT, pictures_project

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("several")
    made = pictures_project(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        publish(Site([SitePart(read_spec_results(made, "small"), made.plan("small").stages)], "Several", "all"), folder / "site")
    return folder


def test_pictures_are_numbered_and_missing_answers_say_why(root: Path, browser: Chromium) -> None:
    def texts(selector: str) -> list[str]:
        return list(browser.run(f"[...document.querySelectorAll({selector!r})].map((one) => one.innerText.trim())"))

    samples = pl.concat(
        pl.read_parquet(root / f"results/small/data/{d}/samples.parquet").with_columns(of=pl.lit(d)) for d in ("several", "clips")
    )
    for width in (1280, 400):
        browser.size(width)
        for n, dataset in ((2, "several"), (5, "several"), (0, "several"), (4, "clips")):
            row = next(r for r in samples.iter_rows(named=True) if r["of"] == dataset and len(picture_ids(r["image_id"])) == n)
            browser.open("about:blank")
            browser.open(f"{(root / 'site/index.html').as_uri()}#/q/small/{dataset}/{row['sample_id']}")
            browser.until("document.querySelector('.card')")
            assert browser.run("document.documentElement.scrollWidth") <= width
            captions = texts(".pictures figcaption")
            if dataset == "clips":  # twelve frames: floor((2k + 1) 12 / 8)
                assert captions == ["1 frame 1", "2 frame 4", "3 frame 7", "4 frame 10"]
            else:
                assert captions == [str(k + 1) for k in range(n)]
            (heading,) = texts(".sample h1")
            if n == 2:
                assert heading.startswith("What changes between [image 1] and [image 2]")
            assert f"no answer: {CUT}" in texts(".draws em")
    assert browser.run("document.querySelector('.all em').innerText") == f"no answer: {CUT}"


def test_the_report_shows_them_as_wide_as_their_card(root: Path, browser: Chromium) -> None:
    browser.open((root / "results/small/report.html").as_uri())
    for width in (1280, 400):
        browser.size(width)
        assert browser.run("document.documentElement.scrollWidth") <= width
        share = "(card) => card.querySelector('img').clientWidth / card.clientWidth"
        shares = browser.run(f"[...document.querySelectorAll('.card.several')].map({share})")
        assert shares and min(shares) > 0.85
