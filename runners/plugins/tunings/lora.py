"""Low-rank adapters (Hu et al., ICLR 2022), as peft implements them: a trained product BA of rank r is added to every chosen matrix W."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge, Gt, Lt

from qualm.runners.contracts.tunings import Tuning

if TYPE_CHECKING:
    from qualm.runners.inference.hf.model import HfVlm

CITES = ["hu2022lora"]

ADAPTER = True
"""The saved adapter needs its base model to be loaded."""

EXTRA = "train"


def lora(
    model: HfVlm,
    *,
    r: Annotated[int, Ge(1)] = 8,
    alpha: Annotated[float, Gt(0.0)] = 16.0,
    dropout: Annotated[float, Ge(0.0), Lt(1.0)] = 0.0,
    targets: str = "[qkvo]_proj|gate_proj|up_proj|down_proj",
    whole: str | None = None,
    vision: bool = False,
) -> Tuning:
    """Return a Tuning with an adapter: W + (alpha / r) B A, B zero at the start, W frozen.

    Args:
        r: rank.
        alpha: scale of the difference, divided by the rank.
        dropout: of the adapter's inputs; with it, losses differ between numbers of devices.
        targets: pattern (a regular expression) of the linear layers with an adapter: of the whole dotted name or of its end.
        whole: pattern of modules that are trained as they are and saved with the adapter, such as `multi_modal_projector`.
        vision: include layers of the vision tower.

    Raises:
        FinetuneError: no layer fits the pattern.
    """
    from peft import LoraConfig, get_peft_model

    from qualm.runners.training.weights import copy_processor, matching_modules

    network: Any = model.load("float32" if model.dtype == "float64" else None)
    network.name_or_path = model.origin  # of a model that is an adapter itself: that adapter, not what lies under it
    linear = matching_modules(network, targets, vision=vision, linear=True)
    config = LoraConfig(
        r=r,
        lora_alpha=alpha,  # type: ignore[arg-type]
        lora_dropout=dropout,
        target_modules=linear,
        modules_to_save=matching_modules(network, whole, vision=True, linear=False) if whole else None,
        base_model_name_or_path=model.origin,
        revision=model.base.revision,
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated")  # between peft and transformers
        tuned = get_peft_model(network, config)

    def save(folder: Path, state: Mapping[str, Any]) -> None:
        tuned.save_pretrained(str(folder), state_dict=dict(state), safe_serialization=True, save_embedding_layers=False)
        (folder / "README.md").unlink(missing_ok=True)  # a model card of blanks
        copy_processor(model, folder)

    @contextmanager
    def original() -> Iterator[Any]:
        import torch

        with torch.no_grad(), tuned.disable_adapter():
            yield tuned

    return Tuning(tuned, save, lambda: original)
