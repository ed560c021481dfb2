"""Cards: what a dataset or model is, its source, and the layout of its official files.

One YAML file per card, `registry/cards/NAME.yaml`, so that a known format costs no code. `qualm data add` checks files
against the card's layout before it takes them; the compiler resolves a spec's `card: NAME` to its adapter and defaults.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from qualm.registry.places import PACKAGE, project_folder, project_root
from qualm.registry.plugins.registry import MAX_EXACT, MAX_NUMBER
from qualm.registry.system.textfiles import TextFileError, parse_yaml, read_text, shorten, warn
from qualm.registry.text import quoted
from qualm.registry.where import WhereError, is_subset_name, parse

CARDS = "registry/cards"
FOLDER = PACKAGE / CARDS
"""The cards of Qualm itself; those of a project lie in the same folder there."""

MAX_BYTES = 1 << 20
MAX_LINES = 20
"""Mistakes of one card that are named."""
SLUG = re.compile(r"(?!(con|prn|aux|nul|com\d|lpt\d)$)[a-z0-9][a-z0-9_-]{0,63}")
"""Names of cards and entries: they become file names, on Windows too, and stand in dvc.yaml."""
SLUG_RULE = "lower-case letters, digits, '-' and '_', beginning with a letter or digit, at most 64, no path and no device of Windows"

Format = Literal["json", "jsonl", "pickle", "safetensors", "parquet", "arrow", "csv", "image", "text", "zip", "any"]

Rai = Literal[
    "dataCollection", "dataCollectionType", "dataCollectionMissingData", "dataCollectionRawData", "dataCollectionTimeframe",
    "dataImputationProtocol", "dataManipulationProtocol", "dataPreprocessingProtocol", "dataAnnotationProtocol", "dataAnnotationPlatform",
    "dataAnnotationAnalysis", "dataReleaseMaintenancePlan", "personalSensitiveInformation", "dataSocialImpact", "dataBiases",
    "dataLimitations", "dataUseCases", "annotationsPerItem", "annotatorDemographics", "machineAnnotationTools",
]  # fmt: skip
"""Croissant's properties of responsible AI, http://mlcommons.org/croissant/RAI/1.0."""

UNVERIFIED = "its card's list of files was not compared with a release; files that it does not expect are reported"
"""Note shown for a card that is not `verified`."""
MAX_NAMED = 12
"""Names of cards that are told one by one."""


class CardError(Exception):
    """Error of missing or invalid cards; the message lists every problem."""


def _inside(pattern: str) -> str:
    path = PurePosixPath(pattern)
    if not pattern or path.is_absolute() or ".." in path.parts or "\\" in pattern:
        raise ValueError("expected a path inside the entry, with '/' and without '..'")
    if not pattern.isprintable():
        raise ValueError("expected a path without control characters")
    if any("**" in part and part != "**" for part in path.parts):
        raise ValueError("expected '**' as the whole name of a folder, as in a/**/*.jpg")
    return pattern


def _plain(value: Any) -> Any:
    """Return a YAML value with keys as str; ValueError for dates and other non-JSON."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if value is None or isinstance(value, str) or (isinstance(value, int | float) and abs(value) <= MAX_EXACT):
        return value
    raise ValueError(f"expected text, numbers, true or false, and lists and mappings of these, found {shorten(value)}")


def _expressions(subsets: dict[str, str]) -> dict[str, str]:
    """Return `subsets` unchanged; ValueError if a name or expression is invalid."""
    for name, text in subsets.items():
        if not is_subset_name(name):
            raise ValueError(
                f"{quoted(name)}: expected letters, digits, '_' and single '-' between them, no digit first, and no field of samples or "
                "word of `where:` such as `and`"
            )
        try:
            parse(text)
        except WhereError as error:
            raise ValueError(f"{quoted(name)}: {error}") from None
    return subsets


Pattern = Annotated[str, AfterValidator(_inside)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Files(_Strict):
    """One entry of a card's `layout`: a pattern of files, their number and format."""

    files: Pattern
    """Path or pattern from the entry's top: `*` within a folder, `**` across folders."""
    count: int | None = Field(None, ge=1, le=MAX_NUMBER)
    """Exactly so many; None = any number from `at_least`."""
    at_least: int = Field(1, ge=0, le=MAX_NUMBER)
    """0 makes them optional."""
    format: Format | None = None
    """Format by which the files are checked for damage; None = by their suffix."""
    about: str = ""
    """Description of the files for a person who lacks them."""


class Split(_Strict):
    """One entry of a card's `splits`: its files and the records in each."""

    files: Pattern | None = None
    """The files of which each holds this split once; None for what is generated."""
    records: int | None = Field(None, ge=1, le=MAX_EXACT)
    """Records in each of those files; None = not known."""


_URL = r"^(https://|http://(localhost|127\.0\.0\.1)[:/])\S+$"
_SHA256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Address(_Strict):
    """One file to download: URL, checksum, size, and for which arguments it is needed."""

    url: Annotated[str, Field(pattern=_URL)]
    sha256: _SHA256 | None = None
    """None = not known; the first fetch records it in the project's lock."""
    bytes: int | None = Field(None, ge=0, le=MAX_EXACT)
    when: dict[str, Any] = Field(default_factory=dict)
    """Parameter of the adapter -> value with which a spec needs this file; empty = always. A list holds the value or is it."""

    def is_needed(self, args: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether the file is needed: always without `when`, else if one of `args` fits it."""
        return not self.when or any(
            value in given if isinstance(given := use.get(name), list) else given == value
            for use in args
            for name, value in self.when.items()
        )


class Members(_Strict):
    """Value of `unpack`: a folder in an archive, and where its files go in the entry."""

    strip: Pattern = "."
    """Folder in the archive whose content is taken; `.` = all of it."""
    into: Pattern = "."
    """Folder in the entry; `.` = its top."""


class SingleFiles(_Strict):
    """Value of `single`: URL pattern of single files, in place of whole archives."""

    url: Annotated[str, Field(pattern=_URL)]
    """With `{name}` for the file's name and `{path}` for its path in the entry."""
    instead_of: tuple[Pattern, ...] = Field((), strict=False)
    """Archives under `urls` that hold the same files."""


class Fetch(_Strict):
    """Section `fetch` of a card: hub repository, URLs, or both."""

    repo: Annotated[str, Field(pattern=r"^[\w.-]+/[\w.-]+$")] | None = None
    """OWNER/NAME on the hub; a model's where the card is of a model."""
    revision: Annotated[str, Field(pattern=r"^\w[\w./-]*$")] | None = None
    """Commit, branch or tag; None = the main branch. A branch or tag is resolved once, and the commit pinned in the project's lock."""
    files: tuple[Pattern, ...] = Field((), strict=False)
    """Which of its files; empty = those that `layout` names."""
    urls: dict[Pattern, Address] = Field(default_factory=dict)
    """Path in the entry, or name of an archive -> where it is."""
    sha256: dict[Pattern, _SHA256] = Field(default_factory=dict)
    """Digests of files of the hub and of archives; files of the layout have theirs under `digests`."""
    unpack: dict[Pattern, Pattern | Members] = Field(default_factory=dict)
    """Archive -> folder in the entry that its members go to (`.` = the entry's top), or `{strip, into}`."""
    single: dict[Pattern, SingleFiles] = Field(default_factory=dict)
    """Pattern of the layout -> addresses of single files, for a spec that asks few of the questions."""
    terms: str = ""
    """Terms to accept (`--accept-licence`) before anything is fetched; empty if the licence asks nothing of evaluation."""
    also: str = ""
    """Files that cannot be fetched this way, and where to get them."""
    verified: bool = False
    """True if the addresses were tried, not only read in the sources of other software."""

    @model_validator(mode="after")
    def _has_address(self) -> Fetch:
        if self.repo is None and not self.urls:
            raise ValueError("expected `repo`, or `urls`, or both")
        if self.repo is None and (self.revision or self.files):
            raise ValueError("`revision` and `files` are of a `repo`, and there is none")
        archives = {*self.urls, *self.files}
        if unknown := [name for one in self.single.values() for name in one.instead_of if name not in self.urls]:
            raise ValueError(f"`single`: instead_of: {unknown[0]} is not under `urls`")
        if unknown := [name for name in self.unpack if name not in archives]:
            raise ValueError(f"`unpack`: {unknown[0]} is neither under `urls` nor under `files`")
        return self


class Card(_Strict):
    """A card, checked: what a dataset or model is, and the layout of its files."""

    name: str
    kind: Literal["dataset", "model", "reviews"]
    title: str
    description: str
    adapter: str | None = None
    """The plugin that reads it, in registry/adapters/; None for a model, for reviews, and for what nothing reads yet."""
    missing: str = ""
    """Planned reader of a dataset without an adapter. A spec that names it compiles; its data stage fails with this text."""
    source: str
    """URL of the official files, or `generated`."""
    licence: str
    citation: str
    """BibTeX; empty where there is nothing to cite."""
    layout: tuple[Files, ...] = Field((), strict=False)
    """The official files. Only these are taken; empty for what is generated."""
    splits: dict[str, Split] = Field(default_factory=dict)
    digests: dict[Pattern, _SHA256] = Field(default_factory=dict)
    """SHA-256 of official files known byte for byte."""
    fetch: Fetch | None = None
    """Addresses for `qualm fetch`; None = by hand."""
    args: Annotated[dict[str, Any], AfterValidator(_plain)] = Field(default_factory=dict)
    """Defaults for the adapter's parameters."""
    format: str = ""
    """Short description of the official files for docs/reference/datasets.md; empty = the formats of `layout`."""
    scoring: str = ""
    """The official scoring rule, in a sentence that names the metrics (and judges) that compute it here in backquotes. Nothing else
    stands in backquotes: a test holds every name to a plugin. Empty where there is no official rule."""
    subsets: Annotated[dict[str, str], AfterValidator(_expressions)] = Field(default_factory=dict)
    """Parts that a spec's `where:` can name: name -> expression (`qualm.registry.where`)."""
    rai: dict[Rai, str] = Field(default_factory=dict)
    """Facts on collection, annotation, people, biases and limits, exported by `qualm export --to croissant`."""
    verified: bool = False
    """True if layout and counts were checked against the real files, not only their description."""

    @property
    def caveat(self) -> str:
        """Return a note that the card was not compared with a release; "" if it was."""
        return "" if self.verified else UNVERIFIED

    @property
    def formats(self) -> str:
        """Return the formats of the card's files as text, "json, jpg" or "generated"."""
        if self.format or not self.layout:
            return self.format or "generated"
        named = (rule.format or PurePosixPath(rule.files).suffix.lstrip(".").lower() or "any" for rule in self.layout)
        return ", ".join(dict.fromkeys(named))

    @model_validator(mode="after")
    def _whole(self) -> Card:
        if not SLUG.fullmatch(self.name):
            raise ValueError(f"name: expected {SLUG_RULE}, got '{self.name}'")
        if self.kind != "dataset" and (self.adapter is not None or self.missing):
            raise ValueError(f"adapter, missing: only a dataset has them; remove them from this card of kind '{self.kind}'")
        if self.kind == "dataset" and (self.adapter is None) != bool(self.missing):
            raise ValueError("adapter: a dataset names one, or says under `missing` what will read it")
        if not self.layout and self.source != "generated":
            raise ValueError("layout: official files need one; only what is 'generated' goes without")
        return self


def folders() -> tuple[Path, ...]:
    """Return the folders that hold cards: Qualm's, then the project's if in one."""
    own = project_folder(CARDS)
    return (FOLDER,) if own is None else (FOLDER, own)


def new_cards_folder() -> Path:
    """Return the folder for the project's new cards; CardError outside a project."""
    root = project_root()
    if root is None:
        raise CardError(f"{Path.cwd()}: no params.yaml and specs/ here or above; `qualm init NAME` makes a project")
    return FOLDER if root == PACKAGE else root / CARDS


def card_names(folder: Path | None = None) -> list[str]:
    """Return the sorted names of all cards, or of those in `folder`."""
    return sorted({p.stem for one in ((folder,) if folder else folders()) for p in one.glob("*.yaml")})


def load_all_cards(folder: Path | None = None) -> list[Card]:
    """Return all valid cards by name, or those in `folder`; warn of invalid ones."""
    cards = []
    names = card_names(folder)
    for name in names:
        try:
            cards.append(load_card(name, folder, names))
        except CardError as error:
            warn(str(error))
    return cards


def load_card(name: str, folder: Path | None = None, names: Sequence[str] | None = None) -> Card:
    """Return the checked card of this name; CardError for none, two or an invalid one."""
    names = card_names(folder) if names is None else names
    if name not in names:
        near = difflib.get_close_matches(name, names, 1, 0.5)
        there = f"there are: {', '.join(names) or 'none'}" if len(names) <= MAX_NAMED else "`qualm data ls` lists those there are"
        hint = f"did you mean '{near[0]}'?" if near else f"{there}; `qualm data new {name} --from FOLDER` writes one for data of your own"
        raise CardError(f"no card named '{name}'; {hint}")
    path, *others = (path for one in ((folder,) if folder else folders()) if (path := one / f"{name}.yaml").is_file())
    if others:
        raise CardError(f"{others[0]} has the same name as {path}; rename it")
    return read_card(path)


@cache
def read_card(path: Path) -> Card:
    """Return the checked card in a file, cached; CardError with all its problems."""
    where = f"registry/cards/{path.name}"
    try:
        raw = parse_yaml(read_text(path, MAX_BYTES), where)
    except TextFileError as error:
        raise CardError(str(error).replace(str(path), where)) from None
    if not isinstance(raw, dict):
        raise CardError(f"{where}: expected a mapping of keys such as name, kind, title, got {type(raw).__name__}")
    try:
        card = Card.model_validate(raw)
    except ValidationError as error:
        lines = [_line(where, e) for e in error.errors(include_url=False)[:MAX_LINES]]
        more = [f"{where}: and {error.error_count() - MAX_LINES:,} more"] if error.error_count() > MAX_LINES else []
        raise CardError("\n".join([*lines, *more])) from None
    if card.name != path.stem:
        raise CardError(f"{where}: name: expected '{path.stem}' as the file is called, got '{card.name}'")
    return card


def _line(where: str, error: Any) -> str:
    place = ".".join(quoted(part) if isinstance(part, str) else repr(part) for part in error["loc"])
    if error["type"] == "missing":
        return f"{where}: {place}: missing; every card has it"
    if error["type"] == "extra_forbidden":
        fields = Card.model_fields if len(error["loc"]) == 1 else _fields_within(error["loc"])
        near = difflib.get_close_matches(str(error["loc"][-1]), fields, 1, 0.5)
        return f"{where}: {place}: unknown key" + (f"; did you mean '{near[0]}'?" if near else f"; there are: {', '.join(fields)}")
    message = str(error["msg"]).removeprefix("Value error, ")
    return f"{where}: {place}: {message}, got {shorten(error['input'])}" if place else f"{where}: {message}"


def _fields_within(place: tuple[Any, ...]) -> Mapping[str, Any]:
    if place[0] == "fetch":
        parts: dict[str, type[_Strict]] = {"unpack": Members, "single": SingleFiles}
        return Fetch.model_fields if len(place) == 2 else parts.get(place[1], Address).model_fields
    return Files.model_fields | Split.model_fields
