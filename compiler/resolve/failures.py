"""Parts of a spec that have errors, so that consequential errors are not reported."""

import difflib
from collections.abc import Iterator, Sequence

from qualm.compiler.spec.errors import Problem
from qualm.compiler.spec.language import Spec
from qualm.compiler.spec.yaml_positions import Document


class Failures:
    """Sections, and names in them, that cannot be read because of errors."""

    def __init__(self, document: Document, problems: Sequence[Problem]) -> None:
        """
        Args:
            problems: problems found so far; the list may grow.
        """
        self._document, self._problems = document, problems
        data = document.data if isinstance(document.data, dict) else {}
        strange = [key for key in data if key not in Spec.model_fields]
        self._misspelt = {near for key in strange for near in difflib.get_close_matches(key, Spec.model_fields, 1, 0.6)}

    @property
    def incomplete(self) -> bool:
        """Return True if the spec extends one that cannot be read."""
        return self._document.open

    def names(self, section: str) -> list[str]:
        """Return the keys of a section as written, also those with errors."""
        entries = self._document.data.get(section)
        return list(entries) if isinstance(entries, dict) else []

    def of(self, section: str, name: str = "") -> bool:
        """Return True if a section, or its entry `name`, has errors."""
        if self._document.open or section in self._misspelt:
            return True
        places = [problem.at for problem in self._problems if problem.at[:1] == (section,)]
        if not name or (section,) in places:
            return bool(places)
        plain = name.split("@")[0]
        return any(plain in self._names(section, place[1]) for place in places)

    def _names(self, section: str, key: str | int) -> Iterator[str]:
        """Yield the names of an entry: its key, or in a list its plugin."""
        if isinstance(key, str):
            yield key
            return
        entries = self._document.data.get(section)
        entry = entries[key] if isinstance(entries, list) and key < len(entries) else None
        yield from [entry] if isinstance(entry, str) else entry if isinstance(entry, dict) else ()
