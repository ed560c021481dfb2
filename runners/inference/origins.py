"""Origins of a stage's answers: counts of parts by the release and libraries that computed them.

They are in the record of the run (`.qualm/runs/SPEC/STAGE.json`), never in a table, whose content must not depend on what was stored
before. `qualm plan` and `qualm lineage` read them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from qualm.runners.contracts.parts import family_of, kind_of
from qualm.runners.inference.keys import stored_keys
from qualm.runners.runtime.libraries import BY_MINOR
from qualm.runners.store.answers import read_about

if TYPE_CHECKING:
    from qualm.runners.inference.requests import Asker, SampleVariant
    from qualm.runners.store.answers import Store

_CHUNK = 2048


def origins(asker: Asker, cells: Sequence[SampleVariant], store: Store) -> dict[str, Any]:
    """Return what a stage asks, and the number of its answers in each folder of the store."""
    folders: dict[str, Counter[str]] = {}
    counts_by_variant: dict[str, Counter[str]] = {}
    for start in range(0, len(cells), _CHUNK):
        some = [(cell, part) for cell in cells[start : start + _CHUNK] for part in asker.parts(cell.options)]
        keys = stored_keys(asker, store, [(cell.place, part) for cell, part in some])
        for (_, part), folder in zip(some, store.origins(keys), strict=True):
            if not folder:  # not answered yet
                continue
            folders.setdefault(folder, Counter())[kind_of(part)] += 1
    for cell in cells:
        counts_by_variant.setdefault(asker.variants[cell.place.variant].name, Counter())["choice" if cell.options else "open"] += 1
    about = {folder: read_about(store.folder.parent / folder) for folder in folders}
    return {
        "engine": asker.engine.identity,
        "asked": {variant: dict(counts) for variant, counts in sorted(counts_by_variant.items())},
        "from": [
            {
                "folder": folder,
                **{name: about[folder].get(name) for name in ("qualm", "libraries", "versions")},
                "parts": dict(sorted(folders[folder].items())),
            }
            for folder in sorted(folders)
        ],
        "params": dict(asker.stage.params),
        "seed": asker.stage.seed,
    }


def in_words(origin: Mapping[str, Any]) -> str:
    """Describe one origin: `12 answers, 24 draws of version 0.1.0 with torch 2.9.1`."""
    families: Counter[str] = Counter()
    for kind, n in origin["parts"].items():
        families[family_of(kind)] += n
    counts = ", ".join(f"{n:,} {family}" for family, n in sorted(families.items()))
    libraries = ", ".join(f"{name} {number}" for name, number in sorted((origin["libraries"] or {}).items()) if name in BY_MINOR)
    return f"{counts} of version {origin['qualm']}" + (f" with {libraries}" if libraries else "")
