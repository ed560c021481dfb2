from types import SimpleNamespace

from qualm.registry.plugins import rule
from qualm.registry.plugins.declarations import DECLARATIONS, declared


def test_kinds_that_declare_are_kinds_that_there_are():
    kinds = {kind for kinds, _ in DECLARATIONS.values() for kind in kinds.split()}
    assert kinds <= set(rule.KINDS)


def test_what_a_plugin_declares_is_in_the_order_of_the_contract_and_its_kinds_own():
    constants = {"OTHER": 1, "CITES": ["x"], "MODALITY": "image", "HIGHER_IS_BETTER": None, "COMPANIONS": ["b"]}
    metric = SimpleNamespace(kind="metrics", declares=constants)
    assert list(declared(metric).items()) == [("HIGHER_IS_BETTER", None), ("COMPANIONS", ["b"]), ("CITES", ["x"])]
    assert list(declared(SimpleNamespace(kind="perturbations", declares=constants))) == ["MODALITY", "CITES"]


def test_every_declaration_of_ours_is_read_somewhere():
    used = {name for kind in rule.KINDS for plugin in rule.names(kind) for name in declared(rule.get(kind, plugin))}
    kinds_of_ours = {kind for kind in rule.KINDS if rule.names(kind)}
    assert {name for name, (kinds, _) in DECLARATIONS.items() if not kinds or kinds_of_ours & {*kinds.split()}} <= used
