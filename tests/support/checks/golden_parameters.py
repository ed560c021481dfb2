"""Parameters of our plugins and keys of specs, as `tests/golden/parameters.json` keeps them: what stages are told by default.

`tests/golden/bounds.json` beside it has the bounds of every number, of all plugins: those whose stages are cheap have no version, but no
bound should move unseen either. `python -m tests.support.checks.golden_parameters` writes both files anew, and refuses where a finished
stage would run again for nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel

from qualm.compiler.spec import language
from qualm.registry.plugins.engine_versions import PLUGINS
from qualm.registry.plugins.rule import KINDS, REQUIRED, Parameter, Since, get, names

FILE = Path(__file__).parents[2] / "golden/parameters.json"
BOUNDS = FILE.with_name("bounds.json")
COMMAND = "python -m tests.support.checks.golden_parameters"
TABLE = "registry/plugins/engine_versions.py"
Owners = Mapping[str, Mapping[str, Any]]
"""Plugin (`finetunes/sft`) or section (`Inference`) -> its version (of a plugin) and parameters (name -> default and since)."""


def computed() -> dict[str, dict[str, Any]]:
    """As they are now. Plugins that have no version count by their content, so nothing is held of them."""
    plugins = {
        f"{kind}/{name}": {"version": version, "parameters": {p.name: _parameter(p) for p in get(kind, name).parameters}}
        for kind, versions in sorted(PLUGINS.items())
        for name, version in sorted(versions.items())
    }
    sections = {kind.__name__: {"parameters": {name: _field(kind, name) for name in kind.model_fields}} for kind in _sections()}
    return plugins | sections


def _parameter(parameter: Parameter) -> dict[str, Any]:
    default = {} if parameter.default is REQUIRED else {"default": parameter.default}
    return {**default, **({"since": parameter.since} if parameter.since else {})}


def _sections() -> list[type[BaseModel]]:
    """All but the spec as a whole: no stage is told of a section that a spec does not have."""
    kinds = [k for k in vars(language).values() if isinstance(k, type) and issubclass(k, BaseModel) and k is not language.Spec]
    return sorted((kind for kind in kinds if kind.__module__ == language.__name__), key=lambda kind: kind.__name__)


def _field(kind: type[BaseModel], name: str) -> dict[str, Any]:
    field = kind.model_fields[name]
    since = next((mark.release for mark in field.metadata if isinstance(mark, Since)), "")
    default = field.get_default()
    told = default.model_dump() if isinstance(default, BaseModel) else default
    return {**({} if field.is_required() else {"default": told}), **({"since": since} if since else {})}


def bounds() -> dict[str, list[str]]:
    """`metrics/ece.bins` -> `[">= 1"]`: bounds of all numbers of plugins and of sections of a spec, as they are now."""
    plugins = {
        f"{kind}/{name}.{one.name}": _bounds(one.annotation) for kind in KINDS for name in names(kind) for one in get(kind, name).parameters
    }
    fields = {f"{kind.__name__}.{name}": field for kind in _sections() for name, field in kind.model_fields.items()}
    sections = {name: [bound for part in (field.annotation, *field.metadata) for bound in _bounds(part)] for name, field in fields.items()}
    return {name: bounds for name, bounds in sorted((plugins | sections).items()) if bounds}


def _bounds(annotation: Any) -> list[str]:
    """Bounds anywhere in an annotation, in its order."""
    match annotation:
        case Ge(ge=number):
            return [f">= {number:g}"]
        case Gt(gt=number):
            return [f"> {number:g}"]
        case Le(le=number):
            return [f"<= {number:g}"]
        case Lt(lt=number):
            return [f"< {number:g}"]
    return [bound for part in (*get_args(annotation), *getattr(annotation, "metadata", ())) for bound in _bounds(part)]


def faults(before: Owners, now: Owners) -> Iterator[str]:
    """What would make finished stages run again, or keep those that should."""
    for owner in before.keys() & now.keys():
        old, new = before[owner]["parameters"], now[owner]["parameters"]
        raised = before[owner].get("version") != now[owner].get("version")
        for name, one in new.items():
            if name not in old:
                if "default" in one and "since" not in one and not raised:
                    yield (
                        f"{owner}: `{name}` is new: every finished stage with {owner} would run again. If its default does what was done "
                        f'before, mark it: `{name}: Annotated[..., Since("RELEASE")]`; if not, raise the version in {TABLE}'
                    )
            elif "since" in old[name] and "since" in one and one.get("default") != old[name].get("default"):
                yield f"{owner}: `{name}` has another default: stages that were told nothing had the old one; take the mark `Since` away"
            elif "since" in one and "since" not in old[name]:
                yield f"{owner}: `{name}` was there before without the mark `Since`: finished stages were told of it; take the mark away"


def kept() -> dict[str, dict[str, Any]]:
    """As they were."""
    golden: dict[str, dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
    return golden


def main() -> None:
    now = computed()
    if wrong := list(faults(kept() if FILE.is_file() else {}, now)):
        sys.exit("\n".join(wrong))
    for file, content in ((FILE, now), (BOUNDS, bounds())):
        lines = ",\n".join(f"{json.dumps(owner)}: {json.dumps(one)}" for owner, one in sorted(content.items()))
        file.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
