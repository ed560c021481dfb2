"""`python -m qualm.compiler.generated`: write the pages of docs/ that are made from the code.

For maintainers (`make docs-reference`); includes only our own plugins and cards. With `--check` it lists outdated pages.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from qualm.compiler.generated.command_line import command_line
from qualm.compiler.generated.dataset_catalogue import catalogue
from qualm.compiler.generated.published_models import published_models
from qualm.compiler.generated.spec_reference import reference
from qualm.registry.plugins.registry import ROOT

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
