"""Estimators against models: what a model cannot give is refused where it stands, and may be left out for that model alone."""

from pathlib import Path

from qualm.compiler.plan.make import make_plan
from qualm.registry.plugins.registry import ROOT
from tests.compiler.spec.resolving import change, problems, resolve

SPEC = """\
qualm: 1
name: t
datasets:
  scenes: {card: synthetic_scenes, test: 10}
models:
  here: {hf_vlm: {artifact: scene-vlm-base}}
  api:
    openai: {model: gpt-4o-mini, logprobs: 20}
judges: [rules]
estimators:
  - perplexity
  - mean_token_entropy
  - pointwise_mutual_information: {without: [both, image]}
  - p_true
  - p_true_sampling
  - lexical_similarity
metrics: [accuracy, auroc]
"""
LEAVE_OUT = "    leave_out: [mean_token_entropy, pointwise_mutual_information, p_true, p_true_sampling]\n"
ALLOWED = SPEC.replace("judges:", f"{LEAVE_OUT}judges:")
GIVES = (
    "the model 'api' cannot give (it gives draws, option_logits, p_yes, said_confidence, text, token_logprobs, top_logprobs, top_tokens)"
)


def out(name: str) -> str:
    return f"leave it out for this model: `leave_out: [{name}]` beside openai"


def test_a_model_that_shows_top_tokens_only_is_refused_what_needs_more(tmp_path: Path) -> None:
    pmi = "pointwise_mutual_information"
    assert problems(tmp_path, SPEC) == [
        f"t.yaml:12:5: estimators[1]: mean_token_entropy needs token_entropies, which {GIVES} (set `truncated_entropies` of openai; "
        f"or {out('mean_token_entropy')})",
        *(
            f"t.yaml:13:5: estimators[2]: {pmi}@without={what} needs logprobs_without_{what}, which {GIVES} (set `prompt_logprobs` of "
            f"openai; or {out(pmi)})"
            for what in ("both", "image")
        ),
        f"t.yaml:14:5: estimators[3]: p_true needs p_true, which {GIVES} (set `partial_p_true` of openai; or {out('p_true')})",
        f"t.yaml:15:5: estimators[4]: p_true_sampling needs p_true_sampling, which {GIVES} "
        f"({out('p_true_sampling')}; models of hf_vlm can)",
    ]


def test_answers_to_perturbed_samples_need_perturbations_of_this_spec(tmp_path: Path) -> None:
    text = ALLOWED.replace("  - lexical_similarity\n", "  - vl_uncertainty\n  - vase: {under: [blur, blurr]}\n")
    none = "reads answers to perturbed samples; this spec has no perturbations (name some in `perturbations`)"
    assert problems(tmp_path, text) == [
        f"t.yaml:17:5: estimators[5]: vl_uncertainty {none}",
        f"t.yaml:18:5: estimators[6]: vase@under=blur {none}",
        f"t.yaml:18:5: estimators[6]: vase@under=blurr {none}",
    ]
    text += "perturbations: [blur: {radius: [1, 2]}]\n"
    assert problems(tmp_path, text) == [
        "t.yaml:18:5: estimators[6]: vase@under=blurr: expected `all` or a perturbation of this spec, got the text 'blurr' "
        "(did you mean 'blur'?)"
    ]


def test_cosine_needs_an_encoder_and_entailment_an_nli_model(tmp_path: Path) -> None:
    encoder = "nli: {embedding: {hub: org/encoder}}"
    text = ALLOWED.replace(
        "  - lexical_similarity\n",
        f"""\
  - deg_mat: {{similarity: cosine}}
  - eigenvalue: {{{encoder}}}
  - luq: {{{encoder}}}
  - eccentricity: {{similarity: [cosine, jaccard], {encoder}}}
  - cocoa: {{similarity: [jaccard, entailment]}}
""",
    )
    got = "expected an NLI model, got the sentence encoder 'embedding', which tells no entailment"
    assert problems(tmp_path, text) == [
        "t.yaml:17:27: estimators[5].deg_mat.similarity: deg_mat: `similarity: cosine` needs a sentence encoder as `nli`, got the NLI "
        "model 'lexical' (`nli: {embedding: {hub: MODEL}}`)",
        f"t.yaml:18:23: estimators[6].eigenvalue.nli: eigenvalue: {got} (set `similarity: cosine`, or choose one, such as `hf`)",
        f"t.yaml:19:16: estimators[7].luq.nli: luq: {got} (choose one, such as `hf`)",
    ]


def test_left_out_for_one_model_it_is_asked_of_the_others(tmp_path: Path) -> None:
    plan = make_plan(resolve(tmp_path, ALLOWED))
    greedy = {"text", "token_logprobs", "option_logits", "draws"}
    assert set(plan.stage("infer-api-scenes").params["needs"]) == greedy
    more = {"token_entropies", "logprobs_without_both", "logprobs_without_image", "p_true", "p_true_sampling"}
    assert set(plan.stage("infer-here-scenes").params["needs"]) == greedy | more
    pmi = [f"pointwise_mutual_information@without={what}" for what in ("both", "image")]
    assert plan.stage("estimate").params["left_out"] == {"api": sorted(["mean_token_entropy", "p_true", "p_true_sampling", *pmi])}
    without_api = SPEC.replace("  api:\n    openai: {model: gpt-4o-mini, logprobs: 20}\n", "")
    assert "left_out" not in make_plan(resolve(tmp_path, without_api)).stage("estimate").params


def test_one_variant_may_be_left_out_by_its_label(tmp_path: Path) -> None:
    one = ALLOWED.replace("pointwise_mutual_information, ", "'pointwise_mutual_information@without=both', ")
    (problem,) = problems(tmp_path, one)
    assert problem.startswith("t.yaml:14:5: estimators[2]: pointwise_mutual_information@without=image needs logprobs_without_image")


def test_recordings_that_lack_it_are_refused_too(tmp_path: Path) -> None:
    text = SPEC.replace("openai: {model: gpt-4o-mini, logprobs: 20}", "recorded: {source: logs, format: lmms-eval}")
    found = [p for p in problems(tmp_path, text) if "p_true_sampling" in p]
    assert [p.split(" (")[0] for p in found] == [
        "t.yaml:15:5: estimators[4]: p_true_sampling needs p_true_sampling, which the model 'api' cannot give"
    ]


def test_the_paper_s_benchmark_leaves_out_three_for_its_api_model(tmp_path: Path) -> None:
    """And would be refused any of them."""
    three = ["mean_token_entropy", "pointwise_mutual_information", "p_true"]
    text = (ROOT / "specs/vlm_uqbench.yaml").read_text().replace("name: vlm_uqbench", "name: t")
    resolved = resolve(tmp_path, text)
    (api,) = [m for m in resolved.models if m.ref.plugin.name == "openai"]
    assert sorted(e.label for e in resolved.estimators if not api.asked_for(e)) == sorted(three)
    lines = text.splitlines()
    for name in three:
        (problem,) = problems(tmp_path, text.replace(", ".join(three), ", ".join(n for n in three if n != name)))
        assert problem.startswith(f"t.yaml:{lines.index(f'  - {name}') + 1}:5: estimators[")
        assert f": {name} needs " in problem and "which the model 'gpt-4o-mini' cannot give" in problem


def test_what_estimators_need_follows_from_their_arguments(tmp_path: Path) -> None:
    """A model is refused for what an estimator reads with its own arguments, not for what it might read with others."""
    text = change("{hf_vlm: {artifact: scene-vlm-base}}", "{recorded: {source: vlm_uncertainty_bench, run: x, format: vub}}")
    asked = "[lexical_similarity, pointwise_mutual_information: {without: [image, both]}, semantic_entropy]"
    found = [p for p in problems(tmp_path, text.replace("[perplexity]", asked)) if ": estimators[" in p]
    assert [(f.split("estimators[")[1][0], f.split(" needs ")[1].split(", which")[0]) for f in found] == [
        ("0", "draws, text"),
        ("1", "logprobs_without_both, token_logprobs"),
        ("1", "logprobs_without_image, token_logprobs"),
        ("2", "draws, text, token_logprobs"),
    ]
