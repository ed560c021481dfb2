"""The `datasets:` section: what the spec says goes before the card, and the card before params.yaml; sweeps; mistakes at their place."""

from __future__ import annotations

from pathlib import Path

import pytest

from qualm.compiler.spec.errors import SpecError
from qualm.compiler.spec.language import RunWide
from qualm.compiler.spec.resolve import resolve_file
from qualm.compiler.spec.resolved import DatasetUse

HEAD = "qualm: 1\nname: t\ndatasets:\n"


def resolve(root: Path, datasets: str, limit: int | None = None) -> dict[str, DatasetUse]:
    path = root / "t.yaml"
    path.write_text(HEAD + datasets)
    return {use.label: use for use in resolve_file(path, root, RunWide(default="t", limit=limit)).datasets}


def problems(root: Path, datasets: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        resolve(root, datasets)
    return [str(p) for p in caught.value.problems]


def test_one_data_set_spelled_out(tmp_path: Path) -> None:
    use = resolve(tmp_path, "  a: {card: synthetic_scenes, test: 5}\n")["a"]
    assert use.adapter is not None and (use.card.name, use.adapter.name, use.source) == ("synthetic_scenes", "synthetic_scenes", None)
    assert use.args["test"] == 5 and use.args["train"] == next(p.default for p in use.adapter.parameters if p.name == "train")
    assert (use.limit, use.evaluate, use.splits, use.entry.judges, use.reviews, use.prepare) == (None, True, None, None, None, None)
    assert use.select == {} and use.entry.unreviewed == "drop" and use.card.missing == ""


def test_data_sets_are_in_the_order_of_their_labels(tmp_path: Path) -> None:
    uses = resolve(tmp_path, "  c: {card: synthetic_scenes}\n  a: {card: synthetic_scenes, test: [7, 30]}\n  b: {card: synthetic_scenes}\n")
    assert list(uses) == ["a@test=30", "a@test=7", "b", "c"]
    assert {label: use.args["test"] for label, use in uses.items() if "@" in label} == {"a@test=30": 30, "a@test=7": 7}


def test_the_spec_s_parameters_go_before_the_card_s(tmp_path: Path) -> None:
    uses = resolve(tmp_path, "  own: {card: tdiuc_absurd, types: [color], split: val}\n  card: {card: tdiuc_absurd}\n")
    assert uses["card"].args["types"] == ["absurd"]
    assert uses["own"].args == uses["card"].args | {"types": ["color"], "split": "val"}


@pytest.mark.parametrize(("own", "everywhere", "limit"), [("", None, None), ("", 40, 40), (", limit: 6", 40, 6), (", limit: 6", None, 6)])
def test_the_data_set_s_limit_goes_before_that_of_params_yaml(tmp_path: Path, own: str, everywhere: int | None, limit: int | None) -> None:
    assert resolve(tmp_path, f"  a: {{card: synthetic_scenes{own}}}\n", everywhere)["a"].limit == limit


@pytest.mark.parametrize(
    ("said", "limit"),
    [
        ("{questions: 5}", {"unit": "questions", "of": {"": 5}}),
        ("{pairs: {test: 5, train: 10.0}}", {"unit": "pairs", "of": {"test": 5, "train": 10}}),
        ("{images: 3.0}", {"unit": "images", "of": {"": 3}}),
    ],
)
def test_a_limit_says_its_unit(tmp_path: Path, said: str, limit: dict[str, object]) -> None:
    assert resolve(tmp_path, f"  a: {{card: synthetic_scenes, limit: {said}}}\n")["a"].limit == limit


@pytest.mark.parametrize(
    "said", ["0", "many", "1.5", "{}", "{rows: 5}", "{pairs: 0}", "{pairs: {test: no}}", "{pairs: {}}", "{pairs: 5, images: 5}"]
)
def test_a_limit_of_another_form(tmp_path: Path, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        resolve(tmp_path, f"  a: {{card: synthetic_scenes, limit: {said}}}\n")
    assert (
        "datasets.a.limit: expected a whole number of questions, or a number of questions, images or pairs, in all or by split: "
        "{pairs: 100}, {pairs: {test: 100}}, got "
    ) in str(caught.value)


def test_files_are_read_from_the_card_s_entry_unless_the_spec_names_another(tmp_path: Path) -> None:
    uses = resolve(tmp_path, "  a: {card: pope}\n  b: {card: pope, source: pope-2}\n  c: {card: synthetic_scenes, source: mine}\n")
    assert {label: use.source for label, use in uses.items()} == {"a": "pope", "b": "pope-2", "c": "mine"}


def test_what_models_are_made_of_is_asked_only_where_the_spec_says_so(tmp_path: Path) -> None:
    uses = resolve(
        tmp_path,
        """\
  used: {card: synthetic_scenes, train: 10}
  both: {card: synthetic_scenes, train: 10, evaluate: true}
  left: {card: synthetic_scenes, evaluate: false}
  asked: {card: synthetic_scenes}
models: {base: {hf_vlm: {artifact: scene-vlm-base}}}
finetunes: {tuned: {sft: {base: base, train: [used, both]}}}
""",
    )
    assert {label: use.evaluate for label, use in uses.items()} == {"asked": True, "both": True, "left": False, "used": False}


def test_splits_are_a_set_and_judges_an_order(tmp_path: Path) -> None:
    text = "  a: {card: synthetic_scenes, splits: [val, test, val], judges: [vqa, rules]}\njudges: [rules, vqa]\n"
    use = resolve(tmp_path, text)["a"]
    assert (use.splits, use.entry.judges) == (("test", "val"), ["vqa", "rules"])


def test_what_is_kept_of_a_data_set(tmp_path: Path) -> None:
    use = resolve(tmp_path, "  a: {card: synthetic_scenes, where: objects>2, skip_bad: true, curated: mine, unreviewed: keep}\n")["a"]
    assert use.select == {"where": "meta.objects > 2"} and use.entry.parameters("data") == {"skip_bad": True}
    assert (use.reviews, use.entry.unreviewed) == ("registry/data/mine", "keep")
    subsets = resolve(tmp_path, "  a: {card: vizwiz_ans_difference}\n")["a"].subsets
    assert list(subsets) == ["clean", "cross", "image", "text"] and subsets["cross"] == "meta.AMB == 5 or meta.IVE == 5"


def test_a_preparation_is_no_parameter_of_the_adapter(tmp_path: Path) -> None:
    uses = resolve(tmp_path, "  a: {card: mmbench, prepare: [six_options, {six_options: {place: as_given}}]}\n")
    assert list(uses) == ["a@prepare=six_options", "a@prepare=six_options(place=as_given)"]
    for use, place in zip(uses.values(), ("uniform", "as_given"), strict=True):
        assert use.prepare is not None and (use.prepare.label, use.prepare.plugin.kind) == ("six_options", "preparations")
        assert use.prepare.args["place"] == place and "prepare" not in use.args


def test_a_preparation_reads_its_entries_where_they_lie(tmp_path: Path) -> None:
    use = resolve(tmp_path, "  a: {card: mmbench, prepare: {six_options_published: {of: mmbench}}}\n")["a"]
    assert use.prepare is not None and use.prepare.args["of"] == "mmbench"


@pytest.mark.parametrize(
    ("datasets", "expected"),
    [
        (
            "  a: {card: synthetic_scene}\n",
            "t.yaml:4:13: datasets.a.card: no card named 'synthetic_scene'; did you mean 'synthetic_scenes'?",
        ),
        (
            "  a: {card: scene-vlm-base}\n",
            "t.yaml:4:13: datasets.a.card: expected the card of a dataset, got 'scene-vlm-base', which is a model",
        ),
        (
            "  a: {card: synthetic_scenes, tset: 3}\n",
            "t.yaml:4:31: datasets.a.tset: synthetic_scenes has no parameter 'tset' (did you mean 'test'?)",
        ),
    ],
)
def test_cards_and_parameters_that_are_none(tmp_path: Path, datasets: str, expected: str) -> None:
    assert problems(tmp_path, datasets) == [expected]


CARD = """\
name: own
kind: dataset
title: One's own
description: Files that nothing reads yet.
source: generated
licence: MIT
citation: ""
missing: an adapter of the new layout
"""


@pytest.fixture
def own_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "registry/cards").mkdir(parents=True)
    (tmp_path / "registry/cards/own.yaml").write_text(CARD)
    (tmp_path / "specs").mkdir()
    (tmp_path / "params.yaml").write_text("default: t\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_card_that_nothing_reads_yet_says_what_will(own_card: Path) -> None:
    use = resolve(own_card, "  a: {card: own, limit: 2}\n")["a"]
    assert (use.label, use.adapter, use.args, use.prepare, use.limit) == ("a", None, {}, None, 2)
    assert use.card.missing == "an adapter of the new layout"


def test_a_card_that_nothing_reads_yet_has_no_parameters(own_card: Path) -> None:
    hint = "this card has no adapter yet, so it has no parameters"
    assert problems(own_card, "  a: {card: own, test: 2}\n") == [f"t.yaml:4:18: datasets.a.test: unknown key 'test' ({hint})"]


def test_a_balance_is_by_a_field_that_there_is_and_not_beside_a_limit(tmp_path: Path) -> None:
    use = resolve(tmp_path, "  a: {card: synthetic_scenes, balance: {take: 15.0}}\n")["a"]
    assert use.entry.balance is not None and use.entry.balance.settings() == {"take": 15, "by": "uncertain", "shortfall": "error"}
    for entry in (
        "card: synthetic_scenes, balance: {take: 2, by: level}",
        "card: mmbench, prepare: six_options, balance: {take: 2, by: fillers}",
    ):
        made = resolve(tmp_path, f"  a: {{{entry}}}\n")["a"].entry.balance
        assert made is not None and made.by in ("level", "fillers"), "what an adapter gives, or a preparation may"
    assert problems(
        tmp_path,
        "  a: {card: synthetic_scenes, limit: 4, balance: {take: 2, by: categori}}\n"
        "  b: {card: synthetic_scenes, balance: {take: 0}}\n  c: {card: synthetic_scenes, balance: {by: level}}\n",
    ) == [
        "t.yaml:4:31: datasets.a.limit: expected `balance` or `limit`, got both (`take` of `balance` says how many)",
        "t.yaml:4:64: datasets.a.balance.by: samples have no field 'categori' (did you mean 'category'?)",
        "t.yaml:5:47: datasets.b.balance.take: expected a number > 0, got 0",
        "t.yaml:6:40: datasets.c.balance.take: expected the key 'take', found none (add it)",
    ]  # fmt: skip
