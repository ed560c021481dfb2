"""Generator without a model: pairs and rewritten questions about synthetic scenes, from templates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from qualm.runners.contracts.generators import GeneratorContext

if TYPE_CHECKING:
    import numpy as np

    from qualm.registry.scenes.contrast import Contrast
    from qualm.registry.scenes.rewrites import Rewrite


def rules(context: GeneratorContext, *, refusals: Literal["all", "first"] = "all") -> Rules:
    """Return a generator of question pairs and rewrites about scenes, by fixed templates.

    Args:
        refusals: `all`: abstentions are drawn from all the category's ways. `first`: always "I don't know."
    """
    return Rules(refusals)


@dataclass(frozen=True)
class Rules:
    """Generator of question pairs and rewrites about scene graphs, by fixed templates."""

    refusals: str

    def compose(self, scene: Mapping[str, Any], category: str, rng: np.random.Generator) -> Contrast | None:
        """Return a proved question pair, None if the scene has none; ValueError: bad category.

        Raises:
            ValueError: no two questions about one scene make this category.
        """
        from qualm.registry.scenes.contrast import CATEGORIES, contrast

        categories = [c for c in CATEGORIES if c != "extraneous"]
        if category not in categories:
            raise ValueError(
                f"generator rules: expected one of {', '.join(categories)}, got '{category}'; hf and openai write any category"
            )
        return contrast(rng, dict(scene), category)

    def rewrite(self, kind: str, question: str, scene: Mapping[str, Any] | None, rng: np.random.Generator) -> Rewrite | None:
        """Return a question rewritten to a kind (`inv`, `sbj`, `amb`, `ive`); None if impossible.

        None if we do not generate such wording, or the scene does not allow it; see `qualm.registry.scenes.rewrites`.
        """
        from qualm.registry.scenes.rewrites import rewrite

        return rewrite(rng, kind, question, None if scene is None else dict(scene))

    def decline(self, category: str, question: str, rng: np.random.Generator) -> str:
        """Return an abstention that answers an unanswerable question of a category."""
        from qualm.registry.scenes.contrast import refusals

        ways = refusals(category, question)
        return ways[0] if self.refusals == "first" else ways[int(rng.integers(len(ways)))]
