"""Keys of answer parts; the key of a signal includes the answer that it is about, stored or just computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from qualm.runners.contracts.models import ANSWER, SHOWN_DRAWS, Part, Request, draw_of, subjects_of
from qualm.runners.store.answers import subject

if TYPE_CHECKING:
    from qualm.runners.inference.requests import Asker, Place
    from qualm.runners.store.answers import StoredAnswers

UNKNOWN = bytes(32)
"""Key of a signal whose answer is not stored; nothing is stored under it."""


def stored_keys(asker: Asker, store: StoredAnswers, places_and_parts: Sequence[tuple[Place, str]]) -> list[bytes]:
    """Return the key of each part, `UNKNOWN` for a signal whose answer is not stored."""
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


def made_keys(asker: Asker, request: Request, place: Place, parts: Mapping[str, Part]) -> dict[str, bytes]:
    """Return the key of each part just computed for a request.

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
            return subject(parts.get(subjects[0]) or request.drawn_parts[draw])
        return subject(answer, texts if part in SHOWN_DRAWS else ())

    return {part: asker.key(place, part, about(part)) for part in parts}


def _subject_digests(asker: Asker, store: StoredAnswers, places: Sequence[Place], parts: Sequence[str]) -> list[bytes]:
    """Digest the answers that these signals are about; `UNKNOWN` unless all are stored."""
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
        subjects.append(subject(Part(text, tokens), [text or "" for text, _ in drawn]))
    return subjects
