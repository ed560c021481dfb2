"""Count the questions that pair recipes make at most, by their limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from qualm.compiler.spec.resolved import Resolved


@dataclass(frozen=True)
class RecipeQuestionLimit:
    """Largest number of questions that a recipe makes, by split; a pair is two."""

    pairs: str
    """Name of the pair set."""
    recipe: str
    category: str
    questions: dict[str, int]
    """By split; "" = of all splits together."""


def pair_counts(resolved: Resolved) -> Iterator[RecipeQuestionLimit]:
    """Yield the counts of every recipe with a limit."""
    for pairs in resolved.pairs:
        for recipe in pairs.recipes:
            if recipe.limit:
                yield RecipeQuestionLimit(
                    pairs.label, recipe.ref.label, recipe.category, {split: 2 * n for split, n in recipe.limit.items()}
                )
