import numpy as np
import pytest
import torch
from PIL import Image

import qualm.runners.stages.data as data
from qualm.runners.contracts.finetunes import FinetuneContext, FinetuneError
from qualm.runners.plugins.finetunes.scratch_vlm import scratch_vlm
from qualm.runners.prompts.question import messages
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage
from qualm.runners.training.pictures import normalise
from tests.support.data.scenes_folder import ABOUT

TINY = {
    "looking": 2,
    "steps": 6,
    "batch": 2,
    "questions": 2,
    "options": 1,
    "width": 32,
    "layers": 2,
    "heads": 2,
    "vision_layers": 1,
    "patch": 16,
}


def scenes(name, **arguments):
    args = {"level": "easy", "format": "open", "train": 0, "val": 0, "test": 0, "questions": 1, "kinds": None, **arguments}
    params = {"dataset": name, "card": "synthetic_scenes", "adapter": "synthetic_scenes", "args": args, "limit": None}
    params["about"], outputs = ABOUT, {"dataset": f"d/{name}", "card": f"d/{name}.md"}
    data.run(Stage(f"s/{name}", "s", name, "data", params, {}, outputs, 7, Settings(workers=1, progress=False)))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("scenes")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        scenes("train", train=30)
        scenes("open", test=8)
        scenes("options", test=8, format="multiple_choice")
    return {name: root / "d" / name for name in ("train", "open", "options")}


@pytest.fixture(scope="module")
def recipe(folders):
    return scratch_vlm(FinetuneContext(folders, 7), train=["train"], heldout=["open", "options"], **TINY)


@pytest.mark.slow
def test_batches_depend_on_the_step_alone(recipe, folders):
    again = scratch_vlm(FinetuneContext(folders, 7), train=["train"], **TINY)
    for step in (5, 0, 3):
        one, two = recipe.batches(step), again.batches(step)
        assert one.keys() == two.keys()
        assert all(torch.equal(one[k], two[k]) for k in one)
    assert "input_ids" not in recipe.batches(1) and "input_ids" in recipe.batches(2)
    other = scratch_vlm(FinetuneContext(folders, 8), train=["train"], **TINY)
    assert not torch.equal(other.batches(3)["input_ids"], recipe.batches(3)["input_ids"])


def test_questions_look_at_what_they_mean(recipe):
    batch, words = recipe.batches(5), recipe.batches.tokenizer.convert_ids_to_tokens
    for name in ("cells", "option"):
        b, _, last = batch[f"{name}_from"].T
        assert batch[f"{name}_to"].any(1).all()
        assert set(words(batch["input_ids"][b, last])) == {"<assistant>"}
    assert not batch["cells_to"][:, 17:].any()
    for (b, _, last), mask in zip(batch["option_from"], batch["option_to"], strict=True):
        letter, dot, *text = words(batch["input_ids"][b][mask])
        assert letter == words(int(batch["labels"][b, last])) and dot == "."
        assert not {"A", "B", "C", "D", "E", "F", "Answer"} & set(text)


def test_watched_attention_is_the_model_s_own(recipe):
    learner, batch = recipe.module, recipe.batches(5)
    learner.model.set_attn_implementation({"text_config": "eager"})
    weights = {}
    layers = learner.model.model.language_model.layers
    hooks = [layers[n].self_attn.register_forward_hook(lambda m, i, o, n=n: weights.__setitem__(n, o[1])) for n in learner.watched]
    with torch.no_grad():
        learner.answer_logits(batch)
        for name, number in zip(("cells", "option"), learner.watched, strict=True):
            b, head, last = batch[f"{name}_from"].T
            mine = learner._attention(number, batch[f"{name}_from"], batch["segment"])
            torch.testing.assert_close(mine, weights[number][b, head, last], atol=1e-6, rtol=1e-5)
    for hook in hooks:
        hook.remove()
    learner.model.set_attn_implementation({"text_config": "sdpa"})


def test_saved_model_is_a_plain_transformers_vlm(recipe, tmp_path):
    from transformers import AutoModelForImageTextToText, AutoProcessor

    recipe.save(tmp_path, {})
    assert (tmp_path / "model.safetensors").is_file()
    processor, model = AutoProcessor.from_pretrained(tmp_path), AutoModelForImageTextToText.from_pretrained(tmp_path).eval()
    assert type(model).__name__ == "LlavaForConditionalGeneration"
    prompt = processor.apply_chat_template(messages("Is there a cube?", ["yes", "no"]), add_generation_prompt=True)
    picture = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    inputs = processor(images=[Image.fromarray(picture)], text=[prompt], return_tensors="pt")
    torch.testing.assert_close(inputs["pixel_values"], torch.from_numpy(normalise(picture[None])), atol=1e-5, rtol=1e-5)
    teacher = recipe.batches
    expected = [*teacher.prefix, *teacher.encode([prompt.removeprefix("<user><image>")])[0]]
    assert inputs["input_ids"][0].tolist() == expected
    assert model.generate(**inputs, max_new_tokens=2).shape[1] <= len(expected) + 2


def test_exam_gives_shares_of_held_out_questions(recipe):
    shares = recipe.evaluate()
    assert set(shares) == {"heldout/open", "heldout/options"}
    assert all(0 <= v <= 1 for v in shares.values())


def test_data_without_scenes_is_an_error(tmp_path):
    with pytest.raises(FinetuneError, match="CLEVR scenes files"):
        scratch_vlm(FinetuneContext({"x": tmp_path}, 7), train=["x"])
    with pytest.raises(FinetuneError, match="not among this stage's inputs"):
        scratch_vlm(FinetuneContext({"x": tmp_path}, 7), train=["y"])
