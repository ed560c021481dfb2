"""clip_mask on a tiny random CLIP: its map against attention worked out by hand, the mask and the picture against the formulas."""

import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import uniform_filter

from qualm.runners.contracts.perturbations import PerturbContext, PerturbError
from qualm.runners.plugins.perturbations.clip_mask import Clip, clip_mask, mask
from qualm.runners.runtime.settings import Settings
from tests.support.checks.perturbation_checks import picture, rng
from tests.support.data.hostile import questions
from tests.support.models.tiny_clip import GRID, HEADS, PATCH, SIDE, WIDTH, tiny_clip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_clip(tmp_path_factory.mktemp("clip"))


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def context():
    return PerturbContext(Settings(device="cpu", progress=False), 7, "v")


def apply(folder, images, asked=None, **args):
    asked = asked or ["What is it?"] * len(images)
    made = clip_mask(context(), list(zip(images, asked, strict=True)), [rng()] * len(images), artifact=str(folder), **args)
    assert [q for _, q in made] == asked
    return [image for image, _ in made]


def weights(folder):
    from safetensors.numpy import load_file

    return {k.removeprefix("vision_model."): v.astype(np.float64) for k, v in load_file(folder / "model.safetensors").items()}


def attention_by_hand(folder, image, layer):
    """The class token's attention to the patches, in NumPy from the weights alone; also the last states before the final norm."""
    from qualm.runners.training.small_vlm.pictures import MEAN, STD

    w = weights(folder)

    def norm(x, name):
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return x * w[f"{name}.weight"] + w[f"{name}.bias"]

    def linear(x, name):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    pixels = np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BICUBIC), dtype=np.float64) / 255
    pixels = (pixels - MEAN) / STD
    blocks = pixels.reshape(GRID, PATCH, GRID, PATCH, 3).transpose(0, 2, 4, 1, 3).reshape(GRID * GRID, -1)
    patches = blocks @ w["embeddings.patch_embedding.weight"].reshape(WIDTH, -1).T
    x = np.concatenate([w["embeddings.class_embedding"][None], patches]) + w["embeddings.position_embedding.weight"]
    x = norm(x, "pre_layrnorm")
    found = []
    for i in range(3):
        at = f"encoder.layers.{i}"
        y = norm(x, f"{at}.layer_norm1")
        q, k, v = (linear(y, f"{at}.self_attn.{n}_proj").reshape(-1, HEADS, WIDTH // HEADS) for n in "qkv")
        scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(WIDTH // HEADS)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        found.append(shares[:, 0, 1:].mean(axis=0))
        x = x + linear(np.einsum("hij,jhd->ihd", shares, v).reshape(-1, WIDTH), f"{at}.self_attn.out_proj")
        y = linear(norm(x, f"{at}.layer_norm2"), f"{at}.mlp.fc1")
        x = x + linear(y / (1 + np.exp(-1.702 * y)), f"{at}.mlp.fc2")
    return found[layer].reshape(GRID, GRID), norm(x[1:], "post_layernorm") @ w["visual_projection.weight"].T


@pytest.mark.parametrize("layer", [0, 1, 2, -1, -2, -3])
def test_the_map_is_the_class_tokens_attention(folder, layer):
    image = picture(size=(50, 40))
    got = Clip(folder, "cpu").relevance(image, "", "class_attention", layer)
    want, _ = attention_by_hand(folder, image, layer)
    assert np.ptp(want) > 1e-3 and np.allclose(got, want, atol=2e-5)


def test_the_map_of_a_question_is_the_papers_formula(folder):
    import torch
    from transformers import AutoTokenizer, CLIPModel

    image = picture(size=(50, 40))
    got = Clip(folder, "cpu").relevance(image, "Which one?", "question", -2)
    _, patches = attention_by_hand(folder, image, 0)
    words = AutoTokenizer.from_pretrained(folder)("Which one?", return_tensors="pt")
    model = CLIPModel.from_pretrained(folder)
    with torch.no_grad():
        tokens = model.text_projection(model.text_model(**words).last_hidden_state[0]).numpy()
    scores = patches @ tokens.T / np.sqrt(WIDTH)
    shares = np.exp(scores) / np.exp(scores).sum(axis=0)
    assert np.allclose(got.ravel(), shares.mean(axis=1), atol=2e-5)


def test_the_mask_is_scaled_smoothed_and_grown():
    relevance = np.random.default_rng(0).random((4, 4)) * 7 - 3
    scaled = (relevance - relevance.min()) / (relevance.max() - relevance.min())
    smooth = uniform_filter(scaled, 3, mode="nearest")
    made = mask(relevance, (40, 20))
    assert made.shape == (20, 40) and made.min() >= 0 and made.max() <= 1
    centres = np.clip((np.arange(40) + 0.5) / 10 - 0.5, 0, 3), np.clip((np.arange(20) + 0.5) / 5 - 0.5, 0, 3)
    x0, y0 = (np.minimum(c.astype(int), 2) for c in centres)
    fx, fy = centres[0] - x0, (centres[1] - y0)[:, None]
    want = (
        smooth[np.ix_(y0, x0)] * (1 - fx) * (1 - fy) + smooth[np.ix_(y0, x0 + 1)] * fx * (1 - fy)
        + smooth[np.ix_(y0 + 1, x0)] * (1 - fx) * fy + smooth[np.ix_(y0 + 1, x0 + 1)] * fx * fy
    )  # fmt: skip
    assert np.allclose(made, want, atol=1e-6)


def test_a_constant_map_masks_nothing():
    assert not mask(np.full((4, 4), 0.0625), (9, 5)).any()
    assert not mask(np.full((4, 4), np.nan), (9, 5)).any()


@pytest.mark.parametrize("strength", [1.0, 0.4])
def test_the_picture_is_darkened_by_the_formula(folder, strength):
    image = picture(size=(50, 40))
    m = mask(Clip(folder, "cpu").relevance(image, "", "class_attention", -2), image.size)
    (made,) = apply(folder, [image], strength=strength)
    assert np.array_equal(np.asarray(made), np.rint((1 - strength * m)[..., None] * np.asarray(image)))
    assert np.asarray(made).mean() < np.asarray(image).mean() and (made.size, made.mode) == (image.size, "RGB")


def test_no_strength_changes_nothing(folder):
    assert apply(folder, [picture()], strength=0.0)[0].tobytes() == picture().tobytes()


def test_neighbours_order_and_what_is_kept_change_nothing(folder):
    images = [picture(i, size) for i, size in enumerate([(1, 1), (3, 70), (40, 30)])]
    together = [i.tobytes() for i in apply(folder, images)]
    assert [apply(folder, [i])[0].tobytes() for i in images] == together
    assert [i.tobytes() for i in apply(folder, images[::-1])][::-1] == together
    assert apply(folder, images[2:], relevance="question")[0].tobytes() != together[2]
    asked = [apply(folder, images[2:], [q], relevance="question")[0].tobytes() for q in ("Is it red?", "How many?")]
    assert asked[0] != asked[1]


def test_hostile_questions_are_cut_to_what_clip_can_read(folder):
    asked = [q for q in questions() if len(q) >= 100_000 or len(q) < 3]
    made = apply(folder, [picture(size=(8, 8))] * len(asked), asked, relevance="question")
    assert all(image.size == (8, 8) for image in made)


def test_what_is_no_clip_is_refused(folder, tmp_path):
    import json

    with pytest.raises(PerturbError, match=r"layer 3: .* has 3: 0 to 2, or negative"):
        apply(folder, [picture()], layer=3)
    with pytest.raises(PerturbError, match=r"expected config.json"):
        apply(tmp_path / "absent", [picture()])
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.json").write_text(json.dumps({"model_type": "siglip"}))
    (tmp_path / "other" / "model.safetensors").write_bytes(b"")
    with pytest.raises(PerturbError, match="expected a model of type clip, got siglip"):
        apply(tmp_path / "other", [picture()])
