"""The page in a real browser: sliders redraw, keys vote, the model answers, hostile text stays text, and a button writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from qualm.registry.plugins.registry import get
from qualm.registry.sample import SAMPLES
from qualm.runners.review import strength_page as page
from qualm.runners.review.bench import AdjustablePerturbation, Bench, Respondent, open_dataset
from qualm.runners.review.knobs import numeric_knobs
from qualm.runners.review.live import Workshop
from qualm.runners.review.strength_session import StrengthSession
from qualm.runners.review.votes import Votes
from qualm.runners.runtime.records import write_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage, StageError
from tests.support.data.scenes_folder import scenes_folder
from tests.support.models.tiny_models import tiny_llava
from tests.support.processes.chromium import Chromium
from tests.support.projects.tiny_project import write_dataset

pytestmark = pytest.mark.usefixtures("gradio")
HOSTILE = "<img src=x onerror=alert(1)></section><script>alert(2)</script> ${7*7} {{ 7*7 }} \u202egnp.exe"
SIDE = "document.querySelectorAll('#cards .card')[0].querySelector('.side.perturbed')"


def session(folder: Path, model: Path | None = None) -> StrengthSession:
    """Ten samples under noise, the first with a hostile question."""
    data = folder / "data"
    write_dataset(data, 10, choices=False)
    rows = pq.read_table(data / "samples.parquet").to_pylist()
    write_table(data / "samples.parquet", [{**row, "question": HOSTILE} if i == 0 else row for i, row in enumerate(rows)], SAMPLES)
    plugin = get("perturbations", "gaussian_noise")
    args = {"sigma": 40.0, "channels": "each"}
    subject = AdjustablePerturbation(plugin, args, lambda args: f"gaussian_noise@sigma={args['sigma']:g}")
    asked = None
    if model is not None:
        stage = Stage(
            "s/strength", "s", "strength", "infer", {"max_new_tokens": 3}, {}, {}, 7, Settings(device="cpu", workers=1, progress=False)
        )
        ref = {"label": "tiny", "plugin": "hf_vlm", "args": {"artifact": str(model)}, "dtype": "float32"}
        asked = Respondent(stage, ref, model, {"label": "perplexity", "plugin": "perplexity", "args": {}})
    bench = Bench(open_dataset("scenes", data, None, "image", 10, 7), subject, 7, asked)
    done: list[tuple[str, float, bool, str]] = []

    def write(parameter: str, value: float, add: bool, how: str) -> str:
        done.append((parameter, value, add, how))
        return f"s.yaml: gaussian_noise: {parameter}: set {value:g}"

    made = StrengthSession(bench, numeric_knobs(plugin, args), Votes(folder / "votes.csv"), "ann", write)
    made.done = done  # type: ignore[attr-defined]
    return made


@pytest.fixture
def looked_at(tmp_path: Path) -> StrengthSession:
    return session(tmp_path)


def opened(tab: Chromium, running: page.ServedPage) -> None:
    tab.open(running.url)
    tab.until("document.querySelectorAll('#cards .card').length === 4 && document.querySelector('#weak') && pageKeys")


@pytest.fixture
def browser(tmp_path: Path, looked_at: StrengthSession) -> Iterator[Chromium]:
    with Chromium(tmp_path / "profile") as tab:
        running = page.serve(looked_at, "ours <b>&")
        try:
            assert running.url.startswith("http://127.0.0.1:")
            opened(tab, running)
            yield tab
        finally:
            running.close()


def slide(tab: Chromium, value: float) -> None:
    """Move the slider, as its own element tells of it."""
    tab.settle()
    tab.run(
        "(() => { const s = document.querySelector('#slider-sigma input[type=range]');"
        f" s.value = {value}; s.dispatchEvent(new Event('input', {{bubbles: true}})); }})()"
    )


@pytest.mark.slow
def test_a_look_at_a_perturbation(browser: Chromium, looked_at: StrengthSession) -> None:
    ids = "[...document.querySelectorAll('#cards .card')].map(c => c.dataset.sample)"
    first = browser.run(ids)
    assert len(set(first)) == 4
    assert browser.run("document.querySelector('#view h1').textContent") == "ours <b>&"
    before = browser.run(f"{SIDE}.querySelector('img').src")
    slide(browser, 100)
    browser.until("document.querySelector('#view .variant')?.textContent === 'gaussian_noise@sigma=100'")
    browser.until(f"{SIDE}.querySelector('img').src !== '{before}'")
    slide(browser, 0)
    browser.until("document.querySelectorAll('#cards .claim span').length === 4")  # nothing is changed by no noise
    slide(browser, 30)
    browser.until("document.querySelector('#view .variant')?.textContent === 'gaussian_noise@sigma=30'")

    browser.press("s")
    browser.until("document.querySelector('#view .tally .now')?.textContent.includes('=301')")
    browser.press("r")  # thought again: the last word counts
    browser.until("document.querySelector('#view .tally .now td:nth-child(3)')?.textContent === '1'")
    assert looked_at.tally == {"gaussian_noise@sigma=30": {"right": 1}}
    browser.press("n")
    browser.until(f"JSON.stringify({ids}) !== '{_json(first)}'")
    browser.press("b")
    browser.until(f"JSON.stringify({ids}) === '{_json(first)}'")

    browser.reload()
    browser.until("document.querySelector('#view .variant')?.textContent === 'gaussian_noise@sigma=30'")
    browser.until("document.querySelector('#slider-sigma input[type=range]')?.value === '30'")
    assert looked_at.done == []  # type: ignore[attr-defined] # nothing is written unless asked
    browser.click("#write")
    browser.until("document.querySelector('#view .told')?.textContent.includes('set 30')")
    assert looked_at.done == [("sigma", 30.0, False, "by eye, votes: 1 right")]  # type: ignore[attr-defined]
    browser.click("#write")
    browser.until("document.querySelector('#view .told')?.textContent.includes('nothing was written')")

    assert browser.complaints == []
    assert all(u.startswith(("http://127.0.0.1:", "data:", "blob:")) for u in browser.requests)


def test_hostile_questions_stay_text(browser: Chromium, looked_at: StrengthSession) -> None:
    for _ in range(3):
        texts = browser.run("[...document.querySelectorAll('#cards .question')].map(q => q.textContent)")
        assert browser.run("document.querySelectorAll('#cards script, #cards img[src=x]').length") == 0
        if HOSTILE.replace("\u202e", "⟨U+202E⟩") in texts:
            return
        shown = browser.run("document.querySelector('#cards .card').dataset.sample")
        browser.press("n")
        browser.until(f"document.querySelector('#cards .card').dataset.sample !== '{shown}'")
    raise AssertionError("the hostile question was never shown")


def test_it_fits_a_phone_and_keys_reach_the_slider(browser: Chromium) -> None:
    lefts = "new Set([...document.querySelectorAll('#cards .card')].map(c => c.getBoundingClientRect().left)).size"
    browser.size(1280)
    assert browser.run(lefts) == 2  # all four at a glance
    browser.size(400)
    assert browser.run("document.documentElement.scrollWidth") <= 400 and browser.run(lefts) == 1
    assert browser.run("[...document.querySelectorAll('#keys button')].every(b => b.scrollWidth <= b.clientWidth)")
    browser.run("document.querySelector('#slider-sigma input[type=range]').focus()")
    now = browser.run("document.querySelector('#view .variant').textContent")
    browser.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowRight", code="ArrowRight", windowsVirtualKeyCode=39)
    browser.until(f"document.querySelector('#view .variant').textContent !== '{now}'")
    browser.press("w")  # a slider is no field to type into
    browser.until("document.querySelector('#view .tally')")


@pytest.mark.slow
def test_what_has_no_strength_is_looked_at_and_voted_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = scenes_folder(tmp_path, test=30)
    plugin = get("perturbations", "inv")
    args = {p.name: p.default for p in plugin.parameters} | {"generator": {"plugin": "rules", "args": {"refusals": "all"}}}
    dataset = open_dataset("scenes", folder, None, "text", 10, 7)
    subject = AdjustablePerturbation(plugin, args, lambda _: "inv", Workshop(dataset, Settings(device="cpu", workers=1, progress=False), 7))
    looked_at = StrengthSession(Bench(dataset, subject, 7), numeric_knobs(plugin, args), Votes(tmp_path / "votes.csv"), "ann", None)
    with Chromium(tmp_path / "profile") as tab:
        running = page.serve(looked_at, "inv in s")
        try:
            opened(tab, running)
            questions = "[...document.querySelectorAll('#cards .side.{} .question')].map(q => q.textContent)"
            before, after = (tab.run(questions.format(side)) for side in ("original", "perturbed"))
            assert len(before) == len(after) == 4 and not set(before) & set(after)
            assert tab.run("document.querySelectorAll('#sliders input, #write').length") == 0
            tab.press("r")
            tab.until("document.querySelector('#view .tally .now td:nth-child(3)')?.textContent === '1'")
            assert looked_at.tally == {"inv": {"right": 1}} and tab.complaints == []
        finally:
            running.close()


def test_what_goes_wrong_is_told_and_the_page_goes_on(looked_at: StrengthSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(row: int, values: object) -> None:
        raise StageError("variant inv: sample 'x': the server <b> does not answer")

    with monkeypatch.context() as broken:
        broken.setattr(looked_at.bench, "item", silent)
        for head, cards in (
            page.page_outputs(looked_at, "t"),
            page.show_batch(looked_at, "t", 1),
            page.record_vote(looked_at, "t", "right"),
        ):
            assert "the server &lt;b&gt; does not answer" in head and cards == ""
    looked_at.writer = None
    head, cards = page.write_strengths(looked_at, "t", page.REPLACE)
    assert "in a spec that this one extends" in head and cards.count('class="card"') == 4
    looked_at.votes.path.unlink()
    looked_at.votes.path.mkdir()  # as on a disk that takes nothing more
    head, cards = page.record_vote(looked_at, "t", "too weak")
    assert "this vote is not kept, earlier ones are" in head and cards.count('class="card"') == 4


@pytest.mark.slow
def test_a_model_answers_what_is_shown(tmp_path: Path) -> None:
    with chdir(tmp_path):
        asked = session(tmp_path, tiny_llava(tmp_path / "model"))
        with Chromium(tmp_path / "profile") as tab:
            running = page.serve(asked, "ours")
            try:
                opened(tab, running)
                all_there = "document.querySelectorAll('#cards .answer bdi').length === 8"
                tab.until(all_there, 120)
                said = tab.run("[...document.querySelectorAll('#cards .side.original .answer bdi')].map(a => a.textContent)")
                known = asked.bench.cached_answers(None)
                ids = tab.run("[...document.querySelectorAll('#cards .card')].map(c => c.dataset.sample)")
                assert said == [known[i].text or "(nothing)" for i in ids]
                slide(tab, 200)
                tab.until("document.querySelector('#view .variant')?.textContent === 'gaussian_noise@sigma=200'")
                tab.until(all_there, 120)
                assert "perplexity" in tab.run("document.querySelector('#view .head').textContent")
                assert tab.complaints == []
            finally:
                running.close()


def _json(value: object) -> str:
    import json

    return json.dumps(value, separators=(",", ":"))
