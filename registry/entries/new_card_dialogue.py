"""The dialogue of `qualm data new`: findings, questions, the result, and the next command."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from qualm.registry import option_label
from qualm.registry.entries import sentences as say
from qualm.registry.entries.infer_columns import SUFFIXES, NewCardError, propose
from qualm.registry.entries.new_card import DESCRIPTIONS, Ask, SamplePreview, ask_mapping, try_out, write
from qualm.registry.formats import pictures
from qualm.registry.formats.picture_lists import picture_ids
from qualm.registry.plugins.options import parse_options
from qualm.registry.plugins.registry import PluginError, get
from qualm.registry.sample import Image
from qualm.registry.text import format_size, one_line

SHOWN = 3
"""Images of a sample that are described."""


def new_card(
    name: str, folder: Path, cards: Path, adapter: str | None, assignments: Sequence[str], about: Mapping[str, str], yes: bool, force: bool
) -> None:
    """Run `qualm data new`: propose, ask, show samples, write the card."""
    folder = folder.expanduser().resolve()
    if not folder.is_dir():
        raise NewCardError(f"{folder}: expected a folder; an archive has to be unpacked first")
    if adapter is not None and adapter not in SUFFIXES:
        raise NewCardError(f"--adapter {adapter}: expected one of {', '.join(SUFFIXES)}")
    overrides = _options(adapter or "image_table", [g for g in assignments if g.startswith("files=")])
    proposal = propose(folder, adapter, overrides.get("files"))
    files = ", ".join(f"{split}: {pattern}" for split, pattern in proposal.args["files"].items())
    print(say.READ_AS.format(folder=folder, adapter=proposal.adapter, files=files))
    for note in proposal.notes:
        print(f"  {note}")
    for column, example in proposal.columns.items():
        print(f"  {_one_line(column)}: {example}")
    proposal.args |= _options(proposal.adapter, assignments)
    asks = not yes and sys.stdin.isatty()
    ask: Ask = _ask if asks else lambda what, proposed, help: proposed
    args = ask_mapping(proposal, ask)
    facts = {key: about.get(key) or ask(key, "", help) for key, help in DESCRIPTIONS.items()}
    for number, preview in enumerate(try_out(folder, proposal.adapter, args), 1):
        _show(number, preview)
    if asks and not typer.confirm(say.READ_RIGHT, default=True):
        raise NewCardError(f"nothing was written; `-O NAME=VALUE` sets any of `qualm ls datasets {proposal.adapter}` beforehand")
    path = write(name, folder, proposal, args, facts, cards, force)
    print(f"wrote {path}")
    print(say.NEXT_ADD.format(name=name, folder=shlex.quote(str(folder))))
    print(say.THEN_IN_A_SPEC.format(dataset=name.replace("-", "_"), name=name))


def _options(adapter: str, assignments: Sequence[str]) -> dict[str, Any]:
    try:
        return parse_options(get("datasets", adapter), assignments)
    except PluginError as error:
        raise NewCardError(str(error)) from None


def _ask(what: str, proposed: str, help: str) -> str:
    """Ask for `what`, offering `proposed`, in the terminal; return what is typed, "" for `-`."""
    answer: str = typer.prompt(f"{what} ({help})" if help else what, default=proposed or "-").strip()
    return "" if answer == "-" else answer


def _show(number: int, preview: SamplePreview) -> None:
    sample = preview.sample
    print(f"\n{number}. {_one_line(sample.sample_id)}  [{sample.split}]  {_pictures(preview)}")
    for line in sample.question.splitlines():
        print(f"   {_one_line(line)}")
    for i, choice in enumerate(sample.choices):
        print(f"   {'>' if i == sample.answer_index else ' '} {option_label(i)} {_one_line(choice)}")
    if not sample.choices:
        print(f"   answer: {_one_line(' | '.join(sample.references)) or '(none)'}")
    more = {"category": sample.category, **sample.meta, **({} if sample.answerable else {"answerable": "no"})}
    if facts := ", ".join(f"{k}: {_one_line(v)}" for k, v in more.items() if v):
        print(f"   {facts}")


def _pictures(preview: SamplePreview) -> str:
    ids = picture_ids(preview.sample.image_id)
    if not preview.images:
        return say.NO_IMAGE if not ids else say.IMAGE_NOT_SHOWN
    shown = "; ".join(map(_picture, preview.images[:SHOWN]))
    if len(ids) > SHOWN:
        shown = say.MORE_IMAGES.format(images=shown, n=len(ids) - SHOWN)
    return say.N_IMAGES.format(n=len(ids), images=shown) if len(ids) > 1 else shown


def _picture(image: Image) -> str:
    name, data = _one_line(image.path or image.image_id), image.data
    try:
        about = pictures.facts(data)
    except pictures.PictureError:
        return say.NOT_A_PICTURE.format(file=name, size=format_size(len(data)), start=data[:16])
    return f"{name}, {about.format} {about.width} x {about.height}, {format_size(len(data))}"


def _one_line(text: str) -> str:
    clean = one_line(" ".join(text.split()))
    return f"{clean[:117]}..." if len(clean) > 120 else clean
