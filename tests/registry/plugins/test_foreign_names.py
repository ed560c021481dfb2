"""Names that methods have in papers and in other libraries: each leads to a plugin that there is, or says why there is none."""

import pytest
import yaml

from qualm.registry.plugins import foreign_names, imports, rule
from qualm.registry.plugins.foreign_names import folded, names_elsewhere
from qualm.registry.plugins.rule import ROOT, PluginError

NAMES = names_elsewhere()

EVERY = [(entry, name) for entry in NAMES for name in entry.names.split()]


@pytest.mark.parametrize("entry", NAMES, ids=lambda e: e.names.split()[0])
def test_what_it_is_here_is_a_plugin_with_parameters_that_it_takes(entry) -> None:
    assert bool(entry.here) != bool(entry.instead) and entry.kind in rule.KINDS
    if entry.here:
        written = yaml.safe_load(entry.here)
        name, parameters = next(iter(written.items())) if isinstance(written, dict) else (written, {})
        assert name == entry.plugin
        assert set(parameters) <= {p.name for p in rule.get(entry.kind, name).parameters}


@pytest.mark.parametrize("entry", [e for e in NAMES if e.instead], ids=lambda e: e.names.split()[0])
def test_what_is_advised_instead_exists(entry) -> None:
    words = [word.split(":")[0] for word in entry.instead.split("`")[1::2]]
    names = {name for kind in rule.KINDS for name in rule.names(kind)} | {"per", "nli", "slices", "abstentions"}
    assert set(words) <= names


def test_no_name_stands_twice_or_hides_a_plugin_of_its_kind() -> None:
    elsewhere = [(entry.kind, folded(name)) for entry, name in EVERY]
    assert len(set(elsewhere)) == len(elsewhere)
    own = {(kind, folded(name)) for kind in rule.KINDS for name in rule.names(kind)}
    assert not [(e.kind, n) for e, n in EVERY if (e.kind, folded(n)) in own and folded(e.plugin) != folded(n)]


@pytest.mark.parametrize(
    ("kind", "name", "hint"),
    [
        ("estimators", "SAR", "did you mean 'sar'?"),
        ("estimators", "CocoaPPL", "did you mean 'cocoa: {confidence: perplexity}'?"),
        ("estimators", "CCP", "it splits long answers into claims, and a short answer is a single claim"),
        ("estimators", "halp", "'halp' is one of probes"),
        ("metrics", "FPR@95", "did you mean 'fpr_at_tpr'?"),
        ("metrics", "adaptive_cee", "did you mean 'ece_adaptive'?"),
        ("metrics", "temperature", "'temperature' is one of calibrators and 'temperature' is one of abstentions"),
    ],
)
def test_who_names_it_in_a_spec_is_told(kind, name, hint) -> None:
    with pytest.raises(PluginError) as error:
        foreign_names.get(kind, name)
    assert str(error.value) == f"no {kind} plugin named '{name}'; {hint}"


@pytest.mark.parametrize(
    ("other", "ours"), [("brier_score", "brier"), ("PRR", "prediction_rejection_ratio"), ("smECE", "ece_smooth"), ("log-loss", "nll")]
)
def test_a_name_that_others_use_leads_to_ours(other: str, ours: str) -> None:
    with pytest.raises(PluginError, match=f"no metrics plugin named '{other}'; did you mean '{ours}'"):
        foreign_names.get("metrics", other)


def test_called_by_any_name_of_any_kind() -> None:
    assert foreign_names.called("Eigen-Score") == [("estimators", "eigen_score")]
    assert foreign_names.called("exact_match") == [("judges", "exact_match"), ("estimators", "self_consistency")]
    assert foreign_names.called("MCNSE") == [("estimators", "predictive_entropy: {per: token}")]
    assert foreign_names.called("no such method") == [] and foreign_names.left_out("no such method") == ""
    assert foreign_names.left_out("mondrian").startswith("a key of a setting")
    assert foreign_names.nearest("semantic_entropi")[0] == ("estimators", "semantic_entropy")


def test_our_own_names_mean_what_they_do_in_a_stage() -> None:
    assert foreign_names.get("metrics", "ece") == rule.get("metrics", "ece")
    with pytest.raises(PluginError, match="no plugin kind 'metric'"):
        foreign_names.get("metric", "ece")
    with pytest.raises(PluginError, match=r"no probes plugin named '\?'; there are: .*saplma"):
        foreign_names.get("probes", "?")


def test_no_stage_runs_again_for_a_longer_list() -> None:
    """Cheap stages count every byte of what they import."""
    folders = [ROOT / "runners/stages", *(ROOT / folder for folder in rule.KINDS.values())]
    modules = [f"qualm.{'.'.join(file.relative_to(ROOT).with_suffix('').parts)}" for folder in folders for file in folder.glob("*.py")]
    closure = imports.closure(modules, imports.roots_of(modules[0], ROOT))
    assert {"qualm.runners.stages.score", "qualm.registry.plugins.rule"} <= set(closure)
    assert foreign_names.__name__ not in closure and foreign_names.NAMES not in closure


LM_POLYGRAPH = """MaximumSequenceProbability ClaimConditionedProbability SelfCertainty MeanTokenEntropy TokenEntropy AttentionScore
    MeanPointwiseMutualInformation MeanConditionalPointwiseMutualInformation PTrue PTrueSampling
    MonteCarloSequenceEntropy MonteCarloNormalizedSequenceEntropy LexicalSimilarity DegMat Eccentricity EigValLaplacian
    NumSemSets SemanticEntropy SemanticEntropyToken Perplexity MahalanobisDistanceSeq BoostedProbSequence TokenSAR SentenceSAR
    SAR RenyiNeg FisherRao
    Verbalized1S Verbalized2S Linguistic1S LabelProb PTrueEmpirical Focus KernelLanguageEntropy
    LUQ EigenScore CocoaMSP CocoaPPL CocoaMTE RAUQ CSL SemanticDensity"""
UQLM = """semantic_negentropy noncontradiction exact_match cosine_sim bert_score semantic_sets_confidence sequence_probability
    min_probability normalized_probability mean_token_negentropy min_token_negentropy probability_margin monte_carlo_probability
    consistency_and_confidence semantic_density p_true"""
TORCH_UNCERTAINTY = """BrierScore CalibrationError AdaptiveCalibrationError ClasswiseCalibrationError SmoothCalibrationError CategoricalNLL
    CoverageRate Disagreement FPR95 FPRx GroupingLoss MutualInformation AUGRC AURC CovAt5Risk RiskAt80Cov SetSize VariationRatio
    TemperatureScaler VectorScaler MatrixScaler DirichletScaler BBQScaler HistogramBinning IsotonicRegression THR APS RAPS"""
OTHERS = """ACE ECE MCE MMCE BetaCalibration LogisticCalibration TemperatureScaling ENIR NearIsotonicRegression BBQ
    naive lac aps raps top_k hinge margin mondrian"""


@pytest.mark.parametrize("name", f"{LM_POLYGRAPH} {UQLM} {TORCH_UNCERTAINTY} {OTHERS}".split())
def test_methods_of_other_libraries_are_known(name) -> None:
    assert foreign_names.called(name) or foreign_names.left_out(name)
