"""Compare a backend's log-probabilities, such as vLLM's, with plain forward passes of the same weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from qualm.runners.contracts.models import ANSWER, ModelContext
from qualm.runners.doctor.model_under_test import CheckResult, ModelUnderTest, judge
from qualm.runners.runtime.settings import read_settings


def against(tested: ModelUnderTest, backend: str, folder: Path | None, parameters: Mapping[str, Any]) -> CheckResult:
    """Compare a backend's log-probabilities with a plain forward pass over its tokens.

    Tokens are forced, so different answers are compared too; they are counted, since rounding decides near ties.

    Args:
        parameters: arguments of hf_vlm; the backend gets those that it has too.

    Raises:
        ModelError: the other backend cannot read these weights.
    """
    from qualm.registry.plugins.registry import get, load

    check, names = f"against {backend}", {parameter.name for parameter in get("models", backend).parameters}
    args = {name: value for name, value in parameters.items() if name in names}
    other = load("models", backend)(ModelContext(tested.model.label, folder, settings=read_settings()), **args)
    requests = tested.requests()
    prompts = [other.render(turns) for turns in tested.talks()]
    if prompts != [request.prompt for request in requests]:
        return CheckResult(check, "fail", "it renders other prompts", "the same", "give both the same `template`")
    other.load()
    answers = [parts[ANSWER] for parts in other.answer(other.encode(requests), tested.decoding)]
    forced = [tested.plain.forced(r.prompt, r.image, a.tokens or [])[0] for r, a in zip(requests, answers, strict=True)]
    pairs = [pair for answer, own in zip(answers, forced, strict=True) for pair in zip(answer.logprobs or [], own, strict=True)]
    differ = sum(a.tokens != parts[ANSWER].tokens for a, parts in zip(answers, tested.baseline, strict=True))
    what = f"log-probabilities of {len(pairs)} tokens by {backend} against plain forward passes"
    result = judge(
        check, max(abs(a - b) for a, b in pairs), tested.limits, what,
        f"numbers of {backend} and hf_vlm are not to be mixed in one comparison; try float32, and report the port",
    )  # fmt: skip
    count = f"; {differ} of {len(answers)} answers differ from those of hf_vlm"
    return replace(result, found=result.found + count, numbers={**result.numbers, "tokens": len(pairs), "differ": differ})
