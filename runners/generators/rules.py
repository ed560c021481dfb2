"""The generator that needs no model: pairs of questions about made-up scenes, every one proved from its scene graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from runners.generators import GeneratorContext

if TYPE_CHECKING:
    import numpy as np

    from registry.scenes.contrast import Contrast


def rules(context: GeneratorContext, *, refusals: Literal["all", "first"] = "all") -> Rules:
    """Pairs of all categories that two questions about one scene can make, in fixed forms of words.

    Args:
        context: of this run.
        refusals: `all`: how the unanswerable question is declined is drawn from all the category's ways. `first`: always the
            same plain way, "I don't know."
    """
    return Rules(refusals)


@dataclass(frozen=True)
class Rules:
    """See `runners.generators.Composer`."""

    refusals: str

    def compose(self, scene: Mapping[str, Any], category: str, rng: np.random.Generator) -> Contrast | None:
        """A proved pair of a category, by its last name (`temporal`); None where the scene offers none.

        Raises:
            ValueError: the category is not one that two questions about one scene can make.
        """
        from registry.scenes.contrast import CATEGORIES, contrast

        known = [c for c in CATEGORIES if c != "extraneous"]
        if category not in known:
            raise ValueError(f"generator rules: expected one of {', '.join(known)}, got '{category}'; hf and openai write any category")
        return contrast(rng, dict(scene), category)

    def decline(self, category: str, question: str, rng: np.random.Generator) -> str:
        """How an unanswerable question of a category is declined."""
        from registry.scenes.contrast import refusals

        ways = refusals(category, question)
        return ways[0] if self.refusals == "first" else ways[int(rng.integers(len(ways)))]
