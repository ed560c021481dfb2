"""The `abstentions:` section of a spec, spelled out: which method makes which model decline, and on which rows it is chosen."""

from collections.abc import Sequence

from qualm.compiler.resolve.fitted.uses import fitted_uses
from qualm.compiler.resolve.reader import SpecReader
from qualm.compiler.resolve.resolved import AbstentionUse

OPTIONS = ("fit", "per", "confidence", "seed")
"""Keys that stand beside the plugin and `of`."""


def resolve(reader: SpecReader, models: Sequence[str]) -> tuple[AbstentionUse, ...]:
    """Every method with all its parameters; `models` are labels of all models of the spec, those made here among them."""
    for name in reader.spec.abstentions if reader.lacks("judges") else ():
        message = "an abstention rule is chosen on judged answers, and this spec has no judges"
        reader.problem(("abstentions", name), message, "add `judges:`", key=True)
    return fitted_uses(reader, "abstentions", AbstentionUse, OPTIONS, models)
