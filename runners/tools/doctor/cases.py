"""What a model is examined with: questions about pictures of several shapes, the user's own or made-up scenes."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import PIL.Image

from qualm.registry.picture_lists import picture_ids
from qualm.runners.runtime.stage import StageError

SHAPES = ((224, 224), (336, 224), (224, 300))
"""Width and height of the scenes: square, broad, high, since a model may cut or shrink each its own way."""


@dataclass(frozen=True)
class Case:
    """One question, with options for where it is to be multiple choice."""

    question: str
    image: PIL.Image.Image | None
    pixels: str = ""
    stream: int = 0
    choices: tuple[str, ...] = ("yes", "no", "I don't know")


def scene_cases(n: int = 5) -> list[Case]:
    """Questions about made-up scenes; the first and the last two are about one picture."""
    import PIL.ImageOps

    from qualm.registry.scenes.questions import KINDS, ask_any
    from qualm.registry.scenes.render import render
    from qualm.registry.scenes.world import make_scene, stream

    cases = []
    for i in range(n):
        number = 0 if i >= n - 2 else i
        scene = make_scene(7, "hard", "test", number)
        question = ask_any(stream(7, i), scene, [*KINDS[i:], *KINDS[:i]])
        picture = PIL.ImageOps.pad(PIL.Image.fromarray(render(scene)), SHAPES[number % len(SHAPES)], color=(128, 128, 128))
        text = "How many things are there?" if question is None else question.text
        cases.append(_case(text, picture, i))
    return cases


def dataset_cases(folder: Path, n: int = 5) -> list[Case]:
    """The first questions of a built data set that have one picture, and one more about the first picture.

    Raises:
        StageError: none has.
    """
    from qualm.runners.data.dataset import DatasetFolder

    dataset = DatasetFolder(folder.name, folder)
    cases: list[Case] = []
    for row, sample in enumerate(dataset.samples):
        image = dataset.image(row) if len(picture_ids(sample["image_id"])) == 1 else None
        if image is not None:
            cases.append(_case(sample["question"], image, row, tuple(sample["choices"] or ())))
        if len(cases) == n - 1:
            break
    if not cases:
        raise StageError(f"{folder}: has no sample with one picture to examine a model with; name a spec that has some")
    first = cases[0].image
    assert first is not None
    return [*cases, _case("What else is there to see?", first, len(cases))]


def _case(question: str, image: PIL.Image.Image, number: int, choices: tuple[str, ...] = ()) -> Case:
    digest = hashlib.sha256(image.tobytes() + repr(image.size).encode()).hexdigest()
    stream = int.from_bytes(hashlib.sha256(f"doctor {number}".encode()).digest()[:16], "big")
    return Case(question, image, digest, stream, *([choices] if choices else []))
