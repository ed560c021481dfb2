"""Captions of scenes: how many objects there are, and what and where each is, from the scene graph alone."""

from qualm.registry.scenes.questions import noun_phrase
from qualm.registry.scenes.world import LEVELS, Scene

_ACROSS, _DEEP = ("on the left", "in the middle", "on the right"), ("at the back", "halfway back", "at the front")
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def caption(scene: Scene) -> str:
    """Describe a scene's objects and their positions in a paragraph, without randomness.

    Objects are listed from left to right. Each is placed in one of nine fields of the image and, from the second on, relative to the one
    before it, by the scene's relations.
    """
    level = LEVELS[scene["level"]]
    things = scene["objects"]
    order = sorted(range(len(things)), key=lambda i: things[i]["pixel_coords"][0])
    number = _NUMBERS[len(things)] if len(things) < len(_NUMBERS) else str(len(things))
    sentences = [f"The picture shows {number} {'object' if len(things) == 1 else 'objects'} on a plain gray table."]
    for place, i in enumerate(order):
        name = noun_phrase({a: things[i][a] for a in level.attributes})
        across, down = (min(int(3 * pixel / level.pixels), 2) for pixel in things[i]["pixel_coords"][:2])
        sentence = f"A {name} stands {_ACROSS[across]}, {_DEEP[down]}"
        before = order[place - 1]
        if place and (beside := _side_of(scene, before, i)):
            sentence += f", {beside} the {noun_phrase({a: things[before][a] for a in level.attributes})}"
        sentences.append(f"{sentence}.")
    return " ".join(sentences)


def _side_of(scene: Scene, reference: int, i: int) -> str:
    """Return where object `i` stands from `reference` ("to the left of"); "" if unclear."""
    relations = scene["relationships"]
    across = next((f"to the {name}" for name in ("left", "right") if i in relations[name][reference]), "")
    deep = next((text for name, text in (("front", "in front of"), ("behind", "behind")) if i in relations[name][reference]), "")
    if across and deep:
        return f"{across} of and {deep}"
    return f"{across} of" if across else deep
