"""What the small model is taught: pictures with many questions each, every one with an answer that can be seen.

Beside the questions it will be asked it gets three kinds that teach it to tell objects apart (where is it, what is
there, describe the picture), without which it learns which colours are present and not which object has which.
Questions are drawn from the scene graph afresh each time a picture comes up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from registry.scenes.questions import KINDS, NEITHER, OPTION_KINDS, QUADRANTS, SIDES, ask, count, words
from registry.scenes.world import LEVELS, VALUES, Scene
from runners.prompts import INSTRUCTION, LETTERS, render_question

GRID = 4
"""The picture is spoken of as a grid of this many rows and columns."""
DESCRIBE = "Describe the picture."

Lesson = tuple[str, str, tuple[tuple[int, ...], ...]]
"""What the user says, what the assistant answers, and which objects each noun phrase means."""


def vocabulary() -> list[str]:
    """Texts that hold every word the model may read or say."""
    values = [v for vs in VALUES.values() for v in vs]
    return [
        *values,
        *(f"{shape}s" for shape in VALUES["shape"]),
        *VALUES,
        *SIDES.values(),
        *QUADRANTS.values(),
        *NEITHER,
        "cone glass wood a object objects yes no nothing , 0 1 2 3 4 5 6 7 8 9",
        "What is the of? What number of are there? Is there a? Are there any? How many are there? The is what?",
        "Which of these is in the picture? Where is the seen from the? Where is it? What is at row column?",
        DESCRIBE,
        INSTRUCTION,
        " ".join(f"{letter}." for letter in LETTERS[:6]),
    ]


def open_question(rng: np.random.Generator, scene: Scene, kinds: Sequence[str] = KINDS) -> Lesson:
    """A question of a random kind; counting where the scene offers none of that kind."""
    question = ask(rng, scene, kinds[int(rng.integers(len(kinds)))]) or ask(rng, scene, "counting")
    assert question is not None
    return question.text, question.answer, question.about


def option_question(rng: np.random.Generator, scene: Scene, kinds: Sequence[str] = OPTION_KINDS) -> Lesson:
    """The same with six options; the answer is the letter."""
    question = ask(rng, scene, kinds[int(rng.integers(len(kinds)))], True) or ask(rng, scene, "counting", True)
    assert question is not None and question.answer_index is not None
    return render_question(question.text, question.choices), LETTERS[question.answer_index], question.about


def place_question(rng: np.random.Generator, scene: Scene) -> Lesson:
    """Where an object is, or what is at a place."""
    things = scene["objects"]
    i = int(rng.integers(len(things)))
    thing = things[i]
    row, column = _cell(scene, thing)
    name = {"color": thing["color"], "shape": thing["shape"]}
    here = [t for t in things if _cell(scene, t) == (row, column)]
    if rng.random() < 0.5 and count(scene, name) == 1:
        return f"Where is the {words(name)}?", f"row {row} column {column}", ((i,),)
    if len(here) > 1:
        return describe(scene)
    return f"What is at row {row} column {column}?", _full(thing), ((i,),)


def describe(scene: Scene) -> Lesson:
    """Every object, from left to right."""
    return DESCRIBE, ", ".join(_full(t) for t in sorted(scene["objects"], key=lambda t: float(t["pixel_coords"][0]))), ()


def _cell(scene: Scene, thing: dict[str, Any]) -> tuple[int, int]:
    pixels = LEVELS[scene["level"]].pixels
    x, y, _ = thing["pixel_coords"]
    return min(int(y * GRID / pixels), GRID - 1) + 1, min(int(x * GRID / pixels), GRID - 1) + 1


def _full(thing: dict[str, Any]) -> str:
    return words({a: thing[a] for a in VALUES})
