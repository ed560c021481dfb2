"""Processors of models that also take videos, without their video processor.

The processors of Qwen2-VL, InternVL, SmolVLM and others need torchvision for videos, and with torchvision there is no video processor of
the backend `pil`, which we request. We show images only; this loads the image half alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch


class NoVideos(dict[str, Any]):
    """Placeholder for a video processor, with the sampling settings that SmolVLM reads."""

    num_frames = fps = None


@contextmanager
def still_images_only() -> Iterator[None]:
    """Let transformers create processors without a video processor within this context."""
    from transformers.models.auto.video_processing_auto import AutoVideoProcessor
    from transformers.processing_utils import ProcessorMixin

    check = ProcessorMixin.check_argument_for_proper_class

    def allow_absent(self: Any, argument_name: str, argument: Any) -> Any:
        absent = argument_name == "video_processor" and (argument is None or isinstance(argument, NoVideos))
        return None if absent else check(self, argument_name, argument)

    with (
        patch.object(ProcessorMixin, "check_argument_for_proper_class", allow_absent),
        patch.object(AutoVideoProcessor, "from_pretrained", lambda *_, **__: NoVideos()),
    ):
        yield
