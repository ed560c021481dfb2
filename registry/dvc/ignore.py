"""The rules of `.dvcignore`: which files of a folder DVC counts. Reproduces DVC 3.67 and is tested against it."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from qualm.registry.formats.textfiles import is_file, read_text


class Ignore:
    """The rules of `.dvcignore` files (gitignore's grammar), from the checkout's root down."""

    _BUILT_IN = (".hg/", ".git/", ".git", ".dvc/")

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._patterns: dict[Path, list[tuple[Path, re.Pattern[str], bool, bool]]] = {}

    def hides(self, path: Path, is_dir: bool) -> bool:
        """Whether this very path is ignored; that of its parents is the caller's to ask first."""
        if is_dir and (path / ".dvc").exists():
            return True  # a DVC repository inside ours is not ours
        for base, pattern, ignored, folders_only in reversed(self._rules(path.parent)):
            if folders_only and not is_dir:
                continue
            name = path.relative_to(base).as_posix()
            if pattern.match(name) or (is_dir and pattern.match(f"{name}/")):
                return ignored
        return False

    def hides_any(self, path: Path) -> bool:
        """Whether a folder or one of its parents is ignored, so that DVC sees nothing in it."""
        if self.root not in path.parents:
            return False
        chain = [path, *path.parents]
        return any(self.hides(p, True) for p in reversed(chain[: chain.index(self.root)]))

    def _rules(self, folder: Path) -> list[tuple[Path, re.Pattern[str], bool, bool]]:
        if folder not in self._patterns:
            if folder == self.root:
                rules = list(_parse_ignore(folder, self._BUILT_IN))
            elif self.root in folder.parents:
                rules = list(self._rules(folder.parent))
            else:
                rules = []
            file = folder / ".dvcignore"
            if is_file(file):
                rules += _parse_ignore(folder, read_text(file, 1 << 20).splitlines())
            self._patterns[folder] = rules
        return self._patterns[folder]


def _parse_ignore(base: Path, lines: Iterable[str]) -> Iterator[tuple[Path, re.Pattern[str], bool, bool]]:
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    for line in map(str.strip, lines):
        if not line or line.startswith("#"):
            continue
        regex, ignored = GitIgnoreSpecPattern.pattern_to_regex(line)
        if regex is not None and ignored is not None:
            yield base, re.compile(str(regex)), ignored, line.endswith("/")
