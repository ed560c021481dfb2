"""Darkening of the regions that CLIP finds relevant to the question; the rest of the image stays.

VLM-UQBench, after Yu et al., "Attention Prompting on Image for Large Vision-Language Models", ECCV 2024, whose masks keep what is relevant
and darken the rest; here it is the reverse. A patch's contribution to the likeness of image and text: Gandelsman et al., "Interpreting
CLIP's Image Representation via Text-Based Decomposition", ICLR 2024.
"""

from __future__ import annotations

import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Gt, Le

from qualm.registry.entries.model_folders import folder_digest, folder_fault
from qualm.runners.contracts.models import ModelError
from qualm.runners.contracts.perturbations import PerturbContext, PerturbError
from qualm.runners.data.answers import pixel_digest
from qualm.runners.inference.devices import double_device
from qualm.runners.inference.hf.double import computing
from qualm.runners.inference.hf.still_images import still_images_only
from qualm.runners.inference.hf.weights import silence, whole_module
from qualm.runners.runtime.blobs import BlobCache
from qualm.runners.runtime.code_digest import engine_digest
from qualm.runners.runtime.precision import significant

if TYPE_CHECKING:
    from numpy.random import Generator
    from PIL.Image import Image

    from qualm.registry.plugins.registry import Artifact

CITES = ["wang_vlmuqbench", "radford2021learning"]
EXTRA = "models"
MODALITY = "cross"
STRENGTHS = ("strength",)

LAYERED = ("contribution", "class_attention")
"""Kinds of relevance that depend on a layer."""


def clip_mask(
    context: PerturbContext,
    batch: list[tuple[Image, str]],
    rngs: list[Generator],
    *,
    artifact: Artifact,
    strength: Annotated[float, Ge(0), Le(1)] = 1.0,
    relevance: Literal["contribution", "similarity", "class_attention"] = "contribution",
    layer: int = -2,
    smooth: Literal["gaussian", "box"] = "gaussian",
    sigma: Annotated[float, Gt(0), Le(32)] = 1.0,
) -> list[tuple[Image, str] | None]:
    """Return (image, question) items, the image darkened where CLIP finds it relevant.

    M is the relevance of CLIP's patches, rescaled to 0..1, smoothed (edges repeated) and enlarged bilinearly; 0 if relevance
    is constant. CLIP sees the whole image, squeezed to a square, not cropped. Images are processed one by one in double
    precision, so masks depend on neither batch nor machine; they are cached by content.

    Args:
        context: device, and cache across batches.
        artifact: the entry of registry/data/ that holds a CLIP of transformers: safetensors, config, preprocessor config.
        strength: lambda of the paper, whose value is 1; 0 changes nothing.
        relevance: `contribution`: what each patch adds, through the class token's attention in one layer, to the likeness of image and
            question, as in the cited method's code. `similarity`: softmax over patches of v . t / sqrt(d), averaged over the question's
            tokens, v and t projected into CLIP's shared space: the paper's formula (a softmax over tokens would have a constant mean).
            `class_attention`: the class token's attention to each patch in one layer, averaged over heads, without the question.
        layer: of the class token's attention, counted as in Python; -2 of 24 is the cited code's 22.
        smooth: `gaussian`: by a Gaussian kernel, as the paper says; `box`: by the mean of 3 x 3 patches, as in the cited method's code.
        sigma: standard deviation of the Gaussian, in patches. The paper states none; 1 is ours. `box` has none.

    Raises:
        PerturbError: files are missing, the model is not a CLIP with a class token or lacks its tokenizer, or has no such layer.
    """
    from PIL import Image as Pictures

    clip = context.once(f"clip {artifact}", lambda: Clip(Path(artifact), context.settings.device))
    images: list[tuple[Image, str] | None] = []
    for image, question in batch:
        pixels = np.asarray(image)
        share = 1.0 - strength * relevance_mask(clip.relevance(image, question, relevance, layer), image.size, smooth, sigma)
        images.append((Pictures.fromarray(np.rint(pixels * share[..., None]).astype(np.uint8)), question))
    return images


def relevance_mask(relevance: np.ndarray, size: tuple[int, int], smooth: str = "gaussian", sigma: float = 1.0) -> np.ndarray:
    """Return an image's mask in 0..1, (height, width); `size` is (width, height).

    Args:
        relevance: (rows, columns) of patches, any scale.
        size: width and height of the image.
        smooth: `gaussian` or `box`.
        sigma: of the Gaussian, in patches.
    """
    import cv2
    from scipy.ndimage import gaussian_filter, uniform_filter

    low, high = float(relevance.min()), float(relevance.max())
    if not high > low:
        return np.zeros((size[1], size[0]))
    scaled = (relevance.astype(np.float64) - low) / (high - low)
    smoothed = uniform_filter(scaled, 3, mode="nearest") if smooth == "box" else gaussian_filter(scaled, sigma, mode="nearest")
    grown: np.ndarray = np.clip(cv2.resize(smoothed, size, interpolation=cv2.INTER_LINEAR), 0.0, 1.0)
    return grown


class Clip:
    """A CLIP model, loaded on first use, that scores image patches by relevance, with a cache."""

    def __init__(self, folder: Path, device: str) -> None:
        fault = folder_fault(folder)
        if fault:
            raise PerturbError(f"perturbation clip_mask: {fault}")
        self.folder, self.device = folder, device
        self.cache = BlobCache("clip_maps", engine_digest(__name__), folder_digest(folder))
        self._parts: tuple[Any, Any, Any] | None = None
        self._lock = threading.Lock()

    def relevance(self, image: Image, question: str, source: str, layer: int) -> np.ndarray:
        """Return the (rows, columns) relevance of an image's patches to a question, from a cache."""
        about = (source, *((layer,) if source in LAYERED else ()), *((question,) if source != "class_attention" else ()))
        key = self.cache.key(pixel_digest(image), *about)
        raw = self.cache.get(key)
        if raw is None:
            with self._lock:
                values = self._relevance(image, question, source, layer)
            raw = np.array([significant(value) for value in values.tolist()], dtype="<f4").tobytes()
            self.cache.put(key, raw)
        patches = np.frombuffer(raw, "<f4")
        side = round(len(patches) ** 0.5)
        return patches.reshape(side, side)

    def _relevance(self, image: Image, question: str, source: str, layer: int) -> np.ndarray:
        if source == "similarity":
            return self._similarity(image, question)
        attention, values = self._attention(image, layer)
        return attention.mean(axis=0) if source == "class_attention" else self._contribution(attention, values, question, layer)

    def _attention(self, image: Image, layer: int) -> tuple[np.ndarray, np.ndarray]:
        """Return (class token's attention (heads, patches), values (patches, units))."""
        import torch

        model, _, _ = self._open()
        layers = model.vision_model.encoder.layers
        if not -len(layers) <= layer < len(layers):
            raise PerturbError(
                f"perturbation clip_mask: layer: expected 0 to {len(layers) - 1}, the layers of {self.folder}, or -1 to -{len(layers)} "
                f"from the end, got {layer}"
            )
        values: list[Any] = []
        hook = layers[layer].self_attn.v_proj.register_forward_hook(lambda module, given, output: values.append(output))
        try:
            with torch.inference_mode(), computing("float64"):
                attentions = model.vision_model(self._pixels(image), output_attentions=True).attentions
        finally:
            hook.remove()
        return attentions[layer][0, :, 0, 1:].double().cpu().numpy(), values[0][0, 1:].double().cpu().numpy()

    def _contribution(self, attention: np.ndarray, values: np.ndarray, question: str, layer: int) -> np.ndarray:
        """Return (patches,) contributions of a layer to the similarity; 0 without known words.

        The class token gets the sum over heads of attention * value, mapped by the layer's output; the last norm centres and weighs it, and
        the projection is compared with the question's. All of it is linear in a patch's contribution, the norm's division aside.
        """
        import torch

        model, _, _ = self._open()
        words = self._words(question)
        if words is None:
            return np.zeros(len(values))
        with torch.inference_mode(), computing("float64"):
            text = model.text_projection(model.text_model(**words).pooler_output)[0]
            vision = model.vision_model
            towards = vision.post_layernorm.weight * (model.visual_projection.weight.T @ text)
            out = vision.encoder.layers[layer].self_attn.out_proj.weight
            direction: np.ndarray = (out.T @ (towards - towards.mean())).double().cpu().numpy()
        by_head = values.reshape(len(values), len(attention), -1) * direction.reshape(len(attention), -1)
        contribution: np.ndarray = np.einsum("hp,phd->p", attention, by_head)
        return contribution

    def _similarity(self, image: Image, question: str) -> np.ndarray:
        import torch

        model, _, _ = self._open()
        words = self._words(question)
        with torch.inference_mode(), computing("float64"):
            hidden = model.vision_model(self._pixels(image)).last_hidden_state[0, 1:]
            patches = model.visual_projection(model.vision_model.post_layernorm(hidden))
            if words is None:
                return np.zeros(len(patches))
            tokens = model.text_projection(model.text_model(**words).last_hidden_state[0])
            relevance: np.ndarray = (patches @ tokens.T / patches.shape[1] ** 0.5).softmax(dim=0).mean(dim=1).float().cpu().numpy()
        return relevance

    def _words(self, question: str) -> Any:
        """Return the text model's inputs (token ids of the question); None without known words."""
        model, _, tokenizer = self._open()
        if tokenizer is None:
            raise PerturbError(
                f"perturbation clip_mask: {self.folder} has no tokenizer to read questions with; `relevance: class_attention` needs none"
            )
        end, start = tokenizer.eos_token_id, tokenizer.bos_token_id
        if end is None:
            raise PerturbError(f"perturbation clip_mask: the tokenizer of {self.folder} has no end token, at which a CLIP sums up a text")
        ids = [i for i in tokenizer(question)["input_ids"] if i not in (end, start, tokenizer.unk_token_id)]
        if not ids:
            return None
        begins = [] if start is None or start == end else [start]
        most = model.config.text_config.max_position_embeddings - len(begins) - 1
        import torch

        return {"input_ids": torch.tensor([[*begins, *ids[:most], end]], device=model.device)}

    def _pixels(self, image: Image) -> Any:
        model, processor, _ = self._open()
        side = model.config.vision_config.image_size
        options = {"do_center_crop": False, "size": {"height": side, "width": side}, "return_tensors": "pt"}
        return processor(image, **options)["pixel_values"].to(model.device, model.dtype)

    def _open(self) -> tuple[Any, Any, Any]:
        if self._parts is not None:
            return self._parts
        from transformers import AutoConfig, AutoImageProcessor, AutoTokenizer, CLIPModel

        silence()
        place = {"pretrained_model_name_or_path": str(self.folder), "local_files_only": True}
        try:
            kind = AutoConfig.from_pretrained(**place, trust_remote_code=False).model_type
            if kind != "clip":
                raise PerturbError(f"perturbation clip_mask: {self.folder}: expected a model of type clip, got {kind}")
            with still_images_only(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                processor = AutoImageProcessor.from_pretrained(**place, backend="pil")
                model = whole_module(f"perturbation clip_mask: {self.folder}", CLIPModel, place, "float64", attn_implementation="eager")
                words = any((self.folder / name).is_file() for name in ("tokenizer.json", "vocab.json"))
                tokenizer = AutoTokenizer.from_pretrained(**place) if words else None
        except ModelError as error:
            raise PerturbError(str(error)) from error
        except (OSError, ValueError, ImportError, KeyError, TypeError, RuntimeError) as error:
            raise PerturbError(f"perturbation clip_mask: {self.folder} cannot be read: {error}") from error
        self._parts = model.to(double_device(self.device)), processor, tokenizer
        return self._parts
