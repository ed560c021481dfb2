"""Compare a model's numbers with plain forward passes, and check what must not change them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from qualm.runners.contracts.models import ANSWER, OPTIONS, ModelError, Part, draw_part
from qualm.runners.inference.audit import compare_parts, distance, too_many_branches
from qualm.runners.inference.devices import to_double
from qualm.runners.inference.model_under_test import (
    DRAWS,
    NO_IMAGE,
    TEXT_ONLY,
    Check,
    CheckResult,
    ModelUnderTest,
    forced_numbers,
    judge_difference,
)
from qualm.runners.prompts.question import messages, p_true_prompt, p_true_sampling_prompt, verbalisation, verification

if TYPE_CHECKING:
    import torch

SEES = 1e-3
"""Minimum change of log-probabilities in nats, by another image, for a model that sees."""


_PRIORS = (("without_image", False, True), ("without_question", True, False), ("without_both", False, False))
"""Prior, whether its prompt has the image, whether it has the question."""


def finite(tested: ModelUnderTest) -> CheckResult:
    """Check that the logits of the first question's prompt are finite in a plain pass."""
    case = tested.cases[0]
    logits = tested.plain.logits(tested.request(case).prompt, case.image)
    bad = int((~logits.isfinite()).sum())
    largest = float(logits.abs().nan_to_num(0).max())
    if bad:
        what = f"{bad} of {logits.numel()} logits are NaN or infinite at {tested.model.dtype}"
        return CheckResult("finite", "fail", what, "none", "load it as bfloat16 or float32")
    return CheckResult("finite", "ok", f"all {logits.numel()} logits are finite at {tested.model.dtype}, the largest {largest:.3g}", "all")


def image_matters(tested: ModelUnderTest) -> CheckResult:
    """Check that another image changes the next token's probabilities."""
    import PIL.ImageOps

    if tested.model.text_only:
        return CheckResult("image matters", "skip", TEXT_ONLY)
    case, image = next(((c, c.image) for c in tested.cases if c.image is not None), (None, None))
    if case is None or image is None:
        return CheckResult("image matters", "skip", NO_IMAGE)
    prompt = tested.request(case).prompt
    other = PIL.ImageOps.flip(PIL.ImageOps.invert(image))
    change = _largest_difference(tested.plain.logits(prompt, image), tested.plain.logits(prompt, other))
    if change < SEES:
        return CheckResult(
            "image matters", "fail", f"another image changes log-probabilities by {change:.2g} nats at most", f"> {SEES:g} nats",
            "the image does not reach the language model: its projector's weights are absent or zero, or the prompt has no place for it",
        )  # fmt: skip
    what = f"another image changes log-probabilities by up to {change:.2g} nats"
    return CheckResult("image matters", "ok", what, f"> {SEES:g} nats", numbers={"change": change})


def padding(tested: ModelUnderTest) -> CheckResult:
    """Check that padding on the left does not change a prompt's logits."""
    import torch

    if tested.model.plain:
        return CheckResult("padding", "skip", f"every prompt is read by itself: {tested.model.plain}")
    requests = tested.requests()
    together = tested.plain.inputs([r.prompt for r in requests], [r.image for r in requests if r.image is not None] or None)
    with torch.inference_mode():
        rows = to_double(tested.model.network.read(together).logits)
    alone = [tested.plain.logits(r.prompt, r.image)[0] for r in requests]
    worst = max(_largest_difference(a, b) for a, b in zip(rows, alone, strict=True))
    return judge_difference(
        "padding", worst, tested.limits, "log-probabilities after a padded prompt",
        "padding is not masked, or positions are counted from it; use batch_size 1 and report the port",
    )  # fmt: skip


def continuation(tested: ModelUnderTest) -> CheckResult:
    """Warn if a prompt read in two parts has other logits than one read whole."""
    import torch

    if tested.model.plain:
        return CheckResult("continuation", "skip", f"every prompt is read from its beginning: {tested.model.plain}")
    worst = 0.0
    for case in tested.cases[:3]:
        request = tested.request(case)
        inputs = tested.plain.inputs([request.prompt], None if case.image is None else [case.image])
        ids = inputs["input_ids"][0].tolist()
        tail = max(1, min(4, _tokens_after_image(tested, ids) - 1))
        shape = inputs["input_ids"].shape
        head = {n: v[:, :-tail] if isinstance(v, torch.Tensor) and v.shape == shape else v for n, v in inputs.items()}
        with torch.inference_mode():
            rows, _ = tested.model.network.read(head).extend([ids[-tail:]], [len(ids) - tail])
        worst = max(worst, _largest_difference(to_double(rows.logits[0]), tested.plain.logits(request.prompt, case.image)[0]))
    if worst <= tested.limits[0]:
        return judge_difference("continuation", worst, tested.limits, "log-probabilities after a prompt read in two parts", "")
    return CheckResult(
        "continuation", "warn", f"a prompt read in two parts has log-probabilities {worst:.2g} nats from one read whole",
        f"{tested.limits[0]:g} nats",
        "its tokens attend to later ones (bidirectional attention); if a check below fails, write `share: false` for this model, so that "
        "each prompt is read whole", {"worst": worst},
    )  # fmt: skip


def log_probabilities(tested: ModelUnderTest) -> CheckResult:
    """Compare log-probabilities and entropies of greedy answers with plain forward passes."""
    worst = 0.0
    for case, parts in zip(tested.cases, tested.baseline, strict=True):
        logits = tested.plain.logits(tested.request(case).prompt, case.image, parts[ANSWER].tokens or [])
        worst = max(worst, *_forced_distances(logits[:-1], parts[ANSWER]))
    return judge_difference(
        "log-probabilities", worst, tested.limits, "log-probabilities and entropies of greedy answers against a plain forward pass",
        "the port's cache, positions or masks differ between prefill and decoding; do not use its log-probabilities",
    )  # fmt: skip


def greedy(tested: ModelUnderTest) -> CheckResult:
    """Check that each greedy token is the likeliest in a plain forward pass, up to rounding."""
    worst = 0.0
    for case, parts in zip(tested.cases, tested.baseline, strict=True):
        tokens = parts[ANSWER].tokens or []
        logits = tested.plain.logits(tested.request(case).prompt, case.image, tokens)[:-1]
        taken = [float(row.max() - row[token]) for row, token in zip(logits, tokens, strict=True)]
        worst = max(worst, *taken)
    return judge_difference(
        "greedy answers", worst, tested.limits, "by how much a token was likelier than the greedy one", "see log-probabilities"
    )


def draws(tested: ModelUnderTest) -> CheckResult:
    """Check sampled tokens against their random numbers, and their log-probabilities."""
    import torch

    from qualm.runners.inference.hf.sampling import uniforms

    worst, heat = 0.0, tested.decoding.temperature
    for case, parts in zip(tested.cases[:3], tested.baseline[:3], strict=True):
        for draw in range(1, DRAWS + 1):
            part = parts[draw_part(draw)]
            tokens, numbers = part.tokens or [], uniforms(case.stream, draw, tested.decoding.max_new_tokens)
            prompt = tested.request(case).prompt
            logits = tested.plain.logits(prompt, case.image, tokens)[:-1]
            shares = torch.softmax(logits / heat, dim=1)
            for row, token, number in zip(shares, tokens, numbers, strict=False):
                end = float(row[: token + 1].sum())
                worst = max(worst, end - float(row[token]) - number, number - end)
            worst = max(worst, *_forced_distances(logits, part))
    what = "random numbers outside their token's interval, and log-probabilities of draws"
    return judge_difference("draws", max(worst, 0.0), tested.limits, what, "see log-probabilities", "")


def batches(tested: ModelUnderTest) -> CheckResult:
    """Check that answers do not depend on batch size and order."""
    requests = tested.requests((ANSWER, *map(draw_part, range(1, DRAWS + 1))))
    order, dtype = list(range(len(requests)))[::-1], tested.model.dtype
    differ, worst, total = 0, 0.0, 0
    branched = Counter[tuple[int, str]]()
    for size in (1, 2):
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            for row, parts in zip(rows, tested.answers([requests[r] for r in rows]), strict=True):
                for name, part in parts.items():
                    before = tested.baseline[row][name]
                    total += 1
                    if before.tokens == part.tokens:
                        worst = max(worst, *map(distance, before.logprobs or [0.0], part.logprobs or [0.0]))
                    elif compare_parts(name, before, part, dtype).verdict == "differs":
                        differ += 1
                    else:  # a random number so near to the bound of two tokens, or a tie, that rounding decides
                        branched[row, name] += 1
    differing = differ + branched.total()
    what = f"{differing} of {total} answers differ between batch sizes; log-probabilities of the others by {worst:.2g} nats at most"
    numbers = {"differ": differing, "answers": total, "worst": worst}
    if differing and dtype != "float32":
        return CheckResult(
            "batches", "warn", what, "0 at float32", "rounding at this dtype; `--drift` measures how often, float32 ends it", numbers
        )
    if differ or worst > tested.limits[1] or too_many_branches(len(branched), total // 2, tested.decoding.max_new_tokens, dtype):
        return CheckResult(
            "batches", "fail", what, "0", "answers depend on what else is in the batch; use batch_size 1 and report the port", numbers
        )
    if branched:
        return CheckResult("batches", "warn", what, "0", "rounding: log-probabilities agree up to the token that differs", numbers)
    return CheckResult("batches", "ok" if worst <= tested.limits[0] else "warn", what, f"0, {tested.limits[0]:g} nats", "", numbers)


def options(tested: ModelUnderTest) -> CheckResult:
    """Compare log-probabilities among option letters in a batch with plain forward passes."""
    import torch

    cases = [c for c in tested.cases if c.image is not None] or tested.cases
    requests = tested.requests((OPTIONS,), cases)
    worst = 0.0
    for request, parts in zip(requests, tested.answers(requests), strict=True):
        ids = tested.model.option_ids(request.options)
        plain = tested.plain.logits(request.prompt, request.image)[0][ids]
        worst = max(worst, _largest_difference(torch.tensor(parts[OPTIONS].numbers, dtype=torch.double, device=plain.device), plain))
    return judge_difference(
        "option logits", worst, tested.limits, "log-probabilities among the options against a plain forward pass", "see padding"
    )


def priors(tested: ModelUnderTest) -> CheckResult:
    """Compare answers' log-probabilities without image, question or both with plain passes."""
    worst, lacking, why = 0.0, [], ""
    for name, keeps_image, keeps_question in _PRIORS:
        try:
            prior_parts = tested.part(name)
        except ModelError as error:
            lacking.append(name)
            why = str(error)
            continue
        for case, answer_parts, parts in zip(tested.cases, tested.baseline, prior_parts, strict=True):
            question, image = case.question if keeps_question else "", case.image if keeps_image else None
            tokens = answer_parts[ANSWER].tokens or []
            plain, _ = tested.plain.forced(tested.model.render(messages(question, n_images=image is not None)), image, tokens)
            worst = max(worst, *map(distance, parts[name].logprobs or [], plain))
    if lacking and worst <= tested.limits[1]:
        return CheckResult(
            "priors", "warn", f"cannot be had: {', '.join(lacking)} ({why})", "all three", "estimators that need them cannot be used"
        )
    return judge_difference(
        "priors", worst, tested.limits, "log-probabilities without image, question, both", "estimators that need priors cannot be used"
    )


def divergence(tested: ModelUnderTest) -> CheckResult:
    """Compare the KL divergence between predictions with and without image with plain passes."""
    import torch

    try:
        divergences = tested.part("image_divergence")
    except ModelError as error:
        return CheckResult("image divergence", "warn", f"cannot be had ({error})", "", "estimators that need it cannot be used")
    if all(case.image is None for case in tested.cases):
        return CheckResult("image divergence", "skip", NO_IMAGE)
    worst = 0.0
    for case, answer_parts, parts in zip(tested.cases, tested.baseline, divergences, strict=True):
        if case.image is None:
            continue
        tokens = answer_parts[ANSWER].tokens or []
        prompts = [tested.model.render(messages(case.question, n_images=with_image)) for with_image in (True, False)]
        with_it, without = (
            torch.log_softmax(tested.plain.logits(prompt, image, tokens)[:-1], dim=1)
            for prompt, image in zip(prompts, (case.image, None), strict=True)
        )
        plain = (with_it.exp() * (with_it - without)).sum(dim=1).tolist()
        # Relative for large values, as rounding grows with the divergence.
        apart = map(distance, parts["image_divergence"].logprobs or [], plain)
        worst = max(worst, *(gap / max(1.0, abs(value)) for gap, value in zip(apart, plain, strict=False)))
    what = "KL divergence of the next token with the image from without it, against a plain pass (relative above 1 nat)"
    return judge_difference("image divergence", worst, tested.limits, what, "see priors")


def said_confidence(tested: ModelUnderTest) -> CheckResult:
    """Check that verbalised confidence is the greedy reply to the whole conversation."""
    worst = 0.0
    for case, answer_parts, parts in zip(tested.cases, tested.baseline, tested.part("said_confidence"), strict=True):
        part = parts["said_confidence"]
        prompt = tested.model.render(verbalisation(case.question, answer_parts[ANSWER].text or "", case.image is not None), silent=True)
        logits = tested.plain.logits(prompt, case.image, part.tokens or [])[:-1]
        worst = max(
            worst,
            *_forced_distances(logits, part),
            *(float(row.max() - row[token]) for row, token in zip(logits, part.tokens or [], strict=True)),
        )
    return judge_difference(
        "said confidence", worst, tested.limits, "log-probabilities of the reply against the whole prompt", "see continuation"
    )


def own_answer(tested: ModelUnderTest) -> CheckResult:
    """Compare P(yes) and P(True) from the continued cache with those of the whole prompt."""
    from qualm.runners.inference.hf.own_answer import true_probability, yes_share

    worst = 0.0
    for name in ("p_yes", "p_true", "p_true_sampling"):
        for case, answer_parts, parts in zip(tested.cases, tested.baseline, tested.part(name), strict=True):
            has_image, answer = case.image is not None, answer_parts[ANSWER].text or ""
            drawn = [answer_parts[draw_part(draw)].text or "" for draw in range(1, DRAWS + 1)]
            text = (
                p_true_sampling_prompt(case.question, answer, drawn) if name == "p_true_sampling" else p_true_prompt(case.question, answer)
            )
            turns = verification(case.question, answer, has_image) if name == "p_yes" else messages(text, n_images=has_image)
            prompt = tested.model.render(turns, silent=True)
            logits = tested.plain.logits(prompt, case.image)
            share = (yes_share if name == "p_yes" else true_probability)(tested.model, logits, prompt)[0]
            value = next(iter(parts[name].numbers or ()), None)
            if (value is None) != (share is None):
                what = f"{name} is {value} by continuation and {share} by the whole prompt"
                return CheckResult("p_yes, p_true", "fail", what, "equal", "see continuation")
            worst = max(worst, 0.0 if value is None or share is None else abs(value - share))
    return judge_difference(
        "p_yes, p_true", worst, tested.limits, "P(yes) and P(True) by continuation against the whole prompt", "see continuation", ""
    )


def _forced_distances(logits: torch.Tensor, part: Part) -> Iterable[float]:
    """Return 0.0 and a part's distances from `logits`: its log-probabilities, then entropies."""
    logprobs, entropies = forced_numbers(logits, part.tokens or [])
    return [0.0, *map(distance, part.logprobs or [], logprobs), *map(distance, part.entropies or [], entropies)]


def _largest_difference(a: torch.Tensor, b: torch.Tensor) -> float:
    """Return the largest log-probability difference of tokens above 1e-4; inf if undefined."""
    import torch

    one, two = torch.log_softmax(a, dim=-1), torch.log_softmax(b, dim=-1)
    likely = torch.maximum(one, two) > -9.2
    gap = (one - two).abs()[likely]
    return float(gap.max()) if gap.numel() and bool(gap.isfinite().all()) else float("inf")


def _tokens_after_image(tested: ModelUnderTest, ids: Sequence[int]) -> int:
    """Return the number of token ids after the last image token, or of all without one."""
    last = max((i for i, token in enumerate(ids) if tested.model.marks([token])), default=-1)
    return len(ids) - 1 - last


CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        "finite": finite,
        "image matters": image_matters,
        "padding": padding,
        "continuation": continuation,
        "log-probabilities": log_probabilities,
        "greedy answers": greedy,
        "draws": draws,
        "batches": batches,
        "option logits": options,
        "priors": priors,
        "image divergence": divergence,
        "p_yes, p_true": own_answer,
        "said confidence": said_confidence,
    }
)
