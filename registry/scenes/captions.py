"""What a scene shows, in a paragraph: the caption that a person who describes pictures well would write.

It says what the scene graph says, no more: how many objects, what each is, where in the picture it stands, and what is beside it.
"""

from typing import Any

from qualm.registry.scenes.questions import words
from qualm.registry.scenes.world import LEVELS, Scene

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def caption(scene: Scene) -> str:
    """A paragraph about a scene, the same for the same graph.

    Objects are taken from left to right. Each is placed in one of nine fields of the picture and, from the second on, beside the one
    before it, by the scene's own relations.
    """
    level = LEVELS[scene["level"]]
    things = scene["objects"]
    order = sorted(range(len(things)), key=lambda i: things[i]["pixel_coords"][0])
    number = _NUMBERS[len(things)] if len(things) < len(_NUMBERS) else str(len(things))
    sentences = [f"The picture shows {number} {'object' if len(things) == 1 else 'objects'} on a plain gray table."]
    for place, i in enumerate(order):
        name = words({a: things[i][a] for a in level.attributes})
        where = _field(things[i]["pixel_coords"], level.pixels)
        sentence = f"A {name} stands {where}"
        if place:
            before = order[place - 1]
            beside = _beside(scene, before, i)
            if beside:
                sentence += f", {beside} the {words({a: things[before][a] for a in level.attributes})}"
        sentences.append(f"{sentence}.")
    return " ".join(sentences)


def _field(pixel: Any, pixels: int) -> str:
    across = ("on the left", "in the middle", "on the right")[min(int(3 * pixel[0] / pixels), 2)]
    deep = ("at the back", "halfway back", "at the front")[min(int(3 * pixel[1] / pixels), 2)]
    return f"{across}, {deep}"


def _beside(scene: Scene, reference: int, i: int) -> str:
    """Where object i is, seen from another, as the scene's relations have it; empty where it is on no clear side."""
    relations = scene["relationships"]
    sides = ("to the left", "to the right"), ("in front of", "behind")
    across = next((text for name, text in zip(("left", "right"), sides[0], strict=True) if i in relations[name][reference]), "")
    deep = next((text for name, text in zip(("front", "behind"), sides[1], strict=True) if i in relations[name][reference]), "")
    if across and deep:
        return f"{across} of and {deep}"
    return f"{across} of" if across else deep
