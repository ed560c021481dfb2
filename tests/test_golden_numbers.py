"""Golden numbers: what our own engine computes is what its versions say it computes."""

from __future__ import annotations

import pytest

from qualm.registry.plugins import registry
from qualm.registry.plugins.engine_versions import PLUGINS, SIGNALS, VERSIONS, versioned_kinds
from qualm.registry.plugins.internals import KINDS
from qualm.runners.contracts.models import PARTS
from qualm.runners.runtime.code_digest import find_engine, module_files
from tests.support.checks.golden_numbers import GROUPS, INTERNALS, OF_HEAD_AND_PROMPT, computed, kept, moved
from tests.support.data.official_layouts import LAYOUTS

COMMAND = "python -m tests.support.checks.golden_numbers"


@pytest.mark.parametrize("group", GROUPS)
def test_no_number_moves_under_an_unchanged_version(group):
    import torch

    torch.set_num_threads(1)
    before, now = kept(group), computed(group)
    if before["libraries"] != now["libraries"]:
        pytest.skip(f"tests/golden/ is of {before['libraries']}; with other libraries `{COMMAND}` writes it anew")
    faults = list(moved(before, now))
    assert not faults, "\n".join([f"raise the versions named in registry/plugins/engine_versions.py, then run `{COMMAND}`:", *faults])
    stale = {kind for entry in before["numbers"].values() for kind, number in entry["versions"].items() if VERSIONS[kind] != number}
    assert not stale and before["numbers"].keys() == now["numbers"].keys(), f"out of step ({sorted(stale)}): run `{COMMAND}`"


def test_a_number_that_moves_names_the_version_to_raise():
    before = kept("models")
    name = "llava/0/draw 1"
    entry = before["numbers"][name]
    value = {**entry["value"], "logprobs": [p - 1e-3 for p in entry["value"]["logprobs"]]}
    now = {**before, "numbers": {**before["numbers"], name: {**entry, "value": value}}}
    (fault,) = moved(before, now)
    assert fault.startswith(name) and fault.endswith("raise draws or answers")
    close = {**entry["value"], "logprobs": [p - 1e-7 for p in entry["value"]["logprobs"]]}
    assert not list(moved(before, {**before, "numbers": {**before["numbers"], name: {**entry, "value": close}}}))
    raised = {"value": value, "versions": {"draws": 2, "answers": 1}}
    assert not list(moved(before, {**before, "numbers": {**before["numbers"], name: raised}}))
    assert list(moved(before, {**before, "numbers": {k: v for k, v in before["numbers"].items() if k != name}})), "lost"


def test_every_kind_of_answer_is_held():
    files = {group.partition("/")[0] for group in GROUPS}
    assert {kind for file in files for entry in kept(file)["numbers"].values() for kind in entry["versions"]} == set(VERSIONS)


def test_every_signal_and_perturbation_is_held():
    held = {name.split("/", 2)[-1] for name in kept("models")["numbers"]}
    assert held >= {part for part in PARTS if part != "options"} | {"draw 1", "draw 2", *INTERNALS, *OF_HEAD_AND_PROMPT}
    assert any(name.endswith("/options") for name in kept("models")["numbers"])
    assert {name.partition("/")[0] for name in kept("perturbations")["numbers"]} >= set(registry.names("perturbations"))


def test_every_recipe_adapter_and_judge_that_asks_is_held():
    assert {name.partition("/")[0] for name in kept("training")["numbers"]} >= {"sft", "rtune", "dpo"}
    assert kept("adapters")["numbers"].keys() == LAYOUTS.keys() and len(LAYOUTS) >= 27
    asked = kept("asked")["numbers"].keys()
    assert asked >= {f"judges/{name}/{what}" for name in ("lave", "hallusionbench", "shr") for what in ("requests", "verdicts")}
    assert asked >= {f"models/openai/{name}/requests" for name in ("open", "options", "picture")}


def test_versions_are_of_what_there_is():
    assert set(SIGNALS) <= {*PARTS, "draw", *KINDS} and set(SIGNALS.values()) < set(VERSIONS)
    for kind, names in PLUGINS.items():
        assert names and not [name for name in names if not (registry.ROOT / registry.KINDS[kind] / f"{name}.py").is_file()]


@pytest.mark.parametrize("kind", PLUGINS)
def test_no_module_behind_a_listed_plugin_counts_by_its_content(kind):
    """Else moving a file or renaming a variable would discard its results."""
    names = {name for name in PLUGINS[kind] if not name.startswith("_")}
    assert names
    for name in names:
        module = registry.get(kind, name).module
        assert not [n for n, path in module_files(module).items() if path.suffix == ".py" and versioned_kinds(n) is None]
        assert f"{kind}/{name}" in find_engine(module).plugins
