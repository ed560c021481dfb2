"""Print random functions, or sentences, for someone who has not seen the code.

    python -m tests.bench.cold_read --seed 1 [--number 60]        # functions: signature and first docstring line
    python -m tests.bench.cold_read --seed 1 --sentences          # sentences of README.md and docs/

The reader writes down what each function returns, or what each sentence means. Compare that with the body (`--where` prints the places).
"""

from __future__ import annotations

import argparse
import ast
import random
import re
from collections.abc import Iterator

from tests.bench.house import PACKAGES, ROOT


def functions() -> Iterator[tuple[str, str]]:
    """Yield place and text of every function and class with a docstring."""
    for path in (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.ClassDef) or not (docstring := ast.get_docstring(node)):
                continue
            if isinstance(node, ast.ClassDef):
                head = f"class {node.name}"
            else:
                head = f"{node.name}({ast.unparse(node.args)})" + (f" -> {ast.unparse(node.returns)}" if node.returns else "")
            yield f"{path.relative_to(ROOT)}:{node.lineno}", f"{head}\n    {docstring.splitlines()[0]}"


def sentences() -> Iterator[tuple[str, str]]:
    """Yield place and text of every sentence of the pages, without code blocks, tables and headings."""
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for paragraph in re.split(r"\n\s*\n|^- ", text, flags=re.MULTILINE):
            if not paragraph.lstrip().startswith(("|", "#", "<", "!")):
                for sentence in re.split(r"(?<=[.?!]) (?=[A-Z])", " ".join(paragraph.split())):
                    if sentence.count(" ") >= 3:
                        yield str(path.relative_to(ROOT)), sentence


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--number", type=int, help="default: 60 functions, 40 sentences")
    parser.add_argument("--sentences", action="store_true")
    parser.add_argument("--where", action="store_true", help="print where each stands")
    chosen = parser.parse_args()
    found = list(sentences() if chosen.sentences else functions())
    picked = random.Random(chosen.seed).sample(found, chosen.number or (40 if chosen.sentences else 60))
    for i, (place, text) in enumerate(picked, 1):
        print(f"{i}. {text}" + f"\n    {place}" * chosen.where)


if __name__ == "__main__":
    main()
