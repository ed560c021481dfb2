"""A model under examination, results of checks, and judging of differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import PIL.Image

from qualm.registry.places import project_root
from qualm.registry.system.failures import log_error, summarize_error
from qualm.registry.system.versions import installed_version
from qualm.runners.contracts.models import ANSWER, OPTIONS, Decoding, ModelError, Part, Request, draw_part
from qualm.runners.inference.check_cases import Case
from qualm.runners.inference.devices import to_double
from qualm.runners.inference.hf.model import HfVlm
from qualm.runners.inference.hf.plain import append_tokens, start_token
from qualm.runners.inference.hf.self_check import TOLERANCE

if TYPE_CHECKING:
    import torch

    from qualm.runners.inference.hf.model import HfVlm


Verdict = Literal["ok", "warn", "fail", "error", "skip"]
"""`fail`: the model is at fault. `error`: the check itself failed, by a fault of Qualm or a library."""


TEXT_ONLY = "the model reads text only"
NO_IMAGE = "no question has exactly one image; `--spec` names a spec that has some"
DRAWS = 2


@dataclass(frozen=True)
class CheckResult:
    """Result of one check of `qualm doctor model`: verdict, finding, expectation, advice."""

    check: str
    verdict: Verdict
    found: str
    tolerance: str = ""
    """Expected result."""
    advice: str = ""
    numbers: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


Check = Callable[["ModelUnderTest"], CheckResult]


@dataclass
class ModelUnderTest:
    """A loaded model under examination, with the questions that it is asked."""

    model: HfVlm
    cases: Sequence[Case]
    """Open questions: at least three, two of them about one image."""
    decoding: Decoding = field(default_factory=lambda: Decoding(8, 0.9))

    def __post_init__(self) -> None:
        self.model.is_checked = True  # keeps the engine from switching to plain passes, which would hide differences

    @property
    def limits(self) -> tuple[float, float]:
        return TOLERANCE[self.model.dtype]

    @cached_property
    def plain(self) -> Plain:
        return Plain(self.model)

    def request(self, case: Case, parts: Sequence[str] = (ANSWER,)) -> Request:
        options = len(case.choices) if OPTIONS in parts else 0
        prompt = self.model.render(self._talk(case, case.choices if options else ()))
        return Request(prompt, case.image, options, case.question, tuple(parts), case.stream, case.pixels)

    def conversations(self) -> list[list[dict[str, Any]]]:
        return [self._talk(case, ()) for case in self.cases]

    @staticmethod
    def _talk(case: Case, choices: Sequence[str]) -> list[dict[str, Any]]:
        from qualm.runners.prompts.question import messages

        return messages(case.question, choices, case.image is not None)

    def requests(self, parts: Sequence[str] = (ANSWER,), cases: Sequence[Case] | None = None) -> list[Request]:
        return [self.request(case, parts) for case in (self.cases if cases is None else cases)]

    def answers(self, requests: Sequence[Request]) -> list[dict[str, Part]]:
        return self.model.answer(self.model.encode(requests), self.decoding)

    def part(self, *parts: str) -> list[dict[str, Part]]:
        """Return per case {name: answer part} of these parts, given the baseline's answers."""
        from dataclasses import replace

        drawn = [{k: answer_parts[draw_part(k)].text or "" for k in range(1, DRAWS + 1)} for answer_parts in self.baseline]
        rows = zip(self.requests(parts), self.baseline, drawn, strict=True)
        return self.answers([replace(request, greedy=answer_parts[ANSWER], drawn=texts) for request, answer_parts, texts in rows])

    @cached_property
    def baseline(self) -> list[dict[str, Part]]:
        """Return per case {name: greedy or sampled answer}, computed in one batch."""
        return self.answers(self.requests((ANSWER, *map(draw_part, range(1, DRAWS + 1)))))


def judge_difference(
    check: str, largest_difference: float, limits: tuple[float, float], what: str, advice: str, unit: str = "nats"
) -> CheckResult:
    """Return a result: ok up to limits[0], warn up to limits[1], else (or if NaN) fail."""
    ok, bad = limits
    right = largest_difference <= ok
    verdict: Verdict = "ok" if right else "warn" if largest_difference <= bad else "fail"
    return CheckResult(
        check,
        verdict,
        f"{what}: {largest_difference:.2g} {unit}".rstrip() + " at most",
        f"{ok:g} {unit}".rstrip(),
        "" if right else advice,
        {"worst": largest_difference},
    )


def run_check(name: str, check: Check, tested: ModelUnderTest) -> CheckResult:
    """Run a check; return `fail` on a ModelError, `error` on any other exception."""
    try:
        return check(tested)
    except ModelError as error:
        return CheckResult(name, "fail", str(error), advice="the message says what the model lacks; signals that need it cannot be had")
    except Exception as error:  # noqa: BLE001 - the other checks still run
        return unexpected_error(name, error)


def unexpected_error(name: str, error: Exception) -> CheckResult:
    """Log an unexpected exception's traceback; return a result of verdict `error`."""
    versions = f"transformers {installed_version('transformers')}, torch {installed_version('torch')}"
    advice = f"this says nothing about the model; please report it ({log_error(error, f'doctor-{name}', project_root())})"
    return CheckResult(name, "error", f"failed inside Qualm with {versions}: {summarize_error(error)}", advice=advice)


class Plain:
    """Plain forward passes of a model, without cache, as reference for checks."""

    def __init__(self, model: HfVlm) -> None:
        self.model = model

    def inputs(self, prompts: Sequence[str], images: Sequence[PIL.Image.Image] | None) -> dict[str, Any]:
        """Return prompts as the processor's tensors by name, on the module's device and dtype."""
        import torch

        begins = self.model.tokenizer.bos_token
        more: dict[str, Any] = {} if self.model.text_only else {"images": None if images is None else [[image] for image in images]}
        if self.model.text_only or (begins and prompts[0].startswith(begins)):
            more["add_special_tokens"] = False
        encoding = dict(self.model.processor(text=list(prompts), padding=True, return_tensors="pt", **more))
        encoding.pop("labels", None)
        device, dtype = self.model.module.device, self.model.module.dtype
        return {
            name: value.to(device, dtype if value.is_floating_point() else None) if isinstance(value, torch.Tensor) else value
            for name, value in encoding.items()
        }

    def forward(self, inputs: dict[str, Any], **more: Any) -> Any:
        import torch

        module = self.model.module
        if module.config.model_type == "kosmos-2" and "pixel_values" not in inputs:
            module = module.text_model  # the whole module requires an image
        with torch.inference_mode():
            return module(**inputs, **{"use_cache": False, **more})

    def logits(self, prompt: str, image: PIL.Image.Image | None, tokens: Sequence[int] = ()) -> torch.Tensor:
        """Return logits (1 + tokens, vocabulary) before each of these tokens and after the last."""
        import torch

        inputs = self.inputs([prompt], None if image is None else [image])
        if self.model.module.config.is_encoder_decoder:
            decoded = torch.tensor([[start_token(self.model.module), *tokens]], device=self.model.module.device)
            return to_double(self.forward({**inputs, "decoder_input_ids": decoded}).logits[0])
        return to_double(self.forward(append_tokens(self.model.module, inputs, tokens)).logits[0, -1 - len(tokens) :])

    def forced(self, prompt: str, image: PIL.Image.Image | None, tokens: Sequence[int]) -> tuple[list[float], list[float]]:
        """Return (log-probability of each given token, entropy before it), both in nats."""
        return forced_numbers(self.logits(prompt, image, tokens)[:-1], tokens)


def forced_numbers(logits: torch.Tensor, tokens: Sequence[int]) -> tuple[list[float], list[float]]:
    """Return (log-probability of each token, entropy before it) in nats from the logits."""
    import torch

    logprobs = torch.log_softmax(logits, dim=1)
    index = torch.tensor(list(tokens), device=logprobs.device).unsqueeze(1)
    return logprobs.gather(1, index).squeeze(1).tolist(), torch.special.entr(logprobs.exp()).sum(dim=1).tolist()
