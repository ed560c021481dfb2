"""What is scored, tested and reported follows from the spec."""

from pathlib import Path

import yaml

from tests.compiler.plan.planned import SPEC, make

ROOT = Path(__file__).parents[3]


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
    plain = make(tmp_path)
    assert "effects" not in plain.stage("score").outputs and "tests" not in plain.stage("report").params
    asked = make(tmp_path, SPEC.replace("[accuracy, set_size]", "[accuracy, uncertainty_reflection_rate]"))
    stage = asked.stage("score")
    assert asked.stage("report").params["tests"] == stage.params["tests"]
    assert stage.outputs["effects"] == "results/t/effects.parquet"
    assert stage.params["tests"] == {"correction": "max_t", "family": "study"}


def test_what_perturbations_do_is_studied_where_a_metric_of_it_is_named(tmp_path: Path) -> None:
    plain = make(tmp_path).stage("score")
    assert "variants" not in plain.params and not {"urr", "hcc", "sweeps"} & set(plain.outputs)
    plan = make(tmp_path, SPEC.replace("[accuracy, set_size]", "[accuracy, uncertainty_reflection_rate]"))
    score = plan.stage("score")
    assert [(v["variant"], v["modality"]) for v in score.params["variants"]] == [("blur@radius=1", "image"), ("blur@radius=2", "image")]
    assert {"uncertainty_tie_rate", "mean_uncertainty"} <= {m["label"] for m in score.params["metrics"]}
    assert {"urr", "hcc", "sweeps"} <= score.kept_in_git
    assert {"modality_scores", "rank_stability", "attributions", "blames"} <= set(plan.stage("report").inputs)
    assert "modality_comparisons" not in score.outputs, "one modality has nothing to be compared with"
    both = SPEC.replace("[blur: {radius: [1, 2]}]", "[blur: {radius: 1}, shuffle]")
    two = make(tmp_path, both.replace("[accuracy, set_size]", "[accuracy, uncertainty_reflection_rate]"))
    assert two.stage("report").inputs["modality_comparisons"] == two.stage("score").outputs["modality_comparisons"]
    assert "labelled" not in score.params
    assert "variants" not in make(tmp_path, SPEC.replace("perturbations: [blur: {radius: [1, 2]}]\n", "")).stage("report").params
    subset = SPEC.replace("  scenes_mc", "  pictures: {card: vizwiz_ans_difference, where: image}\n  scenes_mc")
    told = make(tmp_path, subset.replace("[accuracy, set_size]", "[accuracy, uncertainty_reflection_rate]")).stage("score")
    assert set(told.params["labelled"]) == {"pictures"} and set(told.params["labelled"]["pictures"]) == {"clean", "image", "text", "cross"}
    assert told.params["labelled"]["pictures"]["cross"] == "meta.AMB == 5 or meta.IVE == 5"


def test_tables_that_need_resamples_are_written_where_there_are_some(tmp_path: Path) -> None:
    resampled, ranked = make(tmp_path).stage("score"), {"rankings", "estimator_comparisons"}
    assert ranked <= set(resampled.outputs) and resampled.params["family"] == "study"
    none = make(tmp_path, SPEC + "compare: {interval: {bootstrap: 0}}\n").stage("score")
    assert not ranked & set(none.outputs) and "family" not in none.params


def test_models_are_compared_where_the_spec_says_with_what(tmp_path: Path) -> None:
    assert "comparisons" not in make(tmp_path).stage("score").outputs
    two = SPEC.replace("models:\n", "models:\n  other: {hf_vlm: {artifact: scene-vlm-base}}\n")
    for compare in ("{baseline: base}", "{pairs: [[base, other]]}"):
        stage = make(tmp_path, two + f"compare: {compare}\n").stage("score")
        assert "comparisons" in stage.outputs and "interval" not in stage.params["compare"]


def test_without_resamples_tests_say_that_they_are_corrected_by_holm_s_method(tmp_path: Path) -> None:
    two = SPEC.replace("models:\n", "models:\n  other: {hf_vlm: {artifact: scene-vlm-base}}\n")
    two = two.replace("set_size", "uncertainty_reflection_rate")

    def corrections(compare: str) -> list[str]:
        plan = make(tmp_path, two + f"compare: {{baseline: base, {compare}}}\n")
        score, report = plan.stage("score").params, plan.stage("report").params
        return [told["correction"] for told in (score["compare"], score["tests"], report["tests"], report["made"]["compare"])]

    assert corrections("correction: max_t") == ["max_t"] * 4
    assert corrections("interval: {bootstrap: 0}") == ["holm"] * 4
    assert corrections("interval: {bootstrap: 0}, correction: none") == ["none"] * 4


def test_sizes_and_chat_tuned_forms_are_compared_with_what_the_studies_draw_them_beside(tmp_path: Path) -> None:
    def model(name: str, about: str) -> str:
        return f"  {name}: {{hf_vlm: {{artifact: scene-vlm-base}}, about: {{{about}}}}}\n"

    models = model("small", "family: F, billions: 1.5") + model("mid", "family: F, billions: 7, chat: true, base: plain")
    models += model("mid2", "family: F, billions: 7, base: plain, chat: false") + model("large", "family: F, billions: 13, base: gone")
    spec = SPEC.replace("models:\n", f"models:\n{models}{model('plain', 'family: G, billions: 7')}")
    compare = make(tmp_path, spec).stage("score").params["compare"]
    assert (compare["baseline"], compare["pairs"]) == (None, [])
    assert compare["studied"] == [["plain", "mid"], ["small", "mid"], ["small", "mid2"], ["mid", "large"], ["mid2", "large"]]
    assert "compare" in make(tmp_path, spec).stage("report").params["made"]
    assert "compare" not in make(tmp_path, spec + "compare: {interval: {bootstrap: 0}}\n").stage("score").params


def test_the_paper_s_pairs_of_sizes_and_of_chat_tuned_forms_are_in_the_spec_of_all_models() -> None:
    about = yaml.safe_load((ROOT / "specs/vlm_uncertainty_bench_full.yaml").read_text(encoding="utf-8"))["models"]
    about = {name: model.get("about", {}) for name, model in about.items()}
    chat = {(of["base"], name) for name, of in about.items() if "base" in of and about[of["base"]]["chat"] is False}
    assert chat == {("Monkey", "Monkey-Chat"), ("Qwen-VL", "Qwen-VL-Chat"), ("internlm-xcomposer2-7b", "internlm-xcomposer2-vl-7b")}
    sizes = {family: sorted(of["billions"] for of in about.values() if of.get("family") == family) for family in FIGURES_3_5_6}
    assert sizes == FIGURES_3_5_6


FIGURES_3_5_6 = {"LLaVA-1.6": [7, 13, 34], "MobileVLM V2": [1.7, 3, 7], "Yi-VL": [6, 34]}


def test_the_metrics_are_studied_over_three_models(tmp_path: Path) -> None:
    def written(models: int, metrics: str) -> set[str]:
        more = "".join(f"  m{n}: {{hf_vlm: {{artifact: scene-vlm-base}}}}\n" for n in range(models - 1))
        text = SPEC.replace("models:\n", f"models:\n{more}").replace("[accuracy, set_size]", metrics)
        return {"metric_study", "correlations"} & set(make(tmp_path, text).stage("score").outputs)

    assert written(3, "[confidence_weighted_accuracy]") == {"metric_study", "correlations"}
    assert written(2, "[confidence_weighted_accuracy]") == set() == written(3, "[accuracy]")


def test_sampled_answers_are_asked_for_and_judged_where_a_metric_reads_their_ratings(tmp_path: Path) -> None:
    judged = SPEC.replace("estimators:", "inference: {draws: 4}\nestimators:")
    plain, sampled = make(tmp_path, judged), make(tmp_path, judged.replace("[accuracy, set_size]", "[accuracy, sampled_accuracy]"))
    assert "draws" not in plain.stage("judge").params and sampled.stage("judge").params["draws"] is True
    asked, before = ([s.params for s in plan.stages if s.kind == "infer"] for plan in (sampled, plain))
    assert {params["draws"] for params in asked} == {4} and not any("draws" in params for params in before)
    assert {m["label"] for m in sampled.stage("score").params["metrics"]} == {"accuracy", "sampled_accuracy", "sampling_share"}


def test_macro_averages_reach_the_stage_where_there_are_some(tmp_path: Path) -> None:
    params = make(tmp_path, SPEC + "macro_averages: [datasets, category]\n").stage("score").params
    assert params["macro_averages"] == ["category", "datasets"] and "macro_averages" not in make(tmp_path).stage("score").params


def test_fields_of_slices_are_told_once_and_in_order(tmp_path: Path) -> None:
    params = make(tmp_path, SPEC + "slices: [category, answerable]\n").stage("score").params
    assert params["slices"] == ["answerable", "category"] and make(tmp_path).stage("score").params["slices"] == []


def test_modalities_are_compared_over_resamples_alone(tmp_path: Path) -> None:
    both = SPEC.replace("[blur: {radius: [1, 2]}]", "[blur: {radius: 1}, shuffle]").replace("set_size", "uncertainty_reflection_rate")
    written = make(tmp_path, both + "compare: {interval: {bootstrap: 0}}\n").stage("score").outputs
    assert "effects" in written and "modality_comparisons" not in written


def test_which_judge_is_scored(tmp_path: Path) -> None:
    """The first of open answers; without one, the first; none where there is none."""

    def judge(judges: str) -> object:
        return make(tmp_path, SPEC.replace("judges: [rules]\n", judges)).stage("score").params["judge"]

    assert judge("judges: [option_match, vqa, pope]\n") == "vqa" and judge("judges: [option_match, first_character]\n") == "option_match"
    assert judge("") is None
