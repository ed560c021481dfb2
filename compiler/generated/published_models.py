"""docs/reference/models.md: a table of known models of the hub, from registry/published/models.yaml."""

from qualm.compiler.generated.tables import table
from qualm.compiler.project.model_sizes import of_published
from qualm.registry.published.models import Published, published, verified

_HEAD = """\
# Published models

*Written by `make docs-reference` from `registry/published/models.yaml`.*

`qualm ls models --published` prints this table with more columns. Other models load too if transformers has an image-text-to-text class
for them, their images are tokens of the prompt, and their weights are safetensors.

Parameters are counted from each model's configuration and agree with the published sizes to 1%. Names, licences and settings are from
memory. None is verified until someone has run `qualm doctor model` on the weights ([how](../how-to/models.md)).

- **bf16**: GiB of weights as bfloat16.
- **remarks**: missing signals, and requirements.
- A tiny random model of most [families](#families-examined-on-random-weights) passed every check of `qualm doctor` with transformers
  {transformers}. Llama 4 passed with 5.23.0; the forward pass of 5.24.0 fails on an image.
"""


def published_models() -> str:
    head = ("model", "billion", "bf16", "licence", "remarks")
    intro = _HEAD.format(transformers=verified()["transformers"])
    return f"{intro}\n{table(head, [_row(model) for model in published().values()])}{_families()}"


def _families() -> str:
    families = verified()
    beside, towers = families["with torchvision"], families["with timm"]
    rows = [
        ("one pass", ", ".join(families["one pass"])),
        ("plain passes", ", ".join(families["plain passes"])),
        (f"one pass, with torchvision {beside['release']}", ", ".join(beside["one pass"])),
        (f"plain passes, with torchvision {beside['release']}", ", ".join(beside["plain passes"])),
        (f"one pass, with torchvision and timm {towers['release']}", ", ".join(towers["one pass"])),
    ]
    return f"\n## Families examined on random weights\n\n{table(('read by', 'families'), rows)}"


def _row(model: Published) -> tuple[str, ...]:
    size = of_published(model)
    weights = "" if size is None else f"{size.weight_bytes('bfloat16') / 2**30:.1f}"
    return model.name, f"{model.parameters.total:.3g}", weights, model.licence, _remarks(model)


def _remarks(model: Published) -> str:
    if model.unsupported:
        return f"not supported: {model.unsupported}"
    signals = f"no {', '.join(model.lacks)}" if model.lacks else ""
    return "; ".join(filter(None, (signals, "needs `template`" if model.template else "", model.note)))
