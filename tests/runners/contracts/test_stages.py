"""Kinds of stages: one declaration each, in its own file; what is planned keeps to it, and nothing else knows a kind by its name."""

import ast
import importlib
import json
from collections.abc import Iterable

import pytest

from qualm.registry.plugins.registry import ROOT, PluginError
from qualm.runners.contracts.stages import StageKind, stage_kind, stage_kinds
from tests.support.checks.sources import syntax_nodes

SPECS = sorted(path.parents[1].name for path in ROOT.glob("specs/*/stages/report.json"))


@pytest.mark.parametrize("name", stage_kinds())
def test_a_declaration_read_from_the_source_is_what_python_reads(name: str) -> None:
    module = importlib.import_module(stage_kind(name).module)
    declared = {field: getattr(stage_kind(name), field) for field in ("title", "writes", "colour", "seeded", "parallel", "plots")}
    assert module.KIND.parts or stage_kind(name).reads == module.KIND.reads
    assert declared == {field: getattr(module.KIND, field) for field in declared}
    assert callable(stage_kind(name).run()) and stage_kind(name).run() is module.run


def test_kinds_can_be_distinguished() -> None:
    kinds = stage_kinds().values()
    assert len({kind.colour for kind in kinds}) == len({kind.title for kind in kinds}) == len(kinds)
    assert all(set(kind.plots) <= set(kind.writes) for kind in kinds)


@pytest.mark.parametrize("spec", SPECS)
def test_what_is_compiled_keeps_to_the_declarations(spec: str) -> None:
    for path in sorted(ROOT.glob(f"specs/{spec}/stages/*.json")):
        stage = json.loads(path.read_text())
        kind = stage_kind(stage["kind"])
        assert set(stage["inputs"]) <= {*kind.reads, "artifacts"}, path
        assert set(stage["outputs"]) <= set(kind.writes), path
        assert kind.seeded or stage["seed"] == 0, path


def test_which_kinds_draw_at_random_cost_and_may_be_shared() -> None:
    """Costly ones count by declared versions, so that no other edit makes them run again; seeded ones run again with another seed."""
    kinds = stage_kinds()
    assert {name for name, kind in kinds.items() if kind.costly} == {"data", "finetune", "infer", "judge", "pair", "perturb"}
    assert {name for name, kind in kinds.items() if kind.seeded} == {
        *("data", "finetune", "infer", "pair", "perturb", "probe", "report", "score")
    }
    assert {name for name, kind in kinds.items() if kind.parallel} == {"finetune", "infer"}


def test_no_such_kind() -> None:
    with pytest.raises(PluginError, match="no kind of stage is named 'train'; there are: abstain, "):
        stage_kind("train")


def test_a_kind_of_which_a_spec_has_one_stage_names_nothing() -> None:
    assert StageKind("All", {"a": "a.parquet"}).is_single
    assert not StageKind("Some of {model}", {"a": "a.parquet"}).is_single
    assert not StageKind("Some", {"a": "{model}.parquet"}).is_single
    assert [name for name, kind in stage_kinds().items() if kind.is_single] == [
        "abstain",
        "calibrate",
        "estimate",
        "judge",
        "probe",
        "report",
        "score",
    ]


def compared(nodes: Iterable[ast.AST]) -> list[int]:
    """Lines on which something's `.kind` is compared with the name of a kind of stage, or looked up in several of them."""
    lines = []
    for node in nodes:
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
        elif isinstance(node, ast.Match):
            sides = [node.subject, *(part for case in node.cases for part in ast.walk(case.pattern) if isinstance(part, ast.expr))]
        else:
            continue
        names = {part.value for side in sides for part in ast.walk(side) if isinstance(part, ast.Constant)}
        if any(isinstance(side, ast.Attribute) and side.attr == "kind" for side in sides) and names & stage_kinds().keys():
            lines.append(node.lineno)
    return lines


def test_comparisons_are_found() -> None:
    match = "match s.kind:\n    case 'score':\n        pass\n"
    source = f"s.kind == 'infer'\ns.kind in ('data', 'x')\n{match}p.kind == 'metrics'\n'report' != s.kind\n"
    assert sorted(compared(ast.walk(ast.parse(source)))) == [1, 2, 3, 7]


def test_nobody_compares_a_kind_with_a_name() -> None:
    """What is so of some kinds only is a field of their declarations, or follows from what a stage reads and writes."""
    modules = syntax_nodes("registry", "runners", "compiler")
    assert len(modules) > 300
    for file, nodes in modules.items():
        assert not compared(nodes), file


def test_nobody_lists_kinds_but_the_planner() -> None:
    """A table by kind would be a second declaration."""
    tables = set()
    for file, nodes in syntax_nodes("registry", "runners", "compiler").items():
        for node in nodes:
            keys = node.keys if isinstance(node, ast.Dict) else node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else []
            names = [key.value for key in keys if isinstance(key, ast.Constant)]
            if len(names) >= 3 and len(stage_kinds().keys() & set(names)) >= 3:
                tables.add(file)
    assert tables == {"compiler/plan/make.py"}
