"""What a stage depends on, and how many there are at most."""

import hashlib
from pathlib import Path

import pytest

from qualm.compiler.plan import layout
from qualm.compiler.plan.layout import MAX_STAGES
from qualm.compiler.plan.layout import closure as closure_of
from qualm.compiler.plan.make import make_plan
from qualm.compiler.plan.sources import Sources
from qualm.compiler.spec.errors import SpecError
from qualm.registry.parameters import nested_paths
from qualm.registry.plugins.registry import ROOT
from qualm.runners.contracts.stages import stage_kind
from tests.compiler.plan.planned import SPEC, make, resolved
from tests.support.checks.other_versions import raised
from tests.support.checks.plugin_files import write


def test_a_stage_depends_on_its_inputs_and_the_code_that_implements_it_and_nothing_more(tmp_path: Path) -> None:
    plan = make(tmp_path)
    assert plan.stage("infer-base-scenes").deps == ("registry/data/scene-vlm-base", "results/t/data/scenes")
    score = plan.stage("score")
    assert "runners/plugins/metrics/accuracy.py" in score.deps
    assert "runners/plugins/metrics/ece.py" not in score.deps
    for stage in plan.stages:
        assert "runners/runtime/settings.py" not in stage.deps, "execution settings are no content"
        assert "runners/__main__.py" not in stage.deps


def test_a_stage_that_costs_depends_on_the_versions_of_our_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And on no file of ours, so that an edit which moves no number runs nothing that costs."""
    costly = [s for s in make(tmp_path).stages if stage_kind(s.kind).costly]
    assert {s.kind for s in costly} == {"data", "infer", "judge"}
    assert not [d for s in costly for d in s.deps if d.endswith(".py")] and not any("engine" in s.tracked for s in costly)
    raised(monkeypatch, "draws", "datasets", "variants", "training")
    plan = make(tmp_path)
    assert plan.stage("infer-base-scenes").tracked["engine"] == {"draws": 2, "variants": 2}
    assert plan.stage("data-scenes").tracked["engine"] == {"datasets": 2}
    assert all("engine" not in plan.stage(name).tracked for name in ("judge", "score", "report"))


def test_where_our_code_is_an_installed_package_its_digest_is_a_parameter(tmp_path: Path) -> None:
    ours, theirs = make(tmp_path), make_plan(resolved(tmp_path), tmp_path)
    assert theirs.stage("score").deps == tuple(d for d in ours.stage("score").deps if not d.startswith(("registry/", "runners/")))
    digests = {s.name: s.tracked["package"] for s in theirs.stages if "package" in s.tracked}
    assert digests.keys() == {s.name for s in theirs.stages if not stage_kind(s.kind).costly}
    assert all("package" not in s.tracked for s in ours.stages)
    score = ours.stage("score").code
    by_hand = "".join(f"{file}\0{hashlib.sha256((ROOT / file).read_bytes()).hexdigest()}\n" for file in score)
    assert digests["score"] == hashlib.sha256(by_hand.encode()).hexdigest()


def test_ten_thousand_cells_are_at_most_a_hundred_stages(tmp_path: Path) -> None:
    models = "".join(f"  m{i}: {{hf_vlm: {{artifact: m{i}}}}}\n" for i in range(20))
    datasets = "".join(f"  d{i}: {{card: synthetic_scenes, test: {i + 1}}}\n" for i in range(10))
    radii = ", ".join(str(i) for i in range(1, 17))
    text = (
        f"qualm: 1\nname: t\ndatasets:\n{datasets}models:\n{models}perturbations: [blur: {{radius: [{radii}]}}]\njudges: [rules]\n"
        "estimators: [perplexity, mean_token_entropy, max_sequence_probability]\nmetrics: [accuracy]\n"
    )
    spelled = resolved(tmp_path, text)
    plan = make_plan(spelled)
    assert len(plan.stages) <= MAX_STAGES
    infer = [s for s in plan.stages if s.kind == "infer"]
    assert len({p for s in infer for p in nested_paths(s.outputs)}) == 200
    assert len({o for s in infer for o in s.outs}) == 20, "a folder per model, so that DVC's lock stays small"
    assert set(o for s in infer for o in s.outs) <= set(plan.stage("judge").deps)


@pytest.mark.parametrize(
    ("more", "stages"),
    [
        ("  second: {hf_vlm: {artifact: second}}\n", 2),  # answers both datasets
        ("finetunes:\n  tuned: {sft: {base: base, train: [scenes]}}\n", 1),  # is trained; what it learns from, nobody is asked
    ],
    ids=["a model", "a fine-tune"],
)
def test_each_model_counts_towards_the_most_stages(more: str, stages: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fewest_allowed(text: str) -> int:
        """The least limit under which every dataset has a stage of its own."""
        spec = resolved(tmp_path, text)
        for most in range(100):
            monkeypatch.setattr(layout, "MAX_STAGES", most)
            if not layout.Layout(spec, ROOT, Sources()).coarse:
                return most
        raise AssertionError("never")

    models = "  base: {hf_vlm: {artifact: scene-vlm-base}}\n"
    text = SPEC.replace("scenes: {card: synthetic_scenes, test: 10}", "scenes: {card: synthetic_scenes, train: 5, test: 10}")
    larger = text.replace(models, models + more)
    assert fewest_allowed(larger) == fewest_allowed(text) + stages
    monkeypatch.undo()
    assert len(make(tmp_path, larger).stages) == len(make(tmp_path, text).stages) + stages


def test_a_name_that_dvc_does_not_see_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="DVC's run cache ignores changes of a parameter with the name 'size'"):
        make(tmp_path, SPEC.replace("scenes_mc:", "size:"))


def closure(modules: list[str], root: Path) -> tuple[str, ...]:
    return tuple(sorted(closure_of(modules, root)))


def test_all_ways_to_import(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "runners/__init__.py": "",
            "runners/a.py": "import numpy\nfrom qualm.runners import b\nfrom qualm.runners.deep import c\n\n"
            "def f():\n    from qualm.runners.late import g\n",
            "runners/b.py": "import qualm.registry.words as w\n",
            "runners/deep/__init__.py": '"""Not empty: it runs too."""\nfrom .d import x\n',
            "runners/deep/c.py": "from ..b import z\n",
            "runners/deep/d.py": "x = 1\n",
            "runners/late.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from qualm.runners.unused import T\n",
            "runners/unused.py": "",
            "registry/words.py": "",
            "runners/runtime/settings.py": "",
        },
    )
    assert closure(["qualm.runners.a"], tmp_path) == (
        "registry/words.py",
        "runners/a.py",
        "runners/b.py",
        "runners/deep/__init__.py",
        "runners/deep/c.py",
        "runners/deep/d.py",
        "runners/late.py",
    )


def test_an_import_counts_wherever_a_statement_may_stand(tmp_path: Path) -> None:
    blocks = (
        "if x:\n    import qualm.runners.a\nelse:\n    import qualm.runners.b\n"
        "try:\n    import qualm.runners.c\nexcept E:\n    import qualm.runners.d\n"
        "else:\n    import qualm.runners.e\nfinally:\n    import qualm.runners.f\n"
        "class C:\n    async def f(self):\n        with x:\n            for i in x:\n                import qualm.runners.g\n"
        "match x:\n    case 1:\n        while x:\n            import qualm.runners.h\n"
    )
    write(tmp_path, {"runners/all.py": blocks, **{f"runners/{name}.py": "" for name in "abcdefghi"}})
    assert closure(["qualm.runners.all"], tmp_path) == tuple(sorted(["runners/all.py", *(f"runners/{name}.py" for name in "abcdefgh")]))


def test_execution_settings_are_no_content(tmp_path: Path) -> None:
    write(tmp_path, {"runners/a.py": "from qualm.runners.runtime.settings import S\n", "runners/runtime/settings.py": ""})
    assert closure(["qualm.runners.a"], tmp_path) == ("runners/a.py",)


def test_assets_that_a_module_names_are_part_of_it(tmp_path: Path) -> None:
    write(tmp_path, {"runners/a.py": 'ASSETS = ("page/x.html",)\n', "runners/page/x.html": "<p>"})
    assert closure(["qualm.runners.a"], tmp_path) == ("runners/a.py", "runners/page/x.html")
