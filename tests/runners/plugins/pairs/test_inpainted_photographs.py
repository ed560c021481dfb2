"""The paper's own two routes, GQA's and VQA's, on pictures that are no scenes: every model real, small and of random weights."""

import hashlib
import io
import json
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch

from qualm.registry.sample import IMAGES, SAMPLES, Image, Sample
from qualm.runners.contracts.pairs import PairContext
from qualm.runners.plugins.pairs.inpainted import inpainted
from qualm.runners.runtime.records import read_table, write_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage
from qualm.runners.stages import pair
from tests.support.data.targets import noise
from tests.support.models.tiny_masks import tiny_detector, tiny_segmenter
from tests.support.servers.small_server import serving

SIZES = [(64, 48), (80, 60), (64, 64), (1, 1), (50, 70)]


class Grey(torch.nn.Module):
    def forward(self, image: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return image * (1 - mask) + 0.5 * mask


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    (root / "lama").mkdir()
    torch.jit.script(Grey()).save(str(root / "lama/big-lama.pt"))
    digest = hashlib.sha256((root / "lama/big-lama.pt").read_bytes()).hexdigest()
    lama = {"plugin": "lama", "args": {"artifact": str(root / "lama"), "sha256": digest}}
    sam = {"segmenter": str(tiny_segmenter(root / "sam"))}
    both = {**sam, "detector": str(tiny_detector(root / "dino"))}
    return lama, {"plugin": "grounded_sam", "args": sam}, {"plugin": "grounded_sam", "args": both}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Pictures of all sizes, one of them broken, with GQA's files beside them."""
    monkeypatch.chdir(tmp_path)
    pictures, rows, graphs, questions = [], [], {}, {}
    for i, (width, height) in enumerate(SIZES):
        with io.BytesIO() as out:
            noise(width, height, i).save(out, "PNG" if i % 2 else "JPEG")
            pictures.append({"image_id": f"n{i}", "image": {"bytes": out.getvalue(), "path": f"n{i}.jpg"}})
        objects = {
            "1": {"name": "dog", "x": 5, "y": 5, "w": 12, "h": 12},
            "2": {"name": "dog", "x": 30, "y": 20, "w": 9, "h": 14},
            "3": {"name": "cat", "x": 40, "y": 38, "w": 8, "h": 6},
        }
        graphs[f"n{i}"] = {"width": width, "height": height, "objects": objects}
        questions[f"q{i}"] = {"semantic": [], "annotations": {"question": {"4": "1"}}}
        base = {"references": ["brown"], "answerable": True, "split": "train", "group": ""}
        rows.append({**base, "sample_id": f"q{i}", "image_id": f"n{i}", "question": "What color is the dog?"})
    pictures.append({"image_id": "broken", "image": {"bytes": b"\xff\xd8 no", "path": "x"}})
    rows.append({**rows[0], "sample_id": "q9", "image_id": "broken"})
    graphs["broken"], questions["q9"] = graphs["n0"], questions["q0"]
    write_table(tmp_path / "set/images/00000.parquet", pictures, IMAGES)
    write_table(tmp_path / "set/samples.parquet", rows, SAMPLES)
    (tmp_path / "set/val_sceneGraphs.json").write_text(json.dumps(graphs))
    (tmp_path / "set/val_balanced_questions.json").write_text(json.dumps(questions))
    return tmp_path / "set"


def make(folder, **args):
    context = PairContext({"photos": folder}, 7, "vqa", Settings(device="cpu", workers=2, batch_size=2, progress=False))
    made = list(inpainted(context, dataset="photos", dilate=3, largest=1.0, **args))
    return context, [m for m in made if isinstance(m, Sample)], {m.image_id: m for m in made if isinstance(m, Image)}


def check(folder, samples, images, sizes):
    for first, second in zip(samples[::2], samples[1::2], strict=True):
        painted = PIL.Image.open(io.BytesIO(images[second.image_id].data))
        assert painted.size == sizes[first.group]
        assert first.references == ("brown",) and not second.answerable
        assert first.group == second.group == first.image_id and "proof" not in first.meta


def test_gqa_through_boxes_sam_and_lama(folder, models):
    lama, sam, _ = models
    sizes = {f"n{i}": size for i, size in enumerate(SIZES)}
    context, samples, images = make(folder, saliency="gqa", mask=sam, inpaint=lama)
    assert samples and context.dropped["out of frame"] == context.dropped["image cannot be decoded"] == 1
    check(folder, samples, images, sizes)
    assert len(samples) // 2 + sum(context.dropped.values()) == len(SIZES) + 1
    assert context.notes["inpainting"]["removal"] is None
    again = make(folder, saliency="gqa", mask=sam, inpaint=lama)  # from what is kept
    assert ([*again[1]], {k: v.data for k, v in again[2].items()}) == ([*samples], {k: v.data for k, v in images.items()})


def test_gqas_boxes_alone_with_another_thing_as_control(folder, models):
    context, samples, images = make(folder, saliency="gqa", mask="boxes", inpaint=models[0], control=True)
    assert samples and len(images) == len(samples)
    for first, second in zip(samples[::2], samples[1::2], strict=True):
        assert first.meta["removed"] == "cat" and second.meta["removed"] == "dog"
        index = int(first.group[1:])
        control, painted = (np.asarray(PIL.Image.open(io.BytesIO(images[s.image_id].data))) for s in (first, second))
        assert (painted[6:16, 6:16] == 128).all() and (painted[21:33, 31:38] == 128).all()
        assert not (control[6:16, 6:16] == 128).all() and (control[39:43, 41:47] == 128).all()
        assert control.shape[:2] == SIZES[index][::-1]
    assert context.dropped["out of frame"] == 1


def test_vqa_through_a_language_model_grounding_dino_sam_and_telea(folder, models):
    _, _, both = models

    def script(body, nth):
        return "Relevant object: the brown dog"

    with serving(script) as server:
        asked = {"plugin": "openai", "args": {"model": "m", "base_url": server.url}}
        saliency = {"plugin": "question_llm", "args": {"generator": asked}}
        context, samples, images = make(folder, saliency=saliency, mask=both)
    assert samples
    check(folder, samples, images, {f"n{i}": size for i, size in enumerate(SIZES)})
    assert len(samples) // 2 + sum(context.dropped.values()) == len(SIZES) + 1
    assert all(s.meta["object"] == "dog" for s in samples)
    controlled, pairs, pictures = make(folder, saliency=saliency, mask=both, control=True)
    assert not pairs and not pictures, "masks of random weights leave no other place free"
    assert controlled.dropped["no other thing as a control"] == len(samples) // 2 > 0


def test_a_limit_paints_no_more_than_it_takes(folder, models):
    lama, _, _ = models
    args = {"dataset": "photos", "saliency": "gqa", "mask": "boxes", "inpaint": lama, "dilate": 3, "largest": 1.0}
    params = {"plugin": "inpainted", "label": "vqa", "args": args, "about": {}, "limit": {"": 2}}
    settings = Settings(device="cpu", workers=1, progress=False)
    stage = Stage("s/pair", "s", "pair", "pair", params, {"datasets": {"photos": str(folder)}}, {"pairs": "pairs"}, 7, settings)
    pair.run(stage)
    assert read_table(Path("pairs/samples.parquet"), SAMPLES).num_rows == 4
    assert read_table(Path("pairs/images"), IMAGES).num_rows == 2
    assert stage.counters["pairs"] == 2 and sum(stage.counters[name] for name in stage.counters if name.startswith("dropped")) < 4
