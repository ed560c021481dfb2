"""Print random functions, or sentences, for someone who has not seen the code.

    python -m tests.bench.cold_read --seed 1 [--number 60]        # functions: signature and first docstring line
    python -m tests.bench.cold_read --seed 1 --sentences          # sentences of README.md and docs/
    python -m tests.bench.cold_read --seed 1 --messages           # texts of the report, the pages and the terminal
    python -m tests.bench.cold_read --messages --number 0         # all of them, to read in one go or to translate

The reader writes down what each function returns, or what each sentence means. Compare that with the body (`--where` prints the places).
"""

from __future__ import annotations

import argparse
import ast
import random
import re
from collections.abc import Iterator

from tests.bench.house import PACKAGES, ROOT
from tests.support.checks.sources import fixed_texts, syntax_nodes


def functions() -> Iterator[tuple[str, str]]:
    """Yield place and text of every function and class with a docstring."""
    for path in (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        class_of = {member: f"{node.name}." for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for member in node.body}
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef | ast.ClassDef) or not (docstring := ast.get_docstring(node)):
                continue
            if isinstance(node, ast.ClassDef):
                head = f"class {class_of.get(node, '')}{node.name}"
            else:
                returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
                parameters = "" if _is_property(node) else f"({ast.unparse(node.args)})"
                head = f"{class_of.get(node, '')}{node.name}{parameters}{returns}"
            yield f"{path.relative_to(ROOT)}:{node.lineno}", f"{head}\n    {docstring.splitlines()[0]}"


def _is_property(function: ast.FunctionDef) -> bool:
    """Return whether a function is read like an attribute: `property` or `cached_property`."""
    return any(ast.unparse(decorator) in ("property", "cached_property") for decorator in function.decorator_list)


def sentences() -> Iterator[tuple[str, str]]:
    """Yield place and text of every sentence of the pages, without code blocks, tables and headings."""
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for paragraph in re.split(r"\n\s*\n|^- ", text, flags=re.MULTILINE):
            if not paragraph.lstrip().startswith(("|", "#", "<", "!")):
                for sentence in re.split(r"(?<=[.?!]) (?=[A-Z])", " ".join(paragraph.split())):
                    if sentence.count(" ") >= 3:
                        yield str(path.relative_to(ROOT)), sentence


def messages() -> Iterator[tuple[str, str]]:
    """Yield place and text of every fixed sentence in the code, `...` for what is filled in."""
    for file, nodes in syntax_nodes(*PACKAGES).items():
        for node, text in fixed_texts(nodes):
            if len(re.findall(r"[A-Za-z]{2,} ", text)) >= 5 and not re.search(r"\\[bsdw]|\(\?", text):
                yield f"{file}:{node.lineno}", " ".join(text.split())


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--number", type=int, help="default: 60 functions, 40 sentences; 0: all in their order")
    parser.add_argument("--sentences", action="store_true")
    parser.add_argument("--messages", action="store_true")
    parser.add_argument("--where", action="store_true", help="print where each stands")
    chosen = parser.parse_args()
    texts = list(messages() if chosen.messages else sentences() if chosen.sentences else functions())
    number = (40 if chosen.sentences or chosen.messages else 60) if chosen.number is None else chosen.number
    picked = random.Random(chosen.seed).sample(texts, number) if number else texts
    for i, (place, text) in enumerate(picked, 1):
        print(f"{i}. {text}" + f"\n    {place}" * chosen.where)


if __name__ == "__main__":
    main()
