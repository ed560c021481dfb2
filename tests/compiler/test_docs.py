"""What README.md, CONTRIBUTING.md, CHANGELOG.md, SECURITY.md and docs/ say can be typed, opened or looked up: commands, links, files."""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from qualm.compiler.commands.main import complete_app

UsageError = typer.BadParameter.__mro__[1]
"""Typer's own copy of Click's, which has no public name."""
ROOT = Path(__file__).resolve().parents[2]
FILES = (*(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG", "SECURITY")), *sorted((ROOT / "docs").rglob("*.md")))
PAGES = {p.relative_to(ROOT).as_posix(): p.read_text(encoding="utf-8") for p in FILES}


@cache
def root() -> Any:
    """`qualm` with all of its commands, as Typer's own copy of Click has them."""
    return typer.main.get_command(complete_app())


def commands(page: str) -> Iterator[str]:
    """Every `qualm ...` of a page: lines of its blocks, without comments, and code within its sentences."""
    text = PAGES[page]
    blocks = re.findall(r"^```[^\n]*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    rest = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    for told in (*lines, *re.findall(r"`([^`]+)`", rest.replace("\n", " "))):
        for part in told.split("&&"):
            if part.strip().startswith("qualm "):
                yield part.strip().partition(" #")[0]  # a comment may hold an apostrophe


def wrong_with(line: str) -> str:
    """Why it cannot be typed; empty if it can."""
    words = [w for w in shlex.split(line.partition(" > ")[0])[1:] if w != "..."]
    command = root()
    while words and not words[0].startswith("-") and hasattr(command, "commands"):
        name = words.pop(0)
        if name not in command.commands:
            return f"no command '{name}'"
        command = command.commands[name]
    if (hasattr(command, "commands") and not words) or command.context_settings.get("ignore_unknown_options"):
        return ""
    options = {"-h", "--help", *(o for p in command.params for o in (*p.opts, *p.secondary_opts) if o.startswith("-"))}
    if unknown := [w for w in words if w.startswith("-") and w.partition("=")[0] not in options and not re.fullmatch(r"-[a-z].+", w)]:
        return f"no option {' '.join(unknown)}"
    if {"-h", "--help"} & set(words) or hasattr(command, "commands"):
        return ""
    try:
        _, left, _ = command.make_parser(command.context_class(command)).parse_args(words)
    except UsageError as error:
        return str(error)
    return f"too many words: {' '.join(left)}" if left else ""


@pytest.mark.parametrize("page", PAGES)
def test_commands_are_as_they_are_typed(page: str) -> None:
    wrong = {c: why for c in commands(page) if (why := wrong_with(c))}
    assert not wrong


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", re.sub(r"`|\[|\]\([^)]*\)", "", heading).lower()).replace(" ", "-")


@cache
def anchors(file: Path) -> set[str]:
    return {slug(h) for h in re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)}


def test_the_spec_of_the_readme_is_valid_and_the_readme_short(tmp_path: Path) -> None:
    (text,) = re.findall(r"^```yaml\n(.*?)^```", PAGES["README.md"], re.DOTALL | re.MULTILINE)
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    assert CliRunner().invoke(complete_app(), ["validate", str(path)]).output.startswith("mine: valid (1 dataset, 1 model, 2 variants")
    assert len(PAGES["README.md"].split()) <= 1_200


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    wrong = []
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", PAGES[page])):
        path, _, anchor = target.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        if not path.startswith(("http://", "https://")) and not (file.exists() and (not anchor or anchor in anchors(file))):
            wrong.append(target)
    assert not wrong


def test_every_page_is_in_the_index_and_on_the_site() -> None:
    pages = [page.removeprefix("docs/") for page in PAGES if page.startswith("docs/")]
    index, site = PAGES["docs/index.md"], (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert not [p for p in pages if p != "index.md" and f"]({p})" not in index], "the index does not link to these"
    assert not [p for p in pages if f": {p}\n" not in site], "mkdocs.yml does not list these"


@pytest.mark.parametrize("page", PAGES)
def test_files_that_are_named_are_there(page: str) -> None:
    folders, ends = "compiler|registry|runners|tests|docs", "py|md|yaml|jsonl|json|css|html"
    named = set(re.findall(rf"(?<![\w./-])((?:{folders})/[\w./-]+\.(?:{ends}))", PAGES[page]))
    examples = {f"registry/cards/{name}.yaml" for name in ("street_signs", "shapes")}
    examples |= {f"runners/plugins/{name}.py" for name in ("stages/summarise", "metrics/confident_errors")}
    assert not sorted(n for n in named - examples if not (ROOT / n).exists() and not re.search(r"[A-Z]{3,}", n))


def test_no_package_of_the_public_index_is_taken_for_ours() -> None:
    """There `qualm` is another project; ours is `qualm-bench`."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    strange = re.compile(rb"(?:pip3?|pipx|uv|tool) (?:install|add) (?:-\S+ )*[\"']?qualm(?!-bench)\b|\bqualm\[[a-z]")
    files = [ROOT / name for name in listed.stdout.split("\0") if name and not name.startswith(("results/", "registry/store/"))]
    wrong = [f"{f.relative_to(ROOT)}: {m.group().decode()}" for f in files if f.is_file() for m in strange.finditer(f.read_bytes())]
    assert not wrong


MIB = 1024 * 1024
LIMITS: list[tuple[str, str, dict[str, float]]] = [
    (
        "docs/how-to/servers.md",
        "A batch holds at most 50,000 requests, 190 MiB, and replies of about 256 MiB",
        {
            "servers.batch_api:MAX_REQUESTS": 50_000,
            "servers.batch_api:MAX_BYTES": 190 * MIB,
            "servers.transport:MAX_REPLY_BYTES": 256 * MIB,
        },
    ),
    (
        "docs/how-to/servers.md",
        "at most 1 MiB, plus 512 bytes for each token and each of its likeliest tokens, never over 256 MiB",
        {"servers.replies:_BASE_BYTES": MIB, "servers.replies:_TOKEN_BYTES": 512, "servers.transport:MAX_REPLY_BYTES": 256 * MIB},
    ),
    ("docs/how-to/servers.md", "a run sends each at most three times", {"inference.exchange:TRIES": 3}),
    (
        "docs/how-to/servers.md",
        "the likeliest tokens of a position have at most 1.01 probability",
        {"servers.replies:MAX_DIFFERENCE": 0.01},
    ),
    ("docs/how-to/images.md", "questions about up to 64 images", {"registry.formats.picture_lists:MAX_IMAGES": 64}),
    ("docs/how-to/data.md", "images of more than 90 megapixels", {"registry.formats.pictures:MAX_PIXELS": 90_000_000}),
    (
        "docs/how-to/data.md",
        "unpack to over 500 times their size (beyond 256 MiB), JSON records of over 128 MiB and table cells of over 64 MiB are refused",
        {
            "registry.formats.archives:RATIO": 500,
            "registry.formats.archives:FREE": 256 * MIB,
            "registry.formats.json_stream:MAX_LENGTH": 128 * MIB,
            "registry.formats.text_tables:MAX_CELL": 64 * MIB,
        },
    ),
    ("docs/how-to/verify.md", "a request holds at most 64 KiB", {"review.pages:MAX_BODY_BYTES": 64 * 1024}),
    (
        "docs/explanation/reliability.md",
        "At most 200 mistakes of a spec are listed; a sweep or section has at most 500 points or entries",
        {"compiler.spec.errors:MAX_PROBLEMS": 200, "compiler.spec.validate:MAX_POINTS": 500},
    ),
    ("docs/explanation/inference.md", "is kept until the batch ends, up to 1 GiB", {"inference.hf.once:ROOM": 1024 * MIB}),
    ("docs/explanation/inference.md", "in row groups of about 16 MiB", {"data.internals:GROUP_BYTES": 16 * MIB}),
    (
        "docs/reference/scoring.md",
        "With fewer than 5 groups that enter the value there is no interval",
        {"scoring.limits:MIN_GROUPS": 5},
    ),
    ("docs/reference/scoring.md", "with fewer than 10 answers of the rarer class", {"scoring.paired_tests:MIN_CLASS_ROWS": 10}),
    (
        "docs/reference/scoring.md",
        "fewer than 20 answers or 5 groups that calibrate",
        {"scoring.calibration.fits:MIN_ROWS": 20, "scoring.calibration.fits:MIN_GROUPS": 5},
    ),
    (
        "docs/reference/scoring.md",
        "fewer than 20 groups, a metric without a direction, a candidate undefined in over a tenth of the resamples",
        {"scoring.rankings:MIN_GROUPS": 20, "scoring.rankings:DEFINED": 0.9},
    ),
    (
        "docs/explanation/statistics.md",
        "With fewer than 50 degrees of freedom, p is at least Bonferroni's",
        {"scoring.rankings:FEW_GROUPS": 50},
    ),
    (
        "docs/reference/scoring.md",
        "It takes perturbations of two modalities and 20 labelled groups of each of two",
        {"results.attribution:MIN_LABELLED_GROUPS": 20},
    ),
]
"""Page, what it says, and the constants that hold it, of `qualm.runners` where no other package is named."""


@pytest.mark.parametrize(("page", "words", "limits"), LIMITS, ids=[words for _, words, _ in LIMITS])
def test_limits_are_those_that_pages_name(page: str, words: str, limits: dict[str, float]) -> None:
    assert words in " ".join(PAGES[page].split())
    for place, value in limits.items():
        module, _, name = place.partition(":")
        package = "" if module.partition(".")[0] in ("registry", "compiler") else "runners."
        assert getattr(importlib.import_module(f"qualm.{package}{module}"), name) == value, place
