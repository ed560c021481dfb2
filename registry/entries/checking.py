"""Every record of a data set read by its adapter now, and all that is bad in it listed, instead of the first of it at night."""

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qualm.registry.adapters import AdapterContext, AdapterError, cores, problem_of
from qualm.registry.entries.card import Card, CardError
from qualm.registry.plugins.rule import REQUIRED, get, load
from qualm.registry.sample import Image

TOLD = 100
"""Samples between two words about progress."""


@dataclass
class Checked:
    """What reading found."""

    splits: Counter[str] = field(default_factory=Counter)
    """Split -> good samples."""
    images: int = 0
    problems: list[str] = field(default_factory=list)
    """Of single records, with file and line; what no stage stops at and is missing all the same, such as right options and pictures
    of a log, with what to add; at the end what ended the reading, if anything did."""


def check_records(source: Path | None, card: Card, args: Mapping[str, Any], progress: Callable[[int], None] = lambda n: None) -> Checked:
    """Read everything that an adapter gives with these arguments, and keep none of it.

    Args:
        source: the official files; None for a generator.
        card: names the adapter and its arguments.
        args: others, before the card's.
        progress: told now and then how many samples there are.

    Raises:
        CardError: the card has no adapter, the adapter needs an argument that nobody gave, or the files are no folder.
    """
    if card.adapter is None:
        raise CardError(f"'{card.name}' has no adapter; missing: {card.missing or 'a model and reviews have no records'}")
    arguments = {**card.args, **args}
    lacking = [p.name for p in get("datasets", card.adapter).parameters if p.default is REQUIRED and p.name not in arguments]
    if lacking:
        raise CardError(f"'{card.name}': its adapter {card.adapter} needs {', '.join(lacking)}; give it by -O {lacking[0]}=VALUE")
    if source is not None and not source.is_dir():
        what = "is a file; an archive has to be unpacked first" if source.exists() else "does not exist"
        raise CardError(f"{source}: {what}; expected the folder with the official files")
    report = Checked()
    images: set[str | None] = set()
    samples: set[str] = set()
    with tempfile.TemporaryDirectory() as scratch:
        context = AdapterContext(
            Path(scratch),
            source=source,
            workers=cores(0),
            bad=lambda error: report.problems.append(str(error)),
            note=report.problems.append,
        )
        try:
            for item in load("datasets", card.adapter)(context, **arguments):
                at = f" (at {context.place[0]})" if context.place else ""
                if isinstance(item, Image):
                    if item.image_id in images:
                        report.problems.append(f"image '{item.image_id}' comes twice; image ids must be unique{at}")
                    images.add(item.image_id)
                elif problem := problem_of(item, images, samples):
                    report.problems.append(f"sample '{item.sample_id}'{problem}{at}")
                else:
                    samples.add(item.sample_id)
                    report.splits[item.split] += 1
                    if len(samples) % TOLD == 0:
                        progress(len(samples))
        except AdapterError as error:
            report.problems.append(str(error))
    report.images = len(images)
    return report
