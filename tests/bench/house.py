"""Counts of the code: its size, its words, its levels.

    python -m tests.bench.house [--names] [--rooms]

Product code is what stands in `compiler/`, `registry/` and `runners/`. A room is a folder with modules; folders of plugins are not
counted. `--rooms` lists the rooms with their modules and lines. A name is counted wherever it is bound: assigned, a parameter,
the target of a loop, a comprehension, a `with` or an `except`. `--names` lists the vague names by file, and the public classes that
share a name.

Below stand the docstrings that begin with a relative word (What, Whether, Those, Of, Where, How, As) instead of a verb or noun, and the
words of docs/: all that spaces separate, as `wc -w` counts, and those that have a letter or digit, without the bars of tables.

Lines are of five kinds: code, docstrings (those below a field too), imports, comments, blank. A private name (`_found`) counts as vague
as its public form does.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from qualm.registry.plugins.registry import KINDS as PLUGIN_KINDS
from tests.compiler.test_rooms import BACK, FLOORS

ROOT = Path(__file__).parents[2]
PACKAGES = ("compiler", "registry", "runners")
KINDS = ("code", "docstrings", "imports", "comments", "blank")
VAGUE = frozenset(["found", "made", "asked", "said", "told", "wanted", "given", "shown", "known", "seen", "kept"])
"""Participles that say what was done with a thing and not what it is."""


def bindings(tree: ast.AST) -> Iterator[str]:
    """Every name that a module binds, once for each place that binds it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name


RELATIVE = re.compile(r"(?:What|Whether|Those|Of|Where|How|As|The same)\b")
"""Docstrings that begin so do not say at once what a thing is or does (STYLE: a verb, or a noun)."""


def is_relative(node: ast.AST) -> bool:
    """Return whether a statement is a docstring that begins with a relative word."""
    return is_text(node) and bool(RELATIVE.match(ast.literal_eval(node.value).strip()))  # type: ignore[attr-defined]


def doc_words() -> tuple[int, int]:
    """Return the words of docs/ as `wc -w` counts them, and those with a letter or digit."""
    words = [word for page in sorted((ROOT / "docs").rglob("*.md")) for word in page.read_text(encoding="utf-8").split()]
    return len(words), sum(bool(re.search(r"\w", word)) for word in words)


def is_vague(name: str) -> bool:
    return name.lstrip("_").lower() in VAGUE


def line_kinds(text: str, tree: ast.AST) -> Counter[str]:
    """How many lines of a module are code, docstrings, imports, comments and blank."""
    kinds = {n: "comments" for n, line in enumerate(text.splitlines(), 1) if line.strip().startswith("#")}
    kinds |= {n: "blank" for n, line in enumerate(text.splitlines(), 1) if not line.strip()}
    for node in ast.walk(tree):
        kind = "imports" if isinstance(node, ast.Import | ast.ImportFrom) else "docstrings" if is_text(node) else ""
        if kind:
            assert isinstance(node, ast.stmt)
            kinds |= dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), kind)
    counts = Counter(kinds.values())
    counts["code"] = len(text.splitlines()) - counts.total()
    return counts


def is_text(node: ast.AST) -> bool:
    """Whether a statement is a text and nothing else: a docstring, or what is written below a field."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def public_classes(tree: ast.Module) -> Iterator[str]:
    return (node.name for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_"))


def files(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def rooms() -> dict[str, tuple[int, int]]:
    """Room -> modules and lines; a folder with nothing but `__init__.py` and `__main__.py` is none."""
    by_room: dict[str, tuple[int, int]] = {}
    for file in (file for package in PACKAGES for file in files(package)):
        room = file.parent.relative_to(ROOT).as_posix()
        if room not in PLUGIN_KINDS.values():
            modules, lines = by_room.get(room, (0, 0))
            by_room[room] = modules + (not file.stem.startswith("__")), lines + len(file.read_text(encoding="utf-8").splitlines())
    return {room: counts for room, counts in by_room.items() if counts[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", action="store_true", help="list the vague names by file, and the classes that share a name")
    parser.add_argument("--rooms", action="store_true", help="list the rooms with their modules and lines")
    options = parser.parse_args()
    classes: dict[str, list[Path]] = defaultdict(list)
    vague_by_file: Counter[Path] = Counter()
    print(f"{'':10} {'files':>6} {'lines':>7} {''.join(f'{kind:>11}' for kind in KINDS)} {'names':>7} {'vague':>6} {'per 1,000':>10}")
    all_kinds: Counter[str] = Counter()
    texts = relative = 0
    for package in PACKAGES:
        names: Counter[str] = Counter()
        kinds: Counter[str] = Counter()
        for file in files(package):
            text = file.read_text(encoding="utf-8")
            tree = ast.parse(text)
            bound = Counter(bindings(tree))
            names += bound
            kinds += line_kinds(text, tree)
            texts += sum(map(is_text, ast.walk(tree)))
            relative += sum(map(is_relative, ast.walk(tree)))
            vague_by_file[file.relative_to(ROOT)] = sum(count for name, count in bound.items() if is_vague(name))
            for name in public_classes(tree):
                classes[name].append(file.relative_to(ROOT))
        all_kinds += kinds
        vague, total = sum(count for name, count in names.items() if is_vague(name)), names.total()
        counts = "".join(f"{kinds[kind]:11,}" for kind in KINDS)
        print(f"{package:10} {len(files(package)):6,} {kinds.total():7,} {counts} {total:7,} {vague:6,} {1000 * vague / total:10.1f}")
    print(f"{'all':10} {'':6} {all_kinds.total():7,} {''.join(f'{all_kinds[kind]:11,}' for kind in KINDS)}")
    print(f"{relative:,} of {texts:,} docstrings begin with a relative word")
    print("docs/: {:,} words by spaces, {:,} with a letter or digit".format(*doc_words()))
    shared = {name: places for name, places in classes.items() if len(places) > 1}
    print(f"{len(shared)} public class names stand twice or more")
    floors = ", ".join(f"{package} {len(levels)}" for package, levels in FLOORS.items())
    print(f"{len(rooms())} rooms; floors: {floors}; {len(BACK)} import that goes up")
    if options.rooms:
        for room, (modules, lines) in rooms().items():
            print(f"  {room:30} {modules:4} {lines:7,}")
    if options.names:
        for name, places in sorted(shared.items()):
            print(f"  {name}: {', '.join(map(str, places))}")
        for file, count in vague_by_file.most_common():
            if count:
                print(f"  {count:4} {file}")


if __name__ == "__main__":
    main()
