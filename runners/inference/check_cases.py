"""Questions for an examination: about images of a dataset or of drawn scenes."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import PIL.Image

from qualm.registry.formats.picture_lists import picture_ids
from qualm.runners.runtime.stage import StageError

SHAPES = ((224, 224), (336, 224), (224, 300))
"""Width and height of scenes: square, wide, tall, as models crop and resize differently."""

QUESTIONS = (
    "What is the capital of France?",
    "How many legs does a spider have?",
    "Who wrote the play Hamlet?",
    "Is seven a prime number?",
    "What will the weather be in Rome on the first of May 2090?",
    "Which is larger, the Moon or the Earth?",
    "What is twelve times eleven?",
    "Name a color of the rainbow.",
    "In which year did the Second World War end?",
    "What did I have for breakfast today?",
    "Which gas do plants take up from the air?",
    "How many letters has the word uncertainty?",
)
"""Questions for text-only models, some of them unanswerable."""


@dataclass(frozen=True)
class Case:
    """A question about an image, or about none, to examine a model with."""

    question: str
    image: PIL.Image.Image | None
    pixels: str = ""
    stream: int = 0
    choices: tuple[str, ...] = ("yes", "no", "I don't know")


def scene_cases(n: int = 5) -> list[Case]:
    """Return `n` questions about rendered scenes; the first and the last two share one image."""
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


def text_cases(n: int = 5) -> list[Case]:
    """Return `n` questions without an image, twelve at most, for text-only models."""
    return [_case(question, None, i) for i, question in enumerate(QUESTIONS[:n])]


def dataset_cases(folder: Path, n: int = 5) -> list[Case]:
    """Return up to `n` cases: single-image questions, then a fixed one on the first image.

    If no sample has exactly one image, return the first questions without any.

    Raises:
        StageError: every sample has several images.
    """
    from qualm.runners.data.dataset import DatasetFolder

    dataset = DatasetFolder(folder.name, folder)
    cases: list[Case] = []
    for row, sample in enumerate(dataset.samples):
        image = dataset.image(row) if len(picture_ids(sample["image_id"])) == 1 else None
        if image is not None:
            cases.append(_case(sample["question"], image, row, tuple(sample["choices"] or ())))
            if len(cases) >= n - 1:
                break
    if not cases:
        cases = [
            _case(sample["question"], None, row, tuple(sample["choices"] or ()))
            for row, sample in enumerate(dataset.samples)
            if not picture_ids(sample["image_id"])
        ][:n]
        if not cases:
            raise StageError(f"{folder}: every sample has several images; name a spec that has some with one image, or none")
        return cases
    first = cases[0].image
    assert first is not None
    return [*cases, _case("What else is there to see?", first, len(cases))][:n]


def _case(question: str, image: PIL.Image.Image | None, number: int, choices: tuple[str, ...] = ()) -> Case:
    digest = "" if image is None else hashlib.sha256(image.tobytes() + repr(image.size).encode()).hexdigest()
    stream = int.from_bytes(hashlib.sha256(f"doctor {number}".encode()).digest()[:16], "big")
    return Case(question, image, digest, stream, *([choices] if choices else []))
