"""A model of transformers beside its answers: its digest, its prompts as tokens, its letters, and what it refuses."""

import gc
import json
import shutil
import threading
from pathlib import Path

import pytest
import torch

from qualm.runners.contracts.models import PARTS, Decoding, Encoded, ModelContext, ModelError, Request
from qualm.runners.inference.hf.adapters import Base
from qualm.runners.inference.hf.layout import unpadded
from qualm.runners.inference.hf.model import HfVlm
from qualm.runners.inference.hf.rows import Rows
from qualm.runners.plugins.models.hf_vlm import hf_vlm
from qualm.runners.prompts.question import messages
from tests.support.models.plain_vlm import picture
from tests.support.models.tiny_models import FAMILIES, TEMPLATES

QUESTION = "What color is the cube ?"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return {name: FAMILIES[name](tmp_path_factory.mktemp(name)) for name in ("kosmos2", "llava", "paligemma", "qwen2_vl")}


@pytest.fixture(scope="module")
def llava(folders):
    model = hf_vlm(ModelContext("m", folders["llava"]))
    model.load()
    return model


def build(folder, dtype="float32", remote_code=False, template=None, share=None, quantization="none", adapters=(), **more):
    return HfVlm("m", Base(folder, None, None, adapters), dtype, remote_code, template, share, quantization, **more)


def edited(folder, tmp_path, change, name="tokenizer_config.json"):
    copy = shutil.copytree(folder, tmp_path / "copy")
    settings = json.loads((copy / name).read_text())
    change(settings)
    (copy / name).write_text(json.dumps(settings))
    return copy


@pytest.mark.slow
def test_all_that_shapes_an_answer_is_in_the_digest(folders, tmp_path):
    folder = folders["llava"]
    (tmp_path / "weights").write_bytes(b"x")
    template = "{{ messages[0]['content'][1]['text'] }}"
    models = [
        build(folder),
        build(folder, "bfloat16"),
        build(folder, remote_code=True),
        build(folder, share=False),
        build(folder, quantization="int8"),
        build(folder, template=template),
        build(folder, template=template + "{{ strftime_now('%d') }}"),
        build(folder, template=template + "{{ strftime_now('%d') }}", date="2020-02-02"),
        build(folder, adapters=(tmp_path,)),
        build(folders["qwen2_vl"]),
    ]
    assert len({model.digest for model in models}) == len(models)
    assert build(folder, share=True).digest == build(folder).digest == build(folder, date="2020-02-02").digest


def test_what_an_adapter_would_name_as_its_base(folders, tmp_path):
    folder = folders["llava"]
    assert build(folder).origin == str(folder)
    assert build(folder, adapters=(tmp_path / "a", tmp_path)).origin == str(tmp_path)


def test_facts_tell_the_processor_and_a_prompt(llava):
    assert llava.facts["processor"] == "LlavaProcessor" and llava.facts["image_processor"]["crop_size"] == {"height": 32, "width": 32}
    assert llava.facts["prompt"] == "USER: <image>\nQUESTION ASSISTANT:"


@pytest.mark.parametrize("change", ["gone", "torn"])
def test_a_processor_that_cannot_be_read_is_told(folders, tmp_path, change):
    copy = shutil.copytree(folders["llava"], tmp_path / "copy")
    for path in list(copy.glob("*processor_config.json")):
        path.write_text("{") if change == "torn" else path.unlink()
    if change == "gone":
        for path in copy.glob("tokenizer*"):
            path.unlink()
    with pytest.raises(ModelError, match=rf"^model 'm': its processor cannot be read from {copy}: "):
        build(copy)


def test_without_a_chat_template_one_must_be_given(folders):
    with pytest.raises(ModelError, match=r"^model 'm': it was published without a chat template; give one as `template:`"):
        build(folders["kosmos2"])
    model = build(folders["kosmos2"], template=TEMPLATES["kosmos2"])
    assert QUESTION in model.render(messages(QUESTION))


def test_a_template_of_ones_own_stands_for_the_published_one(folders):
    model = build(folders["llava"], template="Q{% for c in messages[0]['content'] if c['type'] == 'text' %} {{ c['text'] }}{% endfor %} A")
    assert model.render(messages(QUESTION)) == f"Q {QUESTION} A" == model.facts["prompt"].replace("QUESTION", QUESTION)


def test_padding_is_on_the_left_and_with_the_end_where_there_is_nothing_else(folders, tmp_path):
    copy = edited(folders["llava"], tmp_path, lambda settings: settings.pop("pad_token"))
    model = build(copy)
    assert model.tokenizer.pad_token == model.tokenizer.eos_token == "</s>"
    assert build(folders["llava"]).tokenizer.pad_token == "<pad>"
    model = build(folders["llava"])
    requests = [Request(model.render(messages(q, n_images=False)), None) for q in ("What ?", "What color is the big red cube ?")]
    mask = model._processor_tensors(requests)["attention_mask"]
    assert mask[0, 0] == 0 and mask[:, -1].tolist() == [1, 1] and mask[1].all()


def test_each_thread_has_a_processor_of_its_own(llava):
    others = []
    thread = threading.Thread(target=lambda: others.append(llava.thread_processor))
    thread.start()
    thread.join()
    assert (
        llava.thread_processor is llava.thread_processor
        and others[0] is not llava.thread_processor
        and llava.processor is not llava.thread_processor
    )


@pytest.mark.parametrize("change", [{"image": None}, {"options": 2}, {"parts": ("p_true",)}], ids=["image", "options", "parts"])
def test_a_batch_is_of_one_kind(llava, change):
    plain = {"prompt": llava.render(messages(QUESTION)), "image": picture(0), "options": 0, "parts": ("answer",)}
    with pytest.raises(ModelError, match=r"^model 'm': a batch mixes requests with different numbers of images, with and"):
        llava.encode([Request(**plain), Request(**{**plain, **change})])
    assert len(llava.encode([Request(**plain)] * 2).requests) == 2
    with pytest.raises(ModelError, match="mixes"):
        llava.encode([])
    options = [Request(**{**plain, "options": n, "parts": ("options",)}) for n in (2, 3)]
    assert len(llava.encode(options).requests) == 2, "of any number"


def test_whether_prompts_are_shared_is_found_out_once_or_told(folders, monkeypatch):
    image = picture(0)
    model, calls = build(folders["llava"]), []
    plain = model._processor_tensors
    monkeypatch.setattr(model, "_processor_tensors", lambda requests: calls.append(len(requests)) or plain(requests))
    assert model.shares([image]) is True and calls == [1, 1, 1]
    assert model.shares([image]) is True and len(calls) == 3
    told = build(folders["llava"], share=False)
    monkeypatch.setattr(told, "_processor_tensors", lambda requests: pytest.fail("it was told"))
    assert told.shares([image]) is False


def test_prompts_without_pictures_are_read_together_whatever_the_model_shares(folders):
    model = build(folders["llava"])
    found = model.encode([Request(model.render(messages(QUESTION, n_images=False)), None)] * 2)
    assert len(found.requests) == 2 and not model._shares


def test_a_model_that_reads_both_ways_does_not_share_unless_told(folders):
    own = {"template": TEMPLATES.get("paligemma")}
    assert build(folders["paligemma"], **own)._shares == {False: False, True: False}
    assert build(folders["paligemma"], share=True, **own)._shares == {} == build(folders["llava"])._shares
    assert build(folders["llava"], share=True)._shares == {}


def test_a_refused_prompt_is_told_with_its_end(llava):
    with pytest.raises(ModelError) as error:
        llava._processor_tensors([Request("a" * 100 + "<image><image>" + "b" * 66, picture(0))])
    assert str(error.value).startswith(f"model 'm': its processor refuses the prompt {'<image><image>' + 'b' * 66!r}: ")


def test_prompts_as_tokens(llava):
    prompt = llava.render(messages(QUESTION))
    words = ["USER", ":", "<image>", *QUESTION.split(), "ASSISTANT", ":"]
    assert llava.tokenizer.convert_ids_to_tokens(llava.written(prompt)) == words
    assert llava.tokenize(prompt) == list(llava.written(prompt))
    plain = llava.plain_texts([llava.render(messages(QUESTION, n_images=False))])[0]
    assert llava.tokenizer.convert_ids_to_tokens(plain) == [w for w in words if w != "<image>"]
    with_picture = unpadded(llava._processor_tensors([Request(prompt, picture(0))]))[0]
    mark = llava.tokenizer.convert_tokens_to_ids("<image>")
    assert list(with_picture).count(mark) == 16 and llava.marks(with_picture) and not llava.marks(plain) and not llava.marks([])


def test_a_prompt_that_begins_with_the_first_token_gets_no_other(llava):
    assert llava._special("<s> USER") == {"add_special_tokens": False} and llava._special("USER <s>") == {}
    begins = llava.tokenizer.bos_token
    try:
        llava.tokenizer.bos_token = None
        assert llava._special("USER") == {}
    finally:
        llava.tokenizer.bos_token = begins


def test_marks_of_pictures_count_as_often_as_the_template_writes_them(llava):
    mark = "its text contains '<image>', by which this model's template marks the place of an image; remove it from the question"
    once, twice = "USER: <image>\nWhat ?", "USER: <image>\nWhat <image> ?"
    assert [llava.misfit(prompt, n_images=True) for prompt in (once, twice)] == ["", mark]
    assert [llava.misfit(prompt, n_images=False) for prompt in ("What ?", once)] == ["", mark]


@pytest.mark.parametrize(("words", "fits"), [(511, True), (512, True), (513, False)])
def test_the_longest_prompt_that_the_model_reads(llava, words, fits):
    assert llava.misfit(" ".join(["cube"] * words), n_images=False) == (
        "" if fits else f"its prompt has {words} tokens, and the model reads at most 512"
    )


def test_a_model_that_tells_no_longest_prompt_reads_all(folders, tmp_path):
    def unbounded(settings):
        settings["text_config"]["max_position_embeddings"] = 0

    model = build(edited(folders["llava"], tmp_path, unbounded, "config.json"))
    assert model.misfit("cube " * 600, n_images=False) == ""


def test_on_the_device_in_the_weights_dtype(llava):
    tensors = {"a": torch.ones(2, dtype=torch.float64), "b": torch.ones(2, dtype=torch.int64), "c": [1]}
    moved = llava.on_device(Encoded(tensors))
    assert (moved["a"].dtype, moved["b"].dtype, moved["c"]) == (torch.float32, torch.int64, [1])
    rows = llava.read([Request(llava.render(messages(QUESTION)), picture(0))])
    assert rows is not None


def test_weights_of_another_dtype_for_training_but_not_quantised(folders):
    model = build(folders["llava"], "bfloat16")
    assert model.load(dtype="float32").dtype == torch.float32 and not model.module.training
    assert model.load().dtype == torch.bfloat16
    with pytest.raises(ModelError, match=r"^model 'm': weights of int8 are not trained; fine-tune it without `quantization`$"):
        build(folders["llava"], quantization="int8").load(dtype="float32")


def test_an_answer_ends_before_the_first_stop_and_keeps_no_space(llava):
    cube, red, end = (llava.tokenizer.convert_tokens_to_ids(t) for t in ("cube", "red", "</s>"))
    assert llava.texts([[cube, red], [cube, end, red], [end, cube], []]) == ["cube red", "cube", "", ""]
    assert llava.stops == {end}


def test_the_tokens_of_a_known_answer_end_with_the_turn(llava):
    said = llava.tokenizer.convert_ids_to_tokens(llava.answer_ids(messages(QUESTION), "red cube"))
    assert said == ["red", "cube", "</s>"]
    assert llava.answer_ids(messages(QUESTION), "") == [llava.tokenizer.eos_token_id]


def test_an_answer_that_the_template_does_not_end_is_ended(folders):
    words = "{% for m in messages %}{% for c in m['content'] if c['type'] == 'text' %}{{ c['text'] }}{% endfor %} : {% endfor %}"
    model = build(folders["llava"], template=words)
    model.stops = {model.tokenizer.eos_token_id}
    assert model.tokenizer.convert_ids_to_tokens(model.answer_ids(messages("What ?"), "red")) == ["red", ":", "</s>"]


def test_a_template_that_does_not_go_on_from_its_prompt_is_refused(folders):
    words = (
        "{% if add_generation_prompt %}think: {% endif %}"
        "{% for m in messages %}{% for c in m['content'] if c['type'] == 'text' %}{{ c['text'] }}{% endfor %} {% endfor %}"
    )
    model = build(folders["llava"], template=words)
    with pytest.raises(ModelError) as error:
        model.answer_ids(messages("x" * 50), "red " * 20)
    prompt, whole = f"think: {'x' * 50} ", f"{'x' * 50} {'red ' * 20} "
    assert str(error.value).startswith(
        f"model 'm': its chat template does not continue the prompt {prompt[-40:]!r} when the answer is known, but writes {whole[-60:]!r}; "
    )


def test_letters_are_found_once_and_in_order(llava, monkeypatch):
    ids = llava.option_ids(3)
    assert llava.tokenizer.convert_ids_to_tokens(ids) == ["A", "B", "C"]
    monkeypatch.setattr(llava, "_letter_id", lambda letter: pytest.fail("found before"))
    assert llava.option_ids(2) == ids[:2] and llava.option_ids(3) == ids and llava.option_ids(0) == []


def test_letters_that_share_a_token_are_refused(folders, monkeypatch):
    model = build(folders["llava"])
    monkeypatch.setattr(model, "_letter_id", lambda letter: {"A": 5, "B": 6, "C": 5}[letter])
    assert model.option_ids(2) == [5, 6]
    with pytest.raises(ModelError) as error:
        model.option_ids(3)
    assert str(error.value) == "model 'm': option letters share tokens ({'A': 5, 'B': 6, 'C': 5}), so they have the same logit"


def test_a_letter_stands_where_the_template_puts_it(folders):
    """After a space in Qwen's byte-level vocabulary it would be another token."""
    spaced = (
        "{% for m in messages %}{{ m['role'] }}:{% for c in m['content'] if c['type'] == 'text' %} {{ c['text'] }}{% endfor %}\n"
        "{% endfor %}"
        "{% if add_generation_prompt %}assistant:{% endif %}"
    )
    model = build(folders["qwen2_vl"], template=spaced)
    assert model.tokenizer.convert_ids_to_tokens(model.option_ids(2)) == ["ĠA", "ĠB"]
    own = build(folders["qwen2_vl"])
    assert own.tokenizer.convert_ids_to_tokens(own.option_ids(2)) == ["A", "B"]


def test_answers_are_in_order_with_the_parts_that_were_asked_for(llava):
    requests = [Request(llava.render(messages(q)), picture(i), 0, q) for i, q in enumerate((QUESTION, "What ?"))]
    both = llava.answer(llava.encode(requests), Decoding(3))
    alone = [llava.answer(llava.encode([request]), Decoding(3))[0] for request in requests]
    assert [a["answer"].text for a in both] == [a["answer"].text for a in alone] and set(both[0]) == {"answer"}
    assert not any(p.requires_grad and p.grad is not None for p in llava.module.parameters())


def test_a_batch_leaves_no_tensors_behind(llava):
    """Nothing of it refers to itself and so waits, with all that was cached, until garbage is collected."""
    parts = (*(name for name in PARTS if name != "options"), "draw 1")
    encoded = llava.encode([Request(llava.render(messages(QUESTION)), picture(i), 0, QUESTION, parts) for i in range(2)])
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        llava.answer(encoded, Decoding(3))
        gc.collect()
        left = [type(thing).__name__ for thing in gc.garbage if isinstance(thing, torch.Tensor | Rows)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not left


def test_a_folder_is_where_weights_are_read_from_and_nothing_else(folders):
    assert build(folders["llava"])._from == {
        "pretrained_model_name_or_path": str(folders["llava"]), "revision": "main", "trust_remote_code": False, "local_files_only": True,
    }  # fmt: skip
    assert Path(build(folders["llava"]).origin).is_dir()
