"""Names that methods have in papers and in other libraries: each leads to a plugin that there is, or says why there is none."""

import pytest
import yaml

from qualm.registry.plugins import foreign_names, imports, registry
from qualm.registry.plugins.foreign_names import folded, names_elsewhere
from qualm.registry.plugins.registry import ROOT, PluginError

NAMES = names_elsewhere()

EVERY = [(entry, name) for entry in NAMES for name in entry.names.split()]


@pytest.mark.parametrize("entry", NAMES, ids=lambda e: e.names.split()[0])
def test_what_it_is_here_is_a_plugin_with_parameters_that_it_takes(entry) -> None:
    assert bool(entry.here) != bool(entry.instead) and entry.kind in registry.KINDS
    if entry.here:
        written = yaml.safe_load(entry.here)
        name, parameters = next(iter(written.items())) if isinstance(written, dict) else (written, {})
        assert name == entry.plugin
        assert set(parameters) <= {p.name for p in registry.get(entry.kind, name).parameters}


@pytest.mark.parametrize("entry", [e for e in NAMES if e.instead], ids=lambda e: e.names.split()[0])
def test_what_is_advised_instead_exists(entry) -> None:
    words = [word.split(":")[0] for word in entry.instead.split("`")[1::2]]
    names = {name for kind in registry.KINDS for name in registry.names(kind)} | {"per", "nli", "slices", "abstentions"}
    assert set(words) <= names


def test_no_name_stands_twice_or_hides_a_plugin_of_its_kind() -> None:
    elsewhere = [(entry.kind, folded(name)) for entry, name in EVERY]
    assert len(set(elsewhere)) == len(elsewhere)
    own = {(kind, folded(name)) for kind in registry.KINDS for name in registry.names(kind)}
    assert not [(e.kind, n) for e, n in EVERY if (e.kind, folded(n)) in own and folded(e.plugin) != folded(n)]


@pytest.mark.parametrize(
    ("kind", "name", "hint"),
    [
        ("estimators", "SAR", "did you mean 'sar'?"),
        ("estimators", "CocoaPPL", "did you mean 'cocoa: {confidence: perplexity}'?"),
        ("estimators", "PTrueClaim", "it splits long answers into claims, and a short answer is a single claim"),
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
    assert foreign_names.find_by_name("Eigen-Score") == [("estimators", "eigen_score")]
    assert foreign_names.find_by_name("exact_match") == [("judges", "exact_match"), ("estimators", "self_consistency")]
    assert foreign_names.find_by_name("MCNSE") == [("estimators", "predictive_entropy: {per: token}")]
    assert foreign_names.find_by_name("no such method") == [] and foreign_names.missing_advice("no such method") == ""
    assert foreign_names.missing_advice("mondrian").startswith("a key of a setting")
    assert foreign_names.nearest("semantic_entropi")[0] == ("estimators", "semantic_entropy")


def test_our_own_names_mean_what_they_do_in_a_stage() -> None:
    assert foreign_names.get("metrics", "ece") == registry.get("metrics", "ece")
    with pytest.raises(PluginError, match="no plugin kind 'metric'"):
        foreign_names.get("metric", "ece")
    with pytest.raises(PluginError, match=r"no probes plugin named '\?'; there are: .*saplma"):
        foreign_names.get("probes", "?")


@pytest.mark.slow
def test_no_stage_runs_again_for_a_longer_list() -> None:
    """Cheap stages count every byte of what they import."""
    folders = [ROOT / "runners/stages", *(ROOT / folder for folder in registry.KINDS.values())]
    modules = [f"qualm.{'.'.join(file.relative_to(ROOT).with_suffix('').parts)}" for folder in folders for file in folder.glob("*.py")]
    closure = imports.closure(modules, imports.roots_of(modules[0], ROOT))
    assert {"qualm.runners.stages.score", "qualm.registry.plugins.registry"} <= set(closure)
    assert foreign_names.__name__ not in closure and foreign_names.NAMES not in closure


# Of the releases that names.yaml names.
LM_POLYGRAPH = """MaximumSequenceProbability MaximumTokenProbability ClaimConditionedProbability SelfCertainty MeanTokenEntropy TokenEntropy
    AttentionScore MeanPointwiseMutualInformation PointwiseMutualInformation MeanConditionalPointwiseMutualInformation
    ConditionalPointwiseMutualInformation PTrue PTrueSampling MonteCarloSequenceEntropy MonteCarloNormalizedSequenceEntropy
    LexicalSimilarity DegMat Eccentricity EigValLaplacian NumSemSets SemanticEntropy SemanticEntropyToken Perplexity MahalanobisDistanceSeq
    RelativeMahalanobisDistanceSeq RDESeq PPLMDSeq BoostedProbSequence TokenSAR SentenceSAR SAR RenyiNeg FisherRao Verbalized1S Verbalized2S
    Linguistic1S LabelProb PTrueEmpirical Focus KernelLanguageEntropy LUQ EigenScore CocoaMSP CocoaPPL CocoaMTE RAUQ CSL SemanticDensity
    EPTtu EPTdu EPTmi EPTrmi EPTepkl EPTent5 EPTent10 EPTent15 PETtu PETdu PETmi PETrmi PETepkl PETent5 PETent10 PETent15
    EPStu EPSrmi EPSrmiabs PEStu PESrmi PESrmiabs
    ClaimConditionedProbabilityClaim MaximumClaimProbability PTrueClaim AttentionScoreClaim PerplexityClaim MaxTokenEntropyClaim
    PointwiseMutualInformationClaim FocusClaim FrequencyScoringClaim TokenSARClaim SelfCertaintyClaim BoostedProbClaim
    RandomBaselineClaim"""
UQLM = """semantic_negentropy noncontradiction exact_match cosine_sim bert_score entailment semantic_sets_confidence sequence_probability
    min_probability mean_token_negentropy min_token_negentropy probability_margin monte_carlo_probability consistency_and_confidence
    semantic_density p_true functional_equivalence_rate functional_negentropy functional_sets_confidence code_bleu verbalized_confidence
    contrasted_entailment degree_centrality betweenness_centrality closeness_centrality page_rank laplacian_centrality harmonic_centrality
    LongTextUQ LongTextGraph LongTextQA SemanticEntropy SemanticDensity UQEnsemble LLMPanel LLMJudge"""
TORCH_UNCERTAINTY = """AUGRC AURC FPR95 FPRx SCODAUGRC SCODAURC AdaptiveCalibrationError BrierScore CalibrationError CategoricalNLL
    ClasswiseCalibrationError CovAt5Risk CovAtxRisk CoverageRate Disagreement Entropy GroupingLoss MutualInformation RiskAt80Cov RiskAtxCov
    SCODCovAt5Risk SCODCovAtxRisk SCODRiskAt80Cov SCODRiskAtxCov SetSize SmoothCalibrationError VariationRatio AUSE BBQScaler
    DirichletScaler HistogramBinningScaler IsotonicRegressionScaler MatrixScaler TemperatureScaler VectorScaler ConformalClsAPS
    ConformalClsRAPS ConformalClsTHR ConformalRegCQR DEUP LaplaceApprox MCBatchNorm ABNN"""
NETCAL = """ACE ECE MCE MMCE HistogramBinning BBQ ENIR IsotonicRegression NearIsotonicRegression LogisticCalibration TemperatureScaling
    BetaCalibration LogisticCalibrationDependent BetaCalibrationDependent ReliabilityDiagram"""
MAPIE = """APSConformityScore LACConformityScore NaiveConformityScore RAPSConformityScore TopKConformityScore naive lac aps raps top_k
    CrossConformalClassifier ConditionalSplitConformalClassifier TopLabelCalibrator VennAbersCalibrator BinaryClassificationController
    MultiClassificationLTTController MultiLabelClassificationController SemanticSegmentationController ConditionalExpectedRiskController
    expected_calibration_error top_label_ece kolmogorov_smirnov_statistic kolmogorov_smirnov_p_value kuiper_statistic kuiper_p_value
    spiegelhalter_statistic spiegelhalter_p_value classification_mean_width_score classification_coverage_score classification_ssc
    classification_ssc_score coverage_gap worst_slab_coverage excess_risk_target_coverage auroc auarc"""
CREPES = "hinge margin MondrianCategorizer"


@pytest.mark.slow
def test_methods_of_other_libraries_are_known() -> None:
    names = f"{LM_POLYGRAPH} {UQLM} {TORCH_UNCERTAINTY} {NETCAL} {MAPIE} {CREPES} mondrian".split()
    unknown = [name for name in names if not (foreign_names.find_by_name(name) or foreign_names.missing_advice(name))]
    assert len(names) > 200 and unknown == []
