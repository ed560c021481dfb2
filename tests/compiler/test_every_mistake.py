"""Every mistake of a spec is named at once, whatever phase meets it, and nothing is named that only follows from another."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from qualm.compiler.spec.errors import SpecError
from qualm.compiler.spec.language import RunWide
from qualm.compiler.spec.resolve import resolve_file
from tests.compiler.every_spec import EVERYTHING

Tree = dict[str, Any]
Mistake = Callable[[Tree, str], None]
"""Puts one mistake into a spec's values; the word stands in what is said of it."""


def problems(folder: Path, text: str) -> list[str]:
    path = folder / "everything.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        resolve_file(path, folder, RunWide(default="t"))
    assert caught.value.render()
    return [str(problem) for problem in caught.value.problems]


def within(*path: str) -> Callable[[Tree], Tree]:
    def find(tree: Tree) -> Tree:
        for part in path:
            tree = tree.setdefault(part, {})
        return tree

    return find


def unknown_key(*path: str) -> Mistake:
    return lambda tree, word: within(*path)(tree).update({word: 1})


def wrong(key: str, *path: str) -> Mistake:
    return lambda tree, word: within(*path)(tree).update({key: word})


def added(section: str) -> Mistake:
    return lambda tree, word: tree[section].append(word)


def with_parameters(section: str, value: Callable[[str], Any]) -> Mistake:
    return lambda tree, word: tree[section].append(value(word))


def named(section: str, value: Callable[[str], Any]) -> Mistake:
    return lambda tree, word: tree[section].update({f"n{word}": value(word)})


MISTAKES: dict[str, Mistake] = {
    "unknown key": unknown_key(),
    "unknown key of inference": unknown_key("inference"),
    "unknown key of compare": unknown_key("compare"),
    "unknown key of an interval": unknown_key("compare", "interval"),
    "unknown key of report": unknown_key("report"),
    "unknown key of a category": unknown_key("taxonomy", "epistemic", "knowledge"),
    "unknown key of pairs": unknown_key("pairs", "ours"),
    "unknown key of near duplicates": unknown_key("pairs", "ours", "near_duplicates"),
    "unknown key of a conformal setting": unknown_key("conformal", "half"),
    "unknown key of a calibration": unknown_key("conformal", "half", "calibration"),
    "unknown key of about": unknown_key("models", "base", "about"),
    "unknown parameter of an adapter": unknown_key("datasets", "easy"),
    "text for a number": wrong("draws", "inference"),
    "text for a share": wrong("top_p", "inference"),
    "text for a seed": wrong("seed"),
    "unknown word": wrong("correction", "compare"),
    "text for a limit": wrong("limit", "datasets", "scenes"),
    "text for a distance": wrong("distance", "pairs", "ours", "near_duplicates"),
    "text for a parameter of an adapter": wrong("test", "datasets", "easy"),
    "unknown metric": added("metrics"),
    "unknown estimator": added("estimators"),
    "unknown judge": added("judges"),
    "unknown perturbation": added("perturbations"),
    "unknown parameter of a metric": with_parameters("metrics", lambda word: {"mce": {word: 1}}),
    "wrong parameter of a metric": with_parameters("metrics", lambda word: {"coverage_at_risk": {"risk": word}}),
    "unknown parameter of an estimator": with_parameters("estimators", lambda word: {"eccentricity": {word: 1}}),
    "unknown parameter of a perturbation": with_parameters("perturbations", lambda word: {"pixelate": {word: 1}}),
    "unknown nested plugin": with_parameters("perturbations", lambda word: {"sbj": {"generator": word}}),
    "unknown card": named("datasets", lambda word: {"card": word}),
    "no card": named("datasets", lambda word: {"limit": 3}),
    "unknown field": named("datasets", lambda word: {"card": "synthetic_scenes", "where": f"{word} == 'x'"}),
    "unknown prompt": named("datasets", lambda word: {"card": "synthetic_scenes", "ask_answerable": word}),
    "unknown judge of a dataset": named("datasets", lambda word: {"card": "synthetic_scenes", "judges": [word]}),
    "unknown dataset apart": named("datasets", lambda word: {"card": "synthetic_scenes", "where": "answerable", "disjoint": [word]}),
    "unknown model plugin": named("models", lambda word: {word: {}}),
    "unknown parameter of a model": named("models", lambda word: {"hf_vlm": {"artifact": "scene-vlm-base", word: 1}}),
    "unknown estimator left out": named("models", lambda word: {"hf_vlm": {"artifact": "scene-vlm-base"}, "leave_out": [word]}),
    "unknown base": named("finetunes", lambda word: {"sft": {"base": word, "train": ["ours"], "steps": 3}}),
    "unknown training data": named("finetunes", lambda word: {"sft": {"base": "base", "train": [word], "steps": 3}}),
    "unknown conformal score": named("conformal", lambda word: {"scores": [word]}),
    "unknown model that abstains": named("abstentions", lambda word: {"thresholding": {}, "of": [word], "fit": "half"}),
    "unknown baseline": wrong("baseline", "compare"),
    "unknown pair of models": lambda tree, word: tree["compare"].update(pairs=[["base", word]]),
    "unknown dataset of a recipe": lambda tree, word: tree["pairs"]["ours"]["recipes"].append(
        {"from_caption": {"dataset": word, "category": "epistemic/knowledge", "generator": "rules"}, "as": f"as{word}"}
    ),
    "text for a list": wrong("examples", "taxonomy", "epistemic", "knowledge"),
    "a number among slices": lambda tree, word: tree["slices"].append(float(word.removeprefix("zq"))),
}


def text_of(tree: Tree) -> str:
    return yaml.dump(tree, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True)


def sound() -> Tree:
    tree: Tree = yaml.load(EVERYTHING, Loader=yaml.CSafeLoader)
    return tree


@pytest.mark.parametrize("kind", MISTAKES)
def test_one_mistake_is_one_problem(tmp_path: Path, kind: str) -> None:
    tree = sound()
    MISTAKES[kind](tree, "zq70.5")
    found = problems(tmp_path, text_of(tree))
    assert len(found) == 1 and ("70.5" in found[0] or kind == "no card"), found


@pytest.mark.parametrize("seed", range(20))
def test_all_of_many_mistakes_are_named_and_nothing_else(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    kinds = rng.sample(list(MISTAKES), rng.randint(2, 12))
    tree = sound()
    for i, kind in enumerate(kinds):
        MISTAKES[kind](tree, f"zq{seed}{i}.5")
    text, expected = text_of(tree), len(kinds)
    if rng.random() < 0.5:  # and mistakes of the text itself
        text, expected = f"title: no\ndescription: 1e-4\n{text}report: {{}}\n", expected + 3
        if "report" not in tree:
            expected -= 1
    found = problems(tmp_path, text)
    for i, kind in enumerate(kinds):
        assert any(f"zq{seed}{i}.5" in p or f"got {seed}{i}.5" in p for p in found) or kind == "no card", (kind, found)
    assert len(found) == expected, (kinds, found)


def test_the_three_of_three(tmp_path: Path) -> None:
    text = EVERYTHING.replace("inference: {", "inferense: 1\ninference: {draw: 3, ").replace("metrics: [accuracy", "metrics: [acuracy")
    found = problems(tmp_path, text)
    assert len(found) == 3
    assert "unknown key 'inferense'" in found[0] and "unknown key 'draw'" in found[1] and "no metrics plugin named 'acuracy'" in found[2]


def test_what_follows_from_a_mistake_is_none(tmp_path: Path) -> None:
    text = EVERYTHING.replace("{hf_vlm: {artifact: scene-vlm-base}", "{hf_vlmm: {artifact: scene-vlm-base}")
    found = problems(tmp_path, text)  # base is a baseline, a base of a fine-tune, and abstains
    assert len(found) == 1 and "no models plugin named 'hf_vlmm'" in found[0]
    found = problems(tmp_path, EVERYTHING.replace("judges: [rules]", "judgs: [rules]"))
    assert len(found) == 1 and "unknown key 'judgs'" in found[0]
    found = problems(tmp_path, EVERYTHING.replace("conformal:", "conformal: 3\nslicez:"))
    assert [p.split(": ")[1] for p in found] == ["conformal", "slicez"]


def test_a_spec_and_what_it_extends_are_both_looked_at(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(EVERYTHING.replace("name: everything", "name: base").replace("level: 0.9", "level: no"))
    found = problems(tmp_path, "extends: base\nname: everything\nmetrics: [acuracy]\nseed: x\n")
    assert len(found) == 3
    (tmp_path / "base.yaml").write_text("[")
    found = problems(tmp_path, "extends: base\nname: everything\nmetrics: [acuracy]\nseed: x\ncompare: {baseline: base}\n")
    assert len(found) == 3 and found[0].startswith("base.yaml:")
