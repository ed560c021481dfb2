"""The page of `qualm strength`: original and perturbed samples, and sliders for the strength.

Images follow the sliders at once. Answers follow from the store or the model, only for the present strengths.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from qualm.runners.reporting.text import number, visible
from qualm.runners.review import pages
from qualm.runners.review.knobs import format_strength
from qualm.runners.review.pages import QUIET, ServedPage
from qualm.runners.review.strength_session import StrengthSession, WriteError
from qualm.runners.review.votes import CHOICES, VoteError
from qualm.runners.runtime.stage import StageError

HERE = Path(__file__).parent / "assets" / "strengths"
KEYS = {"too weak": ("weak", "Too weak (W)"), "right": ("right", "Right (R)"), "too strong": ("strong", "Too strong (S)")}
REPLACE, ADD = "in the place of what is there", "added to the sweep"
Drawn = tuple[str, str]
"""HTML of the page's head and of its samples."""


def serve(session: StrengthSession, title: str, port: int | None = None) -> ServedPage:
    """Serve a strength session's page on loopback until `close`; raise as `pages.serve`."""
    return pages.serve(lambda gradio: _blocks(gradio, session, title), HERE, port)


def _blocks(gradio: Any, session: StrengthSession, title: str) -> Any:
    with gradio.Blocks(title=visible(title, 100), analytics_enabled=False, fill_width=True) as blocks:
        view = gradio.HTML(elem_id="view")
        with gradio.Row(elem_id="sliders", visible=bool(session.knobs)):
            sliders = [
                gradio.Slider(k.low, k.high, session.values[k.name], step=k.step, label=k.name, elem_id=f"slider-{k.name}", min_width=220)
                for k in session.knobs
            ]
        with gradio.Row(elem_id="keys"):
            votes = [gradio.Button(text, elem_id=name, min_width=90) for name, text in KEYS.values()]
            back = gradio.Button("Back (B)", elem_id="back", min_width=70)
            on = gradio.Button("Next (N)", elem_id="next", min_width=70)
        cards = gradio.HTML(elem_id="cards")
        with gradio.Row(elem_id="writing", visible=bool(session.knobs)):
            mode = gradio.Radio([REPLACE, ADD], value=REPLACE, label="Write into the spec", elem_id="mode", min_width=220)
            write = gradio.Button("Write these values", elem_id="write", min_width=140)
        outputs = [view, cards]

        def start() -> tuple[Any, ...]:
            return (*page_outputs(session, title), *(session.values[k.name] for k in session.knobs))

        def answered(event: Any) -> None:
            if session.bench.respondent is not None:  # in a queue of its own: sliders do not wait for the model
                event.then(lambda: ask_model(session, title), None, outputs, **{**QUIET, "concurrency_id": "model"})

        for slider in sliders:
            answered(
                slider.change(lambda *values: set_strengths(session, title, values), sliders, outputs, trigger_mode="always_last", **QUIET)
            )
        for button, by in ((back, -1), (on, 1)):
            answered(button.click(lambda by=by: show_batch(session, title, by), None, outputs, **QUIET))
        for button, verdict in zip(votes, CHOICES, strict=True):
            button.click(lambda verdict=verdict: record_vote(session, title, verdict), None, outputs, **QUIET)
        write.click(lambda how: write_strengths(session, title, how), [mode], outputs, **QUIET)
        answered(blocks.load(start, None, [*outputs, *sliders], **QUIET))
    return blocks


def set_strengths(session: StrengthSession, title: str, strengths: Sequence[float | None]) -> Drawn:
    """Set strengths in slider order (None: unchanged); return (head, samples) HTML."""
    session.turn({k.name: v for k, v in zip(session.knobs, strengths, strict=True)})
    return page_outputs(session, title)


def show_batch(session: StrengthSession, title: str, by: int) -> Drawn:
    """Move on by `by` batches of samples; return (head, samples) HTML."""
    session.move(by)
    return page_outputs(session, title)


def record_vote(session: StrengthSession, title: str, verdict: str) -> Drawn:
    """Store a vote on disk, or say why not; return (head, samples) HTML."""
    try:
        session.vote(verdict)
    except VoteError as error:
        return page_outputs(session, title, str(error))
    return page_outputs(session, title)


def write_strengths(session: StrengthSession, title: str, how: str) -> Drawn:
    """Write strengths into the spec, its sweeps if `how` is ADD; return (head, samples) HTML."""
    try:
        return page_outputs(session, title, "; ".join(session.write(how == ADD)))
    except WriteError as error:
        return page_outputs(session, title, str(error))


def ask_model(session: StrengthSession, title: str) -> Drawn:
    """Ask the model about the samples shown; return (head, samples) HTML with any error."""
    try:
        session.ask()
    except StageError as error:
        return page_outputs(session, title, str(error))
    return page_outputs(session, title)


def page_outputs(session: StrengthSession, title: str, message: str = "") -> Drawn:
    """Return (head, samples) HTML, with `message` or why samples cannot be shown."""
    try:
        return render(session, title, "head", message), render(session, title, "cards")
    except StageError as error:
        return render(session, title, "head", str(error)), ""


def render(session: StrengthSession, title: str, part: str, message: str = "") -> str:
    """Return the HTML of `part` of the page, `head` or `cards`, with escaped text."""
    bench = session.bench
    samples = session.views() if part == "cards" else []
    values = {
        "part": part,
        "title": title,
        "reviewer": session.reviewer,
        "variant": session.variant,
        "dataset": bench.dataset.name,
        "place": session.place,
        "values": {name: format_strength(value) for name, value in session.values.items()},
        "tally": session.tally,
        "choices": CHOICES,
        "model": bench.respondent.label if bench.respondent is not None else "",
        "estimator": bench.respondent.estimator["label"] if bench.respondent is not None else "",
        "message": message,
        "samples": [{"s": s, "sides": _sides(s)} for s in samples],
    }
    return pages.html(HERE, **values)


def _sides(sample: Any) -> list[dict[str, Any]]:
    sides = []
    for name, side in (("original", sample.before), ("perturbed", sample.after)):
        picture = pages.data_uri(side.picture, 640) if side is not None and side.picture is not None else ""
        doubt = number(side.answer.uncertainty, 2) if side is not None and side.answer is not None else ""
        small = side is not None and side.picture is not None and max(side.picture.size) <= 160
        sides.append({"name": name, "side": side, "picture": picture, "small": small, "uncertainty": doubt})
    return sides
