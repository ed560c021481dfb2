"""Preparations: changes to a dataset's questions before models are asked, as in `prepare: six_options`.

The contract of a plugin `NAME.py`:

    def NAME(context: PreparationContext, samples: Sequence[Sample], *, ...) -> Iterator[Sample]

- `samples` are all that the adapter yields and `where:` selects, in the source's order. A `limit` applies afterwards.
- It yields the same samples in the same order, with other questions, options, positions of the right option, references, groups or meta.
  `sample_id`, `image_id` and `split` stay. A sample may be left out; the stage counts those.
- Randomness comes from `context.seed` and stable ids alone, unless a preparation reproduces somebody else's code.
- A sample that cannot be prepared raises `PreparationError`.
"""

from dataclasses import dataclass


class PreparationError(Exception):
    """A sample that a preparation cannot handle; the message names it and what was expected."""


@dataclass(frozen=True)
class PreparationContext:
    """Settings of the dataset that is prepared."""

    dataset: str
    """Name in the spec, for messages."""
    seed: int = 0
    """Seed of the spec."""
