from types import SimpleNamespace

from qualm.registry.plugins import registry
from qualm.registry.plugins.declarations import declarations_of
from qualm.registry.plugins.protocols import declarations


def test_declarations_are_in_the_order_of_the_contract_and_of_the_kind():
    constants = {"OTHER": 1, "CITES": ["x"], "MODALITY": "image", "higher_is_better": None, "companions": ["b"]}
    metric = SimpleNamespace(kind="metrics", declares=constants)
    assert list(declarations_of(metric).items()) == [("higher_is_better", None), ("companions", ["b"]), ("CITES", ["x"])]
    assert list(declarations_of(SimpleNamespace(kind="perturbations", declares=constants))) == ["MODALITY", "CITES"]


def test_every_declaration_is_used_by_a_plugin():
    used = {name for kind in registry.KINDS for plugin in registry.every(kind) for name in declarations_of(plugin)}
    assert used == {name for kind in registry.KINDS for name in declarations(kind)}
