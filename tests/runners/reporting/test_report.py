"""The report page as a whole: what must be on it, what must never be, and that it is the same bytes twice."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import chdir
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from qualm.registry.sample import IMAGES, RANKINGS
from qualm.runners.reporting import figures
from qualm.runners.reporting import page as html
from qualm.runners.reporting.findings import MAX_FINDINGS
from qualm.runners.reporting.load import model_orders, read_report
from qualm.runners.reporting.sections import leaderboard
from qualm.runners.reporting.summary import summary
from qualm.runners.results.results import Results
from qualm.runners.runtime.records import write_table
from qualm.runners.runtime.stage import Stage, StageError
from qualm.runners.stages import report
from tests.runners.reporting.conftest import Fabric
from tests.runners.reporting.made_results import frame, ranked
from tests.support.processes.chromium import Chromium

SECTIONS = ["results", "leaderboard", "calibration", "uncertainty", "breakdown", "examples", "reading"]


class Page(HTMLParser):
    """What a browser would see: elements, attributes, and text outside script and style."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside not in ("script", "style"):
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def ids(self) -> list[str]:
        return [v for _, a in self.elements if (v := a.get("id"))]


def made(stage: Any) -> tuple[str, Page]:
    report.run(stage)
    text = Path(stage.outputs["report"]).read_text(encoding="utf-8")
    return text, Page(text)


def safe(text: str, page: Page) -> None:
    """One script (ours), no handlers, no references that leave the page but to the images of the run beside it."""
    assert [t for t, _ in page.elements].count("script") == 1
    assert not {"iframe", "object", "embed", "link", "base", "foreignobject", "animate", "a:href"} & {t for t, _ in page.elements}
    for tag, attributes in page.elements:
        for key, value in attributes.items():
            assert not key.startswith("on"), (tag, key)
            if tag == "img" and re.fullmatch(r"\.\./\.\./\.qualm/runs/[\w.-]+/(made|times)\.svg", value or ""):
                continue
            if key in ("src", "href", "xlink:href", "action", "srcdoc", "data", "poster", "formaction"):
                assert value is not None and value.startswith(("#", "data:image/jpeg;base64,")), (tag, key, value)
    assert "http://" not in text and "https://" not in text
    assert not re.search(r"@import|url\((?!#f[0-9a-f]{10}-\d+\))", text)
    ids = page.ids()
    assert len(ids) == len(set(ids))


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> tuple[Stage, str, Page]:
    """A stage of two models on two datasets, its page as text, and as a browser would see it."""
    folder = tmp_path_factory.mktemp("usual")
    with chdir(folder):
        stage = Fabric(folder).stage()
        return stage, *made(stage)


def test_every_section_is_there_and_nothing_leaves_the_page(usual: tuple[Stage, str, Page]) -> None:
    _, text, page = usual
    safe(text, page)
    assert [i for i in page.ids() if i in SECTIONS] == SECTIONS
    assert "Not drawn" not in page.text and "abababab" not in page.text
    assert all("aria-label" in attributes for tag, attributes in page.elements if tag == "svg")
    for wanted in (
        "A small benchmark",
        "torch 2.13.0",
        "120 multiple-choice questions · 20 images",
        "0.86 – 0.94",
    ):
        assert wanted in page.text or wanted.replace(" ", "\xa0") in text, wanted
    assert sum(t == "svg" for t, _ in page.elements) >= 16
    assert sum(t == "img" for t, _ in page.elements) == 12
    assert len(text) < 2_000_000


def test_published_results_and_studies_stand_where_there_are_any(usual: tuple[Stage, str, Page], fabricate: Callable[..., Any]) -> None:
    _, _, without = usual
    assert not {"published", "studies"} & set(without.ids()) and "Studies" not in without.text
    Path("tables").mkdir()
    two_sizes = {"small": {"family": "F", "billions": 1}, "large": {"family": "F", "billions": 7}}
    _, page = made(fabricate().stage(published="tables", about=two_sizes))
    assert {"published", "studies"} <= set(page.ids())
    assert "No comparison: no conformal setting of this spec is called 'published'" in page.text
    links = [a.get("href") for t, a in page.elements if t == "a"]
    assert {"#published", "#studies"} <= set(links)


def test_facts_name_the_perturbations_and_call_clean_answers_so(fabricate: Callable[..., Any]) -> None:
    variants = [{"variant": f"blur@radius={r}", "plugin": "blur", "modality": "image"} for r in (2, 10)]
    _, page = made(fabricate().stage(variants=variants))
    assert "Perturbations 1 in 2 variants Clean answers" in page.text


def test_the_first_screen_has_main_metrics_with_intervals_counts_and_ties(fabricate: Callable[..., Any]) -> None:
    results = read_report(fabricate().stage())
    label = next(text for text in results.labels if text.startswith("accuracy"))
    results.rankings = frame(ranked(results, "models", label, [*results.models, "third"], 1), RANKINGS)
    table = summary(results)
    assert table.columns == ["accuracy ↑", "ECE ↓", "set size ↓", "AUROC ↑"] and [name for name, _ in table.blocks] == ["choice", "open"]
    rows = table.blocks[0][1]
    assert [model for model, _, _ in rows] == results.models and [cells[0].rank for _, cells, _ in rows] == ["lead", "lead"]
    assert rows[0][1][0].interval == "0.86 – 0.94" and rows[0][2] == "60–120"
    text = report.render(results).decode()
    assert text.index('id="results"') < text.index("<sup>†</sup>") < text.index('id="leaderboard"')


def test_findings_beyond_seven_are_shown_on_demand(fabricate: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "findings", lambda _: [f"finding {i}" for i in range(9)])
    _, page = made(fabricate().stage())
    assert "finding 6 2 more finding 7 finding 8" in page.text and MAX_FINDINGS == 7


def test_models_have_one_order_on_the_page_the_baseline_first(fabricate: Callable[..., Any]) -> None:
    fabric = fabricate(models=("a", "b", "c"), datasets=("open",))
    skill = {"a": 0.2, "b": 0.9, "c": 0.5}
    for row in fabric.scores:
        if row["metric"] == "accuracy":
            row["value"] = skill[row["model"]]
    results = read_report(fabric.stage(baseline="a"))
    assert results.models == ["a", "b", "c"] and read_report(fabric.stage()).models == ["b", "c", "a"]
    assert model_orders(Results(fabric.stage()), {"baseline": "a"}) == (results.models, results.palette), "the viewer has the same"
    (answers, *_) = leaderboard.leaderboards(results, "open")
    assert [name for name, _ in answers.rows] == results.models


def test_a_small_benchmark_fits_eight_screens_and_wide_tables_announce_their_columns(fabricate: Callable[..., Any], tmp_path: Path) -> None:
    """One model on three datasets, as the quickstart; a screen is 1,280 x 800 pixels, everything on demand closed."""
    stage = fabricate(models=("only",), datasets=("choice", "open", "open2")).stage()
    (tmp_path / "report.html").write_bytes(report.render(read_report(stage)))
    with Chromium(tmp_path / "profile", 1280, 800) as browser:
        browser.open(f"file://{tmp_path}/report.html")
        assert browser.run("document.documentElement.scrollHeight") <= 8 * 800
        browser.size(400, 800)
        browser.open(f"file://{tmp_path}/report.html")
        assert browser.run("document.documentElement.scrollWidth") == 400
        assert browser.run("document.documentElement.scrollHeight") <= 12 * 800
        hidden = browser.run("document.querySelector('#results .more-columns').textContent")
        assert "more column" in hidden and "scroll sideways" in hidden
        size = "(t) => { const m = t.getScreenCTM(); return Math.hypot(m.a, m.b) * t.getAttribute('font-size'); }"
        drawn = "[...document.querySelectorAll('svg text')].filter((t) => t.getBoundingClientRect().width > 0)"
        assert browser.run(f"Math.min(...{drawn}.map({size}))") >= 9.9, "labels keep their size"
        assert not browser.complaints


def test_the_same_tables_give_the_same_bytes(usual: tuple[Stage, str, Page], tmp_path: Path) -> None:
    stage, first, _ = usual
    second, _ = made(stage)
    assert first == second
    assert not re.search(r"20\d\d-\d\d-\d\d|localhost", first)
    assert str(tmp_path) not in second and str(Path(stage.outputs["report"]).parent) not in first


def test_hostile_text_stays_text(fabricate: Callable[..., Any]) -> None:
    evil = "</style></script><script>alert({i})</script><img src=x onerror=alert(1)>\u202egnp.exe\u202c\x00\x1b[31m مرحبا {{{{ 7*7 }}}}"
    fabric = fabricate(question=lambda i: evil.format(i=i), answer=lambda i: f"\"'><svg onload=alert({i})>&lt;")
    for row in fabric.scores:
        if row["slice"] == "category=counting":
            row["slice"] = "category=<script>x</script>\u202e]]>"
    text, page = made(fabric.stage(title="<h1 onclick=x>T", description="{{ 7*7 }} <script>", about={"large": {"family": "<b>"}}))
    safe(text, page)
    assert "<script>alert(" in page.text  # shown as text
    assert "49" not in page.text.split("Leaderboard")[0]
    assert "⟨U+202E⟩gnp.exe⟨U+202C⟩⟨U+0000⟩⟨U+001B⟩" in page.text
    assert not set("\u202e\u202c\x00\x1b") & set(text)
    assert "مرحبا" in page.text


def test_undefined_is_said_with_its_reason(usual: tuple[Stage, str, Page]) -> None:
    _, text, page = usual
    assert "no answer was judged" in page.text  # brier in the leaderboard
    assert "undefined (no scored rows)" in page.text  # the empty slice
    assert ">nan<" not in text.lower() and ">none<" not in text.lower()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"models": ("only",)}, "only"),
        ({"datasets": ("open",)}, "open-ended"),
        ({"datasets": ("choice",), "images": False}, "text only"),
        ({"judge": False}, "Leaderboard"),
    ],
    ids=["one model", "no multiple choice", "no images", "no judge"],
)
def test_works_where_something_is_absent(fabricate: Callable[..., Any], options: dict[str, Any], said: str) -> None:
    text, page = made(fabricate(**options).stage())
    safe(text, page)
    assert [i for i in page.ids() if i in SECTIONS] == SECTIONS
    assert said in page.text


def test_works_on_scores_alone(fabricate: Callable[..., Any]) -> None:
    stage = fabricate().stage()
    stage.inputs = {"scores": stage.inputs["scores"], "datasets": {}, "generations": {}}
    text, page = made(stage)
    safe(text, page)
    assert "samples are not available" in page.text


def test_no_scores_is_an_error_that_says_so(fabricate: Callable[..., Any]) -> None:
    fabric = fabricate()
    fabric.scores.clear()
    with pytest.raises(StageError, match="at least one score, found none"):
        report.run(fabric.stage())


def test_a_plot_table_without_its_columns_is_an_error(fabricate: Callable[..., Any]) -> None:
    stage = fabricate().stage()
    pl.DataFrame({"model": ["large"], "dataset": ["open"]}).write_csv(stage.inputs["risk_coverage"])
    with pytest.raises(StageError, match="missing coverage, risk"):
        report.run(stage)


def test_pictures_are_bounded_and_broken_ones_named(fabricate: Callable[..., Any]) -> None:
    fabric = fabricate(datasets=("open",))
    folder = Path(fabric.inputs["datasets"]["open"]) / "images" / "00000.parquet"
    broken = [{"image_id": f"image-{i}", "image": {"bytes": b"\x89PNG not really", "path": ""}} for i in range(20)]
    write_table(folder, broken, IMAGES)
    text, page = made(fabric.stage(examples=8))
    safe(text, page)
    assert page.text.count("image not readable (not an image in a known format)") == 8


@pytest.mark.slow
def test_the_page_stays_small_with_many_models(fabricate: Callable[..., Any]) -> None:
    text, page = made(fabricate(models=tuple(f"model-{i}" for i in range(13)), n=20).stage(examples=8))
    safe(text, page)
    assert len(text) < 2.5 * 2**20


def test_many_unscored_answers_stand_at_the_top(usual: tuple[Stage, str, Page], fabricate: Callable[..., Any]) -> None:
    small = fabricate()
    small.scores[0] |= {"value": None, "low": None, "high": None, "n": 0, "n_unscored": 60, "why": "say <b>`options: choices`</b>"}
    none = {"value": None, "low": None, "high": None, "n": 0, "n_unscored": 0}
    small.scores.append(small.scores[0] | none | {"metric": "idk_rate", "why": "no answer was judged"})
    text, page = made(small.stage())
    safe(text, page)
    assert "all 60 answers are not scored" in page.text and "say <b>`options: choices`</b>" in page.text
    assert page.text.index("not scored") < page.text.index("Clean inputs, all questions")
    assert "idk_rate is undefined" in page.text and "no answer was judged" in page.text
    assert "all 60 answers are not scored" not in usual[2].text


@pytest.mark.slow
def test_a_page_that_would_be_too_large_shows_fewer_examples_and_says_so(
    fabricate: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = fabricate(n=30).stage(examples=24)
    large, page = made(stage)
    assert sum(t == "article" for t, _ in page.elements) == 24 and "examples are shown" not in page.text
    monkeypatch.setattr(html, "MAX_BYTES", len(large.encode()) - 1)
    text, page = made(stage)
    safe(text, page)
    assert "12 of 24 examples are shown, so that the page stays below" in page.text
    cards = [a["data-dataset"] for t, a in page.elements if t == "article"]
    assert cards == ["choice"] * 6 + ["open"] * 6 and len(text) < len(large)


def test_a_page_is_written_however_large(fabricate: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "MAX_BYTES", 1)
    _, page = made(fabricate(n=30).stage(examples=24))
    assert "3 of 24 examples are shown" in page.text
    assert sum(t == "article" for t, _ in page.elements) == 3


def test_the_table_of_a_breakdown_is_bounded(fabricate: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "MAX_LINES", 5)
    _, page = made(fabricate(n=30).stage())
    assert "The table has the first 5 of these rows' 6 lines; all are in" in page.text


def test_code_in_a_description_is_code_and_stays_escaped(fabricate: Callable[..., Any]) -> None:
    page = report.render(read_report(fabricate(datasets=("open",)).stage(description="`shuffle` moves <b>words</b>"))).decode()
    assert '<p class="lead"><code>shuffle</code> moves &lt;b&gt;words&lt;/b&gt;</p>' in page
