"""A plain reference: one prompt at a time through a model's own processor and module, without batch, padding or cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import PIL.Image

if TYPE_CHECKING:
    import torch

    from qualm.runners.inference.hf.model import HfVlm


class Plain:
    """A module called as its authors show it."""

    def __init__(self, model: HfVlm) -> None:
        self.model = model

    def inputs(self, prompts: Sequence[str], images: Sequence[PIL.Image.Image] | None) -> dict[str, Any]:
        """What the processor makes of prompts, on the module's device and in its dtype."""
        import torch

        begins = self.model.tokenizer.bos_token
        special = {"add_special_tokens": False} if begins and prompts[0].startswith(begins) else {}
        pictures = None if images is None else [[image] for image in images]
        encoding = dict(self.model.processor(text=list(prompts), images=pictures, padding=True, return_tensors="pt", **special))
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
            module = module.text_model  # as a whole it insists on a picture
        with torch.inference_mode():
            return module(**inputs, **{"use_cache": False, **more})

    def followed(self, inputs: dict[str, Any], tokens: Sequence[int]) -> dict[str, Any]:
        """Inputs of a prompt with tokens after it; what goes along with each token grows as it does in the module's own `generate`."""
        import torch

        module, width = self.model.module, inputs["input_ids"].shape[1]
        along = {
            name: value for name, value in inputs.items() if isinstance(value, torch.Tensor) and value.shape == inputs["input_ids"].shape
        }
        for _ in tokens:
            extras = {name: value for name, value in along.items() if name != "input_ids"}
            along |= module._update_model_kwargs_for_generation({}, extras)
        new = torch.tensor([list(tokens)], device=module.device, dtype=torch.long)
        along["input_ids"] = torch.cat([inputs["input_ids"], new], dim=1)
        for name, value in along.items():
            missing = width + len(tokens) - value.shape[1]
            along[name] = torch.cat([value, value.new_zeros(1, missing)], dim=1) if missing else value
        return {**inputs, **along}

    def logits(self, prompt: str, image: PIL.Image.Image | None, tokens: Sequence[int] = ()) -> torch.Tensor:
        """Raw logits (1 + tokens, vocabulary), double precision, of the positions that predict the tokens and one more."""
        inputs = self.inputs([prompt], None if image is None else [image])
        logits: torch.Tensor = self.forward(self.followed(inputs, tokens)).logits[0, -1 - len(tokens) :].double()
        return logits

    def forced(self, prompt: str, image: PIL.Image.Image | None, tokens: Sequence[int]) -> tuple[list[float], list[float]]:
        """Log-probabilities of given tokens after a prompt, and entropies in nats of what they were chosen from."""
        import torch

        logprobs = torch.log_softmax(self.logits(prompt, image, tokens)[:-1], dim=1)
        index = torch.tensor(list(tokens), device=logprobs.device).unsqueeze(1)
        return logprobs.gather(1, index).squeeze(1).tolist(), torch.special.entr(logprobs.exp()).sum(dim=1).tolist()
