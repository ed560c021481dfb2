"""Keys of the parts of answers; the key of a signal includes the answer that it is about, stored or just made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from qualm.runners.contracts.models import ANSWER, SHOWN_DRAWS, Part, Request, draw_of, draw_part, is_signal
from qualm.runners.store.answers import subject

if TYPE_CHECKING:
    from qualm.runners.inference.requests import Asker, Place
    from qualm.runners.store.answers import StoredAnswers

UNKNOWN = bytes(32)
"""In the place of a signal's key where the answer is not stored: under it nothing ever is."""


def stored_keys(asker: Asker, store: StoredAnswers, places_and_parts: Sequence[tuple[Place, str]]) -> list[bytes]:
    """The key of each of these parts; of a signal whose answer is not stored `UNKNOWN`."""
    about: dict[tuple[Place, bool], bytes] = {}
    for with_draws in (False, True):
        places = list(dict.fromkeys(place for place, part in places_and_parts if is_signal(part) and (part in SHOWN_DRAWS) is with_draws))
        about |= {
            (place, with_draws): subject_digest
            for place, subject_digest in zip(places, _subjects(asker, store, places, with_draws), strict=True)
        }
    keys = []
    for place, part in places_and_parts:
        subject_digest = about[place, part in SHOWN_DRAWS] if is_signal(part) else b""
        keys.append(UNKNOWN if subject_digest == UNKNOWN else asker.key(place, part, subject_digest))
    return keys


def made_keys(asker: Asker, request: Request, place: Place, parts: Mapping[str, Part]) -> dict[str, bytes]:
    """Part -> key, of what was just made for a request: signals are about the answers among it, or about those that were known."""
    answer = parts.get(ANSWER) or request.greedy or Part()
    drawn = {**request.drawn, **{draw_of(part): value.text or "" for part, value in parts.items() if draw_of(part)}}
    texts = [drawn[number] for number in sorted(drawn)]
    return {
        part: asker.key(place, part, subject(answer, texts if part in SHOWN_DRAWS else ()) if is_signal(part) else b"") for part in parts
    }


def _subjects(asker: Asker, store: StoredAnswers, places: Sequence[Place], with_draws: bool) -> list[bytes]:
    """What signals at these places are about; `UNKNOWN` where not all of it is stored."""
    if not places:
        return []
    parts = [ANSWER, *(draw_part(draw) for draw in range(1, asker.draws + 1) if with_draws)]
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
