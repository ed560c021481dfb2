"""Check a model's prompts and words: template, image tokens, letters, yes and no, end of turn."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from qualm.runners.contracts.models import ModelError
from qualm.runners.inference.hf.plain import ROWS
from qualm.runners.inference.model_under_test import NO_IMAGE, TEXT_ONLY, Check, CheckResult, ModelUnderTest
from qualm.runners.prompts.question import messages
from qualm.runners.prompts.thinking import detect_thinking

LETTERS = 6
"""Options of the longest multiple-choice questions in known datasets."""


def prompt(tested: ModelUnderTest) -> CheckResult:
    """Show a rendered prompt; check only that it holds the question: a person judges the rest."""
    text = tested.request(tested.cases[0]).prompt
    if tested.cases[0].question not in text:
        advice = "the chat template leaves the text out; give another by `template`"
        return CheckResult("prompt", "fail", f"{text!r} does not hold the question", advice=advice)
    return CheckResult("prompt", "ok", repr(text), advice="compare it with the model's card", numbers={"prompt": text})


def clock(tested: ModelUnderTest) -> CheckResult:
    """Report whether the chat template writes a date, and which date prompts show."""
    if (date := tested.model.date) is None:
        return CheckResult("clock", "ok", "the chat template does not read the date")
    return CheckResult("clock", "ok", f"the chat template writes the date; every prompt shows {date} (`date:` of the model changes it)")


def thinking(tested: ModelUnderTest) -> CheckResult:
    """Warn if the chat template supports thinking and the spec does not say whether to think."""
    declared, style = tested.model.thinking, detect_thinking(tested.model.template)
    if declared is not None:
        tags = " and ".join(map(repr, declared.tags or ()))
        what = f"thinks up to {declared.budget:,} tokens between {tags}" if declared.on else f"does not think; its tags are {tags}"
        return CheckResult("thinking", "ok", what + (f"; switched by {declared.switch}" if declared.switch else ""))
    if style is None:
        return CheckResult("thinking", "ok", "the chat template shows none")
    what = "the chat template shows " + " and ".join(filter(None, (style.switch, style.tags and f"the tags {' '.join(style.tags)}")))
    advice = "say `thinking: true` or `thinking: false` beside this model; otherwise its thinking counts as part of its answer"
    return CheckResult("thinking", "warn", what, advice=advice)


def image_tokens(tested: ModelUnderTest) -> CheckResult:
    """Compare prompt tokens with the processor's own, and count image tokens by image size."""
    import torch

    if tested.model.text_only:
        return CheckResult("image tokens", "skip", TEXT_ONLY)
    counts: dict[str, int] = {}
    for case in tested.cases:
        request = tested.request(case)
        if case.image is None:
            continue
        turns: list[dict[str, Any]] = [dict(turn) for turn in messages(case.question)]
        turns[0]["content"] = [{"type": "image", "image": case.image}, {"type": "text", "text": case.question}]
        expected = tested.model.processor.apply_chat_template(
            turns, add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt",
            chat_template=tested.model.processor.chat_template,
        )  # fmt: skip
        tensors = tested.model.encode([request]).tensors
        ours = tensors[ROWS][0] if ROWS in tensors else tensors
        for name in ("input_ids", *(n for n in expected if str(n).startswith("pixel"))):
            if name not in ours or expected[name].shape != ours[name].shape or not torch.equal(expected[name], ours[name]):
                return CheckResult(
                    "image tokens", "fail", f"{name} of the rendered prompt is not what the processor makes of the conversation itself",
                    "equal", "the chat template and the processor disagree, often by a second beginning-of-sequence token",
                )  # fmt: skip
        counts["x".join(map(str, case.image.size))] = ours["input_ids"].shape[1] - len(tested.model.tokenize(request.prompt))
    if not counts:
        return CheckResult("image tokens", "skip", NO_IMAGE)
    summary = ", ".join(f"{size}: {n}" for size, n in counts.items())
    return CheckResult(
        "image tokens", "ok", f"as the processor makes them; beside the text, by image size: {summary}", numbers={"tokens": counts}
    )


def text_alone(tested: ModelUnderTest) -> CheckResult:
    """Warn if the processor refuses a prompt without an image."""
    try:
        tested.plain.inputs([tested.model.render(messages("What?", n_images=False))], None)
    except Exception as error:  # noqa: BLE001 - processors refuse in many ways
        return CheckResult(
            "text alone", "warn", f"the processor refuses a prompt without an image: {error}",
            advice="questions and priors without images are not available",
        )  # fmt: skip
    return CheckResult("text alone", "ok", "a prompt without an image is accepted")


def answer_turn(tested: ModelUnderTest) -> CheckResult:
    """Return the tokens of the answer "yes"; a warning if its chat turn changes the prompt."""
    case = tested.cases[0]
    try:
        ids = tested.model.answer_ids(messages(case.question, n_images=case.image is not None), "yes")
    except ModelError as error:
        return CheckResult(
            "answer turn", "warn", str(error), advice="fine for asking; it cannot be fine-tuned here without another `template`"
        )
    tokens = tested.model.tokenizer.convert_ids_to_tokens(ids)
    return CheckResult("answer turn", "ok", f"an answer of 'yes' is the tokens {tokens}", numbers={"tokens": ids})


def stops(tested: ModelUnderTest) -> CheckResult:
    """Check that a token ends answers, and that the template ends turns with it."""
    model = tested.model
    if not model.stops:
        what = "neither the generation settings nor the tokenizer name an end-of-sequence token"
        return CheckResult("stop token", "fail", what, advice="every answer runs to max_new_tokens")
    names = model.tokenizer.convert_ids_to_tokens(sorted(model.stops))
    turn = [{"role": "assistant", "content": [{"type": "text", "text": "yes"}]}]
    question = messages("What?", n_images=not model.text_only)
    whole = model.apply_chat_template([*question, *turn])
    prompt = model.render(question)
    tail = model.tokenize(whole[len(prompt) :]) if whole.startswith(prompt) else []
    special = [i for i in tail if i in set(model.tokenizer.all_special_ids)]
    if special and not set(special) & model.stops:
        ends = model.tokenizer.convert_ids_to_tokens(special)
        return CheckResult(
            "stop token", "warn", f"{names} stop an answer, but the template ends a turn with {ends}", "one of them",
            "answers may run on into a next turn; add the token to eos_token_id in generation_config.json",
        )  # fmt: skip
    return CheckResult("stop token", "ok", ", ".join(map(str, names)), numbers={"stops": sorted(model.stops)})


def letters(tested: ModelUnderTest) -> CheckResult:
    """Show the tokens of six option letters; ModelError unless each is one token of its own."""
    ids = tested.model.option_ids(LETTERS)
    tokens = tested.model.tokenizer.convert_ids_to_tokens(ids)
    return CheckResult("option letters", "ok", f"{tokens}", "single and different tokens", numbers={"ids": ids})


def own_answer_words(tested: ModelUnderTest) -> CheckResult:
    """Return a check that lists the tokens of yes, no and True; ModelError if a word has none."""
    from qualm.runners.inference.hf.own_answer import SPELLINGS, spellings

    text = tested.request(tested.cases[0]).prompt
    by_word = {word: tested.model.tokenizer.convert_ids_to_tokens(spellings(tested.model, word, text)) for word in SPELLINGS}
    summary = "; ".join(f"{word}: {tokens}" for word, tokens in by_word.items())
    return CheckResult("yes, no, True", "ok", summary, "each at least one token", numbers=by_word)


CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        "prompt": prompt,
        "clock": clock,
        "thinking": thinking,
        "image tokens": image_tokens,
        "text alone": text_alone,
        "answer turn": answer_turn,
        "stop token": stops,
        "option letters": letters,
        "yes, no, True": own_answer_words,
    }
)
