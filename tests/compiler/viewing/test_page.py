"""The page in a real browser: from disk and served, with hostile texts, by keys and by addresses, wide and narrow."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from qualm.compiler.project.checkout import Project
from qualm.compiler.viewing.live import LiveRun
from qualm.compiler.viewing.publish import publish
from qualm.compiler.viewing.server import PageServer
from qualm.compiler.viewing.site import Site, SitePart
from qualm.runners.results.results import Results
from qualm.runners.scoring.scored_share import format_share
from tests.compiler.viewing.test_server import free_port
from tests.support.processes.chromium import Chromium

TABLE = "#/answers/small?variant=clean"
FIRST_ROW = "document.querySelector('.row .said bdi')"


@pytest.fixture(scope="module")
def disk(published: Path) -> str:
    return (published / "index.html").as_uri()


def went(browser: Chromium, url: str, ready: str) -> None:
    browser.open("about:blank")
    browser.open(url)
    browser.until(ready)


def text(browser: Chromium, selector: str) -> list[str]:
    return list(browser.run(f"[...document.querySelectorAll({selector!r})].map((one) => one.innerText.trim())"))


def test_the_leaderboard_has_the_scores(browser: Chromium, disk: str, results: Results) -> None:
    went(browser, f"{disk}#/?dataset=scenes&metric=accuracy", "document.querySelectorAll('.interval').length")
    assert text(browser, "h1") == ["Small results"] and not browser.run("document.querySelector('h1 i')")
    shown = dict(zip(text(browser, ".drawing:first-child .interval b"), text(browser, ".drawing:first-child .value"), strict=True))
    counts = dict(zip(text(browser, ".drawing:first-child .interval b"), text(browser, ".drawing:first-child .n"), strict=True))
    rows = results.scores.filter(label="accuracy", dataset="scenes", variant="clean", slice="all").to_dicts()
    assert {row["n_unscored"] for row in rows} != {0}
    for row in rows:
        assert shown[row["model"]].startswith(f"{row['value']:.2f}{row['low']:.2f} – {row['high']:.2f}"), "one number of decimals"
        unscored = f", {row['n_unscored']} unscored\nscored {format_share(row['scored_share'])}" if row["n_unscored"] else ""
        assert counts[row["model"]].startswith(f"n = {row['n']}{unscored}")


def test_it_opens_on_plain_accuracy_the_best_first(browser: Chromium, disk: str, results: Results) -> None:
    went(browser, disk, "document.querySelectorAll('.interval').length")
    assert text(browser, ".drawing:first-child h2")[0].startswith("Accuracy") and text(browser, ".metrics [aria-current]") == ["Accuracy ↑"]
    (dataset,) = text(browser, ".controls .tabs [aria-current]")
    rows = results.scores.filter(label="accuracy", dataset=dataset, variant="clean", slice="all").sort("value", descending=True)
    assert text(browser, ".drawing:first-child .interval b") == rows["model"].to_list()


def test_a_banner_says_which_results_changed(
    browser: Chromium, results: Results, viewed: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qualm.compiler.viewing.site.changed_results", lambda root, files: [f"{files[0]} <b>differs</b>"])
    part = SitePart(results, viewed.plan("small").stages)
    publish(Site([part], "Small results", "none"), tmp_path / "site")
    for view in ("#/?dataset=scenes&metric=accuracy", TABLE):
        went(browser, (tmp_path / "site/index.html").as_uri() + view, "document.querySelector('#changed p')")
        assert text(browser, "#changed p") == [f"{part.files[0]} <b>differs</b>"]
        assert browser.run("document.querySelector('#changed').getBoundingClientRect().height") > 20


def test_rows_that_do_not_look_and_rankings_of_their_own(browser: Chromium, disk: str) -> None:
    """Models that were asked a part of the questions stand below a heading; what does not look is called so, and not best."""
    went(browser, f"{disk}#/?dataset=scenes&metric=accuracy", "document.querySelectorAll('.interval').length")
    same = {
        "label": "accuracy",
        "dataset": "scenes",
        "n": 9,
        **dict.fromkeys(("estimator", "calibrator", "conformal", "low", "high", "target")),
    }
    candidates = [("a", "a", 3), ("b", "a", 3), ("c", "a", 3), ("dear", "dear", 2), ("base+swapped_picture", None, None)]
    rows = [
        same
        | {"model": model, "value": 0.1 * i, "leader": leader, "candidates": n, "is_best": model == leader, "may_be_best": model == leader}
        | ({"rank_low": 2, "rank_high": 3} if model == "b" else {})
        for i, (model, leader, n) in enumerate(candidates)
    ]
    script = (
        "(() => { const result = { ...site.results[0], blind: ['base+swapped_picture'] };"
        f"const list = intervals({json.dumps(rows)}.map((row) => ({{ ...row, result }})), {{}}, 'clean', '↑');"
        "const words = (one, inner) => one.querySelector(inner)?.textContent;"
        "return [...list.children].slice(1).map((one) => [words(one, 'b') ?? one.textContent, words(one, '.tag') ?? '']); })()"
    )
    assert [tuple(one) for one in browser.run(script)] == [
        ("base+swapped_picture", "blind"), ("c", ""), ("b", "rank 2–3"), ("a", "best"),
        ("asked only a part of the questions, ranked with dear", ""), ("dear", "best"),
    ]  # fmt: skip


def test_the_table_counts_and_filters(browser: Chromium, disk: str, results: Results) -> None:
    answers = results.answers(variant="clean")
    went(browser, disk + TABLE, FIRST_ROW)
    assert text(browser, ".total b") == [str(answers.height)]
    wrong = answers.filter((pl.col("correct") <= 0) & (pl.col("model") == "other"))
    went(browser, f"{disk}{TABLE}&model=other&verdict=wrong", FIRST_ROW)
    assert text(browser, ".total b") == [str(wrong.height)]
    counts = dict(zip(text(browser, ".facets .value span"), text(browser, ".facets .value small"), strict=False))
    assert counts["base"] == str(answers.filter((pl.col("correct") <= 0) & (pl.col("model") == "base")).height)
    went(browser, f"{disk}{TABLE}&conf=0..0.7", FIRST_ROW)
    assert text(browser, ".total b") == [str(answers.filter(pl.col("confidence") <= 0.7).height)]
    read = answers.filter(pl.col("correct").is_not_null())
    verdicts = read.group_by("dataset", "sample_id").agg(pl.col("correct").n_unique() > 1).filter(pl.col("correct"))
    went(browser, f"{disk}{TABLE}&disagree=models", FIRST_ROW)
    assert text(browser, ".total b") == [str(2 * verdicts.height)]


@pytest.mark.parametrize("width", [1280, 400])
def test_rows_have_the_expected_answer_and_the_confidence_as_a_number(browser: Chromium, disk: str, results: Results, width: int) -> None:
    browser.size(width)
    for dataset in results.datasets:
        answers = results.answers("other", dataset).to_dicts()
        went(browser, f"{disk}{TABLE}&dataset={dataset}&model=other&est=mean_token_entropy", FIRST_ROW)
        wanted = browser.run("[...document.querySelectorAll('.list .wanted')].map((one) => one.textContent)")
        sure = browser.run("[...document.querySelectorAll('.list .confidence')].map((one) => one.textContent)")
        assert len(wanted) == len(sure) > 4
        for answer, shown, number in zip(answers, wanted, sure, strict=False):
            right = (
                f"{chr(65 + answer['answer_index'])}. {answer['choices'][answer['answer_index']]}"
                if answer["choices"]
                else answer["references"][0]
            )
            assert shown == f"expected {right}" and number == f"confidence {answer['confidence']:.2f}"
        visible = "getComputedStyle(document.querySelector('.list .confidence .label')).position"
        assert browser.run(visible) == ("absolute" if width == 1280 else "static"), "in words where there is no room for columns"
        assert browser.run("getComputedStyle(document.querySelector('.heads')).display") == ("grid" if width == 1280 else "none")
        assert browser.run("document.querySelector('.list .est').getBoundingClientRect().width") > 20, "no column is dropped"
    browser.size(1280)


def test_free_text_finds_answers_and_questions(browser: Chromium, disk: str, results: Results) -> None:
    words = [pl.col("text"), pl.col("question"), *(pl.col(name).list.join(" ") for name in ("references", "choices"))]
    rows = results.answers(variant="clean").filter(pl.any_horizontal(one.str.contains("purple") for one in words))
    went(browser, f"{disk}{TABLE}&q=PURPLE", f"document.querySelector('.total b')?.innerText === '{rows.height}'")


def test_two_models_side_by_side(browser: Chromium, disk: str, results: Results) -> None:
    went(browser, f"{disk}{TABLE}&dataset=scenes&model=base&beside=other", "document.querySelector('.outcome')")
    shown = dict(zip(text(browser, ".outcome span"), text(browser, ".outcome b"), strict=True))
    base, other = (results.answers(m, "scenes").sort("sample_id")["correct"].to_numpy() for m in ("base", "other"))
    unread = np.isnan(base) | np.isnan(other)
    a, b = base >= 1, other >= 1
    assert unread.any()
    assert {k: int(v) for k, v in shown.items()} == {
        "both right": (a & b).sum(),
        "only base": (a & ~b & ~unread).sum(),
        "only other": (b & ~a & ~unread).sum(),
        "neither right": (~a & ~b & ~unread).sum(),
        "not both scored": unread.sum(),
    }


def test_two_estimators_are_compared_by_the_tests_of_the_run(browser: Chromium, disk: str) -> None:
    """24 questions on few scenes allow no test of the run's own; rows of the table stand in."""
    went(browser, f"{disk}#/compare/small?kind=models", "document.querySelector('.untested')")
    (words,) = text(browser, ".untested")
    assert words.startswith("This run has no test of base and other here. The spec compares no models; compare: {baseline: MODEL}")
    assert words.endswith("qualm compare small base other tests this pair.")
    shown = {"a": "base", "b": "other", "dataset": "scenes", "variant": "clean", "slice": "all", "n": 1234, "higher_is_better": True}
    rows = [
        shown | {"title": "accuracy", "value_a": 0.5, "value_b": 0.75, "difference": 0.25, "low": 0.1, "high": 0.4, "p_adjusted": 0.0123,
                 "margin": None, "finding": "significantly better"},
        shown | {"title": "AUROC", "value_a": 0.5, "value_b": 0.4, "difference": -0.1, "low": None, "high": None, "p_adjusted": None,
                 "margin": None, "finding": "not tested: <b>few</b> groups"},
    ]  # fmt: skip
    about = "{level: 0.95, models: {note: ''}}"
    browser.run(f"void put(document.querySelector('.tested'), comparisonTable({json.dumps(rows)}, {about}, 'models', {{}}))")
    cells = [
        ["Accuracy ↑", "0.500", "0.750", "+0.250", "+0.100 to +0.400", "0.0123", "1,234", "significantly better"],
        ["AUROC ↑", "0.500", "0.400", "−0.100", "none", "–", "1,234", "not tested: <b>few</b> groups"],
    ]
    heads = ["metric", "base", "other", "difference, other − base", "95% interval", "corrected p", "n", "verdict on other"]
    for width in (1280, 400):
        browser.size(width)
        read = "[...document.querySelectorAll('.tested tr')].map((row) => [...row.cells].map((one) => one.textContent))"
        assert browser.run(read) == [heads, *cells]
        labels = browser.run("[...document.querySelectorAll('.tested td')].map((one) => getComputedStyle(one, '::before').content)")
        assert (labels[:3] == ['"base"', '"other"', '"difference, other − base"']) == (width == 400), "labels stay beside their values"
        assert browser.run("document.documentElement.scrollWidth") <= width
    browser.size(1280)
    uncorrected = [row | {"p": row["p_adjusted"]} for row in rows]
    browser.run(f"void put(document.querySelector('.tested'), comparisonTable({json.dumps(uncorrected)}, {about}, 'models', {{}}))")
    assert text(browser, ".tested thead th")[5] == "p"


def test_a_served_page_tests_a_pair_on_demand(browser: Chromium, site: Site, tmp_path: Path) -> None:
    with PageServer(Site(list(site.parts.values()), "x", live=LiveRun(tmp_path)), free_port()) as server:
        went(browser, f"{server.url}#/compare/small?kind=models&dataset=options", "document.querySelector('.test-now')")
        browser.run("document.querySelector('.test-now').click()")
        browser.until("document.querySelector('.tested tbody tr')")
        assert text(browser, ".tested thead th")[1:4] == ["base", "other", "difference, other − base"]
        assert "Accuracy ↑" in text(browser, ".tested tbody th") and text(browser, ".tested .note")[0].startswith("Tested now")
        assert set(text(browser, ".tested .finding")) and not text(browser, ".tested .warning")


def test_columns_out_of_view_are_named(browser: Chromium, disk: str) -> None:
    went(browser, f"{disk}#/?dataset=options", "document.querySelector('.interval')")
    make = (
        "put(document.querySelector('main'), scrollable('Wide', el('table', null, el('thead', null, el('tr', null, "
        "%s.map((name) => el('th', {style: {'min-width': '300px'}}, name)))))))"
    )
    browser.size(700)
    browser.run(f"void {make % json.dumps(['first', 'second', 'third'])}")
    browser.until("document.querySelector('.beyond').textContent === 'Scroll sideways for 1 more column: third'")
    assert (
        browser.run("document.querySelector('.scroll').tabIndex") == 0 and browser.run("document.querySelector('.beyond').role") == "status"
    )
    browser.run("document.querySelector('.scroll').scrollLeft = 999")
    browser.until("document.querySelector('.beyond').textContent === ''")
    browser.size(1280)


def test_keys_lead_to_a_question_and_back(browser: Chromium, disk: str) -> None:
    went(browser, f"{disk}{TABLE}&dataset=options", FIRST_ROW)
    for key in ("j", "j", "k"):
        browser.press(key)
    browser.press("Enter")
    browser.until("document.querySelector('.card')")
    first = text(browser, ".crumb b")
    assert len(text(browser, ".options tbody tr")) == 6 and text(browser, ".strip a")
    for key in ("j", "j", "j"):
        browser.press(key)
    browser.until(f"document.querySelector('.crumb b')?.innerText !== {first[0]!r}")
    browser.press("ArrowDown")
    browser.until("location.hash.includes('variant=blur')")
    browser.until("[...document.querySelectorAll('.pictures img')].every((i) => i.complete && i.naturalWidth)")
    browser.press("?")
    browser.until("document.querySelector('dialog[open]')")
    browser.run("document.querySelector('dialog').close()")
    browser.press("Escape")
    browser.until("document.querySelector('.list')")
    assert "dataset=options" in browser.run("location.hash")


def test_a_text_variant_marks_its_words_for_eyes_and_ears(browser: Chromium, disk: str, results: Results, site: Site) -> None:
    sample = results.samples("scenes").row(2, named=True)
    (asked,) = site.parts["small"].model_inputs.questions("scenes", sample["sample_id"], ["typos@p=0.5"]).values()
    went(browser, f"{disk}#/q/small/scenes/{sample['sample_id']}?variant=typos@p=0.5", "document.querySelector('h1 ins')")
    aside = "[...one.querySelectorAll('.hidden-label, .quiet')]"
    read = f"(one) => {aside}.reduce((text, label) => text.replace(label.textContent, ''), one.textContent)"
    assert browser.run(f"({read})(document.querySelector('h1'))").split() == asked.split()
    assert browser.run(f"({read})(document.querySelector('.original'))").split() == sample["question"].split()
    for tag, label in (("ins", "changed: "), ("del", "replaced: ")):
        marked = browser.run(f"[...document.querySelectorAll('.sample {tag}')].map((one) => one.firstChild.textContent)")
        assert marked and set(marked) == {label}
    head = text(browser, ".card .values thead th")
    assert head[:3] == ["estimator", "value", "percentile"] and text(browser, ".card .values td .sure-value")[0].endswith("%")
    went(browser, f"{disk}#/q/small/scenes/{sample['sample_id']}", "document.querySelector('.card')")
    assert text(browser, ".sample h1") == [sample["question"]] and not browser.run("document.querySelector('.sample ins')")


def test_a_published_site_says_why_an_image_is_missing(browser: Chromium, site: Site, results: Results, tmp_path: Path) -> None:
    sample_id = results.samples("scenes")["sample_id"][2]
    for pictures, variant, words in (
        ("none", "clean", "Images are not published on this site (--images none). Licence of scenes: CC0-1.0. qualm view shows them"),
        ("clean", "blur@radius=2", "Images under variants are not published on this site (--images clean). Licence of scenes: CC0-1.0."),
    ):
        publish(Site(list(site.parts.values()), "x", pictures), tmp_path / pictures)  # type: ignore[arg-type]
        page = (tmp_path / pictures / "index.html").as_uri()
        went(browser, f"{page}#/q/small/scenes/{sample_id}?variant={variant}", "document.querySelector('.no-picture')")
        assert text(browser, ".no-picture")[0].startswith(words)
    went(browser, f"{page}#/q/small/scenes/{sample_id}", "document.querySelector('.pictures img')")
    browser.run("document.querySelector('.pictures img').dispatchEvent(new Event('error'))")
    assert text(browser, ".no-picture") == ["This image cannot be shown: its file is absent from this site, unreadable or too large."]


def test_hostile_texts_stay_texts(browser: Chromium, disk: str, results: Results) -> None:
    rows = results.answers(dataset="scenes", variant=None).filter(pl.col("text").str.contains("<script>", literal=True))
    asked = results.samples("scenes")["sample_id"][0]
    for sample_id, model, variant in [(asked, "base", "clean"), *rows.select("sample_id", "model", "variant").rows()]:
        went(browser, f"{disk}#/q/small/scenes/{sample_id}?model={model}&variant={variant}", "document.querySelector('.card')")
        assert browser.run("window.hurt === undefined && !document.querySelector('main script, main img[src=x]')")
    assert rows.height and "⟨U+202E⟩esrever⟨U+0000⟩⟨U+001B⟩[31m" in text(browser, ".card .text p bdi")[0]
    went(browser, f"{disk}{TABLE}&dataset=scenes", FIRST_ROW)
    assert "What <b>colour</b> is⟨U+202E⟩ it?<script>" in text(browser, ".row .asked")[0]
    assert browser.run("window.hurt === undefined && !document.querySelector('main script, .row b b')")


@pytest.mark.parametrize("width", [1280, 400])
def test_nothing_runs_over_the_edge(browser: Chromium, disk: str, results: Results, width: int) -> None:
    browser.size(width, 800)
    sample_id = results.samples("options")["sample_id"][0]
    for where, ready in (
        ("#/", ".interval"),
        ("#/compare/small", ".untested"),
        (TABLE, ".row"),
        (TABLE + "&beside=other", ".pair"),
        (f"#/q/small/options/{sample_id}", ".card"),
    ):
        went(browser, disk + where, f"document.querySelector('{ready}')")
        assert browser.run("document.documentElement.scrollWidth") <= width, where
    browser.size(1280)


def test_served_it_asks_its_own_server_alone(browser: Chromium, site: Site) -> None:
    with PageServer(site, free_port()) as server:
        before = len(browser.requests)
        went(browser, server.url + TABLE, FIRST_ROW)
        asked = [url for url in browser.requests[before:] if url != "about:blank"]
        assert asked and all(url.startswith(server.url) for url in asked)
        sample = text(browser, ".row .asked")[3]
        browser.run("document.querySelectorAll('.row')[3].click()")
        browser.until("document.querySelector('.card')")
        assert text(browser, ".sample h1") == [sample]
        assert browser.run("fetch('https://example.org/').then(() => 'went', () => 'refused')") == "refused"
        browser.complaints.clear()


def test_an_address_that_leads_nowhere_says_so(browser: Chromium, disk: str) -> None:
    went(browser, f"{disk}#/q/small/scenes/nobody", "document.querySelector('main > .quiet')?.innerText.includes('nobody')")
    words = "This could not be shown: there are no results “gone” on this page; there are: small"
    went(browser, f"{disk}#/answers/gone", f"document.querySelector('main > .quiet')?.innerText === {words!r}")
    went(browser, f"{disk}#/answers", "document.querySelectorAll('.row').length > 3")
    went(browser, f"{disk}{TABLE}&model=base&beside=other&outcome=b&sets=none&sort=x", "document.querySelectorAll('.row').length > 3")
    went(browser, f"{disk}#/q", "document.querySelector('main > .quiet')?.innerText.includes('shown: the address names no question')")
    browser.complaints.clear()


def test_a_run_is_followed(browser: Chromium, site: Site, tmp_path: Path) -> None:
    logs = tmp_path / ".qualm" / "logs"
    logs.mkdir(parents=True)
    events = [{"event": "begin", "stage": "mine/score"}, {"event": "end", "stage": "mine/score", "how": "ran"}]
    events.append({"event": "answer", "by": "mine/infer", "question": "What?", "answer": "<b>red</b>"})
    (logs / "run.events").write_text("".join(json.dumps(e) + "\n" for e in events))
    with PageServer(Site(list(site.parts.values()), "x", live=LiveRun(tmp_path)), free_port()) as server:
        went(browser, server.url + "#/run", "document.querySelector('.run .board')")
        assert text(browser, ".run tbody th") == ["mine/score"] and "Run" in text(browser, "#nav a")
        assert text(browser, ".answered td") == ["mine/infer", "What?", "<b>red</b>"]
        with (logs / "run.events").open("a") as file:
            file.write(
                json.dumps({"event": "begin", "stage": "later"})
                + "\n"
                + json.dumps({"event": "end", "stage": "later", "how": "restored"})
                + "\n"
            )
        browser.until("document.querySelectorAll('.run tbody th').length === 2")
        browser.run("location.hash = '#/'")
        browser.until("document.querySelector('.interval')")
