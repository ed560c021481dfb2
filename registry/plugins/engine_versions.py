"""Versions of the numbers that Qualm's engine computes, one for each kind of answer.

A version stands for our code in the keys of stored answers and in the parameters of stages. Raise it by hand when numbers of that kind
change beyond rounding: everything computed under the version before is then recomputed. Shared code raises each kind whose numbers move.
`tests/test_golden_numbers.py` fails if a number moves under an unchanged version.

A plugin counts by its content unless `PLUGINS` lists it. Scores and reports have no version: the content of their code counts.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from qualm.registry.plugins.registry import KINDS, installed_plugin

VERSIONS: Mapping[str, int] = MappingProxyType(
    {
        "answers": 1,  # of a local model: layout, decoding, log-probabilities, entropies, where tokens and thinking end
        "draws": 1,  # which token a sampled answer takes
        "options": 1,  # option logits
        "priors": 1,  # log-probabilities without image, question or both
        "divergences": 1,  # from the distribution without the image, and from the uniform one; likeliest tokens
        "internals": 1,  # hidden states, attention, information in the image, gradients, evidence
        "self_reports": 1,  # what a model says of its own answer
        "served_answers": 1,  # of a model behind a server or in vLLM: requests, and how replies are read
        "replies": 1,  # of text generators
        "entailment": 1,  # logits of NLI models
        "variants": 1,  # pixels and questions that perturbations make
        "datasets": 1,  # samples, images and recorded answers, as read from official files and logs or drawn
        "pairs": 1,  # contrastive pairs, masks, saliency, inpainted images
        "judgements": 1,  # ratings
        "training": 1,  # losses and weights
    }
)

SIGNALS: Mapping[str, str] = MappingProxyType(
    {
        "draw": "draws",
        "options": "options",
        **dict.fromkeys(("without_image", "without_question", "without_both"), "priors"),
        **dict.fromkeys(("image_divergence", "uniform_divergence", "top_logprobs", "top_tokens"), "divergences"),
        **dict.fromkeys(("hidden_states", "attention", "image_information", "gradient", "evidence"), "internals"),
        **dict.fromkeys(("p_true", "p_true_sampling", "p_yes", "said_confidence"), "self_reports"),
    }
)
"""Part of a local model's answer (`qualm.runners.contracts.models.PARTS`, and `draw`) -> its kind; all parts depend on `answers` too."""

_LOCAL = ("answers", *dict.fromkeys(SIGNALS.values()))
_SERVED, _READ = ("served_answers",), ("datasets",)
FOLDERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "models": (*_LOCAL, *_SERVED),
        "generators": ("replies",),
        "nli": ("entailment",),
        "perturbations": ("variants",),
        **dict.fromkeys(("datasets", "preparations"), ("datasets",)),
        **dict.fromkeys(("pairs", "masks", "inpainters", "saliency"), ("pairs",)),
        "judges": ("judgements",),
        **dict.fromkeys(("finetunes", "tunings"), ("training",)),
    }
)
"""Kind of plugin -> kinds of answers that its plugins may compute by our engine."""

_MODELS = {
    "hf_vlm": _LOCAL,
    **dict.fromkeys(("_completions", "_reasoning", "_served", "_vllm", "openai", "vllm"), _SERVED),
    **dict.fromkeys(("_peer_recording", "recorded"), _READ),
}
_NAMES = {
    "generators": "_rounds hf openai rules",
    "nli": "_batches embedding hf lexical",
    "perturbations": "_levels _rewriting _wording amb blur bright clip_mask contrast cutout dark dropwords gaussian_noise inv ive jpeg "
    "pixelate salt_and_pepper saturation sbj sharpness shuffle solarize typos",
    "datasets": "_fields _mapped _official _parquet _pictures _table_pictures _unseen _vizwiz_images _vqa ai2d amber certainly_uncertain "
    "certainly_uncertain_release clevr clevr_hallucination coco_folder docci gqa hallusionbench haloquest humblebench image_table "
    "llava_instruct lrv_instruction mm_upd mmbench mme mmhal_bench oodcv_vqa pope recorded_samples scienceqa seedbench shr "
    "spoilt_scenes synthetic_scenes tdiuc uncertain_scenes unk_vqa vizwiz vizwiz_ans_difference vlfeedback vlm_uncertainty_bench "
    "vlm_uqbench vlmevalkit_tsv vq_focusambiguity vqav2",
    "preparations": "six_options six_options_published",
    "pairs": "_painting _two_pictures _written from_caption inpainted scene_twins",
    "masks": "boxes grounded_sam scene_graph",
    "inpainters": "lama navier_stokes rerender telea",
    "saliency": "gqa question_llm scene_graph",
    "judges": "_choices _final_number _option_mentions _quantities _refusal_phrases _refusal_questions _refusals _rubric _stated_text "
    "_statements _yes_no amber exact_match final_answer final_value first_character hallusionbench lave llm_extract mme mmhal oodcv_vqa "
    "option_match pope rules shr vqa",
    "finetunes": "dpo rtune scratch_clip scratch_vlm sft",
    "tunings": "full lora",
}
PLUGINS: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"models": _MODELS, **{kind: dict.fromkeys(names.split(), FOLDERS[kind]) for kind, names in _NAMES.items()}}
)
"""Kind of plugin -> file of ours that is keyed by versions instead of its content -> its kinds of answers."""

_PACKAGES = {f"qualm.{folder.replace('/', '.')}": kind for kind, folder in KINDS.items()}
_PROJECT = {f"qualm.project.{folder.rpartition('/')[2]}": kind for kind, folder in KINDS.items()}


def plugin_of(module: str) -> tuple[str, str] | None:
    """Return (kind, name) of a plugin's module, ours, the project's or installed; else None."""
    if not module.startswith("qualm."):
        return installed_plugin(module)
    package, _, name = module.rpartition(".")
    kind = _PACKAGES.get(package) or _PROJECT.get(package)
    return None if kind is None else (kind, name)


def versioned_kinds(module: str) -> tuple[str, ...] | None:
    """Return the keys of VERSIONS for a plugin's module; () for the engine's; None for others."""
    if not module.startswith("qualm.") and module != "qualm":
        return None
    package, _, name = module.rpartition(".")
    if package in _PACKAGES:
        return PLUGINS.get(_PACKAGES[package], {}).get(name)
    return None if module.startswith("qualm.project.") else ()


def split_by_version(
    modules: Iterable[str], files: Mapping[str, Path], kinds: Iterable[str] = ()
) -> tuple[tuple[str, ...], dict[str, int], dict[str, Path]]:
    """Return (our KIND/NAME plugins, version by kind of answer, files hashed by content).

    Args:
        modules: plugins and stages. If none is of a kind in `FOLDERS`, all files count by content.
        files: files of all modules behind them, by name.
        kinds: kinds of answers that they compute beside those of plugins.

    Returns:
        Our own plugins as `KIND/NAME`, versions by kind of answer, and the remaining files.
    """
    # Adding or removing an empty `__init__.py` changes nothing.
    files = {name: path for name, path in sorted(files.items()) if path.name != "__init__.py" or path.stat().st_size}
    asked = [(module, plugin) for module in sorted({*modules, *files}) if (plugin := plugin_of(module)) and plugin[0] in FOLDERS]
    kinds = {*kinds, *(kind for module, (folder, _) in asked for kind in versioned_kinds(module) or FOLDERS[folder])}
    if not kinds:
        return (), {}, files
    plugins = tuple("/".join(plugin) for module, plugin in asked if versioned_kinds(module) and not plugin[1].startswith("_"))
    return plugins, {kind: VERSIONS[kind] for kind in sorted(kinds)}, {n: path for n, path in files.items() if versioned_kinds(n) is None}
