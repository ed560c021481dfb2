"""Sizes of models and of their key-value caches, from their own files or the table of published models.

Only config.json and the headers of safetensors files are read, without torch.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qualm.compiler.spec import sentences as say
from qualm.registry.entries.published_models import Published, published
from qualm.registry.plugins.model_configs import plain_reason
from qualm.registry.system import textfiles

BYTES = {"float64": 8.0, "float32": 4.0, "bfloat16": 2.0, "float16": 2.0}
"""Bytes of one weight."""
QUANTISED = {"int8": 1.0, "int4": 0.5625, "nf4": 0.5625}
"""Bytes of a quantised weight of a linear layer; 4 bits and a 16-bit scale for every 32 weights are 4.5 bits."""
SIGHT = ("vision", "visual", "projector", "connector", "image_newline", "image_to_text")
"""Parts of names of weights that process images."""


@dataclass(frozen=True)
class Size:
    """Numbers of parameters and dimensions of a vision-language model."""

    language: float
    """Parameters of the language model with its output layer."""
    vision: float
    """Parameters of all parts that process images."""
    layers: int
    hidden: int
    query_width: int
    """Number of query heads times head width."""
    key_width: int
    """Number of key heads times head width. Each token caches one key and one value of this width in every layer."""
    vocabulary: int
    image_tokens: int
    """Tokens of one image, estimated if the model's files do not say."""
    source: str
    tied: bool = False
    """The output layer is the input embedding."""
    patches: float = 4.0
    """Patches of the image encoder per image token."""
    vision_width: float = 0.0
    """Hidden width of the image encoder."""

    def weight_bytes(self, dtype: str, quantisation: str = "none") -> float:
        """Return the bytes of all weights, the language model's linear layers quantised if asked.

        Only linear layers of the language model are quantised; embedding, output layer and vision tower stay as `dtype`.
        """
        whole = BYTES[dtype]
        if quantisation == "none":
            return (self.language + self.vision) * whole
        # Tied, embedding and output layer are one matrix.
        apart = self.vocabulary * self.hidden * (1 if self.tied else 2)
        return (apart + self.vision) * whole + max(self.language - apart, 0) * QUANTISED[quantisation]

    def cache_bytes(self, dtype: str) -> float:
        """Return the bytes that one token takes in the key-value cache."""
        return 2 * self.layers * self.key_width * BYTES[dtype]

    @property
    def body(self) -> float:
        """Return the language model's parameters without embedding and output layer."""
        return max(self.language - self.vocabulary * self.hidden * (1 if self.tied else 2), 0)


def size_of_published(model: Published) -> Size | None:
    """Return a published model's size; None if its text part is unknown."""
    if model.text is None:
        return None
    t = model.text
    parts = model.parameters
    vision, config = (parts.vision or 0) * 1e9, model.config or {}
    return Size(
        parts.total * 1e9 - vision, vision, t.layers, t.hidden, t.heads * t.head_dim, t.kv_heads * t.head_dim,
        t.vocabulary, model.image_tokens or 576, say.SIZE_FROM_TABLE.format(model=model.name), _is_tied(config),
        _patches_per_token(model.family, config), _vision_width(config, vision, t.hidden),
    )  # fmt: skip


def size_of_hub_model(name: str) -> Size | None:
    """Return the size of a hub model in the table of published models; else None."""
    return size_of_published(published()[name]) if name in published() else None


def size_of_folder(folder: Path) -> Size | str:
    """Return the size of the model in a folder, or as text why it is unknown."""
    try:
        return _size_of(folder, json.loads(textfiles.read_text(folder / "config.json")), shapes(folder))
    except (OSError, textfiles.TextFileError, ValueError, RecursionError) as error:
        return f"{folder}: {error}"
    except (TypeError, LookupError, AttributeError, ArithmeticError) as error:
        return say.MODEL_FILES_INVALID.format(folder=folder, error=error)


def _size_of(folder: Path, config: Mapping[str, Any], shape_of: Mapping[str, tuple[int, ...]]) -> Size | str:
    sight = {name for name in shape_of if any(s in name for s in SIGHT)}
    text = {name: shape for name, shape in shape_of.items() if name not in sight}
    keys, queries = ([s for name, s in text.items() if name.endswith(f"self_attn.{kind}_proj.weight")] for kind in "kq")
    embedding = next((shape for name, shape in text.items() if name.endswith("embed_tokens.weight")), None)
    if not keys or not queries or embedding is None:
        return say.WEIGHTS_UNKNOWN.format(folder=folder)
    image_tokens, how = _image_tokens(config)
    vision = sum(math.prod(shape_of[name]) for name in sight)
    return Size(
        sum(map(math.prod, text.values())), vision, len(keys), embedding[1], queries[0][0],
        keys[0][0], embedding[0], image_tokens, f"{folder}, {how}{_plain_path_note(config)}",
        not any(name.endswith("lm_head.weight") for name in text),
        _patches_per_token(_model_class(config), config), _vision_width(config, vision, embedding[1]),
    )  # fmt: skip


def _patches_per_token(family: str, config: Mapping[str, Any]) -> float:
    """Return patches per image token, by `scale_factor` or model class; 4 if neither tells."""
    if isinstance(scale := config.get("scale_factor"), int):
        return float(scale**2)
    return next((patches for prefix, patches in _PATCHES.items() if family.startswith(prefix)), 4.0)


_PATCHES = {"Gemma3": 16.0, "Llava": 1.0, "PaliGemma": 1.0, "Mllama": 1.0}
"""Patches that are joined into one image token, by how a model class's name begins, where not 4 as in Qwen-VL, InternVL and Mistral 3."""


def _vision_width(config: Mapping[str, Any], parameters: float, hidden: int) -> float:
    """Return the image encoder's hidden width; if unstated, estimated from its parameters.

    Qwen2-VL names the width behind its merger `hidden_size`, which is the language model's.

    Args:
        parameters: number of parameters of the image encoder.
        hidden: hidden width of the language model.
    """
    vision = config.get("vision_config") or {}
    stated = vision.get("embed_dim") or vision.get("hidden_size")
    return float(stated) if isinstance(stated, int) and stated != hidden else math.sqrt(parameters / (12 * 24))


def _plain_path_note(config: Mapping[str, Any]) -> str:
    """Return a note if the model runs without a cache, so slower than estimated; else ""."""
    return say.PLAIN_PASSES if plain_reason(config) else ""


def shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return {weight: shape} of a folder's safetensors files; ValueError if one is damaged.

    Raises:
        ValueError: a file is damaged.
    """
    shape_of: dict[str, tuple[int, ...]] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            # A safetensors file begins with the length of its JSON header; the bound keeps another file's bytes from being read as one.
            length = int.from_bytes(file.read(8), "little")
            if length > _HEADER:
                raise ValueError(f"{path.name} is not a safetensors file")
            header = json.loads(file.read(length))
        shape_of.update({name: tuple(about["shape"]) for name, about in header.items() if name != "__metadata__"})
    return shape_of


_HEADER = 100 * 2**20
"""Maximum bytes of a header."""


def _is_tied(config: Mapping[str, Any]) -> bool:
    """Return whether the output layer shares the embedding's weights."""
    text = config.get("text_config") or {}
    return bool(config.get("tie_word_embeddings", text.get("tie_word_embeddings", config.get("model_type") in _TIED)))


_TIED = ("gemma3", "paligemma", "kosmos-2")
"""Model types that transformers ties by default."""


def _model_class(config: Mapping[str, Any]) -> str:
    """Return the name of the model class in transformers; "" if the configuration names none."""
    return next(iter(config.get("architectures") or []), "")


def _image_tokens(config: Mapping[str, Any]) -> tuple[int, str]:
    """Return (tokens of one image, how they were found)."""
    family = _model_class(config)
    same = sorted(m.image_tokens for m in published().values() if m.family == family and m.image_tokens)
    vision = config.get("vision_config") or {}
    side, patch = (max(v) if isinstance(v := vision.get(name) or 0, list) else v for name in ("image_size", "patch_size"))
    if same and (not side or side >= _MIN_SIDE):
        return same[len(same) // 2], say.IMAGE_TOKENS_OF_CLASS
    if side and patch:
        return (side // patch) ** 2, say.IMAGE_TOKENS_OF_PATCHES
    return 576, say.IMAGE_TOKENS_ASSUMED


_MIN_SIDE = 224
"""Minimum side of published vision towers, in pixels."""
