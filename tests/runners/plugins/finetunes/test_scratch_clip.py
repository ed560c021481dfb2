import numpy as np
import pytest
import torch
from PIL import Image

import qualm.runners.stages.data as data
from qualm.runners.contracts.finetunes import FinetuneContext, FinetuneError
from qualm.runners.plugins.finetunes.scratch_clip import scratch_clip
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage
from qualm.runners.training.matching import listing
from tests.support.data.scenes_folder import ABOUT

TINY = {"steps": 6, "batch": 4, "width": 32, "layers": 2, "heads": 2, "patch": 16}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("scenes")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        for name, count in (("train", 30), ("heldout", 12)):
            args = {"level": "easy", "format": "open", "train": count, "val": 0, "test": 0, "questions": 1, "kinds": None}
            params = {
                "dataset": name,
                "card": "synthetic_scenes",
                "adapter": "synthetic_scenes",
                "args": args,
                "limit": None,
                "about": ABOUT,
            }
            outputs = {"dataset": f"d/{name}", "card": f"d/{name}.md"}
            data.run(Stage(f"s/{name}", "s", name, "data", params, {}, outputs, 7, Settings(workers=1, progress=False)))
    return {name: root / "d" / name for name in ("train", "heldout")}


@pytest.fixture(scope="module")
def recipe(folders):
    return scratch_clip(FinetuneContext(folders, 7), train=["train"], heldout="heldout", **TINY)


@pytest.mark.slow
def test_batches_depend_on_the_step_alone_and_hold_no_list_twice(recipe, folders):
    again = scratch_clip(FinetuneContext(folders, 7), train=["train"], **TINY)
    for step in (5, 0, 3):
        one, two = recipe.batches(step), again.batches(step)
        assert all(torch.equal(one[k], two[k]) for k in one)
        assert len({tuple(row) for row in one["input_ids"].tolist()}) == len(one["pixel_values"]) == 4


def test_a_listing_names_the_objects_from_left_to_right():
    things = [
        {"size": "large", "color": "red", "material": "metal", "shape": "cube", "pixel_coords": [40, 10, 9]},
        {"size": "small", "color": "blue", "material": "rubber", "shape": "sphere", "pixel_coords": [20, 10, 9]},
    ]
    first, second = listing({"level": "easy", "objects": things}).split(", ")
    assert "sphere" in first and "blue" in first and "cube" in second and "red" in second


def test_learns_and_loads_as_a_plain_clip(recipe, tmp_path):
    from transformers import AutoTokenizer, CLIPModel

    optimizer = torch.optim.AdamW(recipe.module.parameters(), 3e-3)
    before = recipe.module.model(**recipe.batches(0), return_loss=True).loss.item()
    for step in range(30):
        loss = recipe.module.model(**recipe.batches(step), return_loss=True).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert recipe.module.model(**recipe.batches(0), return_loss=True).loss.item() < before
    assert 0 <= recipe.evaluate()["heldout/matched"] <= 1
    recipe.save(tmp_path, {})
    loaded = CLIPModel.from_pretrained(tmp_path)
    given = recipe.batches(1)
    assert torch.allclose(loaded(**given).logits_per_image, recipe.module.model.eval()(**given).logits_per_image, atol=1e-5)
    ids = AutoTokenizer.from_pretrained(tmp_path)("a red cube</s>")["input_ids"]
    assert ids[-1] == loaded.config.text_config.eos_token_id


def test_the_image_processor_makes_what_it_was_trained_on(recipe, tmp_path):
    from transformers import CLIPImageProcessorPil

    from qualm.runners.training.pictures import normalise

    recipe.save(tmp_path, {})
    pixels = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    made = CLIPImageProcessorPil.from_pretrained(tmp_path)(Image.fromarray(pixels), return_tensors="np")["pixel_values"]
    np.testing.assert_allclose(made, normalise(pixels[None]), atol=1e-5)


def test_data_without_scenes_is_refused(tmp_path):
    with pytest.raises(FinetuneError, match="expected CLEVR scenes files"):
        scratch_clip(FinetuneContext({"train": tmp_path}, 7), train=["train"], **TINY)
