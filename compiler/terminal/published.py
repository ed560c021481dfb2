"""`qualm ls models --published`: models of the hub that load by name, how large they are, what they give."""

from qualm.compiler.forecast.model_sizes import of_published
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.published.models import Published, published
from qualm.registry.terminal.console import Console
from qualm.registry.terminal.grids import Grid
from qualm.registry.text import print_json


def published_table(kind: str | None, name: str | None, as_json: bool) -> None:
    """`qualm ls models --published`, all of them or those whose name holds `name`."""
    if kind != "models":
        raise ProjectError("--published is for models: `qualm ls models --published`")
    models = [m for m in published().values() if name is None or name.lower() in m.name.lower()]
    if not models:
        raise ProjectError(f"no published model whose name holds '{name}'; `qualm ls models --published` lists those that are known")
    if as_json:
        print_json([{**m.model_dump(by_alias=True), "memory": _memories(m)} for m in models])
        return
    numbers = ("billion", "bf16", "int8", "4 bit", "cache", "picture")
    grid = Grid([("name", "left"), *((column, "right") for column in numbers), ("gives", "left")])
    for m in models:
        sizes = _memories(m)
        cells = [f"{sizes[k]:.3g}" if k in sizes else "" for k in ("bfloat16", "int8", "nf4", "cache_kib")]
        grid.add(m.name, f"{m.parameters.total:.3g}", *cells, str(m.image_tokens or ""), _gives(m))
    out = Console(highlight=False)
    grid.print(out)
    out.print(
        "\nbf16, int8, 4 bit: GiB of weights; cache: KiB a token and answer as bfloat16; picture: tokens of one of 640 x 480.\n"
        "None is verified here: run `qualm doctor model NAME --revision COMMIT` on the one you choose. More in docs/how-to/models.md."
    )


def _memories(m: Published) -> dict[str, float]:
    """GiB of the weights by form, KiB of cache a token."""
    size = of_published(m)
    if size is None:
        return {}
    sizes = {"float32": size.weight_bytes("float32"), "bfloat16": size.weight_bytes("bfloat16")}
    sizes |= {form: size.weight_bytes("bfloat16", form) for form in ("int8", "nf4")}
    return {**{form: count / 2**30 for form, count in sizes.items()}, "cache_kib": size.cache_bytes("bfloat16") / 1024}


def _gives(m: Published) -> str:
    if m.unsupported:
        return f"not supported: {m.unsupported}"
    gives = "all signals" if not m.lacks else f"all but {', '.join(m.lacks)}"
    needs = ["a `template`"] if m.template else []
    return "; ".join([gives, *(f"needs {n}" for n in needs), *([m.note] if m.note else [])])
