"""Preparations: changes to a data set's questions before models are asked, as in `prepare: six_options`.

The contract of a plugin `NAME.py`:

    def NAME(context: PreparationContext, samples: Sequence[Sample], *, ...) -> Iterator[Sample]

- `samples` are all that the adapter gave and `where:` selected, in the source's order; a `limit` is taken afterwards, so raising it
  only adds.
- What comes out are the same samples, in the same order, with other questions, options, right places, references, groups or meta.
  `sample_id`, `image_id` and `split` stay. A sample may be left out; the stage counts those.
- Randomness comes from `context.seed` and stable ids alone, unless a preparation says otherwise for the sake of somebody else's code.
- What cannot be prepared ends the run with a `PreparationError` that names the sample, what was expected, what came, what to do.
"""

from dataclasses import dataclass


class PreparationError(Exception):
    """Questions that a preparation is not made for. The message names the sample, what was expected, what came, what to do."""


@dataclass(frozen=True)
class PreparationContext:
    """What a preparation is handed beside the samples."""

    dataset: str
    """Its name in the spec, for messages."""
    seed: int = 0
    """The spec's."""
