"""Planning: which stages, what each depends on, how many, and that clashes are met."""

import hashlib
from pathlib import Path

import pytest

from compiler.errors import SpecError
from compiler.plan import MAX_STAGES, Plan, PlannedStage, _check_outputs, _ordered, canonical, leaves, make_plan
from compiler.resolve import Resolved, resolve_file
from compiler.spec import RunWide
from registry.plugins import ROOT

SPEC = """\
qualm: 1
name: t
datasets:
  scenes: {card: synthetic_scenes, test: 10}
  scenes_mc: {card: synthetic_scenes, format: multiple_choice, test: 10}
models:
  base: {hf_vlm: {artifact: scene-vlm-base}}
perturbations: [blur: {radius: [1, 2]}]
judges: [rules]
estimators: [perplexity]
conformal: {half: {scores: [lac]}}
metrics: [accuracy, set_size]
"""


def resolved(tmp_path: Path, text: str = SPEC) -> Resolved:
    path = tmp_path / "t.yaml"
    path.write_text(text)
    return resolve_file(path, tmp_path, RunWide(default="t"))


def make(tmp_path: Path, text: str = SPEC) -> Plan:
    return make_plan(resolved(tmp_path, text))


def test_stages_and_their_order(tmp_path: Path) -> None:
    names = [s.name for s in make(tmp_path).stages]
    assert sorted(names) == sorted(
        ["data-scenes", "data-scenes_mc", "infer-base-scenes", "infer-base-scenes_mc", "judge", "estimate", "calibrate", "score", "report"]
    )
    assert (
        names.index("data-scenes") < names.index("infer-base-scenes") < names.index("judge") < names.index("score") < names.index("report")
    )


def test_a_stage_depends_on_its_inputs_and_the_code_that_implements_it_and_nothing_more(tmp_path: Path) -> None:
    plan = make(tmp_path)
    infer = plan.stage("infer-base-scenes")
    assert {"registry/data/scene-vlm-base", "results/t/data/scenes", "runners/infer.py", "runners/models/hf_vlm.py"} <= set(infer.deps)
    assert "runners/perturbations/blur.py" in infer.deps
    assert not [d for d in infer.deps if d.startswith(("compiler/", "specs/", "runners/metrics/", "runners/judges/"))]
    assert "runners/perturbations/gaussian_noise.py" not in infer.deps
    score = plan.stage("score")
    assert "runners/metrics/accuracy.py" in score.deps
    assert "runners/metrics/ece.py" not in score.deps
    for stage in plan.stages:
        assert "runners/settings.py" not in stage.deps, "execution settings are no content"
        assert "runners/__main__.py" not in stage.deps


def test_where_our_code_is_an_installed_package_its_digest_is_a_parameter(tmp_path: Path) -> None:
    ours, theirs = make(tmp_path), make_plan(resolved(tmp_path), tmp_path)
    assert theirs.stage("score").deps == tuple(d for d in ours.stage("score").deps if not d.startswith(("registry/", "runners/")))
    digests = {s.name: s.tracked["package"] for s in theirs.stages}
    assert digests["infer-base-scenes"] == digests["infer-base-scenes_mc"] != digests["score"]
    assert all("package" not in s.tracked for s in ours.stages)
    score = ours.stage("score").code
    by_hand = "".join(f"{file}\0{hashlib.sha256((ROOT / file).read_bytes()).hexdigest()}\n" for file in score)
    assert digests["score"] == hashlib.sha256(by_hand.encode()).hexdigest()


def test_order_of_keys_is_no_content(tmp_path: Path) -> None:
    lines = SPEC.splitlines(keepends=True)
    reordered = "".join([*lines[:2], *lines[7:], *lines[2:7]]).replace("[accuracy, set_size]", "[set_size, accuracy]")
    assert [canonical(s.as_json()) for s in make(tmp_path).stages] == [canonical(s.as_json()) for s in make(tmp_path, reordered).stages]


def test_judges_of_one_data_set(tmp_path: Path) -> None:
    """Scores use the first judge that is named: the spec's, or the data set's own; the order of the others is no content."""
    several = SPEC.replace("judges: [rules]", "judges: [vqa, pope, amber]")
    plain = make(tmp_path, several)
    assert plain.stage("score").params["judge"] == "vqa" and "only" not in plain.stage("judge").params
    turned = make(tmp_path, several.replace("pope, amber", "amber, pope"))
    assert [canonical(s.as_json()) for s in turned.stages] == [canonical(s.as_json()) for s in plain.stages]
    own = make(tmp_path, several.replace("{card: synthetic_scenes, test: 10}", "{card: synthetic_scenes, test: 10, judges: [pope, amber]}"))
    assert own.stage("judge").params["only"] == {"scenes": ["pope", "amber"]}
    for stage in ("score", "report"):
        assert (own.stage(stage).params["judge"], own.stage(stage).params["judge_of"]) == ("vqa", {"scenes": "pope"})
    assert canonical(own.stage("infer-base-scenes").as_json()) == canonical(plain.stage("infer-base-scenes").as_json())


def test_an_estimator_on_greedy_signals_changes_no_inference(tmp_path: Path) -> None:
    more = SPEC.replace("[perplexity]", "[perplexity, mean_token_entropy, max_sequence_probability]")
    before, after = make(tmp_path), make(tmp_path, more)
    changed = {s.name for s in after.stages if canonical(s.as_json()) != canonical(before.stage(s.name).as_json())}
    assert changed == {"estimate", "report"}


def test_ten_thousand_cells_are_at_most_a_hundred_stages(tmp_path: Path) -> None:
    models = "".join(f"  m{i}: {{hf_vlm: {{artifact: m{i}}}}}\n" for i in range(20))
    datasets = "".join(f"  d{i}: {{card: synthetic_scenes, test: {i + 1}}}\n" for i in range(10))
    radii = ", ".join(str(i) for i in range(1, 17))
    text = (
        f"qualm: 1\nname: t\ndatasets:\n{datasets}models:\n{models}perturbations: [blur: {{radius: [{radii}]}}]\njudges: [rules]\n"
        "estimators: [perplexity, mean_token_entropy, max_sequence_probability]\nmetrics: [accuracy]\n"
    )
    spelled = resolved(tmp_path, text)
    assert spelled.cells() == 20 * 10 * 17 * 3
    plan = make_plan(spelled)
    assert len(plan.stages) <= MAX_STAGES
    infer = [s for s in plan.stages if s.kind == "infer"]
    assert len({p for s in infer for p in leaves(s.outputs)}) == 200
    assert len({o for s in infer for o in s.outs}) == 20, "a folder per model, so that DVC's lock stays small"
    assert set(o for s in infer for o in s.outs) <= set(plan.stage("judge").deps)


def stage(name: str, reads: list[str], writes: str) -> PlannedStage:
    return PlannedStage(name, "data", "", {}, {str(i): r for i, r in enumerate(reads)}, {"x": writes}, 0, ())


def test_two_stages_that_write_one_path_are_met(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="stages 'a' and 'b' would both write results/t/x"):
        _check_outputs([stage("a", [], "results/t/x"), stage("b", [], "results/t/x")], resolved(tmp_path))


def test_stages_that_wait_for_each_other_are_met(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="stages wait for each other in a circle: a, b"):
        _ordered([stage("a", ["y"], "x"), stage("b", ["x"], "y")], resolved(tmp_path))


def test_a_name_that_dvc_does_not_see_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="the name 'size' is one that DVC's run cache does not see"):
        make(tmp_path, SPEC.replace("scenes_mc:", "size:"))


def needed(tmp_path: Path, estimators: str, more: str = "") -> tuple[dict, dict]:
    text = SPEC.replace("judges: [rules]\nestimators: [perplexity]", f"estimators: {estimators}").replace("[accuracy, set_size]", "[auroc]")
    plan = make(tmp_path, text + more)
    return plan.stage("infer-base-scenes").params, plan.stage("estimate").params | {"inputs": plan.stage("estimate").inputs}


def test_only_what_the_estimators_need_is_computed(tmp_path: Path) -> None:
    greedy = ["text", "token_entropies", "token_logprobs"]
    infer, estimate = needed(tmp_path, "[perplexity]")
    assert infer["needs"] == sorted(["option_logits", *greedy])
    assert "draws" not in infer and "draws" not in estimate
    infer, estimate = needed(tmp_path, "[pointwise_mutual_information: {without: [image, question]}, p_true]")
    assert set(infer["needs"]) - {"option_logits", *greedy} == {"logprobs_without_image", "logprobs_without_question", "p_true"}
    infer, estimate = needed(tmp_path, "[semantic_entropy: {version: frequency}]", "inference: {draws: 4}\n")
    assert set(infer["needs"]) - {"option_logits", *greedy} == {"draws"}
    assert infer["draws"] == estimate["draws"] == 4
    assert "datasets" not in estimate["inputs"]
    _, estimate = needed(tmp_path, "[semantic_entropy: {compared: with_question}]")
    assert estimate["inputs"]["datasets"] == {"scenes": "results/t/data/scenes", "scenes_mc": "results/t/data/scenes_mc"}


def test_estimating_depends_on_the_model_of_inference(tmp_path: Path) -> None:
    text = SPEC.replace("[perplexity]", "[deg_mat: {nli: [lexical, {hf: {artifact: some-nli}}]}]")
    stage = make(tmp_path, text).stage("estimate")
    assert {"registry/data/some-nli", "runners/nli/hf.py", "runners/nli/lexical.py", "runners/nli/__init__.py"} <= set(stage.deps)
    assert [e["label"] for e in stage.params["estimators"]] == ["deg_mat@nli=hf(artifact=some-nli)", "deg_mat@nli=lexical"]


def test_a_perturbation_that_is_materialised_is_a_stage_of_its_own(tmp_path: Path) -> None:
    plan = make(tmp_path, SPEC.replace("{radius: [1, 2]}", "{radius: [1, 2], materialize: true}"))
    made = [s for s in plan.stages if s.kind == "perturb"]
    assert [s.name for s in made] == ["perturb-blur-radius-1", "perturb-blur-radius-2"]
    assert made[0].params == {"variant": "blur@radius=1", "plugin": "blur", "modality": "image", "args": {"radius": 1.0, "relative": False}}
    places = [f"results/t/perturbed/blur-radius-1/{name}" for name in ("scenes", "scenes_mc")]
    assert made[0].outs == tuple(sorted([*places, *(f"{place}.md" for place in places)]))
    infer = plan.stage("infer-base-scenes")
    assert {"results/t/perturbed/blur-radius-1/scenes", "results/t/perturbed/blur-radius-2/scenes"} <= set(infer.deps)
    assert not [d for d in infer.deps if "scenes_mc" in d or d == "runners/perturbations/blur.py"]
    assert [v.get("made") for v in infer.params["variants"]] == [None, True, True]
    assert "runners/perturbations/blur.py" in made[0].deps and "runners/models/hf_vlm.py" not in made[0].deps
    order = [s.name for s in plan.stages]
    assert order.index("perturb-blur-radius-2") < order.index("infer-base-scenes")


def test_where_pixels_are_made_is_no_part_of_a_variants_name(tmp_path: Path) -> None:
    text = SPEC.replace("[1, 2]}", "2, materialize: FLAG}")
    plain, made = (resolved(tmp_path, text.replace("FLAG", flag)) for flag in ("false", "true"))
    assert [(p.label, p.args) for p in plain.perturbations] == [(p.label, p.args) for p in made.perturbations]
    assert [s.as_json() for s in make_plan(plain).stages] == [s.as_json() for s in make(tmp_path, SPEC.replace("[1, 2]", "2")).stages]
    with pytest.raises(SpecError, match=r"materialize: expected true or false, got 7"):
        resolved(tmp_path, SPEC.replace("{radius: [1, 2]}", "{radius: 2, materialize: 7}"))


def test_answers_to_a_rewritten_question_are_scored_only_where_the_spec_says_so(tmp_path: Path) -> None:
    def spec(more: str) -> str:
        return SPEC.replace("[blur: {radius: [1, 2]}]", f"[blur: {{radius: 1}}, ive, inv{more}, shuffle]")

    plan = make(tmp_path, spec(""))
    assert plan.stage("score").params["unscored"] == plan.stage("report").params["unscored"] == ["inv", "ive"]
    held = make(tmp_path, spec(": {scored: true}"))
    assert held.stage("score").params["unscored"] == ["ive"]
    assert [s.name for s in plan.stages if s.as_json() != held.stage(s.name).as_json()] == ["score", "report"]
    assert "unscored" not in make(tmp_path).stage("score").params


def test_what_perturbations_do_is_tested_where_a_metric_asks(tmp_path: Path) -> None:
    assert "effects" not in make(tmp_path).stage("score").outputs
    asked = SPEC.replace("[accuracy, set_size]", "[accuracy, uncertainty_reflection_rate]")
    stage = make(tmp_path, asked).stage("score")
    assert stage.outputs["effects"] == "results/t/effects.parquet"
    assert stage.params["tests"] == {"permutations": 10000, "correction": "holm", "family": "metric"}


def test_what_perturbations_do_is_studied_where_a_metric_of_it_is_named(tmp_path: Path) -> None:
    plain = make(tmp_path).stage("score")
    assert "variants" not in plain.params and not {"urr", "hcc", "sweeps"} & set(plain.outputs)
    plan = make(tmp_path, SPEC.replace("[accuracy, set_size]", "[accuracy, uncertainty_reflection_rate]"))
    score = plan.stage("score")
    assert [(v["variant"], v["modality"]) for v in score.params["variants"]] == [("blur@radius=1", "image"), ("blur@radius=2", "image")]
    assert {"uncertainty_tie_rate", "mean_uncertainty"} <= {m["label"] for m in score.params["metrics"]}
    assert {"urr", "hcc", "sweeps"} <= score.kept_in_git
    assert {"modality_scores", "rank_stability", "attributions", "blames"} <= set(plan.stage("report").inputs)
    assert "labelled" not in score.params
    assert "variants" not in make(tmp_path, SPEC.replace("perturbations: [blur: {radius: [1, 2]}]\n", "")).stage("report").params
    subset = SPEC.replace("  scenes_mc", "  pictures: {card: vizwiz_ans_difference, where: image}\n  scenes_mc")
    told = make(tmp_path, subset.replace("[accuracy, set_size]", "[accuracy, uncertainty_reflection_rate]")).stage("score")
    assert told.params["labelled"] == {"pictures": "image"}


def test_models_without_numbers_for_options_answer_in_words_where_a_judge_reads_them(tmp_path: Path) -> None:
    plan = make(
        tmp_path,
        """\
qualm: 1
name: t
datasets: {a: {card: mmbench}}
models:
  served: {openai: {model: m, logprobs: 5}}
  words: {openai: {model: m}}
judges: [option_match, rules]
metrics: [accuracy]
""",
    )
    assert plan.stage("infer-words-a").params["in_words"] is True and "in_words" not in plan.stage("infer-served-a").params
    assert plan.stage("score").params["judge"] == "rules"
