"""Plain passes: the numbers of families whose cache cannot be branched equal their own `generate` and teacher-forced passes."""

import pytest
import torch

from qualm.runners.contracts.models import Decoding, Request, draw_part
from qualm.runners.inference.hf.plain import append_tokens, plain_reason, start_token
from qualm.runners.inference.hf.sampling import uniforms
from qualm.runners.prompts.question import messages, verification
from tests.support.models.plain_vlm import picture
from tests.support.models.tiny_models import PLAIN

STEPS, LIMIT = 5, 1e-3
DECODING = Decoding(STEPS, 0.9)
REASONS = {
    "florence2": "an encoder reads the prompt",
    "mllama": "the image enters by cross-attention",
    "qwen3_5": "it has layers of linear attention",
}


@pytest.fixture(scope="module", params=sorted(PLAIN))
def model(request, family_model):
    torch.set_num_threads(1)
    return family_model(request.param)


def asked(model, parts):
    questions = [("What color is the cube ?", picture(1)), ("How many are there in the big picture ?", picture(2, (64, 40)))]
    return [Request(model.render(messages(q)), i, 0, q, parts, 99 + n) for n, (q, i) in enumerate(questions)]


def own_inputs(model, prompt, image):
    begins = model.tokenizer.bos_token
    special = {"add_special_tokens": False} if begins and prompt.startswith(begins) else {}
    return dict(model.processor(text=[prompt], images=None if image is None else [[image]], return_tensors="pt", **special))


def generated(model, prompt, image):
    """Tokens and log-probabilities by the module's own `generate`, with its own cache."""
    inputs = own_inputs(model, prompt, image)
    more = {"eos_token_id": sorted(model.stops), "pad_token_id": model.tokenizer.pad_token_id, "num_beams": 1, "do_sample": False}
    with torch.inference_mode():
        out = model.module.generate(**inputs, max_new_tokens=STEPS, output_logits=True, return_dict_in_generate=True, **more)
    tokens = out.sequences[0, -len(out.logits) :].tolist()
    logprobs = [float(torch.log_softmax(row[0].double(), -1)[token]) for row, token in zip(out.logits, tokens, strict=True)]
    return tokens, logprobs


def test_why_a_model_is_read_so(model, family_model):
    assert model.plain == REASONS[model.label]
    llava = family_model("llava")
    assert llava.plain == "" == plain_reason(llava._config)


def test_greedy_answers_are_those_of_generate(model):
    requests = asked(model, ("answer",))
    for request, parts in zip(requests, model.answer(model.encode(requests), DECODING), strict=True):
        tokens, logprobs = generated(model, request.prompt, request.image)
        assert parts["answer"].tokens == tokens
        assert parts["answer"].logprobs == pytest.approx(logprobs, abs=LIMIT)


@pytest.mark.slow
def test_draws_and_signals_are_those_of_forced_passes(model):
    signals = ("without_image", "without_question", "without_both", "image_divergence", "p_true", "p_yes", "said_confidence")
    requests = asked(model, ("answer", *signals, draw_part(1), draw_part(2)))
    for request, parts in zip(requests, model.answer(model.encode(requests), DECODING), strict=True):
        for draw in (1, 2):
            part, numbers = parts[draw_part(draw)], uniforms(request.stream, draw, STEPS)
            raw = forced(model, request.prompt, request.image, part.tokens)
            total = (raw / DECODING.temperature).softmax(1).cumsum(1)
            chosen = [int((row <= n * row[-1]).sum()) for row, n in zip(total, numbers, strict=False)]
            assert part.tokens == chosen
            assert part.logprobs == pytest.approx(raw.log_softmax(1)[range(len(chosen)), chosen].tolist(), abs=LIMIT)
        tokens = parts["answer"].tokens
        for name, question, image in (("image", request.question, None), ("question", "", request.image), ("both", "", None)):
            raw = forced(model, model.render(messages(question, n_images=image is not None)), image, tokens).log_softmax(1)
            assert parts[f"without_{name}"].logprobs == pytest.approx(raw[range(len(tokens)), tokens].tolist(), abs=LIMIT)
        prompt = model.render(verification(request.question, parts["answer"].text))
        assert forced(model, prompt, request.image, [0]).shape[0] == 1 and 0 <= parts["p_yes"].numbers[0] <= 1


def forced(model, prompt, image, tokens):
    """Logits before each of these tokens, by the family's own step-by-step cache as `generate` drives it."""
    inputs, rows, whole = own_inputs(model, prompt, image), [], list(tokens)
    with torch.inference_mode():
        for n in range(len(whole)):
            if model.module.config.is_encoder_decoder:
                more = {"decoder_input_ids": torch.tensor([[start_token(model.module), *whole[:n]]])}
                out = model.module.generate(**inputs, **more, **_ONE)
            else:
                out = model.module.generate(**append_tokens(model.module, inputs, whole[:n]), **_ONE)
            rows.append(out.logits[0][0].double())
    return torch.stack(rows)


_ONE = {"max_new_tokens": 1, "do_sample": False, "num_beams": 1, "output_logits": True, "return_dict_in_generate": True}


def test_what_is_in_a_batch_does_not_matter(model):
    requests = asked(model, ("answer", "draw 1"))
    together = model.answer(model.encode(requests), DECODING)
    alone = [model.answer(model.encode([request]), DECODING)[0] for request in requests]
    assert [{n: (p.tokens, p.logprobs) for n, p in parts.items()} for parts in together] == [
        {n: (p.tokens, p.logprobs) for n, p in parts.items()} for parts in alone
    ]


def test_rows_do_not_branch_off(model):
    rows = model.read(asked(model, ("answer",)))
    with pytest.raises(AssertionError, match="do not branch off"):
        rows.extend([[1], [1]], [0, 0])
    longer, _ = rows.extend([[40, 41], [42]], rows.lengths.tolist())
    assert longer.written == [[40, 41], [42]] and (longer.lengths - rows.lengths).tolist() == [2, 1]
    assert longer.select(torch.tensor([1, 1])).written == [[42], [42]]
