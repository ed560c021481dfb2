"""Processors of models that also take videos load with nothing in the place of the video half, with torchvision and without it."""

import pytest
from transformers import AutoProcessor
from transformers.models.auto.video_processing_auto import AutoVideoProcessor
from transformers.processing_utils import ProcessorMixin

from qualm.runners.inference.hf.still_images import NoVideos, still_images_only
from tests.support.models.tiny_models import FAMILIES

WITH_VIDEOS = ["internvl", "llava_onevision", "qwen2_5_vl", "qwen2_vl", "qwen3_vl", "smolvlm"]


@pytest.mark.parametrize("family", ["qwen2_vl", "smolvlm"])
def test_a_processor_loads_without_its_video_half(family, tmp_path):
    folder = FAMILIES[family](tmp_path / family)
    with still_images_only():
        processor = AutoProcessor.from_pretrained(folder, backend="pil", local_files_only=True)
    assert processor.image_processor is not None and processor.tokenizer is not None
    assert not processor.video_processor


def test_transformers_is_as_it_was_afterwards(tmp_path):
    before = ProcessorMixin.check_argument_for_proper_class, AutoVideoProcessor.__dict__["from_pretrained"]
    with pytest.raises(RuntimeError, match="stop"), still_images_only():
        assert AutoVideoProcessor.from_pretrained("anything", some="argument") == {}
        raise RuntimeError("stop")
    assert (ProcessorMixin.check_argument_for_proper_class, AutoVideoProcessor.__dict__["from_pretrained"]) == before


def test_only_an_absent_video_processor_is_let_through(tmp_path):
    folder = FAMILIES["qwen2_vl"](tmp_path / "qwen2_vl")
    with still_images_only():
        processor = AutoProcessor.from_pretrained(folder, backend="pil", local_files_only=True)
        assert processor.check_argument_for_proper_class("video_processor", None) is None
        assert processor.check_argument_for_proper_class("video_processor", NoVideos()) is None
        assert processor.check_argument_for_proper_class("tokenizer", processor.tokenizer) is not None
        for name, value in (("tokenizer", None), ("tokenizer", NoVideos()), ("image_processor", None)):
            with pytest.raises(TypeError, match=name):
                processor.check_argument_for_proper_class(name, value)


def test_a_video_processor_in_the_files_is_not_read(tmp_path):
    """With torchvision, transformers would look for one of the backend `pil`, which there is not."""
    folder = FAMILIES["qwen2_vl"](tmp_path / "qwen2_vl")
    (folder / "video_preprocessor_config.json").write_text('{"video_processor_type": "Qwen2VLVideoProcessor"}')
    with still_images_only():
        assert not AutoProcessor.from_pretrained(folder, backend="pil", local_files_only=True).video_processor


def test_a_video_processor_that_is_none_samples_nothing():
    empty = NoVideos()
    assert empty == {} and empty.num_frames is None and empty.fps is None
