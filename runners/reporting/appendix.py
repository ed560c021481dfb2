"""How a report was made: what the spec said of intervals and decoding, which models answered, with the digests of their files.

The commit, the machine and the time are no content: they are drawn into a picture beside the run's record (`qualm.runners.runtime.stamp`),
which the page shows where it lies in the checkout that made it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qualm.registry.dvc.config import DvcStateError
from qualm.registry.dvc.state import parse_yaml
from qualm.runners.reporting.load import Results
from qualm.runners.reporting.text import visible
from qualm.runners.scoring.families import how_corrected

HEADER = ["model", "plugin", "files", "digest", "dtype", "parameters"]
PLACE = "../../.qualm/runs"
"""From a report to the records of runs."""


@dataclass(frozen=True)
class Appendix:
    """The appendix."""

    facts: list[tuple[str, str]]
    models: list[list[str]]
    header: list[str]
    stamp: str
    """Where the picture lies, from the page."""


def appendix(results: Results) -> Appendix | None:
    """The appendix; None for a report that was planned before there was one."""
    settings = results.stage.params.get("made")
    if settings is None:
        return None
    facts = [
        *facts_of(settings),
        ("Seed", str(results.stage.seed)),
        ("Spec digest", str(results.stage.params.get("spec_sha256") or "not given")),
    ]
    models = [model_row(about, Path()) for about in settings["models"]]
    return Appendix(facts, models, HEADER, f"{PLACE}/{results.stage.spec}/made.svg")


def facts_of(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What holds for all models."""
    interval = settings["interval"]
    resamples = f"{100 * interval['level']:g}% intervals from {interval['bootstrap']:,} bootstrap resamples of whole groups"
    yield "Intervals", resamples if interval["bootstrap"] else "none: bootstrap: 0"
    if compare := settings.get("compare"):
        yield "Tests", f"{compare['permutations']:,} random exchanges within groups; p-values {how_corrected(compare)}"
    if settings["models"] and all(about["plugin"] == "recorded" for about in settings["models"]):
        yield "Decoding", "none here: all answers were recorded elsewhere"
        return
    decoding = settings["decoding"]
    longest = f"at most {decoding['max_new_tokens']:,} new tokens"
    sampled = (
        f"; {decoding['draws']} draws at temperature {decoding['temperature']:g}, top_p {decoding['top_p']:g}"
        if "draws" in decoding
        else ""
    )
    yield "Decoding", f"greedy, {longest}{sampled or '; no draws'}"
    yield "Confidence of open answers", visible(settings["confidence"], 40)


def model_row(about: Mapping[str, Any], root: Path) -> list[str]:
    """One model: its name, plugin, where its files lie, their digest, dtype and other parameters that are set."""
    args = dict(about["args"])
    hub, revision, dtype = args.pop("hub", None), args.pop("revision", None), args.pop("dtype", None)
    folder = about.get("files")
    for key, value in list(args.items()):
        if value in (None, False, {}, "none", folder):
            del args[key]
    digest = f"revision {revision}" if hub else file_digest(root, str(folder)) if folder else "none: what answered is not at hand"
    rest = ", ".join(f"{k}: {v}" for k, v in sorted(args.items()))
    files = hub or folder or "none here"
    return [visible(t, 200) for t in (about["name"], about["plugin"], files, digest, dtype or "not said", rest or "–")]


def file_digest(root: Path, folder: str) -> str:
    """The digest under which DVC keeps an entry's files; what a stage made has it in the lock."""
    pointer = root / f"{folder}.dvc"
    if not pointer.is_file():
        return "not added here" if folder.startswith("registry/data/") else "made by a stage: its md5 stands in the lock"
    try:
        return f"md5 {parse_yaml(pointer.read_bytes(), str(pointer))['outs'][0]['md5']}"
    except (OSError, DvcStateError, KeyError, IndexError, TypeError):
        return "not readable"
