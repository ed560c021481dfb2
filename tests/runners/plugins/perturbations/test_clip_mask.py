"""clip_mask on a tiny random CLIP: its maps against attention worked out by hand, the mask and the picture against the formulas; and on
one that was trained for seconds: what is darkened is what the question names."""

import shutil
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image

from qualm.runners.contracts.perturbations import PerturbContext, PerturbError
from qualm.runners.plugins.perturbations.clip_mask import Clip, clip_mask, relevance_mask
from qualm.runners.runtime.settings import Settings
from tests.support.checks.perturbation_checks import picture, rng
from tests.support.data.hostile import questions
from tests.support.models.tiny_clip import GRID, HEADS, PATCH, SIDE, WIDTH, tiny_clip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_clip(tmp_path_factory.mktemp("clip"))


@pytest.fixture(scope="module")
def clip(folder):
    return Clip(folder, "cpu")


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


class By(NamedTuple):
    attention: np.ndarray
    patches: np.ndarray
    added: np.ndarray


def attention_by_hand(folder, image, layer):
    """The class token's attention to the patches, in NumPy from the weights alone; the patches in CLIP's space; and what each adds there
    to the class token through this layer, the last norm's division undone."""
    from qualm.runners.training.pictures import MEAN, STD

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
    found, added = [], []
    for i in range(3):
        at = f"encoder.layers.{i}"
        y = norm(x, f"{at}.layer_norm1")
        q, k, v = (linear(y, f"{at}.self_attn.{n}_proj").reshape(-1, HEADS, WIDTH // HEADS) for n in "qkv")
        scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(WIDTH // HEADS)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        found.append(shares[:, 0, 1:].mean(axis=0))
        given = np.einsum("hj,jhd->jhd", shares[:, 0], v).reshape(-1, WIDTH)  # what the class token takes from each place
        added.append(given[1:] @ w[f"{at}.self_attn.out_proj.weight"].T)
        x = x + linear(np.einsum("hij,jhd->ihd", shares, v).reshape(-1, WIDTH), f"{at}.self_attn.out_proj")
        y = linear(norm(x, f"{at}.layer_norm2"), f"{at}.mlp.fc1")
        x = x + linear(y / (1 + np.exp(-1.702 * y)), f"{at}.mlp.fc2")
    spread = np.sqrt(x[0].var() + 1e-5)
    projected = ((added[layer] - added[layer].mean(-1, keepdims=True)) / spread * w["post_layernorm.weight"]) @ w[
        "visual_projection.weight"
    ].T
    return By(found[layer].reshape(GRID, GRID), norm(x[1:], "post_layernorm") @ w["visual_projection.weight"].T, projected * spread)


@pytest.mark.parametrize("layer", [0, 1, 2, -1, -2, -3])
def test_the_map_is_the_class_tokens_attention(folder, clip, layer):
    image = picture(size=(50, 40))
    got = clip.relevance(image, "", "class_attention", layer)
    want = attention_by_hand(folder, image, layer).attention
    assert np.ptp(want) > 1e-3 and np.allclose(got, want, atol=2e-5)


@cache
def text_by_transformers(folder, question):
    import torch
    from transformers import AutoTokenizer, CLIPModel

    tokenizer, model = AutoTokenizer.from_pretrained(folder), CLIPModel.from_pretrained(folder)
    with torch.no_grad():
        read = model.text_model(**tokenizer(question + tokenizer.eos_token, return_tensors="pt"))
        return model.text_projection(read.last_hidden_state[0]).numpy(), model.text_projection(read.pooler_output)[0].numpy()


@pytest.mark.parametrize("layer", [0, 1, -1, -2])
def test_the_map_of_a_question_is_what_each_patch_adds_to_its_likeness(folder, clip, layer):
    image = picture(size=(50, 40))
    got = clip.relevance(image, "Which one?", "contribution", layer)
    _, text = text_by_transformers(folder, "Which one?")
    want = attention_by_hand(folder, image, layer).added @ text
    assert np.ptp(want) > 1e-3 and np.allclose(got.ravel(), want, atol=2e-5)


def test_the_papers_formula(folder, clip):
    image = picture(size=(50, 40))
    got = clip.relevance(image, "Which one?", "similarity", -2)
    tokens, _ = text_by_transformers(folder, "Which one?")
    scores = attention_by_hand(folder, image, 0).patches @ tokens.T / np.sqrt(WIDTH)
    shares = np.exp(scores) / np.exp(scores).sum(axis=0)
    assert np.allclose(got.ravel(), shares.mean(axis=1), atol=2e-5)


def smoothed_by_hand(scaled, weights):
    """Each axis weighted by hand, edges repeated."""
    reach = len(weights) // 2
    for _ in range(2):
        padded = np.pad(scaled, ((reach, reach), (0, 0)), mode="edge")
        scaled = sum(w * padded[i : i + len(scaled)] for i, w in enumerate(weights)).T
    return scaled


GAUSSIAN = np.exp(-(np.arange(-4.0, 5.0) ** 2) / 2)
WIDE = np.exp(-(np.arange(-8.0, 9.0) ** 2) / 8)


@pytest.mark.parametrize(
    ("args", "weights"),
    [({}, GAUSSIAN), ({"sigma": 2.0}, WIDE), ({"smooth": "box"}, np.ones(3)), ({"smooth": "box", "sigma": 2.0}, np.ones(3))],
)
def test_the_mask_is_scaled_smoothed_and_grown(args, weights):
    relevance = np.random.default_rng(0).random((4, 4)) * 7 - 3
    scaled = (relevance - relevance.min()) / (relevance.max() - relevance.min())
    smooth = smoothed_by_hand(scaled, weights / weights.sum())
    made = relevance_mask(relevance, (40, 20), **args)
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
    assert not relevance_mask(np.full((4, 4), 0.0625), (9, 5)).any()
    assert not relevance_mask(np.full((4, 4), np.nan), (9, 5)).any()


@pytest.mark.parametrize("strength", [1.0, 0.4])
def test_the_picture_is_darkened_by_the_formula(folder, clip, strength):
    image = picture(size=(50, 40))
    m = relevance_mask(clip.relevance(image, "What is it?", "contribution", -2), image.size)
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


QUESTIONS = ["Is it red?", "How many spheres are there?", "What is left of the cube?"]


@pytest.mark.parametrize(("relevance", "reads"), [("contribution", True), ("similarity", True), ("class_attention", False)])
def test_three_questions_on_one_picture_and_one_question_on_three(folder, clip, relevance, reads):
    asked = {image.tobytes() for image in apply(folder, [picture()] * 3, QUESTIONS, relevance=relevance)}
    assert len(asked) == (3 if reads else 1)
    pictures = [picture(i, (40, 30)) for i in range(3)]
    shown = [relevance_mask(clip.relevance(p, QUESTIONS[0], relevance, -2), p.size).tobytes() for p in pictures]
    assert len(set(shown)) == 3


@pytest.mark.parametrize("relevance", ["contribution", "similarity"])
def test_a_question_of_no_word_darkens_nothing(folder, relevance):
    assert apply(folder, [picture()], [""], relevance=relevance)[0].tobytes() == picture().tobytes()


def test_questions_take_a_tokenizer(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "mute", ignore=shutil.ignore_patterns("tokenizer*", "vocab*", "special*"))
    with pytest.raises(PerturbError, match="has no tokenizer to read questions with; `relevance: class_attention` needs none"):
        apply(tmp_path / "mute", [picture()])
    assert apply(tmp_path / "mute", [picture()], relevance="class_attention")


COLOURS = {"red": (220, 30, 30), "green": (30, 170, 40), "blue": (30, 60, 220), "yellow": (250, 230, 40), "purple": (140, 40, 200)}


def two_squares(rng):
    """Two squares of different colours in two cells of a grid of four by four; the colours, and the squares' places."""
    names = [str(n) for n in rng.permutation(list(COLOURS))[:2]]
    pixels = rng.normal(128, 6, (SIDE, SIDE, 3))
    cells = [(int(c) // GRID, int(c) % GRID) for c in rng.permutation(GRID * GRID)[:2]]
    for name, (y, x) in zip(names, cells, strict=True):
        pixels[y * PATCH : (y + 1) * PATCH, x * PATCH : (x + 1) * PATCH] = COLOURS[name]
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8)), names, cells


STEPS = 150


@pytest.fixture(scope="module")
def seeing(tmp_path_factory):
    """A CLIP that has learnt in seconds which picture goes with which two colours; it has never read a question."""
    import torch

    from qualm.runners.training.data import build_tokenizer
    from qualm.runners.training.matching import build_clip, image_processor

    place, tokenizer = tmp_path_factory.mktemp("seeing"), build_tokenizer([" ".join(COLOURS)])
    torch.manual_seed(0)
    rng, processor = np.random.default_rng(0), image_processor(SIDE)
    model = build_clip(tokenizer, pixels=SIDE, patch=PATCH, width=32, layers=2, heads=2)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    for _ in range(STEPS):
        shown = {" ".join(sorted(names)): image for image, names, _ in (two_squares(rng) for _ in range(24))}
        words = tokenizer([text + tokenizer.eos_token for text in shown], return_tensors="pt", padding=True, padding_side="right")
        pixels = processor(list(shown.values()), return_tensors="pt")["pixel_values"]
        loss = model(input_ids=words["input_ids"], attention_mask=words["attention_mask"], pixel_values=pixels, return_loss=True).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for part in (model, processor, tokenizer):
        part.save_pretrained(place)
    return place


@pytest.mark.slow
def test_what_is_darkened_is_what_the_question_names(seeing):
    """Of two squares the one that is named, in pictures that were not trained on; what does not read the question is at chance."""
    rng, clip = np.random.default_rng(1), Clip(seeing, "cpu")
    hits = {"contribution": 0, "class_attention": 0}
    for number in range(60):
        image, names, cells = two_squares(rng)
        named = number % 2
        for relevance in hits:
            darkened = relevance_mask(clip.relevance(image, f"Where is the {names[named]} square?", relevance, -2), image.size)
            of = [darkened[y * PATCH : (y + 1) * PATCH, x * PATCH : (x + 1) * PATCH].mean() for y, x in cells]
            hits[relevance] += of[named] > of[1 - named]
    print(hits)
    assert hits["contribution"] >= 50 and hits["class_attention"] <= 42, hits


@pytest.mark.slow
def test_hostile_questions_are_cut_to_what_clip_can_read(folder):
    asked = [q for q in questions() if len(q) < 3] + ["x " * 50_000, "😀" * 50_000]
    made = apply(folder, [picture(size=(8, 8))] * len(asked), asked, relevance="contribution")
    assert all(image.size == (8, 8) for image in made)


def test_what_is_no_clip_is_refused(folder, tmp_path):
    import json

    with pytest.raises(PerturbError, match=r"layer: expected 0 to 2, the layers of .*, or -1 to -3 from the end, got 3"):
        apply(folder, [picture()], layer=3)
    with pytest.raises(PerturbError, match=r"expected config.json"):
        apply(tmp_path / "absent", [picture()])
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.json").write_text(json.dumps({"model_type": "siglip"}))
    (tmp_path / "other" / "model.safetensors").write_bytes(b"")
    with pytest.raises(PerturbError, match="expected a model of type clip, got siglip"):
        apply(tmp_path / "other", [picture()])
