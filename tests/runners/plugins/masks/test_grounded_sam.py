"""With random weights nothing found means anything, so the numbers are held to the models' own raw outputs."""

import numpy as np
import pytest

from qualm.runners.contracts.pairs import PairError
from qualm.runners.contracts.saliency import Thing
from qualm.runners.plugins.masks.grounded_sam import _GroundedSam, detector_query, grounded_sam
from tests.support.data.targets import context, noise, wanted
from tests.support.models.tiny_masks import tiny_detector, tiny_segmenter


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    return {"detector": str(tiny_detector(root / "detector")), "segmenter": str(tiny_segmenter(root / "segmenter"))}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def batch():
    return [
        wanted(noise(64, 64, 1), "Red Cube"),
        wanted(noise(80, 60, 2), "dog"),
        wanted(noise(64, 64, 3), "cat"),
        wanted(noise(64, 64, 4), "cat", boxes=[(3, 3, 20, 20.5), (40, 10, 30, 9)]),
    ]


@pytest.mark.parametrize(("name", "text"), [("Red Cube", "red cube."), (" the U.S. flag. ", "the u s flag."), ("dog", "dog.")])
def test_queries_are_lower_case_and_end_in_one_period(name, text):
    assert detector_query(Thing(name, name)) == detector_query(Thing("other", "others", query=name)) == text


def test_boxes_are_those_whose_score_is_above_the_threshold(models):
    """Recomputed from the raw logits: the highest sigmoid over the words of the query, boxes from centre and size."""
    import torch

    masker = grounded_sam(context(), **models)
    item = batch()[0]
    processor, model = masker._open("detector", masker.detector)
    inputs = processor(images=[item.picture], text=["red cube."], return_tensors="pt")
    with torch.inference_mode():
        out = model(**inputs)
    scores = out.logits[0].sigmoid().amax(-1)
    masker.box_threshold = float(scores.median())
    (found,) = masker._detect([item])
    x, y, w, h = (out.pred_boxes[0][scores > masker.box_threshold] * 64).unbind(1)
    expected = torch.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], 1)
    assert 0 < len(found) < len(scores)
    np.testing.assert_allclose(np.array(found), expected.numpy(), atol=1e-4)


def test_the_mask_is_the_union_of_sams_masks_of_the_boxes(models):
    import torch

    masker = grounded_sam(context(), segmenter=models["segmenter"])
    item = batch()[3]
    (mask,) = masker([item])
    processor, model = masker._open("segmenter", masker.segmenter)
    union = np.zeros((64, 64), bool)
    for corners in ([3.0, 3, 23, 23.5], [40.0, 10, 64, 19]):  # the second box is cut off at the edge
        inputs = processor(images=[item.picture], input_boxes=[[corners]], return_tensors="pt")
        with torch.inference_mode():
            low = model(pixel_values=inputs["pixel_values"], input_boxes=inputs["input_boxes"].float(), multimask_output=False).pred_masks
        full = torch.nn.functional.interpolate(low[0], (64, 64), mode="bilinear", align_corners=False)
        union |= (full[0, 0] > 0).numpy()
    assert mask.any() and (mask == union).all()


def test_nothing_found_and_boxes_outside_are_reasons_and_no_masks(models):
    masker = grounded_sam(context(), **models, box_threshold=1.0)
    items = [wanted(noise(64, 64), "dog"), wanted(noise(64, 64), "dog", boxes=[(99, 99, 5, 5)])]
    assert masker(items) == ["no box", "out of frame"]


def test_what_was_made_is_kept_by_content(models, monkeypatch):
    first = grounded_sam(context(), **models)(batch())
    monkeypatch.setattr(_GroundedSam, "_make", lambda *_: pytest.fail("made again"))
    again = grounded_sam(context(batch_size=2), **models)(batch()[::-1])[::-1]
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    with pytest.raises(pytest.fail.Exception, match="made again"):
        grounded_sam(context(), **models, box_threshold=0.4)(batch())
    with pytest.raises(pytest.fail.Exception, match="made again"):
        grounded_sam(context(), **models)([wanted(noise(64, 64, 99), "dog")])


def test_equal_requests_are_made_once(models, monkeypatch):
    counted = []
    make = _GroundedSam._make
    monkeypatch.setattr(_GroundedSam, "_make", lambda self, items, given: counted.append(len(items)) or make(self, items, given))
    grounded_sam(context(), **models)([batch()[0]] * 5)
    assert counted == [1]


def test_missing_models_missing_weights_and_pickles_are_refused(models, tmp_path):
    with pytest.raises(PairError, match=r"no boxes are known for 'dog' .*; name a detector"):
        grounded_sam(context(), segmenter=models["segmenter"])([batch()[1]])
    with pytest.raises(PairError, match=r"expected config\.json"):
        grounded_sam(context(), segmenter=str(tmp_path / "nowhere"))
    only = tmp_path / "pickled"
    only.mkdir()
    (only / "config.json").write_text("{}")
    (only / "pytorch_model.bin").write_bytes(b"\x80")
    with pytest.raises(PairError, match=r"expected weights as \*.safetensors"):
        grounded_sam(context(), segmenter=str(only))
    with pytest.raises(PairError, match=r"detector .*(cannot be read|expected a processor)"):
        grounded_sam(context(), segmenter=models["segmenter"], detector=models["segmenter"])([batch()[1]])
