"""The sections of a spec against each other: names given twice, names that nothing has, and what follows from another mistake."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from qualm.compiler.spec import validate
from qualm.compiler.spec.references import SECTIONS
from tests.compiler.spec.resolving import GOOD, change, problems, resolve

TUNED = "finetunes:\n  tuned: {sft: {base: base, train: [scenes]}}\n"
TWO = "    base: {hf_vlm: {artifact: scene-vlm-base}}\n".replace("    ", "  ") + "  more: {hf_vlm: {artifact: x}}\n"


def with_models(more: str) -> str:
    return change("  base: {hf_vlm: {artifact: scene-vlm-base}}\n", TWO + more)


def test_every_section_that_holds_things_is_a_field_of_specs() -> None:
    from qualm.compiler.spec.language import Spec

    assert set(SECTIONS) <= Spec.model_fields.keys() and len(set(SECTIONS)) == len(SECTIONS)


@pytest.mark.parametrize(("count", "refused"), [(500, False), (501, True)])
def test_a_section_holds_at_most_500(tmp_path: Path, count: int, refused: bool) -> None:
    assert validate.MAX_POINTS == 500
    text = GOOD + "slices:\n" + "".join(f"  - category*k{i}\n" for i in range(count))
    limit = "t.yaml:19:3: slices: expected at most 500 of them in one spec, got 501 (make several specs of it)"
    found = problems(tmp_path, text)
    assert (found == [limit]) == refused
    assert refused or not any("at most" in message for message in found)


@pytest.mark.parametrize(("data_sets", "refused"), [(2, False), (3, True)])
def test_models_times_data_sets_are_at_most_twice_as_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data_sets: int, refused: bool
) -> None:
    monkeypatch.setattr(validate, "MAX_POINTS", 3)
    cards = "".join(f"  d{i}: {{card: synthetic_scenes, test: 10}}\n" for i in range(data_sets))
    models = "".join(f"  m{i}: {{hf_vlm: {{artifact: scene-vlm-base}}}}\n" for i in range(3))
    text = f"qualm: 1\nname: t\ndatasets:\n{cards}models:\n{models}judges: [rules]\nmetrics: [accuracy, no_metric]\n"
    said = [message for message in problems(tmp_path, text) if "no_metric" not in message]
    assert len(said) == refused and all("models: expected at most 6 models x datasets, got 9 (make several specs)" in m for m in said)


def test_sections_that_are_too_long_are_told_all_and_nothing_else(tmp_path: Path) -> None:
    slices = "slices:\n" + "".join(f"  - k{i}\n" for i in range(501))
    pairs = "pairs:\n" + "".join(f"  s{i}: {{recipes: [x]}}\n" for i in range(600))
    assert problems(tmp_path, GOOD + slices + pairs) == [
        "t.yaml:19:3: slices: expected at most 500 of them in one spec, got 501 (make several specs of it)",
        "t.yaml:521:3: pairs: expected at most 500 of them in one spec, got 600 (make several specs of it)",
    ]


def test_a_name_of_two_things_stands_where_the_second_is_named(tmp_path: Path) -> None:
    text = with_models("  scenes: {hf_vlm: {artifact: y}}\n") + TUNED.replace("tuned", "more")
    assert problems(tmp_path, text) == [
        "t.yaml:7:3: models.more: the name 'more' is given to two of datasets, pairs, models and finetunes (rename one of them)",
        "t.yaml:8:3: models.scenes: the name 'scenes' is given to two of datasets, pairs, models and finetunes (rename one of them)",
        "t.yaml:21:3: finetunes.more: the name 'more' is given to two of datasets, pairs, models and finetunes (rename one of them)",
    ]


PERTURBED = """\
qualm: 1
name: t
datasets:
  a: {card: synthetic_scenes, perturb: [blurr, typos]}
  b: {card: synthetic_scenes, perturb: [blur@radius=2]}
perturbations:
  - blur: {radius: [2, 6]}
  - typos
  - solarize
"""


def test_perturbations_that_the_spec_has_not_and_those_that_nothing_takes(tmp_path: Path) -> None:
    assert problems(tmp_path, PERTURBED) == [
        "t.yaml:4:41: datasets.a.perturb[0]: expected a perturbation of this spec, got 'blurr' (did you mean 'blur'?)"
    ]
    way = "name it under `perturb:` of a dataset, or take it out of `perturbations:`"
    assert problems(tmp_path, PERTURBED.replace("blurr, ", "")) == [
        f"t.yaml:7:5: perturbations[0]: no dataset is asked under blur@radius=6 ({way})",
        f"t.yaml:9:5: perturbations[2]: no dataset is asked under solarize ({way})",
    ]
    assert problems(tmp_path, PERTURBED[: PERTURBED.index("perturbations:")].replace("blurr, ", ""))[0].endswith(
        "expected a perturbation of this spec, got 'typos' (add `perturbations:`)"
    )


def test_data_sets_by_name_by_point_or_not_at_all(tmp_path: Path) -> None:
    taken = PERTURBED.replace("[blurr, typos]", "true").replace("[blur@radius=2]", "false")
    spec = resolve(tmp_path, taken)
    assert [[p.label for p in spec.perturbations_of(d)] for d in spec.evaluated] == [
        ["blur@radius=2", "blur@radius=6", "solarize", "typos"], []
    ]  # fmt: skip
    for wrong, got in (("[blur, 3]", "a list ['blur', 3]"), ("[]", "a list []"), ("maybe", "the text 'maybe'")):
        assert problems(tmp_path, taken.replace("perturb: true", f"perturb: {wrong}")) == [
            f"t.yaml:4:40: datasets.a.perturb: expected true, false, or a list of names of perturbations, got {got}"
        ]


COMPARED = "t.yaml:{}: expected a model of this spec, got '{}' ({})"


@pytest.mark.parametrize(
    ("compare", "expected"),
    [
        ("{baseline: base, pairs: [[base, more], [more, base]]}", []),
        ("{pairs: [[base, base]]}", ["t.yaml:19:19: compare.pairs[0]: expected two different models, got 'base' twice"]),
        (
            "{baseline: mor, pairs: [[base, more], [bas, more], [base, moer]]}",
            [
                COMPARED.format("19:21: compare.baseline", "mor", "did you mean 'more'?"),
                COMPARED.format("19:49: compare.pairs[1][0]", "bas", "did you mean 'base'?"),
                COMPARED.format("19:68: compare.pairs[2][1]", "moer", "did you mean 'more'?"),
            ],
        ),
        ("{baseline: base+careful}", [COMPARED.format("19:21: compare.baseline", "base+careful", "there are: base, more")]),
    ],
)
def test_what_is_compared(tmp_path: Path, compare: str, expected: list[str]) -> None:
    text = with_models("") + f"compare: {compare}\n"
    if expected:
        assert problems(tmp_path, text) == expected
    else:
        assert resolve(tmp_path, text).spec.compare.baseline == "base"


@pytest.mark.parametrize("broken", ["models", "finetunes"])
def test_a_model_with_a_mistake_of_its_own_may_be_compared(tmp_path: Path, broken: str) -> None:
    text = with_models("") + TUNED + "compare: {baseline: more, pairs: [[base, tuned]]}\n"
    old, new = ("artifact: x", "artifcat: x") if broken == "models" else ("base: base", "bsae: base")
    assert not [message for message in problems(tmp_path, text.replace(old, new)) if "compare" in message]


def test_one_that_abstains_by_a_method_with_a_mistake_may_be_compared_and_a_plain_one_not(tmp_path: Path) -> None:
    text = GOOD + "abstentions: {careful: {thresholdnig: {}}}\ncompare: {baseline: base+careful, pairs: [[base, nought]]}\n"
    found = [message for message in problems(tmp_path, text) if "compare" in message]
    assert found == [COMPARED.format("19:50: compare.pairs[0][1]", "nought", "there are: base")]


def test_numbers_that_every_model_must_give(tmp_path: Path) -> None:
    text = with_models("  api: {openai: {model: m}}\n").replace("estimators: [perplexity]\n", "").replace("  - auroc\n", "")
    needed = "conformal sets need option_logits, which the model 'api' cannot give (set `logprobs` of openai)"
    assert problems(tmp_path, text) == [f"t.yaml:13:3: conformal.half: {needed}"]
    needed = "`verify` asks every model to verify its answers, which 'api' (openai) cannot (set `logprobs` of openai)"
    text = text.replace("conformal:\n  half: {scores: [lac, aps]}\n", "inference: {confidence: verify}\n").replace("  - set_size\n", "")
    assert problems(tmp_path, text) == [f"t.yaml:12:25: inference.confidence: {needed}"]


def test_data_sets_and_pairs_name_judges_by_name_or_label(tmp_path: Path) -> None:
    judges = "judges: [rules, vqa]"
    text = change("judges: [rules]", judges).replace("test: 10}", "test: 10, judges: [vqa, rules]}")
    assert resolve(tmp_path, text).datasets[0].entry.judges == ["vqa", "rules"]
    found = problems(tmp_path, text.replace("[vqa, rules]}", "[vqa, lave]}"))
    assert found == ["t.yaml:4:60: datasets.scenes.judges[1]: expected a judge of this spec, got 'lave' (there are: rules, vqa)"]


def test_judges_of_labels_and_models_of_metrics(tmp_path: Path) -> None:
    text = change("judges: [rules]\n", "judging: {labels: mine}\n")
    assert "t.yaml:9:19: judging.labels: expected a judge to hold to these labels, found none (add `judges:`)" in problems(tmp_path, text)
    text = change("models:\n  base: {hf_vlm: {artifact: scene-vlm-base}}\n", "")
    assert problems(tmp_path, text) == ["t.yaml:12:3: metrics: expected a model to compute metrics of, found none (add `models:`)"]


def test_only_a_fine_tune_s_model_is_a_model_too(tmp_path: Path) -> None:
    text = change("models:\n  base: {hf_vlm: {artifact: scene-vlm-base}}\n", "finetunes: {a: {scratch_vlm: {train: [scenes]}}}\n")
    assert [m.ref.label for m in resolve(tmp_path, text.replace("test: 10", "test: 10, train: 10, evaluate: true")).models] == ["a"]


def test_two_labels_of_one_folder(tmp_path: Path) -> None:
    text = with_models("  BASE: {hf_vlm: {artifact: y}}\n")
    assert problems(tmp_path, text) == ["t.yaml:6:3: models: 'BASE' and 'base' would lie in the same folder (rename one of them)"]
    text = change("test: 10}", "test: 10}\n  Scenes: {card: synthetic_scenes}")
    assert problems(tmp_path, text) == ["t.yaml:4:3: datasets: 'Scenes' and 'scenes' would lie in the same folder (rename one of them)"]


def test_a_model_may_lie_in_a_folder_of_a_data_set_s_name(tmp_path: Path) -> None:
    text = with_models("  SCENES: {hf_vlm: {artifact: y}}\n")
    assert [m.ref.label for m in resolve(tmp_path, text).models] == ["SCENES", "base", "more"]


def test_resolved_specs_are_the_same_however_often_they_are_read(tmp_path: Path) -> None:
    first, second = resolve(tmp_path, GOOD), resolve(tmp_path, GOOD)
    assert replace(first, spec=second.spec) == second


def test_margins_name_metrics_of_the_spec(tmp_path: Path) -> None:
    said = problems(tmp_path, GOOD + "compare: {margin: {accurcy: 0.02, ece: 0.1, accuracy: 0.1}}\n")
    assert len(said) == 2, said
    assert "expected a metric of this spec, got 'accurcy'" in said[0] and "did you mean 'accuracy'?" in said[0]
    assert "ece is compared by the square of ece_debiased, to which no margin applies" in said[1]
