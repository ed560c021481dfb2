"""Grounded SAM: words to boxes by GroundingDINO, boxes to pixels by SAM, both as transformers' own ports.

Thresholds are those of CertainlyUncertain's appendix F.1, which are Grounded SAM's own (Ren et al., 2024).
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import numpy as np
from annotated_types import Ge, Le

from qualm.registry.entries.model_folders import folder_digest, folder_fault
from qualm.runners.contracts.masks import Mask, Masker, MaskRequest
from qualm.runners.contracts.models import ModelError
from qualm.runners.contracts.pairs import PairContext, PairError
from qualm.runners.contracts.saliency import Box, Thing
from qualm.runners.data.answers import pixel_digest
from qualm.runners.inference.devices import torch_device
from qualm.runners.inference.hf.double import computing
from qualm.runners.inference.hf.still_images import still_images_only
from qualm.runners.inference.hf.weights import silence, whole_module
from qualm.runners.plugins.masks.boxes import boxes_of
from qualm.runners.runtime.blobs import BlobCache
from qualm.runners.runtime.code_digest import engine_digest

if TYPE_CHECKING:
    from qualm.registry.plugins.registry import Artifact

CITES = ["liu2024grounding", "kirillov2023segment"]
EXTRA = "models"

T = TypeVar("T")
R = TypeVar("R")


def grounded_sam(
    context: PairContext,
    *,
    segmenter: Artifact,
    detector: Artifact | None = None,
    box_threshold: Annotated[float, Ge(0), Le(1)] = 0.3,
    text_threshold: Annotated[float, Ge(0), Le(1)] = 0.25,
    dtype: Literal["float64", "float32", "bfloat16", "float16"] = "float32",
) -> Masker:
    """Return a masker: SAM's masks in known boxes or those detected by name, or a reason.

    The detector is asked with the name in lower case and a period after it, as it was trained; all its boxes above the
    threshold count, and the mask is the union of SAM's single masks of them.

    Args:
        context: its settings say on which device and how many images at a time.
        segmenter: the entry of registry/data/ that holds a SAM: safetensors, config, preprocessor config.
        detector: the entry that holds a GroundingDINO; not needed if saliency gives boxes.
        box_threshold: least score of a box (`threshold` of transformers 5, `box_threshold` of earlier ones).
        text_threshold: least score of a word that a box is labelled with; labels are not used, so this changes no mask.
        dtype: of the weights. At float64 all is computed in double precision, and no mask depends on the machine.

    No mask: "no box" where nothing is found, "out of frame" where all boxes lie outside the image, "empty mask" where SAM
    sees nothing in them.

    Raises:
        PairError: files of a model are missing, or an object has no boxes and there is no detector.
    """
    return _GroundedSam(context, Path(segmenter), Path(detector) if detector else None, box_threshold, text_threshold, dtype)


class _GroundedSam:
    def __init__(
        self, context: PairContext, segmenter: Path, detector: Path | None, box_threshold: float, text_threshold: float, dtype: str
    ) -> None:
        for folder in filter(None, (segmenter, detector)):
            fault = folder_fault(folder)
            if fault:
                raise PairError(f"mask grounded_sam: {fault}")
        self.settings, self.dtype = context.settings, dtype
        self.segmenter, self.detector = segmenter, detector
        self.box_threshold, self.text_threshold = box_threshold, text_threshold
        models = [folder_digest(segmenter), folder_digest(detector) if detector else None]
        self.cache = BlobCache("masks", engine_digest(__name__), models, dtype, box_threshold, text_threshold)
        self._models: dict[str, tuple[Any, Any]] = {}
        self._lock = threading.Lock()

    def __call__(self, batch: Sequence[MaskRequest]) -> list[Mask]:
        """Return a mask, or a reason as text, per request, in order; cached by content."""
        prompts = [boxes_of(item) for item in batch]
        if self.detector is None and not all(prompts):
            lacking = next(item for item, boxes in zip(batch, prompts, strict=True) if not boxes)
            raise PairError(
                f"mask grounded_sam: no boxes are known for '{lacking.thing.name}' (question '{lacking.target.key}'); "
                "name a detector (GroundingDINO), or use a saliency that gives boxes"
            )
        keys = [
            self.cache.key(pixel_digest(item.picture), boxes or detector_query(item.thing))
            for item, boxes in zip(batch, prompts, strict=True)
        ]
        packed = {key: raw for key in set(keys) if (raw := self.cache.get(key)) is not None}
        places = list({key: i for i, key in enumerate(keys) if key not in packed}.values())
        with self._lock:
            for start in range(0, len(places), self.settings.batch):
                part = places[start : start + self.settings.batch]
                for i, mask in zip(part, self._make([batch[i] for i in part], [prompts[i] for i in part]), strict=True):
                    packed[keys[i]] = _to_bytes(mask)
                    self.cache.put(keys[i], packed[keys[i]])
        return [_from_bytes(packed[key], item.picture.height, item.picture.width) for key, item in zip(keys, batch, strict=True)]

    def _make(self, batch: Sequence[MaskRequest], prompts: Sequence[tuple[Box, ...]]) -> list[Mask]:
        corners: list[list[Box]] = [[(x, y, x + w, y + h) for x, y, w, h in boxes] for boxes in prompts]
        blank = [i for i, boxes in enumerate(prompts) if not boxes]
        for i, boxes in zip(blank, self._detect([batch[i] for i in blank]), strict=True):
            corners[i] = boxes
        masks: list[Mask] = ["out of frame" if boxes else "no box" for boxes in corners]
        clipped = [_clip(boxes, item) for boxes, item in zip(corners, batch, strict=True)]
        in_frame = [i for i, boxes in enumerate(clipped) if boxes]
        for i, mask in zip(in_frame, self._segment([batch[i] for i in in_frame], [clipped[i] for i in in_frame]), strict=True):
            masks[i] = mask if mask.any() else "empty mask"
        return masks

    def _detect(self, batch: Sequence[MaskRequest]) -> list[list[Box]]:
        """Return the boxes (left, top, right, bottom) that are detected for each request's name.

        Images of one size are batched: padding changes the detections, and a mask must not depend on its batch.
        """
        return _in_groups(batch, [item.picture.size for item in batch], self._detect_alike)

    def _detect_alike(self, batch: Sequence[MaskRequest]) -> list[list[Box]]:
        import torch

        assert self.detector is not None
        processor, model = self._open("detector", self.detector)
        texts = [detector_query(item.thing) for item in batch]
        inputs = processor(images=[item.picture for item in batch], text=texts, padding=True, return_tensors="pt").to(model.device)
        inputs["pixel_values"] = inputs["pixel_values"].to(model.dtype)
        with torch.inference_mode(), computing(self.dtype):
            outputs = model(**inputs)
        detections = processor.post_process_grounded_object_detection(
            outputs,
            inputs["input_ids"],
            threshold=self.box_threshold,
            text_threshold=self.text_threshold,
            target_sizes=[(item.picture.height, item.picture.width) for item in batch],
        )
        return [[tuple(map(float, box)) for box in one["boxes"].tolist()] for one in detections]  # type: ignore[misc]

    def _segment(self, batch: Sequence[MaskRequest], boxes_per_request: Sequence[Sequence[Box]]) -> list[np.ndarray]:
        """Return, per image, the union of SAM's masks of its boxes."""
        items = list(zip(batch, boxes_per_request, strict=True))
        return _in_groups(items, [len(c) for c in boxes_per_request], self._segment_alike)

    def _segment_alike(self, items: Sequence[tuple[MaskRequest, Sequence[Box]]]) -> list[np.ndarray]:
        import torch

        processor, model = self._open("segmenter", self.segmenter)
        inputs = processor(
            images=[item.picture for item, _ in items],
            input_boxes=[[list(box) for box in boxes] for _, boxes in items],
            return_tensors="pt",
        )
        pixels, boxes = inputs["pixel_values"].to(model.device, model.dtype), inputs["input_boxes"].to(model.device, model.dtype)
        with torch.inference_mode(), computing(self.dtype):
            out = model(pixel_values=pixels, input_boxes=boxes, multimask_output=False)
        masks = processor.post_process_masks(out.pred_masks.float().cpu(), inputs["original_sizes"], inputs["reshaped_input_sizes"])
        return [one.any(dim=0).any(dim=0).numpy() for one in masks]

    def _open(self, role: str, folder: Path) -> tuple[Any, Any]:
        if role in self._models:
            return self._models[role]
        from transformers import AutoModelForMaskGeneration, AutoModelForZeroShotObjectDetection, AutoProcessor

        silence()
        kind = AutoModelForZeroShotObjectDetection if role == "detector" else AutoModelForMaskGeneration
        method = "post_process_grounded_object_detection" if role == "detector" else "post_process_masks"
        try:
            with still_images_only(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                processor = AutoProcessor.from_pretrained(str(folder), local_files_only=True, backend="pil")
                place = {"pretrained_model_name_or_path": str(folder), "local_files_only": True}
                model = whole_module(f"mask grounded_sam: {role} {folder}", kind, place, self.dtype)
        except ModelError as error:
            raise PairError(str(error)) from error
        except (OSError, ValueError, ImportError, KeyError, TypeError, RuntimeError) as error:
            raise PairError(f"mask grounded_sam: {role} {folder} cannot be read: {error}") from error
        if not hasattr(processor, method):
            raise PairError(f"mask grounded_sam: {role} {folder}: expected a processor with {method}, got {type(processor).__name__}")
        self._models[role] = processor, model.to(torch_device(self.settings.device, self.dtype))
        return self._models[role]


def detector_query(thing: Thing) -> str:
    """Return an object's name as GroundingDINO reads it: lower case, one period at the end."""
    return " ".join((thing.query or thing.name).lower().replace(".", " ").split()) + "."


def _in_groups(items: Sequence[T], group_keys: Sequence[Any], function: Callable[[list[T]], list[R]]) -> list[R]:
    """Apply a function to the items of each group at a time; return all results in order."""
    by_place: dict[int, R] = {}
    for kind in dict.fromkeys(group_keys):
        places = [i for i, k in enumerate(group_keys) if k == kind]
        by_place.update(zip(places, function([items[i] for i in places]), strict=True))
    return [by_place[i] for i in range(len(items))]


def _clip(corners: Sequence[Box], item: MaskRequest) -> list[Box]:
    width, height = float(item.picture.width), float(item.picture.height)
    cut = [(max(a, 0.0), max(b, 0.0), min(c, width), min(d, height)) for a, b, c, d in corners]
    return [(a, b, c, d) for a, b, c, d in cut if c > a and d > b]


def _to_bytes(mask: Mask) -> bytes:
    """Return a mask as bits, or a reason as text, in bytes; the first byte says which."""
    return b"r" + mask.encode() if isinstance(mask, str) else b"m" + np.packbits(mask).tobytes()


def _from_bytes(raw: bytes, height: int, width: int) -> Mask:
    if raw[:1] == b"r":
        return raw[1:].decode()
    return np.unpackbits(np.frombuffer(raw[1:], np.uint8), count=height * width).reshape(height, width).astype(bool)
