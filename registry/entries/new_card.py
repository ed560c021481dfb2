"""Cards for a user's own data (`qualm data new`), tried on the data before writing, and arguments that make an entry readable."""

import json
import re
import tempfile
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.entries.card import SLUG, SLUG_RULE, CardError, card_names, load_card
from qualm.registry.entries.entries import Entry
from qualm.registry.entries.infer_columns import NewCardError, Proposal, list_names
from qualm.registry.entries.layout import matches
from qualm.registry.formats.check import BadLinesError, FormatError, check_file
from qualm.registry.formats.picture_lists import MAX_IMAGES, picture_ids
from qualm.registry.formats.pictures import is_image_name
from qualm.registry.plugins.options import parse_options
from qualm.registry.plugins.registry import REQUIRED, Parameter, Plugin, PluginError, get, load
from qualm.registry.sample import Image, Sample
from qualm.registry.system import atomic
from qualm.registry.text import one_line

LINE_WIDTH = 130
MAX_CANDIDATES = 20
"""Parts of a recording that are tried as an adapter's argument."""
NO_COLUMNS = ("images", "instruction", "answer_is", "kind", "frames", "text_only", "separator")
"""Parameters of adapters that do not name columns."""
DESCRIPTIONS = {"title": "what people call it", "licence": "under which its owners give it", "source": "where others get it, a URL"}
"""Fields asked for in addition to the mapping, with their questions."""

Ask = Callable[[str, str, str], str]
"""(what, what is proposed, help) -> the answer; empty for none."""


@dataclass(frozen=True)
class SamplePreview:
    """A sample as read on trial, with the images that belong to it."""

    sample: Sample
    images: tuple[Image, ...] = ()


def ask_mapping(proposal: Proposal, ask: Ask) -> dict[str, Any]:
    """Ask about the proposed arguments; return them with the answers; else NewCardError."""
    plugin = get("datasets", proposal.adapter)
    helps = _helps(plugin)
    args = dict(proposal.args)
    for parameter in plugin.parameters:
        name = parameter.name
        is_idle = (name == "answer_is" and not args.get("choices")) or (name == "instruction" and args.get("question"))
        if name in ("files", "per") or is_idle:
            continue
        before = args.get(name, parameter.default)
        default = ", ".join(before) if isinstance(before, list) else "" if before is None else str(before)
        reply = ask(name, default, helps.get(name, ""))
        if reply == default:
            if name in args:
                args[name] = before
            continue
        args[name] = _parse_input(plugin, parameter, reply) if name in NO_COLUMNS else _columns(parameter, reply, proposal)
    return args


def _parse_input(plugin: Plugin, parameter: Parameter, typed: str) -> Any:
    """Return the typed text as the parameter's value, its default for ""; else NewCardError."""
    if not typed:
        return parameter.default
    try:
        return parse_options(plugin, [f"{parameter.name}={typed}"])[parameter.name]
    except PluginError as error:
        raise NewCardError(str(error).removeprefix("-O ")) from None


def _columns(parameter: Parameter, typed: str, proposal: Proposal) -> Any:
    """Return a typed column, or a list of several; NewCardError if one is unknown.

    "" gives None, or [] where the parameter is a list.
    """
    several = isinstance(parameter.default, list) or (parameter.name == "image" and typed not in proposal.columns and "," in typed)
    value: Any = [part.strip() for part in typed.split(",") if part.strip()] if several else typed or None
    for column in value if isinstance(value, list) else [value] if value else []:
        if column not in proposal.columns:
            raise NewCardError(f"{parameter.name}: no column {column!r}; there are: {', '.join(proposal.columns)}")
    return value


def _helps(plugin: Plugin) -> dict[str, str]:
    """Return {parameter: its help text} from `Args:` of the plugin's docstring."""
    parameters = {p.name for p in plugin.parameters}
    help_of: dict[str, str] = {}
    last = ""
    for line in plugin.doc.partition("Args:")[2].partition("Raises:")[0].splitlines():
        name, sign, text = line.strip().partition(": ")
        if sign and name in parameters:
            last, help_of[name] = name, text
        elif last and line.strip():
            help_of[last] += f" {line.strip()}"
    return help_of


def try_out(folder: Path, adapter: str, args: Mapping[str, Any], n: int = 3) -> list[SamplePreview]:
    samples: list[SamplePreview] = []
    pictures: dict[str, Image] = {}
    most = MAX_IMAGES + 100  # those of the sample that comes next, and some before it
    with tempfile.TemporaryDirectory() as scratch:
        context = AdapterContext(Path(scratch), source=folder)
        try:
            for item in load("datasets", adapter)(context, **args):
                if isinstance(item, Image):
                    pictures[item.image_id] = item
                    if len(pictures) > most:
                        del pictures[next(iter(pictures))]
                    continue
                samples.append(SamplePreview(item, tuple(pictures[name] for name in picture_ids(item.image_id) if name in pictures)))
                if len(samples) == n:
                    break
        except AdapterError as error:
            raise NewCardError(str(error)) from error
    if not samples:
        raise NewCardError(f"{folder}: these columns give no samples; name others by `-O NAME=VALUE`")
    return samples


def write(
    name: str, folder: Path, proposal: Proposal, args: Mapping[str, Any], about: Mapping[str, str], cards: Path, replace: bool = False
) -> Path:
    """Write the card file of `name` if it is valid; return its path; else NewCardError."""
    if not SLUG.fullmatch(name):
        raise NewCardError(f"'{name}' is not a valid name for a card: {SLUG_RULE}")
    path = cards / f"{name}.yaml"
    if name in card_names(cards) and not replace:
        raise NewCardError(f"{path} is there already; --force overwrites it; another name leaves it as it is")
    text = render(name, folder, proposal, args, about)
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / path.name).write_text(text, encoding="utf-8", newline="\n")
        try:
            load_card(name, Path(scratch))
        except CardError as error:
            raise NewCardError(str(error)) from error
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_text(path, text)
    return path


def render(name: str, folder: Path, proposal: Proposal, args: Mapping[str, Any], about: Mapping[str, str]) -> str:
    columns = "; ".join(f"{_clean(c)} ({_clean(example)})" if example else _clean(c) for c, example in proposal.columns.items())
    comment = "\n".join(f"  # {line}" for line in textwrap.wrap(f"columns: {columns}", LINE_WIDTH - 4))
    title = about.get("title") or name
    layout = [f"  - {{files: {_q(pattern)}, count: {n}}}" for pattern, n in _layout(folder, proposal, args)]
    splits = [f"  {_q(split)}: {{files: {_q(pattern)}{_records(folder, proposal, pattern)}}}" for split, pattern in args["files"].items()]
    lines = [
        "# Written by `qualm data new`. Every line may be edited; `qualm data show` says how it is read.",
        f"name: {name}",
        "kind: dataset",
        f"title: {_q(title)}",
        f"description: {_q(about.get('description') or title)}",
        f"adapter: {proposal.adapter}  # `qualm ls datasets {proposal.adapter}` explains its parameters, `args` below",
        f"source: {_q(about.get('source') or 'not public')}",
        f"licence: {_q(about.get('licence') or 'not stated')}",
        'citation: ""  # BibTeX, for `qualm cite`',
        "# The files: `qualm data add` takes these and no others, and holds their number to `count`.",
        "layout:",
        *layout,
        "splits:",
        *splits,
        "# Which column is what. A spec may say otherwise, beside `card:`.",
        "args:",
        comment,
        *(f"  {key}: {_q(value)}" for key, value in args.items()),
        "verified: true  # the layout was read off the files themselves",
    ]
    return "\n".join(lines) + "\n"


def _layout(folder: Path, proposal: Proposal, args: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return (pattern, number of files) for the tables, then the images."""
    listed = list_names(folder)
    counts = {pattern: sum(matches(pattern, n) for n in listed) for pattern in args["files"].values()}
    if proposal.adapter != "image_table" or args.get("image"):
        place = PurePosixPath(str(args.get("images", "."))).as_posix().partition("{split}")[0].strip("/")
        inside = "" if place in ("", ".") else f"{place}/"
        below = [n for n in listed if n.startswith(inside) and n not in counts]
        kinds = Counter(PurePosixPath(n).suffix for n in below if is_image_name(n) or PurePosixPath(n).suffix in proposal.suffixes)
        counts |= {f"{inside}**/*{suffix}": n for suffix, n in sorted(kinds.items()) if suffix}
        if inside and kinds[""]:  # names without a suffix, which no narrower pattern fits
            counts = {p: n for p, n in counts.items() if not p.startswith(f"{inside}**/*")} | {f"{inside}**/*": len(below)}
    return list(counts.items())


def _records(folder: Path, proposal: Proposal, pattern: str) -> str:
    """Return ", records: N" for a split of one file; "" if not counted; else NewCardError."""
    if "*" in pattern or proposal.adapter == "coco_folder":
        return ""
    try:
        records = check_file(folder / pattern)
    except BadLinesError:
        return ""
    except FormatError as error:
        raise NewCardError(f"{folder / pattern}: {error}") from error
    return f", records: {records}" if records else ""


def _q(value: Any) -> str:
    """Return a value as JSON that is YAML on one line."""
    # YAML ends a line at some characters that JSON leaves as they are, and allows no control characters.
    text = json.dumps(value, ensure_ascii=False)
    return re.sub("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]", lambda match: f"\\u{ord(match[0]):04x}", text)


def _clean(text: str) -> str:
    return one_line(" ".join(text.split()))


def options_for(entry: Entry) -> str | None:
    """Return options that make an entry readable, " -O task=arc" or ""; None if none do."""
    card = entry.details
    if card is None or card.adapter is None:
        return None
    for args in islice(_candidates(entry, card.adapter, card.args), MAX_CANDIDATES):
        try:
            try_out(entry.path, card.adapter, {**card.args, **args}, 1)
        except NewCardError:
            continue
        return "".join(f" -O {name}={value}" for name, value in args.items())
    return None


def _candidates(entry: Entry, adapter: str, args: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Yield {} if no parameter is required, then {parameter: task or file stem} to try.

    The parameter is the single required one, or `task` if none is required. Without either, no more follows.
    """
    parameters = {p.name: p for p in get("datasets", adapter).parameters}
    required = [name for name, p in parameters.items() if p.default is REQUIRED and name not in args]
    if not required:
        yield {}
    naming = required if len(required) == 1 else ["task"] if not required and "task" in parameters else []
    for name in naming:
        files = (PurePosixPath(file) for file in list_names(entry.path))
        stems = sorted({file.stem for file in files if not is_image_name(file.name)})
        yield from ({name: part} for part in dict.fromkeys([*_tasks(entry.path), *stems]))


def _tasks(folder: Path) -> list[str]:
    from qualm.registry.recordings.parts import find_parts, task_of
    from qualm.registry.recordings.record import RecordingError

    try:
        return [task_of(part, None) for part in find_parts(folder)]
    except RecordingError:
        return []
