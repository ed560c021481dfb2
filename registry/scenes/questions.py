"""Questions about a scene, each with the answer that follows from its graph.

A question is asked only if it has exactly one right answer: "the ..." fits one object, and a relation is asked of two objects that are
clearly apart. Answers are balanced: yes and no are equally likely, counts are drawn evenly among those the scene offers, and the right
option's position is uniform.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from qualm.registry.scenes.world import OPPOSITES, RELATIONS, VALUES, Scene, attributes_of

Thing = dict[str, Any]
Phrase = dict[str, str]
"""Attribute -> value of a noun phrase."""

KINDS = ("color", "shape", "size", "material", "existence", "counting", "relation")
"""Kinds of questions; `clevr_hallucination` also asks `direction/color` and the like."""
OPTION_KINDS = tuple(k for k in KINDS if k != "size")
"""Kinds with a multiple-choice form; a size has only two values."""
CATEGORIES = {k: f"attribute/{k}" if k in VALUES else k for k in KINDS}

NEITHER = ("I don't know", "None of the above")
"""Options E and F of VLM-Uncertainty-Bench, never right here."""
BESIDES = {"shape": ("cone",), "material": ("glass", "wood")}
"""Values that no object has, to fill up to four options."""
SIDES = {"left": "left of", "right": "right of", "front": "in front of", "behind": "behind"}
QUADRANTS = {(x, y): f"to the {x} and {place}" for x in ("left", "right") for y, place in (("front", "in front"), ("behind", "behind"))}


@dataclass(frozen=True)
class SceneQuestion:
    """A question on a scene with its answer, options if any, and the objects meant."""

    kind: str
    text: str
    answer: str
    choices: tuple[str, ...] = ()
    answer_index: int | None = None
    about: tuple[tuple[int, ...], ...] = ()
    """Indices of the objects that each noun phrase of the text means."""


QuestionDraft = tuple[str, str, tuple[tuple[int, ...], ...]]
"""Text, right answer, and the objects that each noun phrase means."""


def ask(rng: np.random.Generator, scene: Scene, kind: str, multiple_choice: bool = False) -> SceneQuestion | None:
    """Draw a question of a kind with one right answer; None if the scene allows none.

    Args:
        multiple_choice: with options, of which one is right.

    Raises:
        KeyError: unknown kind, or one without a multiple-choice form.
    """
    if multiple_choice:
        parts = _CHOICES[kind](rng, scene)
        return None if parts is None else _options(rng, kind, *parts)
    open_ended = _OPEN[kind](rng, scene)
    return None if open_ended is None else SceneQuestion(kind, open_ended[0], open_ended[1], about=open_ended[2])


def ask_any(rng: np.random.Generator, scene: Scene, kinds: Sequence[str], multiple_choice: bool = False) -> SceneQuestion | None:
    """Draw a question of the first of `kinds` that the scene allows; None if none."""
    return next((question for kind in kinds if (question := ask(rng, scene, kind, multiple_choice)) is not None), None)


def kinds_in_turn(number: int) -> tuple[str, ...]:
    """Return all kinds of questions, beginning with that of `number` modulo their number."""
    first = number % len(KINDS)
    return KINDS[first:] + KINDS[:first]


def matches(thing: Thing, phrase: Phrase) -> bool:
    return all(thing[attribute] == value for attribute, value in phrase.items())


def matching_objects(scene: Scene, phrase: Phrase) -> tuple[int, ...]:
    return tuple(i for i, thing in enumerate(scene["objects"]) if matches(thing, phrase))


def count(scene: Scene, phrase: Phrase) -> int:
    return len(matching_objects(scene, phrase))


def noun_phrase(phrase: Phrase, plural: bool = False) -> str:
    """Return the words of a phrase: "large red metal cube", "red objects"."""
    noun = phrase.get("shape", "object") + ("s" if plural else "")
    return " ".join([*(phrase[a] for a in VALUES if a in phrase and a != "shape"), noun])


def pick(rng: np.random.Generator, items: Sequence[Any]) -> Any:
    return items[int(rng.integers(len(items)))]


def referents(scene: Scene, excluded_attribute: str = "") -> list[tuple[int, Phrase]]:
    """Return (object index, phrase) of each phrase that names exactly one object.

    No phrase has `excluded_attribute`.
    """
    attributes = [a for a in attributes_of(scene) if a != excluded_attribute]
    subsets = [s for n in range(1, len(attributes) + 1) for s in combinations(attributes, n)]
    phrases = ((i, {a: thing[a] for a in subset}) for i, thing in enumerate(scene["objects"]) for subset in subsets)
    return [(i, phrase) for i, phrase in phrases if count(scene, phrase) == 1]


def _attribute(kind: str) -> Callable[[np.random.Generator, Scene], QuestionDraft | None]:
    def make(rng: np.random.Generator, scene: Scene) -> QuestionDraft | None:
        candidates = referents(scene, kind)
        if not candidates:
            return None
        i = pick(rng, sorted({i for i, _ in candidates}))
        name = noun_phrase(pick(rng, [phrase for j, phrase in candidates if j == i]))
        text = pick(rng, (f"What {kind} is the {name}?", f"What is the {kind} of the {name}?"))
        return text, scene["objects"][i][kind], ((i,),)

    return make


def _absent(rng: np.random.Generator, scene: Scene) -> Phrase | None:
    """Draw a phrase that fits no object of the scene; None if none was found."""
    attributes = attributes_of(scene)
    here = [{a: t[a] for a in attributes} for t in scene["objects"]]
    for near in (rng.random() < 0.5, False):
        for _ in range(20):
            picked = sorted(rng.permutation(len(attributes))[: int(rng.integers(1, min(3, len(attributes)) + 1))].tolist())
            phrase = {attributes[k]: pick(rng, here)[attributes[k]] if near else pick(rng, VALUES[attributes[k]]) for k in picked}
            if count(scene, phrase) == 0:
                return phrase
    return None


def _present(rng: np.random.Generator, scene: Scene) -> Phrase:
    attributes = attributes_of(scene)
    thing = pick(rng, scene["objects"])
    picked = sorted(rng.permutation(len(attributes))[: int(rng.integers(1, min(3, len(attributes)) + 1))].tolist())
    return {attributes[k]: thing[attributes[k]] for k in picked}


def _existence(rng: np.random.Generator, scene: Scene) -> QuestionDraft | None:
    present = bool(rng.random() < 0.5)
    phrase = _present(rng, scene) if present else _absent(rng, scene)
    if phrase is None:
        return None
    text = pick(rng, (f"Is there a {noun_phrase(phrase)}?", f"Are there any {noun_phrase(phrase, plural=True)}?"))
    return text, "yes" if present else "no", (matching_objects(scene, phrase),)


def _counting(rng: np.random.Generator, scene: Scene) -> QuestionDraft:
    attributes = attributes_of(scene)
    groups: dict[int, list[Phrase]] = {len(scene["objects"]): [{}]}
    for _ in range(12):
        a = pick(rng, attributes)
        phrase = {a: pick(rng, VALUES[a])} if rng.random() < 0.4 else {a: pick(rng, scene["objects"])[a]}
        if rng.random() < 0.25:
            b = pick(rng, attributes)
            phrase[b] = pick(rng, scene["objects"])[b]
        groups.setdefault(count(scene, phrase), []).append(phrase)
    answer = pick(rng, sorted(groups))
    phrase = pick(rng, groups[answer])
    name = noun_phrase(phrase, plural=True)
    return pick(rng, (f"How many {name} are there?", f"What number of {name} are there?")), str(answer), (matching_objects(scene, phrase),)


def _pair(rng: np.random.Generator, scene: Scene) -> tuple[int, Phrase, int, Phrase] | None:
    candidates = referents(scene)
    named = sorted({i for i, _ in candidates})
    if len(named) < 2:
        return None
    i, j = (named[k] for k in rng.permutation(len(named))[:2].tolist())
    return i, pick(rng, [p for k, p in candidates if k == i]), j, pick(rng, [p for k, p in candidates if k == j])


def _relation(rng: np.random.Generator, scene: Scene) -> QuestionDraft | None:
    pair = _pair(rng, scene)
    if pair is None:
        return None
    i, first, j, second = pair
    side = pick(rng, RELATIONS)
    answer = "yes" if i in scene["relationships"][side][j] else "no"
    if answer == "no" and i not in scene["relationships"][OPPOSITES[side]][j]:  # neither one nor the other: a matter of taste
        return None
    return f"Is the {noun_phrase(first)} {SIDES[side]} the {noun_phrase(second)}?", answer, ((i,), (j,))


def _direction(attribute: str) -> Callable[[np.random.Generator, Scene], QuestionDraft | None]:
    def make(rng: np.random.Generator, scene: Scene) -> QuestionDraft | None:
        sides = ((j, name, side, only_one(scene, side, j)) for j, name in referents(scene) for side in RELATIONS)
        candidates = [candidate for candidate in sides if candidate[-1] is not None]
        if not candidates:
            return None
        j, name, side, i = pick(rng, candidates)
        return f"What {attribute} is the object {SIDES[side]} the {noun_phrase(name)}?", scene["objects"][i][attribute], ((i,), (j,))

    return make


def only_one(scene: Scene, side: str, j: int) -> int | None:
    """Return the only object on a side of j, by index, if all others are opposite; else None."""
    here, opposite = (set(scene["relationships"][one][j]) for one in (side, OPPOSITES[side]))
    others = set(range(len(scene["objects"]))) - {j}
    return next(iter(here)) if len(here) == 1 and not here & opposite and here | opposite == others else None


Choice = tuple[QuestionDraft, Sequence[str]]
"""A question and the wrong answers from which three are drawn."""


def _values(kind: str) -> Callable[[np.random.Generator, Scene], Choice | None]:
    make = _attribute(kind)

    def choose(rng: np.random.Generator, scene: Scene) -> Choice | None:
        question = make(rng, scene)
        return question and (question, [v for v in (*VALUES[kind], *BESIDES.get(kind, ())) if v != question[1]])

    return choose


def _number(rng: np.random.Generator, scene: Scene) -> Choice:
    question = _counting(rng, scene)
    answer = question[1]
    start = max(0, int(answer) - int(rng.integers(4)))
    return question, [str(n) for n in range(start, start + 4) if str(n) != answer]


def _which_exists(rng: np.random.Generator, scene: Scene) -> Choice | None:
    wrong: list[str] = []
    for _ in range(60):
        phrase = _absent(rng, scene)
        if phrase is not None and f"a {noun_phrase(phrase)}" not in wrong:
            wrong.append(f"a {noun_phrase(phrase)}")
        if len(wrong) == 3:
            phrase = _present(rng, scene)
            return ("Which of these is in the picture?", f"a {noun_phrase(phrase)}", (matching_objects(scene, phrase),)), wrong
    return None


def ask_quadrant(rng: np.random.Generator, scene: Scene) -> Choice | None:
    """Draw ((where one object is seen from another, answer, objects), other places); or None."""
    pair = _pair(rng, scene)
    if pair is None:
        return None
    i, first, j, second = pair
    sides = {side for side in RELATIONS if i in scene["relationships"][side][j]}
    answer = next((text for corner, text in QUADRANTS.items() if sides == set(corner)), None)
    if answer is None:  # less than a margin apart along one axis: a matter of taste
        return None
    text = f"Where is the {noun_phrase(first)} seen from the {noun_phrase(second)}?"
    return (text, answer, ((i,), (j,))), [q for q in QUADRANTS.values() if q != answer]


def _options(rng: np.random.Generator, kind: str, question: QuestionDraft, wrong: Sequence[str]) -> SceneQuestion:
    text, answer, about = question
    chosen = [wrong[k] for k in rng.permutation(len(wrong))[:3].tolist()]
    place = int(rng.integers(4))
    return SceneQuestion(kind, text, answer, (*chosen[:place], answer, *chosen[place:], *NEITHER), place, about)


_OPEN: dict[str, Callable[[np.random.Generator, Scene], QuestionDraft | None]] = {
    **{kind: _attribute(kind) for kind in VALUES},
    "existence": _existence,
    "counting": _counting,
    "relation": _relation,
    **{f"direction/{kind}": _direction(kind) for kind in VALUES},
}
_CHOICES: dict[str, Callable[[np.random.Generator, Scene], Choice | None]] = {
    **{kind: _values(kind) for kind in VALUES if kind in OPTION_KINDS},
    "existence": _which_exists,
    "counting": _number,
    "relation": ask_quadrant,
}
