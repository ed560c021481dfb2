"""The vLLM backend against a fake engine with vLLM's interface over the same weights: the numbers of `hf_vlm`, and every refusal."""

import json
import math
import sys

import pytest

from qualm.runners.contracts.models import Decoding, Model, ModelContext, ModelError, Part, Request
from qualm.runners.plugins.models import _vllm
from qualm.runners.plugins.models._vllm import seed_of
from qualm.runners.plugins.models.hf_vlm import hf_vlm
from qualm.runners.plugins.models.vllm import vllm
from qualm.runners.prompts.question import messages
from qualm.runners.runtime.settings import Settings
from tests.support.models import fake_vllm
from tests.support.models.plain_vlm import picture
from tests.support.models.tiny_models import tiny_llava
from tests.support.projects.tiny_project import Project

QUESTIONS = ["What color is the cube ?", "How many objects are there ?"]
SIGNALS = ("p_yes", "p_true", "said_confidence", "without_image", "without_question", "without_both")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_llava(tmp_path_factory.mktemp("llava"))


@pytest.fixture(autouse=True)
def _fake(monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", fake_vllm.module())
    fake_vllm.LLM.made.clear()


def opened(folder, load=True, **args):
    settings = args.pop("settings", None)
    model = vllm(ModelContext("m", folder, settings=settings), **args)
    if load:
        model.load()
    return model


def requests(model, parts, choices=(), image=1, stream=5):
    asked = []
    for i, question in enumerate(QUESTIONS):
        images = [picture(i + k, (40 + 30 * i, 40)) for k in range(image)]
        prompt = model.render(messages(question, choices, image))
        asked.append(
            Request(prompt, images[0] if images else None, len(choices), question, parts, stream + i, str(i), more=tuple(images[1:]))
        )
    return asked


def answers(model, asked, decoding=None):
    return model.answer(model.encode(asked), decoding or Decoding(5, 0.7))


def close(one: Part, other: Part):
    assert one.text == other.text and one.tokens == other.tokens
    for name in ("logprobs", "numbers"):
        a, b = getattr(one, name), getattr(other, name)
        assert (a is None) == (b is None), name
        if a is not None:
            assert a == pytest.approx(b, abs=1e-4), name


@pytest.mark.slow
@pytest.mark.parametrize("image", [1, 0])
def test_answers_and_what_is_asked_about_them_are_those_of_hf_vlm(folder, image):
    ours, theirs = opened(folder), hf_vlm(ModelContext("m", folder))
    theirs.load()
    assert isinstance(ours, Model)
    parts = ("answer", *SIGNALS)
    got = answers(ours, requests(ours, parts, image=image))
    expected = theirs.answer(theirs.encode(requests(theirs, parts, image=image)), Decoding(5, 0.7))
    for mine, yours in zip(got, expected, strict=True):
        assert set(mine) == set(parts)
        for part in parts:
            close(mine[part], yours[part])
    (engine,) = fake_vllm.LLM.made
    assert engine.batches == [2, 12], "all answers at once, then all that is about them"
    assert engine.arguments == {
        "model": str(folder), "generation_config": "vllm", "logprobs_mode": "raw_logprobs", "seed": 0, "tensor_parallel_size": 1,
        "dtype": "float32",
    }  # fmt: skip


def test_options_are_those_of_hf_vlm_but_for_a_constant(folder):
    ours, theirs = opened(folder), hf_vlm(ModelContext("m", folder))
    theirs.load()
    choices = ["red", "blue", "green"]
    got = answers(ours, requests(ours, ("options",), choices))
    expected = theirs.answer(theirs.encode(requests(theirs, ("options",), choices)), Decoding(5))
    for mine, yours in zip(got, expected, strict=True):
        one, other = mine["options"], yours["options"]
        assert (one.text, one.tokens) == (other.text, other.tokens) and one.logprobs == pytest.approx(other.logprobs, abs=1e-4)
        assert [v - one.numbers[0] for v in one.numbers] == pytest.approx([v - other.numbers[0] for v in other.numbers], abs=1e-4)
        assert math.fsum(map(math.exp, one.numbers)) <= 1


def test_draws_depend_on_their_own_stream_and_number_alone(folder):
    model = opened(folder)
    parts = ("answer", "draw 1", "draw 2", "draw 3")
    asked = requests(model, parts)
    whole = answers(model, asked)
    assert answers(model, asked[1:])[0] == whole[1]
    alone = answers(model, requests(model, ("draw 2",)))
    assert [row["draw 2"] for row in alone] == [row["draw 2"] for row in whole]
    assert len({tuple(whole[0][f"draw {k}"].tokens) for k in (1, 2, 3)}) > 1
    assert seed_of(5, 1) != seed_of(5, 2) != seed_of(6, 2) and 0 <= seed_of(5, 1) < 2**63


def test_a_signal_alone_takes_the_answer_that_is_known(folder):
    model = opened(folder)
    (first, _) = answers(model, requests(model, ("answer", "p_yes", "without_image")))
    asked = requests(model, ("p_yes", "without_image"))[0]
    known = Request(asked.prompt, asked.image, 0, asked.question, asked.parts, 5, greedy=first["answer"])
    assert answers(model, [known]) == [{name: first[name] for name in ("p_yes", "without_image")}]
    with pytest.raises(ModelError, match="neither holds that answer nor asks for it"):
        answers(model, [asked])


def test_an_answer_that_cannot_be_shown_leaves_what_is_said_of_it_undefined(folder):
    """What a model said may spell the mark of a picture; then nothing is asked about it."""
    model = opened(folder)
    names = ("p_yes", "p_true", "said_confidence")
    (asked, _) = requests(model, names)
    spelt = Part("a <image>", [5, 6], [-0.1, -0.2])
    got = answers(model, [Request(asked.prompt, asked.image, 0, asked.question, names, 5, greedy=spelt)])
    assert got == [{"p_yes": Part(numbers=[]), "p_true": Part(numbers=[]), "said_confidence": Part()}]


def test_the_digest_holds_weights_dtype_and_the_engines_version_and_no_execution(folder, tmp_path, monkeypatch):
    digests = {opened(folder, load=False).digest}
    assert opened(folder, load=False, settings=Settings(vllm={"tensor_parallel_size": 2})).digest in digests
    digests |= {opened(folder, load=False, dtype="bfloat16").digest, opened(folder, load=False, quantization="awq").digest}
    digests.add(opened(tiny_llava(tmp_path / "other", seed=1), load=False).digest)
    monkeypatch.setattr(_vllm, "library_version", lambda name: "0.99.1")
    model = opened(folder, load=False)
    digests.add(model.digest)
    assert len(digests) == 5 and hf_vlm(ModelContext("m", folder)).digest not in digests
    assert model.facts["engine"] == {"vllm": "0.99.1", "dtype": "float32", "quantization": None, "logprobs_mode": "raw_logprobs"}
    assert not fake_vllm.LLM.made, "building it starts no engine"


def test_how_it_uses_cards_comes_from_the_settings(folder):
    model = opened(folder, settings=Settings(vllm={"tensor_parallel_size": 2, "max_model_len": 6}))
    assert fake_vllm.LLM.made[0].arguments["tensor_parallel_size"] == 2
    asked = requests(model, ("answer",))
    assert "tokens, and `max_model_len` of [vllm] in qualm.toml is 6" in model.misfit(asked[0].prompt, 1)
    with pytest.raises(ModelError, match="refuses a prompt of this batch: The decoder prompt is longer"):
        answers(model, asked)


def test_what_cannot_be_loaded(folder, tmp_path, monkeypatch):
    with pytest.raises(ModelError, match="name exactly one of artifact and hub"):
        vllm(ModelContext("m"))
    with pytest.raises(ModelError, match=r"its revision 'main' has no commit in registry/fetch\.lock"):
        vllm(ModelContext("m"), hub="a/b", revision="main")
    with pytest.raises(ModelError, match="trust_remote_code is for a hub model"):
        vllm(ModelContext("m", folder), trust_remote_code=True)
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(ModelError, match="is an adapter, and this plugin hands vLLM none; ask it with hf_vlm, or merge it first"):
        vllm(ModelContext("m", tmp_path))
    with pytest.raises(ModelError, match="cannot start with it: Unknown quantization method: nf4"):
        opened(folder, quantization="nf4")
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(ModelError, match=r"vLLM cannot be imported .*pip install 'qualm-bench\[vllm\]'"):
        opened(folder)


def test_a_release_without_named_tokens_gives_what_needs_none(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", fake_vllm.module(old=True))
    model = opened(folder)
    assert answers(model, requests(model, ("answer", "without_image")))[0]["answer"].tokens
    with pytest.raises(ModelError, match=r"gives no log-probabilities of named tokens.*install a newer one"):
        answers(model, requests(model, ("options",), ["a", "b"]))


@pytest.mark.parametrize("value", [float("nan"), None])
def test_a_log_probability_that_is_none_ends_the_run(folder, value, monkeypatch):
    model = opened(folder)
    answer = fake_vllm.LLM._answer

    def broken(self, prompt, params):
        out = answer(self, prompt, params)
        out.outputs[0].logprobs[0] = {} if value is None else dict.fromkeys(out.outputs[0].logprobs[0], fake_vllm.Logprob(value))
        return out

    monkeypatch.setattr(fake_vllm.LLM, "_answer", broken)
    with pytest.raises(ModelError, match="vLLM gave a log-probability that is missing or no number; float16 overflows, try bfloat16"):
        answers(model, requests(model, ("answer",)))
    monkeypatch.setattr(fake_vllm.LLM, "_answer", lambda *args: (out := answer(*args), out.outputs[0].logprobs.pop())[0])
    with pytest.raises(ModelError, match="vLLM gave 4 log-probabilities for 5 tokens"):
        answers(model, requests(model, ("answer",)))


@pytest.mark.slow
def test_a_stage_answered_by_it_is_stored_and_never_answered_again(folder, tmp_path):
    """Through Lightning, the store and the tables, as `qualm run` does it; the engine is not started where all is stored."""
    project = Project(tmp_path, folder)
    project.dataset("open", 6)
    project.dataset("mc", 3, choices=True)
    needs = ["text", "token_logprobs", "option_logits", "p_yes", "logprobs_without_image", "draws"]
    tables = {}
    for plugin in ("vllm", "hf_vlm"):
        project.stage(["open", "mc"], needs=needs, draws=2, temperature=0.7, top_p=1.0)
        file = tmp_path / "specs/t/stages/infer.json"
        stage = json.loads(file.read_text())
        stage["params"]["model"]["plugin"] = plugin
        file.write_text(json.dumps(stage))
        counters = project.run(batch_size=0).counters
        assert (counters["answers computed"], counters["draws computed"]) == (9, 12)
        tables[plugin] = {name: [row for row in project.rows(name) if row["draw"] == 0] for name in ("open", "mc")}
        if plugin == "vllm":
            again = project.run().counters
            assert (again["answers stored"], again["answers computed"]) == (9, 0) and len(fake_vllm.LLM.made) == 1
            assert max(fake_vllm.LLM.made[0].batches) >= 6 * 3, "a batch is as large as there are prompts"
    for name in ("open", "mc"):
        for ours, theirs in zip(tables["vllm"][name], tables["hf_vlm"][name], strict=True):
            assert (ours["sample_id"], ours["text"]) == (theirs["sample_id"], theirs["text"])
            assert ours["token_entropies"] is None
            if name == "open":
                assert ours["token_logprobs"] == pytest.approx(theirs["token_logprobs"], abs=1e-4)
                assert ours["p_yes"] == pytest.approx(theirs["p_yes"], abs=1e-4)
