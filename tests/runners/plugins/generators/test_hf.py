import io
import json
import shutil
from contextlib import chdir
from dataclasses import replace

import numpy as np
import PIL.Image
import pytest

from qualm.runners.contracts.generators import GeneratorError, chat
from qualm.runners.inference.generator import open_generator
from qualm.runners.runtime.settings import Settings
from tests.support.models.tiny_models import FAMILIES, tiny_llava, tiny_llm

SETTINGS = Settings(device="cpu", batch_size=4, progress=False)
QUESTIONS = ["What is in the picture?", "Why?", "How many red cubes are there in the picture of the small scene?", "Yes or no?"] * 2


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    return tiny_llm(tmp_path_factory.mktemp("llm") / "m")


@pytest.fixture(scope="module")
def vlm(tmp_path_factory):
    return tiny_llava(tmp_path_factory.mktemp("vlm") / "m")


@pytest.fixture(autouse=True)
def one_thread(tmp_path, monkeypatch):
    import torch

    torch.set_num_threads(1)
    monkeypatch.chdir(tmp_path)


def opened(folder, batch_size=4, cache="cache", **args):
    from pathlib import Path

    chosen = {"plugin": "hf", "args": {"artifact": str(folder), "dtype": None, **args}}
    return open_generator(chosen, replace(SETTINGS, batch_size=batch_size), Path(cache))


def png(seed):
    data = io.BytesIO()
    PIL.Image.fromarray(np.random.default_rng(seed).integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(data, "PNG")
    return data.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_text_does_not_depend_on_the_batch(llm, temperature):
    prompts = [chat(q) for q in QUESTIONS]
    seeds = list(range(len(prompts)))
    texts = []
    for size in (1, 3, 8):
        generator = opened(llm, size, f"cache{size}")
        texts.append([r.text for r in generator.complete(prompts, max_new_tokens=12, temperature=temperature, seeds=seeds)])
        assert generator.counters["replies computed"] == 8
    assert texts[0] == texts[1] == texts[2]
    assert all(texts[0])
    if temperature:
        assert len(set(texts[0])) == 8  # every seed its own


def test_short_prompts_are_filled_up_with_the_padding_token_or_the_end_where_there_is_none(llm, tmp_path):
    copy = shutil.copytree(llm, tmp_path / "copy")
    settings = json.loads((copy / "tokenizer_config.json").read_text())
    assert settings.pop("pad_token") == "<|pad|>"
    (copy / "tokenizer_config.json").write_text(json.dumps(settings))
    texts = []
    for folder, padding in ((llm, "<|pad|>"), (copy, "<|im_end|>")):
        generator = opened(folder, 8, f"cache {padding}")
        texts.append([r.text for r in generator.complete([chat(q) for q in QUESTIONS], max_new_tokens=6, seeds=range(8))])
        assert generator.engine._tokenizer.pad_token == padding
    assert texts[0] == texts[1]


def test_greedy_is_what_transformers_generates(llm):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(llm), AutoModelForCausalLM.from_pretrained(llm).eval()
    turns = [{"role": "user", "content": QUESTIONS[2]}]
    batch = tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    out = model.generate(**batch, do_sample=False, max_new_tokens=12)[0, batch["input_ids"].shape[1] :]
    expected = tokenizer.decode([t for t in out.tolist() if t != tokenizer.eos_token_id]).strip()
    (reply,) = opened(llm).complete([chat(QUESTIONS[2])], max_new_tokens=12)
    assert reply.text == expected
    assert reply.prompt_tokens == batch["input_ids"].shape[1]


def test_sampling_follows_the_softmax(llm):
    """First tokens of many seeds, against the probabilities of a plain forward pass."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(llm), AutoModelForCausalLM.from_pretrained(llm).eval()
    turns = [{"role": "user", "content": "Why?"}]
    batch = tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    with torch.no_grad():
        probs = torch.softmax(model(**batch).logits[0, -1].double() / 4.0, 0)
    n = 600
    generator = opened(llm, 500)
    replies = generator.complete([chat("Why?")] * n, max_new_tokens=1, temperature=4.0, seeds=list(range(n)))
    best = int(probs.argmax())
    share = sum(r.text == tokenizer.decode([best]).strip() for r in replies) / n
    p = sum(
        float(probs[t])
        for t in range(len(probs))
        if tokenizer.decode([t], skip_special_tokens=True).strip() == tokenizer.decode([best]).strip()
    )
    assert share == pytest.approx(p, abs=4 * (p * (1 - p) / n) ** 0.5)


def test_rerun_loads_nothing(llm):
    prompts = [chat(q) for q in QUESTIONS[:4]]
    first = opened(llm).complete(prompts, max_new_tokens=6)
    again = opened(llm)
    assert again.complete(prompts, max_new_tokens=6) == first
    assert again.engine._model is None
    assert dict(again.counters) == {"replies stored": 4}
    again.complete(prompts, max_new_tokens=7)
    assert again.counters["replies computed"] == 4


def test_pictures(vlm):
    prompts = [chat("what color ?", png(0)), chat("what color ?", png(1)), chat("how many ?"), chat("what color ?", png(0))]
    alone = [opened(vlm, 1, "one").complete([p], max_new_tokens=6)[0].text for p in prompts]
    generator = opened(vlm, 8)
    assert [r.text for r in generator.complete(prompts, max_new_tokens=6)] == alone
    assert generator.counters["replies computed"] == 3
    assert alone[0] == alone[3] != alone[1]


@pytest.mark.slow
@pytest.mark.parametrize("family", ["qwen2_vl", "idefics3"])
def test_other_families_of_models_that_see(family, tmp_path):
    folder = FAMILIES[family](tmp_path / "m")
    prompts = [chat("What color is it?", png(0)), chat("Why?"), chat("What?", png(1)), chat("What shape is the big thing?", png(2))]
    alone = [opened(folder, 1, "one").complete([p], max_new_tokens=6, temperature=0.5)[0].text for p in prompts]
    assert [r.text for r in opened(folder, 8).complete(prompts, max_new_tokens=6, temperature=0.5)] == alone


def test_a_broken_picture_is_a_reply_without_text(vlm):
    fine, broken = opened(vlm).complete([chat("what ?", png(0)), chat("what ?", png(0)[:100])], max_new_tokens=4)
    assert fine.text is not None
    assert broken.text is None
    assert "cannot be decoded" in broken.error


def test_a_prompt_that_is_too_long_is_a_reply_without_text(llm, tmp_path):
    fine, long = opened(llm).complete([chat("why ?"), chat("why ? " * 5000)], max_new_tokens=4)
    assert fine.text is not None
    assert long.finish == "rejected"
    assert "exceed the model's 4096" in long.error

    short = shutil.copytree(llm, tmp_path / "short")
    settings = json.loads((short / "config.json").read_text())
    limit = fine.prompt_tokens + 4
    (short / "config.json").write_text(json.dumps(settings | {"max_position_embeddings": limit}))
    (just,) = opened(short, cache="just").complete([chat("why ?")], max_new_tokens=4)
    assert just.text == fine.text
    with pytest.raises(GeneratorError, match=f"{fine.prompt_tokens} tokens of text and 5 of reply exceed the model's {limit}"):
        opened(short, cache="over").complete([chat("why ?")], max_new_tokens=5)


def test_wrong_folders(tmp_path, llm):
    with pytest.raises(GeneratorError, match=r"expected config.json"):
        opened(tmp_path / "nothing")
    with pytest.raises(GeneratorError, match="reads text only"):
        opened(llm).complete([chat("?", png(0))], max_new_tokens=2)
    bare = tmp_path / "bare"
    shutil.copytree(llm, bare)
    (bare / "chat_template.jinja").unlink()
    with chdir(tmp_path), pytest.raises(GeneratorError, match="has no chat template"):
        opened(bare).complete([chat("?")], max_new_tokens=2)


INSTRUCTIONS = "You are given a question and an answer. Say how right the answer is, in one number. " * 3


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_what_prompts_begin_with_is_read_once(llm, temperature):
    """And they are answered as if it had been read with each: by transformers' own loop, one prompt at a time."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    prompts = [chat(INSTRUCTIONS + q) for q in dict.fromkeys(QUESTIONS)]
    generator = opened(llm, 2)
    generator.engine._open()
    written, write = [], generator.engine._network.begin
    generator.engine._network.begin = lambda ids, *more: written.append([len(own) for own in ids]) or write(ids, *more)
    found = generator.complete(prompts, max_new_tokens=12, temperature=temperature)
    assert len(written) == 1
    assert len(written[0]) == 1  # one head for both batches
    generator.engine._network = None
    plain = opened(llm, 1, "cache of the plain loop")
    plain.engine._open()
    plain.engine._network = None
    assert [r.text for r in plain.complete(prompts, max_new_tokens=12, temperature=temperature)] == [r.text for r in found]
    if not temperature:
        tokenizer, model = AutoTokenizer.from_pretrained(llm), AutoModelForCausalLM.from_pretrained(llm).eval()
        for prompt, reply in zip(prompts, found, strict=True):
            turns = [{"role": "user", "content": prompt[0].text}]
            batch = tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_tensors="pt", return_dict=True)
            out = model.generate(**batch, do_sample=False, max_new_tokens=12)[0, batch["input_ids"].shape[1] :]
            assert reply.text == tokenizer.decode([t for t in out.tolist() if t != tokenizer.eos_token_id]).strip()
            assert reply.prompt_tokens == batch["input_ids"].shape[1]


def test_too_little_memory_halves_the_batch(llm):
    import torch

    whole = [r.text for r in opened(llm, 8, "enough").complete([chat(q) for q in QUESTIONS], max_new_tokens=6, seeds=range(8))]
    tight = opened(llm, 8, "tight")
    tight.engine._open()
    batch = tight.engine._batch

    def small_batches(asked):
        if len(asked) > 3:
            raise torch.OutOfMemoryError("no room")
        return batch(asked)

    tight.engine._batch = small_batches
    assert [r.text for r in tight.complete([chat(q) for q in QUESTIONS], max_new_tokens=6, seeds=range(8))] == whole
    assert tight.counters["batches halved for want of memory"] == 2
    tight.engine._batch = lambda asked: (_ for _ in ()).throw(torch.OutOfMemoryError("none at all"))
    with pytest.raises(torch.OutOfMemoryError):
        tight.complete([chat("another")], max_new_tokens=6)
