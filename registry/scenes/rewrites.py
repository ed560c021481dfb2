"""Scene questions rewritten to be invalid, subjective, ambiguous or unanswerable from the image.

The four kinds are those of VLM-UQBench (Wang, Chen, Ahmad, Batmanghelich, Li). Generated questions need no language model: their noun
phrases are parsed, and the scene graph proves the new question where the image matters.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from qualm.registry.scenes.contrast import phrase_of
from qualm.registry.scenes.questions import SIDES, Phrase, matching_objects, noun_phrase, referents
from qualm.registry.scenes.world import VALUES, Scene

if TYPE_CHECKING:
    import numpy as np

REASONS = ("Missing Interaction Target", "Implied Missing Associate", "Out of Frame")
"""Reasons why an image lacks the evidence, in the paper's words."""

_FORMS = {
    "direction": r"What (?P<a>{a}) is the object (?P<side>{side}) the (?P<y>.+)\?",
    "attribute": r"What (?:is the )?(?P<a>{a}) (?:is|of) the (?P<x>.+)\?",
    "existence": r"Is there an? (?P<x>.+)\?",
    "any": r"Are there any (?P<x>.+)\?",
    "counting": r"(?:How many|What number of) (?P<x>.+) are there\?",
    "relation": r"Is the (?P<x>.+) (?P<side>{side}) the (?P<y>.+)\?",
    "where": r"Where is the (?P<x>.+) seen from the (?P<y>.+)\?",
    "which": r"Which of these is in the picture\?",
}
_PATTERNS = {
    form: re.compile(text.replace("{a}", "|".join(VALUES)).replace("{side}", "|".join(map(re.escape, SIDES.values()))))
    for form, text in _FORMS.items()
}

_WORDS: dict[str, dict[str, tuple[str, ...]]] = {
    "inv": {
        "direction": ("What {a} does the silence {side} the {y} have?", "How loud is the {a} of the object {side} the {y}?"),
        "attribute": ("What {a} does the {x} taste of?", "What {a} is the opinion of the {x}?", "How loud is the {a} of the {x}?"),
        "existence": ("Is there a {x} in the meaning of it?", "Is there a {x} on Thursday?"),
        "any": ("Are there any {x} in the meaning of it?", "Are there any {x} on Thursday?"),
        "counting": ("How many {x} are true?", "How many opinions do the {x} have?"),
        "relation": ("Is the {x} more honest {side} the {y}?", "Is the word for the {x} {side} the {y}?"),
        "where": ("Where is the {x} remembered by the {y}?", "Why is the {x} heard from the {y}?"),
        "which": ("Which of these does the picture believe?", "Which of these is in the sound of the picture?"),
    },
    "sbj": {
        "direction": (
            "Don't you find the {a} of the object {side} the {y} pleasing?",
            "Would you have chosen this {a} for the object {side} the {y}?",
        ),
        "attribute": ("Don't you find the {a} of the {x} pleasing?", "Would you have chosen this {a} for the {x}?"),
        "existence": ("Would you be glad to see a {x} here?", "Wouldn't a {x} look nice here?"),
        "any": ("Would you be glad to see some {x} here?", "Wouldn't some {x} look nice here?"),
        "counting": ("Do you feel that there are enough {x}?", "Is the number of {x} a good one, in your opinion?"),
        "relation": ("Do you think the {x} would look better {side} the {y}?", "Would you rather have the {x} {side} the {y}?"),
        "where": ("Where would you like the {x} best, seen from the {y}?", "Isn't the {x} in a lovely place, seen from the {y}?"),
        "which": ("Which of these would you most like to see in the picture?", "Which of these would be the prettiest in the picture?"),
    },
}
_NOT_SEEN: tuple[tuple[str, str, str], ...] = (
    ("Missing Interaction Target", "What is the {x} about to be pushed against{o}?", ", away from the {}"),
    ("Implied Missing Associate", "Who put the {x} there{o}?", ", after the {}"),
    ("Out of Frame", "What {a} is the object beside the {x}, just outside the picture{o}?", ", on the side of the {}"),
)
"""Reason, question, and how the question names another visible object if there is one."""
_OUTSIDE = {
    "direction": "What {a} is the object {side} the {y}, just outside the picture{o}?",
    "existence": "Is there a {x} just outside the picture{o}?",
    "any": "Are there any {x} just outside the picture{o}?",
    "counting": "How many {x} are there just outside the picture{o}?",
    "which": "Which of these is just outside the picture{o}?",
}


@dataclass(frozen=True)
class ParsedQuestion:
    """A generated question taken apart: its form, and its phrases by name."""

    form: str
    parts: dict[str, str]

    def worded(self, template: str) -> str:
        return template.format_map({"a": "color", **self.parts})


@dataclass(frozen=True)
class Rewrite:
    """A rewritten question, with possible answers if ambiguous or a reason if unseen."""

    question: str
    candidates: tuple[str, ...] = ()
    """For an ambiguous question, the answers of its possible readings."""
    reason: str = ""
    """For a question without visible evidence, one of REASONS."""


def parse_question(text: str) -> ParsedQuestion | None:
    """Return the form and phrases of a generated question; None for other texts."""
    for form, pattern in _PATTERNS.items():
        match = pattern.fullmatch(text)
        if match:
            parts = match.groupdict()
            return ParsedQuestion(form, parts) if all(_has_phrase(parts[p]) for p in ("x", "y") if p in parts) else None
    return None


def rewrite(rng: np.random.Generator, kind: str, question: str, scene: Scene | None = None) -> Rewrite | None:
    """Return the question made invalid, subjective, ambiguous or unseen; None if impossible.

    Args:
        scene: of its image; the last two kinds need it.
    """
    make = _KINDS[kind]
    parsed = parse_question(question)
    return None if parsed is None else make(rng, parsed, scene)


def _reworded(kind: str) -> Callable[[np.random.Generator, ParsedQuestion, Scene | None], Rewrite | None]:
    def make(rng: np.random.Generator, parsed: ParsedQuestion, scene: Scene | None) -> Rewrite | None:
        forms = _WORDS[kind][parsed.form]
        return Rewrite(parsed.worded(forms[int(rng.integers(len(forms)))]))

    return make


def _ambiguous(rng: np.random.Generator, parsed: ParsedQuestion, scene: Scene | None) -> Rewrite | None:
    """Return the question with too few attributes for one answer; None if impossible.

    Only questions that are not answered by yes or no or a number can be made ambiguous.
    """
    if scene is None or parsed.form != "attribute":
        return None
    phrase, attribute = phrase_of(parsed.parts["x"]), parsed.parts["a"]
    for n in range(len(phrase) - 1, -1, -1):
        candidates: list[tuple[Phrase, tuple[str, ...]]] = []
        for names in combinations(phrase, n):
            less = {name: phrase[name] for name in names}
            answers = tuple(dict.fromkeys(str(scene["objects"][i][attribute]) for i in matching_objects(scene, less)))
            if len(answers) > 1:
                candidates.append((less, answers))
        if candidates:
            less, answers = candidates[int(rng.integers(len(candidates)))]
            return Rewrite(f"What {attribute} is the {noun_phrase(less)}?", answers)
    return None


def _unseen(rng: np.random.Generator, parsed: ParsedQuestion, scene: Scene | None) -> Rewrite | None:
    """Return a question on what the image does not show; None without the one object it needs."""
    if parsed.form in _OUTSIDE:
        return Rewrite(_mention_object(rng, parsed, scene, _OUTSIDE[parsed.form], _NOT_SEEN[-1][-1]), reason="Out of Frame")
    if scene is None or len(matching_objects(scene, phrase_of(parsed.parts["x"]))) != 1:
        return None
    reason, form, other = _NOT_SEEN[int(rng.integers(len(_NOT_SEEN)))]
    return Rewrite(_mention_object(rng, parsed, scene, form, other), reason=reason)


def _mention_object(rng: np.random.Generator, parsed: ParsedQuestion, scene: Scene | None, form: str, other: str) -> str:
    spoken_of = {i for p in ("x", "y") if p in parsed.parts and scene for i in matching_objects(scene, phrase_of(parsed.parts[p]))}
    full = {} if scene is None else {i: noun_phrase(phrase) for i, phrase in referents(scene) if i not in spoken_of}
    names = [full[i] for i in sorted(full)]
    name = other.format(names[int(rng.integers(len(names)))]) if names else ""
    return parsed.worded(form.replace("{o}", name))


_KINDS: dict[str, Callable[[np.random.Generator, ParsedQuestion, Scene | None], Rewrite | None]] = {
    "inv": _reworded("inv"),
    "sbj": _reworded("sbj"),
    "amb": _ambiguous,
    "ive": _unseen,
}


def _has_phrase(name: str) -> bool:
    try:
        phrase = phrase_of(name)
    except (KeyError, ValueError):
        return False
    return name in (noun_phrase(phrase), noun_phrase(phrase, plural=True))
