"""`python -m tests.generated_pages`: write the pages of docs/ that are made from the code.

For maintainers (`make docs-reference`); includes only our own plugins and cards. With `--check` it lists outdated pages.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from qualm.compiler.commands.main import complete_app
from qualm.compiler.spec import language
from qualm.registry.entries import card as cards
from qualm.registry.entries.card import Card, Split
from qualm.registry.entries.published_models import Published, published, verified
from qualm.registry.plugins.registry import KINDS, ROOT

_SPEC_HEAD = """\
# The spec language

*Written by `make docs-reference` from the code.*

A spec is one YAML file, `specs/NAME.yaml`. Unknown keys are errors.

- `name` or `name: {parameters}` is a [plugin](#plugins). `qualm ls KIND NAME` explains it and its parameters.
- **A list of values is a sweep** if a parameter takes a single value: one variant per value, named `blur@radius=2`.
- `extends: other.yaml` starts from another spec. Mappings are merged by key, other values replace the inherited ones, `null` removes.
"""

_SECTIONS: list[tuple[str, type[BaseModel], str]] = [
    ("Top level", language.Spec, ""),
    ("`taxonomy.MAIN.CATEGORY`", language.Category, ""),
    ("`datasets.NAME`", language.Dataset, "Beside these keys: the parameters of the card's adapter."),
    (
        "`pairs.NAME`",
        language.PairSet,
        "A set of pairs is a dataset: to answer, to train on, or to make further pairs from.",
    ),
    ("`pairs.NAME.near_duplicates`", language.NearDuplicates, ""),
    ("`models.NAME`", language.Model, "Beside these keys: exactly one plugin of `models`."),
    ("`models.NAME.about`", language.About, ""),
    ("`inference`", language.Inference, ""),
    ("`judging`", language.Judging, ""),
    ("`conformal.NAME`", language.Conformal, ""),
    ("`conformal.NAME.calibration`", language.Calibration, ""),
    ("`calibrators.NAME`", language.Calibrators, ""),
    ("`calibrators.NAME.calibration`", language.HeldOut, ""),
    ("`abstentions.NAME`", language.Abstention, "Beside these keys: exactly one plugin of `abstentions`."),
    ("`probes.NAME`", language.Probe, "Beside these keys: exactly one plugin of `probes`."),
    ("`blind`", language.Blind, ""),
    ("`compare`", language.Compare, ""),
    ("`compare.interval`", language.Interval, ""),
    ("`report`", language.Report, ""),
    ("params.yaml", language.RunWide, "Defaults for all specs; resolved when a spec is compiled."),
]

DESCRIBED_IN = {
    "datasets": "dataset_notes.md",
    "preparations": "../how-to/data.md",
    "pairs": "../how-to/pairs.md",
    "perturbations": "perturbations.md",
    "models": "../how-to/models.md",
    "finetunes": "../how-to/tuning.md",
    "tunings": "../how-to/tuning.md",
    "judges": "judging.md",
    "estimators": "estimators.md",
    "conformal": "scoring.md",
    "calibrators": "scoring.md",
    "metrics": "scoring.md",
    "generators": "../how-to/pairs.md",
    "saliency": "../how-to/pairs.md",
    "masks": "../how-to/pairs.md",
    "inpainters": "../how-to/pairs.md",
    "abstentions": "abstention.md",
    "probes": "probes.md",
    "nli": "estimators.md",
}
"""Kind of plugin -> page, from docs/reference/, that says what each does."""


def reference() -> str:
    parts = [_SPEC_HEAD]
    described: dict[tuple[str, str | None], str] = {}
    for title, model, note in _SECTIONS:
        parts.append(f"## {title}\n")
        if note:
            parts.append(f"{note}\n")
        lines, again = [], dict[str, list[str]]()
        for name, field in model.model_fields.items():
            earlier = described.setdefault((name, field.description), title)
            if earlier == title:
                lines.append(f"- `{name}` ({', '.join(filter(None, (_type(field), _default(field))))}): {field.description or ''}")
            else:
                again.setdefault(earlier, []).append(f"`{name}`")
        lines += [f"- {', '.join(names)}: as in {earlier}" for earlier, names in again.items()]
        parts.append("\n".join(lines) + "\n")
    parts.append("## Plugins\n")
    parts.append("\n".join(f"- `{kind}`: `{KINDS[kind]}/`, {_link(page)}" for kind, page in DESCRIBED_IN.items()) + "\n")
    return "\n".join(parts)


def _link(page: str) -> str:
    return f"[{page.rpartition('/')[2]}]({page})"


def _type(field: FieldInfo) -> str:
    return _name(field.annotation)


def _name(annotation: Any) -> str:
    inner = [a for a in get_args(annotation) if a is not type(None)]
    origin = getattr(annotation, "__origin__", None)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "mapping"
    if origin is dict:
        return "mapping"
    if origin is list:
        return "list"
    if origin is Literal:
        return " or ".join(f"`{a}`" for a in inner)
    if inner and hasattr(annotation, "__metadata__"):
        return _name(inner[0])
    if inner:
        return " or ".join(dict.fromkeys(_name(a) for a in inner))
    return {"int": "integer", "float": "number", "str": "text", "bool": "boolean", "Any": "plugin"}.get(
        getattr(annotation, "__name__", ""), str(annotation)
    )


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if isinstance(field.default, BaseModel) or field.default in ({}, [], "", None):
        return ""
    return f"default `{field.default}`"


_COMMANDS_HEAD = """\
# The command line

*Written by `make docs-reference` from the commands.*

`--help` after a command prints its arguments, options and examples. `qualm --version -v` prints the versions of Qualm, Python and all
libraries, and which are newer than tested. `qualm --install-completion` installs shell completion.

**SPEC** is the name of a spec in `specs/`, or a path; by default that of `params.yaml`. In commands with further words (`diff`, `compare`,
`export`, `share`), the first word is the spec if a spec has that name or the word ends in `.yaml`. **`--json`** prints JSON. Tables fit the
terminal; in a pipe they are 80 columns wide, or as wide as `COLUMNS` says.

| exit code | meaning |
|---|---|
| 0 | success |
| 1 | a stage failed, a check found something, or `--exit-code` found a difference |
| 2 | a mistake in a spec, a wrong argument, missing results |
| 130 | interrupted (Ctrl-C); finished work is kept |
"""


def command_line() -> str:
    lines = [f"- `qualm {name}`: {_summary(command)}\n" for name, command in commands(typer.main.get_command(complete_app()))]
    return f"{_COMMANDS_HEAD}\n{''.join(lines)}"


def commands(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every command below a group with its full name, without the groups themselves."""
    for name, command in group.commands.items():
        words = f"{prefix}{name}"
        if hasattr(command, "commands"):
            yield from commands(command, f"{words} ")
        elif not command.hidden:
            yield words, command


def _summary(command: Any) -> str:
    """Return the first paragraph of a command's help, without markup."""
    return re.sub(r"\[/?(?:bold|dim|italic)?\]", "", command.help).strip().partition("\n\n")[0]


_MODELS_HEAD = """\
# Published models

*Written by `make docs-reference` from `registry/entries/published_models.yaml`.*

`qualm ls models --published` prints more of each. Other models load if transformers has an image-text-to-text class for them, their
images are tokens of the prompt, and their weights are safetensors.

Parameters are counted from configurations and agree with the published sizes to 1%. Licences and settings were not checked at the source.
Run `qualm doctor model` on the weights before you rely on a model ([how](../how-to/models.md)).

Each line has the billions of parameters (1.86 GiB each as bfloat16), the licence, missing signals and requirements.

A tiny random model of most [families](#families-examined-on-random-weights) passed every check of `qualm doctor` with transformers
{transformers}. Llama 4 passed with 5.23.0; the forward pass of 5.24.0 fails on an image.
"""


def published_models() -> str:
    intro = _MODELS_HEAD.format(transformers=verified()["transformers"])
    return f"{intro}\n{''.join(map(_model_line, published().values()))}{_families()}"


def _families() -> str:
    families = verified()
    beside, towers = families["with torchvision"], families["with timm"]
    rows = [
        ("one pass", ", ".join(families["one pass"])),
        ("plain passes", ", ".join(families["plain passes"])),
        (f"one pass, with torchvision {beside['release']}", ", ".join(beside["one pass"])),
        (f"plain passes, with torchvision {beside['release']}", ", ".join(beside["plain passes"])),
        (f"one pass, with torchvision and timm {towers['release']}", ", ".join(towers["one pass"])),
    ]
    return f"\n## Families examined on random weights\n\n{table(('read by', 'families'), rows)}"


def _model_line(model: Published) -> str:
    parts = filter(None, (f"{model.parameters.total:.3g}B", model.licence, _remarks(model)))
    return f"- `{model.name}`: {', '.join(parts)}\n"


def _remarks(model: Published) -> str:
    if model.unsupported:
        return f"not supported: {model.unsupported}"
    signals = f"no {', '.join(model.lacks)}" if model.lacks else ""
    return "; ".join(filter(None, (signals, "needs `template`" if model.template else "", model.note)))


_DATASETS_HEAD = """\
# Datasets

*Written by `make docs-reference` from registry/cards/.*

Every dataset that a spec can name (`card: NAME`). `qualm data show NAME` prints more. [Bring your data](../how-to/data.md) explains how to
add the files, [exchange](../how-to/exchange.md) lists the cards of other tools' logs.

Each line has the title, the numbers of records by split where known, the official score with the metrics and judges that compute it, and
the licence (* = not checked; ? = not known, read the terms at the source). *Verified*: layout and counts were checked against the
released files. The others follow a description; a file that differs ends the run with file, record and key.
"""


def catalogue() -> str:
    listed = [card for card in cards.load_all_cards() if card.kind == "dataset" and card.adapter != "recorded_samples"]
    return f"{_DATASETS_HEAD}\n{''.join(map(_dataset_line, listed))}"


def _dataset_line(card: Card) -> str:
    title = card.title if card.source == "generated" else f"[{card.title}]({card.source})"
    reads = "" if card.adapter else f" (no reader yet: {card.missing.strip()})"
    splits = ", ".join(f"{name} {_records(split)}".strip() for name, split in card.splits.items())
    if card.source == "generated" and not any(_records(split) for split in card.splits.values()):
        splits += " of any size"
    facts = (title + reads, splits, card.scoring.rstrip("."), "*verified*" if card.verified else "")
    licence = card.licence.replace(" as generally stated (not re-checked)", "*")
    licence = re.sub(r"^not (verified for this card|known); read the terms at the source before use$", "licence ?", licence)
    return " ".join(f"- `{card.name}`: {'; '.join(filter(None, facts))}; {licence}".split()) + "\n"


def _records(split: Split) -> str:
    return "" if split.records is None else f"{split.records:,}"


PAGES: Mapping[str, Callable[[], str]] = {
    "docs/reference/command_line.md": command_line,
    "docs/reference/datasets.md": catalogue,
    "docs/reference/models.md": published_models,
    "docs/reference/spec.md": reference,
}


def out_of_step(root: Path) -> dict[str, str]:
    """Return the outdated pages: path from the root -> text."""
    texts = {path: page() for path, page in PAGES.items()}
    return {path: text for path, text in texts.items() if not (root / path).is_file() or (root / path).read_text(encoding="utf-8") != text}


def main(check: bool) -> int:
    """Write the pages, or list outdated ones; return the exit code."""
    pages = out_of_step(ROOT)
    for path, text in pages.items():
        print(f"{'out of step' if check else 'wrote'}: {path}")
        if not check:
            (ROOT / path).write_text(text, encoding="utf-8", newline="\n")
    if check and pages:
        print("run `make docs-reference`, and commit what it writes")
    return int(check and bool(pages))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format a Markdown table, the first column as code."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(_cell(text, i == 0) for i, text in enumerate(row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(text: str, code: bool) -> str:
    text = " ".join(text.split()).replace("|", "\\|")
    return f"`{text}`" if code and text else text


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
