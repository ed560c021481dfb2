"""The page in a real browser: keys decide, a reload goes on, hostile text stays text, nothing leaves the machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from qualm.registry.sample import IMAGES
from qualm.runners.data.splits import SplitRule
from qualm.runners.review import page
from qualm.runners.review.journal import ReviewJournal
from qualm.runners.review.pool import read_dataset_pool, read_pool
from qualm.runners.review.session import ReviewSession
from qualm.runners.runtime.records import write_table
from tests.support.data.tiny_pairs import write_pairs
from tests.support.data.tiny_questions import SUBSETS, write_questions
from tests.support.processes.chromium import Chromium

pytestmark = pytest.mark.usefixtures("gradio")
HOSTILE = "<img src=x onerror=alert(1)></section><script>alert(2)</script> ${7*7} {{ 7*7 }} \u202egnp.exe"


@pytest.fixture
def session(tmp_path: Path) -> ReviewSession:
    recipe, source = write_pairs(tmp_path, 2, HOSTILE)
    return ReviewSession(read_pool([recipe], [source]), ReviewJournal(tmp_path, "reviews", "ann"))


@pytest.fixture
def browser(tmp_path: Path, session: ReviewSession) -> Iterator[Chromium]:
    """A browser at the page, the first question shown."""
    with Chromium(tmp_path / "profile") as tab:
        running = page.serve(session, "ours <b>&", None)
        try:
            assert running.url.startswith("http://127.0.0.1:")
            tab.open(running.url)
            tab.until("document.querySelector('#view .member.current img')?.complete && document.querySelector('#undo')")
            yield tab
        finally:
            running.close()


def at(tab: Chromium, session: ReviewSession) -> None:
    """Wait until the page shows the question that is due."""
    due = session.current
    assert due is not None
    tab.until(f"document.querySelector('#view .member.current')?.dataset.sample === '{due.sample_id}'")


@pytest.mark.slow
def test_a_review_in_a_browser(browser: Chromium, session: ReviewSession, tmp_path: Path) -> None:
    order = session.pool.order("ann")
    at(browser, session)
    assert browser.run("document.querySelectorAll('#view .member').length") == 2
    assert browser.run("[...document.querySelectorAll('#view details')].every(d => !d.open)")
    text = browser.run("document.querySelector('#view .member.current .question').textContent")
    assert text == HOSTILE.replace("\u202e", "⟨U+202E⟩")
    assert browser.run("document.querySelectorAll('#view script, #view img[src=x]').length") == 0
    assert browser.run("document.querySelector('#view h1').textContent") == "ours <b>&"

    browser.press("p")
    assert browser.run("[...document.querySelectorAll('#view details')].every(d => d.open)")
    browser.press("v")
    browser.until("document.querySelector('#view .head').textContent.includes('1 valid')")
    at(browser, session)
    assert browser.run("[...document.querySelectorAll('#view details')].every(d => !d.open)")

    browser.press("n")
    browser.until("document.activeElement.closest('#note')")
    for letter in "vis":  # typed into the note, these decide nothing
        browser.press(letter)
    browser.press("Escape")
    browser.until("!document.activeElement.closest('#note')")
    browser.press("i")
    browser.until("document.querySelector('#view .head').textContent.includes('1 invalid')")
    kept = session.journal.get(order[1], session.pool.questions[order[1]].content)
    assert kept is not None and (kept.decision, kept.note) == ("invalid", "vis")

    browser.reload()
    browser.until("document.querySelector('#view .head')?.textContent.includes('1 valid, 1 invalid')")
    at(browser, session)
    browser.press("u")
    browser.until("document.querySelector('#view .head').textContent.includes('0 invalid')")
    assert session.current is session.pool.questions[order[1]]

    session.decide("skip")  # as from another tab: this one still shows the question before
    browser.press("v")
    browser.until("document.querySelector('#view .told')")
    assert session.counts == {"valid": 1, "skip": 1, "left": 6}
    while session.current is not None:
        at(browser, session)
        browser.press("v")
        left = session.counts["left"]
        browser.until(f"!document.querySelector('#view .head').textContent.includes('{left} left')") if left else None
    browser.until("document.querySelector('#view .done')")

    assert browser.complaints == []
    assert all(u.startswith(("http://127.0.0.1:", "data:", "blob:")) for u in browser.requests)


@pytest.mark.slow
def test_it_fits_a_phone(browser: Chromium, session: ReviewSession) -> None:
    browser.size(400)
    assert browser.run("document.documentElement.scrollWidth") <= 400
    tops = browser.run("[...document.querySelectorAll('#view .member')].map(m => [m.className, m.getBoundingClientRect().top])")
    assert min(tops, key=lambda t: t[1])[0] == "member current"


@pytest.mark.slow
def test_a_data_set_without_pairs_in_a_browser(tmp_path: Path) -> None:
    photos = read_dataset_pool("photos", write_questions(tmp_path / "photos", HOSTILE), SplitRule(), SUBSETS)
    session = ReviewSession(photos, ReviewJournal(tmp_path, "reviews", "ann"))
    with Chromium(tmp_path / "profile") as tab:
        running = page.serve(session, "photos", None)
        try:
            tab.open(running.url)
            tab.until("document.querySelector('#view .member.current img')?.complete && document.querySelector('#misplaced')")
            at(tab, session)
            now = session.current
            assert now is not None
            assert tab.run("document.querySelectorAll('#view .member').length") == 1
            assert tab.run("document.querySelector('#view .question').textContent") == HOSTILE.replace("\u202e", "⟨U+202E⟩")
            assert f"in the subset {now.claims[0]}" in tab.run("document.querySelector('#view .ask').textContent")
            counts = dict(tab.run("[...document.querySelectorAll('#view .record div')].map(d => [...d.children].map(c => c.textContent))"))
            assert counts == now.notes
            for width in (1280, 400):
                tab.size(width)
                assert tab.run("document.documentElement.scrollWidth") <= width
            tab.press("w")
            tab.until("document.querySelector('#view .head').textContent.includes('1 in the wrong subset')")
            at(tab, session)
            assert session.counts == {"misplaced": 1, "left": 9}
            assert tab.complaints == []
        finally:
            running.close()


def test_a_picture_that_is_gone_is_told_on_the_page(tmp_path: Path) -> None:
    folder = write_questions(tmp_path / "data")
    session = ReviewSession(read_dataset_pool("photos", folder, SplitRule(("val",)), SUBSETS), ReviewJournal(tmp_path, "reviews", "ann"))
    shown = page.page_outputs(session, "ours")
    assert "What is this?" in shown[0] and shown[1], "as long as it is there, it can be decided"
    write_table(folder / "images" / "00000.parquet", [], IMAGES)
    broken = ReviewSession(read_dataset_pool("photos", folder, SplitRule(("val",)), SUBSETS), session.journal)
    told, token, note = page.page_outputs(broken, "ours")
    assert 'class="told"' in told and "`dvc repro` or `dvc pull`" in told
    assert (token, note) == ("", ""), "nothing that is not seen is decided"
    assert page.decide(broken, "ours", "valid", token, "")[1] == ""
    assert len(broken) == broken.counts["left"]


def test_a_decision_that_cannot_be_kept_is_told_on_the_page(session: ReviewSession) -> None:
    first = page.page_outputs(session, "ours")[1]
    second = page.decide(session, "ours", "valid", first, "")[1]
    assert second and second != first
    session.journal.close()
    session.journal._journal.path = Path("/dev/full")  # as a disk that takes nothing more
    for told, token, _ in (page.decide(session, "ours", "valid", second, ""), page.undo_decision(session, "ours")):
        assert "this decision is not kept, earlier ones are" in told
        assert token == second, "nothing has changed"
    assert session.counts["valid"] == 1
