"""Count the questions that pair recipes make at most, by their limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from qualm.compiler.spec.resolved import Resolved


@dataclass(frozen=True)
class RecipeQuestionLimit:
    """Maximum number of questions, by split, that one recipe of a pair set makes."""

    pairs: str
    """Name of the pair set."""
    recipe: str
    category: str
    questions: dict[str, int]
    """By split; "" = of all splits together."""


def pair_counts(resolved: Resolved) -> Iterator[RecipeQuestionLimit]:
    """Yield the most questions of each recipe that has a limit."""
    for pairs in resolved.pairs:
        for recipe in pairs.recipes:
            if recipe.limit:
                yield RecipeQuestionLimit(
                    pairs.label, recipe.ref.label, recipe.category, {split: 2 * n for split, n in recipe.limit.items()}
                )
