"""Resolve the `abstentions:` section: methods by which models abstain, and the rows that they are fitted on."""

from collections.abc import Sequence

from qualm.compiler.resolve.fitted.uses import fitted_uses
from qualm.compiler.resolve.reader import SpecReader
from qualm.compiler.resolve.resolved import AbstentionUse


def resolve(reader: SpecReader, models: Sequence[str]) -> tuple[AbstentionUse, ...]:
    """Return every method; `models` are labels of all models, including fine-tunes."""
    for name in reader.spec.abstentions if reader.lacks("judges") else ():
        message = "an abstention rule is chosen on judged answers, and this spec has no judges"
        reader.problem(("abstentions", name), message, "add `judges:`", key=True)
    return fitted_uses(reader, "abstentions", AbstentionUse, models)
