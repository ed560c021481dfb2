"""Counts of the code: its size, its words, its levels.

    python -m tests.bench.house [--names]

Product code is what stands in `compiler/`, `registry/` and `runners/`. A name is counted wherever it is bound: assigned, a parameter,
the target of a loop, a comprehension, a `with` or an `except`. `--names` lists the vague names by file, and the public classes that
share a name.
"""

from __future__ import annotations

import argparse
import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("compiler", "registry", "runners")
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


def public_classes(tree: ast.Module) -> Iterator[str]:
    return (node.name for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_"))


def files(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", action="store_true", help="list the vague names by file, and the classes that share a name")
    options = parser.parse_args()
    classes: dict[str, list[Path]] = defaultdict(list)
    vague_by_file: Counter[Path] = Counter()
    print(f"{'':10} {'files':>6} {'lines':>7} {'names':>7} {'vague':>6} {'per 1,000':>10}")
    for package in PACKAGES:
        names: Counter[str] = Counter()
        lines = 0
        for file in files(package):
            text = file.read_text(encoding="utf-8")
            tree = ast.parse(text)
            bound = Counter(bindings(tree))
            names += bound
            lines += text.count("\n")
            vague_by_file[file.relative_to(ROOT)] = sum(bound[name] for name in VAGUE)
            for name in public_classes(tree):
                classes[name].append(file.relative_to(ROOT))
        vague, total = sum(names[name] for name in VAGUE), names.total()
        print(f"{package:10} {len(files(package)):6,} {lines:7,} {total:7,} {vague:6,} {1000 * vague / total:10.1f}")
    shared = {name: places for name, places in classes.items() if len(places) > 1}
    print(f"{len(shared)} public class names stand twice or more")
    if options.names:
        for name, places in sorted(shared.items()):
            print(f"  {name}: {', '.join(map(str, places))}")
        for file, count in vague_by_file.most_common():
            if count:
                print(f"  {count:4} {file}")


if __name__ == "__main__":
    main()
