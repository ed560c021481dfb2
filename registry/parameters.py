"""Parameters and paths in a stage's JSON: lists of labelled items as mappings by label, and back.

With `metrics: {ece: {args: {bins: 15}, plugin: ece}}`, `dvc params diff` reports `params.metrics.ece.args.bins 15 10` and `dvc exp run -S
...:params.metrics.ece.args.bins=10` can change it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

LABELLED = {
    **dict.fromkeys(("metrics", "judges", "estimators", "settings", "scores", "abstentions", "probes"), "label"),
    "variants": "variant",
}
"""Parameter -> the key that identifies its items. Arguments of plugins (`args`) stay as they are."""
_FIRST = "clean"


def to_mappings(params: Any) -> Any:
    """Return parameters with lists of labelled items as mappings by label, as in stages' JSON."""
    if isinstance(params, list):
        return [to_mappings(p) for p in params]
    if not isinstance(params, dict):
        return params
    mappings = {}
    for name, value in params.items():
        key = LABELLED.get(name)
        if key and isinstance(value, list) and all(isinstance(item, dict) and key in item for item in value):
            mappings[name] = {item[key]: to_mappings({k: v for k, v in item.items() if k != key}) for item in value}
        else:
            mappings[name] = value if name == "args" else to_mappings(value)
    return mappings


def to_lists(params: Any) -> Any:
    """Return parameters with each mapping by label as a list sorted by label, `clean` first."""
    if isinstance(params, list):
        return [to_lists(p) for p in params]
    if not isinstance(params, dict):
        return params
    lists = {}
    for name, value in params.items():
        key = LABELLED.get(name)
        if key and isinstance(value, dict):
            labels = sorted(value, key=lambda label: (label != _FIRST, label))
            lists[name] = [{key: label, **to_lists(value[label])} for label in labels]
        else:
            lists[name] = value if name == "args" else to_lists(value)
    return lists


def nested_paths(tree: Any) -> Iterator[str]:
    """Yield all paths in nested mappings of paths, in order."""
    if isinstance(tree, Mapping):
        for value in tree.values():
            yield from nested_paths(value)
    else:
        yield str(tree)
