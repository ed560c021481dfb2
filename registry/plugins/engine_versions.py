"""The versions of our own engine, which stand for our code in the keys of stored answers and in the parameters of stages.

A version is raised, by hand, when a number that the component decides comes out otherwise than before, beyond rounding: all that
was computed by the version before it then counts no more. An edit that moves no number raises nothing, and nothing is computed
again. `tests/golden/` holds numbers of every component and fails where one moves under an unchanged version.

A module of ours that stands in no component counts by its content, as a plugin of a project's own does: what is new and has no
version yet can be edited freely. So does a plugin that PLUGINS does not list.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from qualm.registry.plugins.rule import KINDS

PLUGIN_PACKAGES = {f"qualm.{folder.replace('/', '.')}": kind for kind, folder in KINDS.items()}


@dataclass(frozen=True)
class Component:
    """Some of our code whose numbers are raised together."""

    version: int
    decides: str
    modules: tuple[str, ...]
    """Dotted names of modules and packages; the longest name that fits a module says which components it is of, which may be several."""
    parts: tuple[str, ...] = ()
    """Of an answer (`qualm.runners.contracts.models.PARTS`, and `draw`), those that depend on it; none = all."""


_ONE_PASS, _ROWS, _MODEL = (f"qualm.runners.inference.hf.{name}" for name in ("one_pass", "rows", "model"))
_READ = "qualm.runners.inference.hf.computing.token_numbers"
_SELF = ("p_true", "p_true_sampling", "p_yes", "said_confidence")
_PRIORS = ("without_image", "without_question", "without_both")

COMPONENTS: Mapping[str, Component] = MappingProxyType(
    {
        "forward": Component(
            1,
            "what a local model reads and answers: weights, processor, layout, greedy decoding, log-probabilities, entropies, precision",
            (
                "qualm.runners.inference.hf",
                _ONE_PASS,
                _ROWS,
                _READ,
                _MODEL,
                "qualm.registry.picture_lists",
                "qualm.runners.contracts.models",
                "qualm.runners.contracts.parts",
                "qualm.runners.runtime.precision",
            ),
        ),
        "thinking": Component(
            1,
            "where the thinking of a reasoning model ends",
            ("qualm.runners.prompts.thinking", "qualm.runners.inference.hf.thinking"),
        ),
        "sampling": Component(1, "which token a draw takes", ("qualm.runners.inference.hf.sampling",), ("draw",)),
        "options": Component(1, "option logits: which tokens the letters are", (_ONE_PASS, _MODEL), ("options",)),
        "priors": Component(1, "log-probabilities without image, question or both", (_ONE_PASS,), _PRIORS),
        "divergence": Component(1, "the divergence between answers with and without the image", (_ONE_PASS, _READ), ("image_divergence",)),
        "internals": Component(
            1,
            "hidden states: of which layers, at which places",
            ("qualm.runners.inference.hf.internals", "qualm.runners.inference.hf.inside.taps"),
            ("hidden_states",),
        ),
        "attention": Component(
            1,
            "where answers look: attention of which layers, and what they say with the core of the picture hidden",
            ("qualm.runners.inference.hf.internals", "qualm.runners.inference.hf.inside.attention"),
            ("attention", "image_information"),
        ),
        "token_ends": Component(1, "where tokens end in the text of an answer", (_MODEL,), ("token_ends",)),
        "uniform": Component(
            1, "the divergence of the uniform distribution from that of the next token", (_ONE_PASS, _READ), ("uniform_divergence",)
        ),
        "self_report": Component(
            1, "what is read of a model's judgement of its own answer", (_ONE_PASS, "qualm.runners.inference.hf.own_answer"), _SELF
        ),
        "prompts": Component(
            1, "the turns in which a model is asked", ("qualm.runners.prompts.question",), (*_SELF, *_PRIORS, "image_divergence")
        ),
        "served_answers": Component(
            1,
            "what a model behind a server is sent, and how its replies are read",
            tuple(f"qualm.runners.plugins.models._{name}" for name in ("served", "completions", "reasoning")),
        ),
        "vllm_answers": Component(1, "how vLLM is asked, and how its replies are read", ("qualm.runners.plugins.models._vllm",)),
        "server_protocol": Component(1, "the form of requests and replies", ("qualm.runners.servers.protocol",)),
        "served_replies": Component(1, "what a text generator behind a server is sent, and how it is read", ("qualm.runners.servers",)),
        "pictures": Component(1, "the pixels of a picture's file", ("qualm.registry.formats.pictures",)),
        "shown": Component(
            1,
            "the question and the pixels that a variant shows",
            ("qualm.runners.data.dataset", "qualm.runners.contracts.perturbations", "qualm.runners.contracts.returned"),
        ),
        "perturbing": Component(
            1,
            "what perturbations share: levels, words, rewriting by a generator",
            tuple(f"qualm.runners.plugins.perturbations._{name}" for name in ("levels", "wording", "rewriting")),
        ),
        "generating": Component(
            1,
            "how generators are asked, again and again, and their replies read",
            (
                "qualm.runners.inference.generator",
                "qualm.runners.contracts.generators",
                "qualm.runners.plugins.generators._rounds",
                "qualm.runners.prompts.bare",
                "qualm.runners.prompts.plain",
                "qualm.runners.prompts.templates",
            ),
        ),
        "inferring": Component(1, "the logits of an NLI model", ("qualm.runners.inference.nli", "qualm.runners.contracts.nli")),
        "asking": Component(
            1,
            "which questions a model is asked, and how its answers become rows",
            ("qualm.runners.inference", "qualm.runners.stages.infer"),
        ),
        "scenes": Component(1, "worlds, pictures, questions, captions and rewrites of scenes", ("qualm.registry.scenes",)),
        "reading": Component(
            1,
            "samples and images of official files and of recordings",
            (
                "qualm.registry.sample",
                "qualm.registry.adapters",
                *(f"qualm.registry.adapters._{name}" for name in ("mapped", "official", "pictures", "table_pictures", "unseen", "vqa")),
                "qualm.registry.preparations",
                "qualm.registry.recordings",
                "qualm.registry.formats",
                "qualm.registry.where",
                "qualm.runners.data",
                "qualm.runners.stages.data",
                "qualm.runners.plugins.models._peer_recording",
            ),
        ),
        "texts": Component(
            1,
            "the text of a file, and which numbers in it can be",
            ("qualm.registry.formats.textfiles", "qualm.registry.formats.plausible"),
        ),
        "pairs_in_words": Component(
            2,
            "how replies that hold pairs and names of things are read, and what a pair in words must be",
            ("qualm.runners.prompts.labelled", *(f"qualm.runners.plugins.pairs._{name}" for name in ("two_pictures", "written"))),
        ),
        "pairing": Component(
            1,
            "pairs: what recipes, masks, saliency and inpainters share",
            (
                "qualm.runners.plugins.pairs._painting",
                *(f"qualm.runners.contracts.{name}" for name in ("pairs", "masks", "saliency", "inpainters")),
                "qualm.runners.stages.pair",
            ),
        ),
        "perturbed": Component(1, "data sets that a perturbation has made in a stage of its own", ("qualm.runners.stages.perturb",)),
        "judging": Component(
            2,
            "what judges share, and which answers they rate",
            (
                *(f"qualm.runners.plugins.judges._{name}" for name in ("choices", "refusals", "reply", "rubric", "yes_no")),
                "qualm.runners.contracts.judges",
                "qualm.runners.scoring.apply_judge",
                "qualm.runners.studies.judge_reliability",
                "qualm.runners.stages.judge",
            ),
        ),
        "answer_text": Component(1, "when two short answers are the same", ("qualm.runners.scoring.answer_text",)),
        "training": Component(
            1,
            "examples, losses, steps and the weights that come out",
            (
                "qualm.runners.training",
                "qualm.runners.contracts.finetunes",
                "qualm.runners.contracts.tunings",
                "qualm.runners.contracts.grouped_weights",
                "qualm.runners.stages.finetune",
            ),
        ),
    }
)

NO_NUMBERS = (
    "qualm.registry",
    "qualm.registry.dvc",
    "qualm.registry.formats.atomic",
    "qualm.registry.formats.faults",
    "qualm.registry.formats.locks",
    "qualm.registry.machine",
    "qualm.registry.places",
    "qualm.registry.plugins",
    "qualm.registry.terminal",
    "qualm.registry.text",
    "qualm.runners.inference.devices",
    "qualm.runners.runtime",
    "qualm.runners.store",
)
"""Modules, and packages with all that lies in them, by which no number comes out otherwise: starting, storing, checking, telling."""

_PERTURBATIONS = (
    "amb blur bright clip_mask contrast cutout dark dropwords gaussian_noise inv ive jpeg pixelate salt_and_pepper saturation sbj "
    "sharpness shuffle solarize typos"
)
_JUDGES = "amber exact_match final_answer first_character hallusionbench lave mme mmhal oodcv_vqa option_match pope rules shr vqa"
_ADAPTERS = (
    "ai2d amber certainly_uncertain certainly_uncertain_release clevr clevr_hallucination coco_folder docci gqa hallusionbench haloquest "
    "hf_parquet humblebench image_table llava_instruct lrv_instruction mm_upd mmbench mme mmhal_bench oodcv_vqa pope recorded_samples "
    "scienceqa seedbench shr spoilt_scenes synthetic_scenes tdiuc uncertain_scenes unk_vqa vizwiz vizwiz_ans_difference vlfeedback "
    "vlm_uncertainty_bench vlm_uqbench vlmevalkit_tsv vq_focusambiguity vqav2"
)

PLUGINS: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "models": {"hf_vlm": 1, "openai": 1, "recorded": 1, "vllm": 1},
        "perturbations": {**dict.fromkeys(_PERTURBATIONS.split(), 1), "clip_mask": 2, "ive": 2, "shuffle": 2},
        "generators": {"hf": 1, "openai": 2, "rules": 1},
        "nli": {"hf": 1, "lexical": 1},
        "masks": {"boxes": 1, "grounded_sam": 1, "scene_graph": 1},
        "inpainters": {"lama": 1, "navier_stokes": 1, "rerender": 1, "telea": 1},
        "saliency": {"gqa": 1, "question_llm": 3, "scene_graph": 1},
        "pairs": {"from_caption": 1, "inpainted": 1, "scene_twins": 1},
        "finetunes": {"dpo": 1, "rtune": 1, "scratch_clip": 1, "scratch_vlm": 1, "sft": 1},
        "tunings": {"full": 1, "lora": 1},
        "judges": {**dict.fromkeys(_JUDGES.split(), 1), "lave": 2},
        "datasets": dict.fromkeys(_ADAPTERS.split(), 1),
        "preparations": {"six_options": 1, "six_options_published": 1},
    }
)
"""Kind -> plugin of ours -> its version: of what its own file decides. One that is raised above 1 is named after a `|`."""


def components(module: str) -> tuple[str, ...] | None:
    """The components that a module of ours is of; empty where no number depends on it, None where it has no version.

    In a folder of plugins only what is named in full is of one: what else lies there may be anybody's.
    """
    # No prefixes here: a project's `_helper.py` in the same folder must not inherit a version of ours.
    if module.rpartition(".")[0] in PLUGIN_PACKAGES:
        return tuple(name for name, c in COMPONENTS.items() if module in c.modules) or None
    fits: dict[str, list[str]] = {}
    for name, component in COMPONENTS.items():
        for prefix in component.modules:
            if module == prefix or module.startswith(f"{prefix}."):
                fits.setdefault(prefix, []).append(name)
    longest = max(fits, key=len, default="")
    # "qualm.registry" is neutral itself, the bare package, but not all that lies in it.
    neutral = max((n for n in NO_NUMBERS if module == n or (n != "qualm.registry" and module.startswith(f"{n}."))), key=len, default="")
    if len(neutral) > len(longest):
        return ()
    return tuple(fits[longest]) if longest else None


def plugin(module: str) -> tuple[str, str, int | None] | None:
    """Kind, name and version of the plugin of ours that a module is; no version where the plugin is unknown; None for any other module."""
    package, _, name = module.rpartition(".")
    kind = PLUGIN_PACKAGES.get(package)
    return None if kind is None or name.startswith("_") else (kind, name, PLUGINS.get(kind, {}).get(name))
