"""The `finetunes:` section: which datasets and models each names, and names that nothing has."""

from __future__ import annotations

from pathlib import Path

import pytest

from qualm.compiler.spec.errors import SpecError
from qualm.compiler.spec.language import RunWide
from qualm.compiler.spec.resolve import resolve_file
from qualm.compiler.spec.resolved import FinetuneUse

HEAD = """\
qualm: 1
name: t
datasets:
  scenes: {card: synthetic_scenes, train: 10}
  more: {card: synthetic_scenes, train: 20}
models:
  base: {hf_vlm: {artifact: x}}
finetunes:
"""
"""Eight lines."""


def resolve(root: Path, text: str) -> dict[str, FinetuneUse]:
    path = root / "t.yaml"
    path.write_text(HEAD + text)
    return {use.ref.label: use for use in resolve_file(path, root, RunWide(default="t")).finetunes}


def problems(root: Path, text: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        resolve(root, text)
    return [str(p) for p in caught.value.problems]


def test_what_each_is_made_of(tmp_path: Path) -> None:
    uses = resolve(
        tmp_path,
        """\
  z: {sft: {base: base, train: [scenes, more, scenes]}}
  b: {dpo: {base: z, train: [more]}}
  a: {scratch_vlm: {train: [scenes]}}
""",
    )
    assert list(uses) == ["a", "b", "z"]
    assert {label: (use.datasets, use.models) for label, use in uses.items()} == {
        "a": (("scenes",), ()),
        "b": (("more",), ("z",)),
        "z": (("more", "scenes"), ("base",)),
    }


def test_a_sweep_is_a_model_each(tmp_path: Path) -> None:
    uses = resolve(tmp_path, "  a: {sft: {base: base, train: [scenes], steps: [20, 3]}}\n")
    assert {label: use.ref.args["steps"] for label, use in uses.items()} == {"a@steps=20": 20, "a@steps=3": 3}
    assert list(uses) == ["a@steps=20", "a@steps=3"] and all(use.models == ("base",) for use in uses.values())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "  a: {sft: {base: bsae, train: [scenes]}}\n",
            "t.yaml:9:19: finetunes.a.sft.base: expected a model of this spec, got 'bsae' (did you mean 'base'?)",
        ),
        (
            "  a: {sft: {base: base, train: [scenes, mroe]}}\n",
            "t.yaml:9:32: finetunes.a.sft.train: expected a dataset of this spec, got 'mroe' (did you mean 'more'?)",
        ),
        (
            "  a: {sft: {base: scenes, train: [scenes]}}\n",
            "t.yaml:9:19: finetunes.a.sft.base: expected a model of this spec, got 'scenes' (there are: a, base)",
        ),
        (
            "  a: {sft: {base: base, train: [base]}}\n",
            "t.yaml:9:32: finetunes.a.sft.train: expected a dataset of this spec, got 'base' (there are: more, scenes)",
        ),
    ],
)
def test_names_that_nothing_has(tmp_path: Path, text: str, expected: str) -> None:
    assert problems(tmp_path, text) == [expected]


def test_what_has_mistakes_of_its_own_is_there(tmp_path: Path) -> None:
    text = "  a: {sft: {base: base, train: [scenes]}}\n"
    for old, new in (("{hf_vlm: {artifact: x}}", "3"), ("{card: synthetic_scenes, train: 10}", "3")):
        path = tmp_path / "t.yaml"
        path.write_text((HEAD + text).replace(old, new))
        with pytest.raises(SpecError) as caught:
            resolve_file(path, tmp_path, RunWide(default="t"))
        (problem,) = caught.value.problems
        assert problem.message == "expected a mapping, got 3"
