"""Check that a scene gives a question one answer, from its words and the scene alone."""

import re

from qualm.registry.scenes.contrast import phrase_of
from qualm.registry.scenes.questions import SIDES, matching_objects, noun_phrase
from qualm.registry.scenes.world import OPPOSITES, RELATION_MARGIN, VALUES, Scene

_KIND = "|".join(VALUES)
_ATTRIBUTE = re.compile(rf"What (?:is the )?({_KIND}) (?:is|of) the (.+)\?")
_DIRECTION = re.compile(rf"What ({_KIND}) is the object ({'|'.join(SIDES.values())}) the (.+)\?")
_EXISTENCE = re.compile(r"(?:Is there a|Are there any) (.+)\?")
_COUNTING = re.compile(r"(?:How many|What number of) (.+) are there\?")
_RELATION = re.compile(rf"Is the (.+) ({'|'.join(SIDES.values())}) the (.+)\?")
_SIDE_OF = {text: side for side, text in SIDES.items()}


class InvalidQuestionError(ValueError):
    """Error that a scene does not give a question the expected single answer."""


def check(scene: Scene, text: str, answer: str, margin: float = RELATION_MARGIN) -> None:
    """Raise InvalidQuestionError unless `answer` is the only right one, by `margin` clear.

    "The ..." must fit exactly one object; something said to be absent must fit none; a count is that of the objects; two objects of a
    relation must differ, be recorded on one side and not the other, and be at least `margin` apart along that axis, in the scene's
    units. The text is an open-ended form of `qualm.registry.scenes.questions`.
    """
    actual = _answer(scene, text, margin)
    if actual != answer:
        raise InvalidQuestionError(f"{text!r}: expected the answer {answer!r}, the scene says {actual!r}")


def _answer(scene: Scene, text: str, margin: float) -> str:
    if m := _DIRECTION.fullmatch(text):
        return str(scene["objects"][_only_beside(scene, _SIDE_OF[m[2]], _the(scene, m[3], text), text, margin)][m[1]])
    if m := _ATTRIBUTE.fullmatch(text):
        return str(scene["objects"][_the(scene, m[2], text)][m[1]])
    if m := _EXISTENCE.fullmatch(text):
        return "yes" if matching_objects(scene, _phrase(m[1], text)) else "no"
    if m := _COUNTING.fullmatch(text):
        return str(len(matching_objects(scene, _phrase(m[1], text))))
    if m := _RELATION.fullmatch(text):
        return _related(scene, _the(scene, m[1], text), _SIDE_OF[m[2]], _the(scene, m[3], text), text, margin)
    raise InvalidQuestionError(f"not a question of ours: {text!r}")


def _phrase(name: str, text: str) -> dict[str, str]:
    try:
        phrase = phrase_of(name)
    except KeyError:
        phrase = {}
    plural = name.endswith("s")
    if noun_phrase(phrase, plural) != name:
        raise InvalidQuestionError(f"{text!r}: expected a noun phrase of ours, got {name!r}")
    return phrase


def _the(scene: Scene, name: str, text: str) -> int:
    objects = matching_objects(scene, _phrase(name, text))
    if len(objects) != 1:
        raise InvalidQuestionError(f"{text!r}: expected one {name}, the scene has {len(objects)}")
    return objects[0]


def _only_beside(scene: Scene, side: str, j: int, text: str, margin: float) -> int:
    """Return the index of the only object on a side of object `j`; else InvalidQuestionError."""
    there = [i for i in range(len(scene["objects"])) if i != j and _related(scene, i, side, j, text, margin) == "yes"]
    if len(there) != 1:
        raise InvalidQuestionError(f"{text!r}: expected one object there, the scene has {len(there)}")
    return there[0]


def _related(scene: Scene, i: int, side: str, j: int, text: str, margin: float) -> str:
    recorded = [i in scene["relationships"][one][j] for one in (side, OPPOSITES[side])]
    if i == j or recorded[0] == recorded[1]:
        raise InvalidQuestionError(f"{text!r}: neither {side} nor {OPPOSITES[side]}, or both: a matter of taste")
    a, b = (scene["objects"][k]["3d_coords"] for k in (i, j))
    apart = sum(d * (p - q) for d, p, q in zip(scene["directions"][side], a, b, strict=True))
    if abs(apart) <= margin:
        raise InvalidQuestionError(f"{text!r}: {abs(apart):.3f} apart, expected more than {margin:g}")
    if (apart > 0) != recorded[0]:
        raise InvalidQuestionError(f"{text!r}: the scene records one side, its coordinates say the other")
    return "yes" if recorded[0] else "no"
