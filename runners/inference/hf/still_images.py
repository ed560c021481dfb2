"""Processors of models that also take videos, without the video half.

The processor of Qwen2-VL, InternVL, SmolVLM and others cannot be built at all where torchvision is absent, because its
video processor needs it. Where torchvision is installed it cannot be read either: there is no video processor of the backend `pil`,
which we ask for. We show pictures only; with this the picture half loads and works alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch


class NoVideos(dict[str, Any]):
    """Stands where a video processor would: one without settings, for SmolVLM asks it how to sample a video whatever it is to render."""

    num_frames = fps = None


@contextmanager
def still_images_only() -> Iterator[None]:
    """While this is open, transformers builds processors with `NoVideos`, or None."""
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
