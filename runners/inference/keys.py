"""Keys of answer parts, and the origins of stored ones.

The key of a signal includes the answer that it is about, stored or just computed. Origins (counts of parts by the release and libraries
that computed them) are in the record of the run (`.qualm/runs/SPEC/STAGE.json`), never in a table, whose content must not depend on what
was stored before. `qualm plan` and `qualm lineage` read them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from qualm.runners.contracts.models import ANSWER, SHOWN_DRAWS, Part, Request, draw_of, subjects_of
from qualm.runners.contracts.parts import family_of, kind_of
from qualm.runners.data.answers import read_about, subject_digest
from qualm.runners.runtime.libraries import BY_MINOR

if TYPE_CHECKING:
    from qualm.runners.data.answers import Store, StoredAnswers
    from qualm.runners.inference.requests import Asker, Place, SampleVariant

CHUNK_CELLS = 2048
UNKNOWN = bytes(32)
"""Key of a signal whose answer is not stored; nothing is stored under it."""


def stored_keys(asker: Asker, store: StoredAnswers, places_and_parts: Sequence[tuple[Place, str]]) -> list[bytes]:
    """Return the key of each (place, part name); `UNKNOWN` for a signal on no stored answer."""
    needed = [subjects_of(part, asker.draws) for _, part in places_and_parts]
    about: dict[tuple[Place, tuple[str, ...]], bytes] = {}
    # One lookup for each set of subjects, of which there are few, not one for each place.
    for subjects in dict.fromkeys(needed):
        if subjects:
            places = list(dict.fromkeys(place for (place, _), own in zip(places_and_parts, needed, strict=True) if own == subjects))
            digests = _subject_digests(asker, store, places, subjects)
            about |= {(place, subjects): digest for place, digest in zip(places, digests, strict=True)}
    keys = []
    for (place, part), subjects in zip(places_and_parts, needed, strict=True):
        subject_digest = about[place, subjects] if subjects else b""
        keys.append(UNKNOWN if subject_digest == UNKNOWN else asker.key(place, part, subject_digest))
    return keys


def computed_keys(asker: Asker, request: Request, place: Place, parts: Mapping[str, Part]) -> dict[str, bytes]:
    """Return {part name: the store's key} of answer parts just computed for a request.

    Signals are about the answers among the parts, or those in the request.
    """
    answer = parts.get(ANSWER) or request.greedy or Part()
    drawn = {**request.drawn, **{draw_of(part): value.text or "" for part, value in parts.items() if draw_of(part)}}
    texts = [drawn[number] for number in sorted(drawn)]

    def about(part: str) -> bytes:
        subjects = subjects_of(part)
        if not subjects:
            return b""
        if draw := draw_of(subjects[0]):
            return subject_digest(parts.get(subjects[0]) or request.drawn_parts[draw])
        return subject_digest(answer, texts if part in SHOWN_DRAWS else ())

    return {part: asker.key(place, part, about(part)) for part in parts}


def _subject_digests(asker: Asker, store: StoredAnswers, places: Sequence[Place], parts: Sequence[str]) -> list[bytes]:
    """Return per place the digest of its stored answers `parts`; `UNKNOWN` if any is missing."""
    keys = [asker.key(place, part) for place in places for part in parts]
    whole = np.all(store.has(keys).reshape(len(places), len(parts)), axis=1).tolist()
    stored = store.take([key for key, is_whole in zip(keys, np.repeat(whole, len(parts)), strict=True) if is_whole])
    rows = zip(stored["text"].to_pylist(), stored["tokens"].to_pylist(), strict=True)
    subjects = []
    for is_whole in whole:
        if not is_whole:
            subjects.append(UNKNOWN)
            continue
        (text, tokens), *drawn = (next(rows) for _ in parts)
        subjects.append(subject_digest(Part(text, tokens), [text or "" for text, _ in drawn]))
    return subjects


def answer_origins(asker: Asker, cells: Sequence[SampleVariant], store: Store) -> dict[str, Any]:
    """Return, as JSON, what a stage asks, and counts of its stored parts by store folder."""
    folders: dict[str, Counter[str]] = {}
    counts_by_variant: dict[str, Counter[str]] = {}
    for start in range(0, len(cells), CHUNK_CELLS):
        some = [(cell, part) for cell in cells[start : start + CHUNK_CELLS] for part in asker.parts(cell.options)]
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


def describe_origin(origin: Mapping[str, Any]) -> str:
    """Describe a folder's parts: `12 answers, 9 draws of version 0.1.0 with torch 2.9.1`."""
    families: Counter[str] = Counter()
    for kind, n in origin["parts"].items():
        families[family_of(kind)] += n
    counts = ", ".join(f"{n:,} {family}" for family, n in sorted(families.items()))
    libraries = ", ".join(f"{name} {number}" for name, number in sorted((origin["libraries"] or {}).items()) if name in BY_MINOR)
    return f"{counts} of version {origin['qualm']}" + (f" with {libraries}" if libraries else "")
