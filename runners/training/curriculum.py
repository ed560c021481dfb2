"""The curriculum: images and questions of each training step, a pure function of seed and step.

First the vision tower learns to name what each cell shows, as public VLMs start from a trained tower. Then come questions about images of
one object, two, three, and all; starting with crowded images ends on a plateau where the model knows the colours but not their objects.
Options come last.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from qualm.registry import LETTERS
from qualm.registry.scenes.world import stream
from qualm.runners.training.data import (
    ASSISTANT,
    END,
    IMAGE,
    USER,
    QuestionAnswer,
    category_question,
    description_question,
    judging_question,
    open_question,
    option_question,
    place_question,
    where_question,
)
from qualm.runners.training.packing import IGNORE, pack
from qualm.runners.training.pictures import ScenePictures, normalise

CROWDS = ((0.04, 1), (0.12, 2), (0.25, 3), (1.0, 99))
"""Share of the question steps -> maximum number of objects up to there."""
JUDGING_FROM = 0.25
"""Share of the question steps after which judging of answers is trained."""
OPTIONS_FROM = 0.3
"""Share of the question steps after which multiple choice is trained."""


@dataclass(frozen=True)
class Curriculum:
    """Function from a training step to its tensors, which are drawn by seed and step."""

    pictures: ScenePictures
    tokenizer: Any
    seed: int
    cells: int
    """Number of image tokens."""
    looking: int
    """Steps of the vision tower alone."""
    steps: int
    batch: int
    """Images per step of questions; a step of the vision tower has twice as many."""
    questions: int
    """Open questions per image."""
    options: int
    """Multiple-choice questions per image, once they are trained."""

    def __call__(self, step: int) -> dict[str, Any]:
        """Return a step's tensors by name: images and cell labels, later packed questions too."""
        import torch

        rng = stream(self.seed, "batch", step)
        share = (step - self.looking) / max(1, self.steps - self.looking)
        crowd = 99 if share < 0 else next(objects for until, objects in CROWDS if share < until)
        pool = self._pools[crowd]
        chosen = pool[rng.integers(len(pool), size=self.batch * (2 if share < 0 else 1))]
        batch: dict[str, Any] = {"pixel_values": normalise(self.pictures.pixels[chosen]), "cells": self.pictures.cells[chosen]}
        if share >= 0:
            examples = [self._examples(rng, int(i), share) for i in chosen]
            batch |= self._pack(examples)
            batch |= self._attention_targets(examples, chosen, batch)
        return {name: torch.from_numpy(array) for name, array in batch.items()}

    @cached_property
    def _pools(self) -> dict[int, Any]:
        return {objects: self.pictures.upto(objects) for _, objects in CROWDS}

    def _examples(self, rng: Any, index: int, share: float) -> list[QuestionAnswer]:
        scene = self.pictures.scenes[index]
        examples = [open_question(rng, scene) for _ in range(self.questions)] + [place_question(rng, scene)]
        if rng.random() < 0.25 or share < CROWDS[0][0]:
            examples.append(description_question(scene))
        if share > CROWDS[0][0]:
            examples += [example for example in (where_question(rng, scene), category_question(rng, scene)) if example]
        if share > JUDGING_FROM:
            examples.append(judging_question(rng, examples[int(rng.integers(self.questions))], as_turn=bool(rng.random() < 0.7)))
        if share > OPTIONS_FROM:
            examples += [option_question(rng, scene) for _ in range(self.options)]
        return examples

    def _pack(self, examples: list[list[QuestionAnswer]]) -> dict[str, Any]:
        prompts = iter(self.encode([question + ASSISTANT for row in examples for question, _, _ in row]))
        answers = iter(self.encode([answer + END for row in examples for _, answer, _ in row]))
        return pack(self.prefix, [[(next(prompts), next(answers)) for _ in row] for row in examples], self.tokenizer.pad_token_id)

    def _attention_targets(self, examples: list[list[QuestionAnswer]], chosen: Any, packed: dict[str, Any]) -> dict[str, Any]:
        """Return where attention starts, (n, 3) row, head, token, and should go, (n, L) masks.

        The keys are `cells_from`, `cells_to`: from each noun phrase, one head per phrase, to the cells of its objects; and `option_from`,
        `option_to`: letter and text of the right option.
        """
        rows: dict[str, list[tuple[int, int, int]]] = {"cells": [], "option": []}
        masks: dict[str, list[Any]] = {"cells": [], "option": []}
        ids, length = packed["input_ids"], packed["input_ids"].shape[1]
        for b, row in enumerate(examples):
            owner = self.pictures.owner[chosen[b]]
            for k, (_, answer, about) in enumerate(row, 1):
                own = packed["segment"][b] == k
                last = int(np.argmax(own & (packed["labels"][b] != IGNORE)))
                for head, objects in enumerate(about):
                    if objects:
                        mask = np.zeros(length, bool)
                        mask[1 : 1 + self.cells] = np.isin(owner, objects)
                        rows["cells"].append((b, head, last))
                        masks["cells"].append(mask)
                if answer in LETTERS:
                    starts = np.flatnonzero(own & np.isin(ids[b], self._letters))[: len(self._letters)]
                    place = LETTERS.index(answer)
                    rows["option"].append((b, 0, last))
                    masks["option"].append((np.arange(length) >= starts[place]) & (np.arange(length) < starts[place + 1]))
        arrays: dict[str, Any] = {}
        for name in rows:
            arrays[f"{name}_from"] = np.array(rows[name], np.int64).reshape(-1, 3)
            arrays[f"{name}_to"] = np.array(masks[name], bool).reshape(-1, length)
        return arrays

    @cached_property
    def _letters(self) -> list[int]:
        ids: list[int] = self.tokenizer.convert_tokens_to_ids(list(LETTERS[:6]))
        return ids

    def encode(self, texts: list[str]) -> list[list[int]]:
        ids: list[list[int]] = self.tokenizer(texts, add_special_tokens=False)["input_ids"]
        return ids

    @property
    def prefix(self) -> list[int]:
        """Return the token ids before every question: the user mark and the image's places."""
        user, image = self.tokenizer.convert_tokens_to_ids([USER, IMAGE])
        return [user, *[image] * self.cells]
