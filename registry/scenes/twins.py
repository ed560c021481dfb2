"""Twins: two images and two questions in the same words, each question answered by one image only.

Neither a question nor an image alone reveals which is which: each occurs once with an answer and once without, so a model that sees only
one of them is right half of the time. Twins are built from one scene and two of its objects:

| category | the first image (the second is the reverse) | asked of either object |
|---|---|---|
| knowledge | what is inside has run out of the first, nothing out of the second | What color is inside the ...? |
| complexity | the first has a few scratches, the second more than can be counted | How many scratches are on the ...? |
| extraneous | the second is not there | an attribute |
| temporal | the first has left a trail, the second none | Where was the ... before? |
| ambiguity | a third object has the second's name | an attribute |

Every question is proved against both images by `contrast.prove`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from qualm.registry.scenes.contrast import Query, possible_answers, prove, word
from qualm.registry.scenes.questions import pick
from qualm.registry.scenes.removal import remove_objects
from qualm.registry.scenes.render import puddle_in_sight, trails_in_sight
from qualm.registry.scenes.signs import READABLE, sign
from qualm.registry.scenes.world import LEVELS, VALUES, Scene, radius_of, visible_shares

MAX_TRIES = 8
"""Draws of two objects before a scene counts as unsuitable."""
IN_SIGHT = 0.6
"""Least visible share of a trail."""
PUDDLE_IN_SIGHT = 0.4
"""Least visible share of a puddle."""
_ATTRIBUTE = ("What {a} is the {x}?", "What is the {a} of the {x}?")
_SIGNS = {
    "knowledge": ("contents", "now", "What color is inside the {x}?"),
    "complexity": ("scratches", "now", "How many scratches are on the {x}?"),
    "temporal": ("place", "before", "Where was the {x} before?"),
}


@dataclass(frozen=True)
class Twins:
    """Two scenes and two questions; scene k answers question k only."""

    scenes: tuple[Scene, Scene]
    questions: tuple[str, str]
    answers: tuple[str, str]
    proofs: tuple[str, str]
    asks: str
    """Attribute or sign that both questions ask for."""


def is_held_out(color: str, shape: str) -> bool:
    """Return whether this colour and shape are kept from training: two colours per shape."""
    return (VALUES["color"].index(color) + VALUES["shape"].index(shape)) % 4 == 0


def twins(rng: np.random.Generator, scene: Scene, category: str, held_out: bool | None = None) -> Twins | None:
    """Draw proved twins of a category from a scene; None if MAX_TRIES draws fail.

    Args:
        category: its last name: knowledge, complexity, extraneous, temporal, ambiguity.
        held_out: True names objects by held-out names only, False by the others, None by any. `extraneous` and `ambiguity` ignore it:
            they name an object by one attribute because the other is asked for.

    Raises:
        KeyError: unknown category.
    """
    draw = _DRAW[category]
    for _ in range(MAX_TRIES if len(scene["objects"]) > 1 else 0):
        i, j = (int(k) for k in rng.permutation(len(scene["objects"]))[:2])
        drawn = draw(rng, scene, (i, j), held_out)
        pair = drawn and _proved(*drawn)
        if pair is not None:
            return pair
    return None


Drawn = tuple[tuple[Scene, Scene], tuple[Query, Query], str]
"""Two scenes, two queries, and the template of both."""


def _proved(scenes: tuple[Scene, Scene], queries: tuple[Query, Query], template: str) -> Twins | None:
    """Return the twins if each query has one answer in its own scene only; else None."""
    texts = [word(query, template) for query in queries]
    answers, proofs = [], []
    for k, text in enumerate(texts):
        answer = possible_answers(queries[k], scenes[k])
        if len(answer) != 1:
            return None
        try:
            why = prove(scenes[k], text, answer[0], text, scenes[1 - k])
        except ValueError:
            return None
        answers.append(answer[0])
        proofs.append(f"one image has the only answer {answer[0]!r}; in the other {why}")
    return Twins(scenes, (texts[0], texts[1]), (answers[0], answers[1]), (proofs[0], proofs[1]), queries[0].ask)


def _draw_signs(category: str) -> Callable[[np.random.Generator, Scene, tuple[int, int], bool | None], Drawn | None]:
    ask, when, template = _SIGNS[category]

    def draw(rng: np.random.Generator, scene: Scene, pair: tuple[int, int], held_out: bool | None) -> Drawn | None:
        named = _renamed(rng, scene, pair, held_out)
        values = named and [_value(rng, named, i, ask) for i in pair]
        if not named or not values or not all(values):
            return None
        pictures = [_with_signs(rng, named, pair, ask, values, which) for which in (0, 1)]
        queries = [Query(ask, {name: named["objects"][i][name] for name in ("color", "shape")}, {}, when) for i in pair]
        return (pictures[0], pictures[1]), (queries[0], queries[1]), template

    return draw


def _renamed(rng: np.random.Generator, scene: Scene, pair: tuple[int, int], held_out: bool | None) -> Scene | None:
    """Return the scene with objects `pair` recoloured to be unique; None if impossible.

    `pair` holds two indices. `held_out` restricts the colours to those held out from training (True) or the others (False).
    """
    for i in pair:
        shape = scene["objects"][i]["shape"]
        taken = {o["color"] for k, o in enumerate(scene["objects"]) if k != i and o["shape"] == shape}
        colors = [c for c in VALUES["color"] if c not in taken and held_out in (None, is_held_out(c, shape))]
        if not colors:
            return None
        scene = _changed(scene, i, color=pick(rng, colors))
    return scene


def _value(rng: np.random.Generator, scene: Scene, i: int, ask: str) -> str:
    if ask == "place":
        sides = [side for side, share in trails_in_sight(scene, i).items() if share >= IN_SIGHT]
        return str(pick(rng, sides)) if sides else ""
    thing = scene["objects"][i]
    if ask == "contents":
        fits = [color for color in READABLE[ask] if color != thing["color"]]
        return str(pick(rng, fits)) if puddle_in_sight(scene, i) >= PUDDLE_IN_SIGHT else ""
    shows = thing["size"] == "large" and visible_shares(scene["objects"], LEVELS[scene["level"]])[i] == 1.0
    return str(pick(rng, READABLE[ask])) if shows else ""


def _with_signs(rng: np.random.Generator, scene: Scene, pair: tuple[int, int], ask: str, values: list[str], which: int) -> Scene:
    for k, i in enumerate(pair):
        value = values[k] if k == which or ask != "scratches" else str(int(rng.integers(200, 1000)))
        scene = _changed(scene, i, signs={ask: sign(value, k == which)})
    return scene


def _draw_absent(rng: np.random.Generator, scene: Scene, pair: tuple[int, int], held_out: bool | None) -> Drawn | None:
    attribute, queries = _both_queries(rng, scene, pair)
    if attribute is None:
        return None
    return (remove_objects(scene, [pair[1]]), remove_objects(scene, [pair[0]])), queries, pick(rng, _ATTRIBUTE)


def _draw_same_name(rng: np.random.Generator, scene: Scene, pair: tuple[int, int], held_out: bool | None) -> Drawn | None:
    attribute, queries = _both_queries(rng, scene, pair)
    if attribute is None:
        return None
    spoken_of = {scene["objects"][i][attribute] for i in pair}
    thirds = [k for k in range(len(scene["objects"])) if k not in pair and scene["objects"][k][attribute] not in spoken_of]
    if not thirds:
        return None
    third = pick(rng, thirds)
    pictures = [_changed(scene, third, **queries[1 - k].of) for k in (0, 1)]
    return (pictures[0], pictures[1]), queries, pick(rng, _ATTRIBUTE)


def _both_queries(rng: np.random.Generator, scene: Scene, pair: tuple[int, int]) -> tuple[str | None, tuple[Query, Query]]:
    """Return (drawn attribute, None if the names are equal; a query per object of `pair`)."""
    attribute, by = pick(rng, (("color", "shape"), ("shape", "color")))
    first, second = ({by: scene["objects"][i][by]} for i in pair)
    return None if first == second else attribute, (Query(attribute, first), Query(attribute, second))


_DRAW = {**{category: _draw_signs(category) for category in _SIGNS}, "extraneous": _draw_absent, "ambiguity": _draw_same_name}


def _changed(scene: Scene, i: int, **values: Any) -> Scene:
    thing = {**scene["objects"][i], **values}
    x, y, _ = thing["3d_coords"]
    z = round(radius_of(thing), 4)
    rules = LEVELS[scene["level"]]
    thing |= {"3d_coords": [x, y, z], "pixel_coords": [round(v, 3) for v in rules.camera.project((x, y, z), rules.pixels)]}
    return {**scene, "objects": [thing if k == i else other for k, other in enumerate(scene["objects"])]}
