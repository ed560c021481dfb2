"""Weights of transformers models, loaded so that none is random and generation settings do not change the logits."""

from typing import Any

from qualm.runners.contracts.models import ModelError
from qualm.runners.inference.hf.double import computing


def silence() -> None:
    """Make transformers print errors only, without progress bars."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


def read_weights(
    who: str, loader: Any, place: dict[str, Any], dtype: str, tokenizer: Any, encodes: bool = False, **more: Any
) -> tuple[Any, set[int]]:
    """Return (module with weights, stop token ids); an encoder-decoder only if `encodes`.

    Args:
        loader: an `AutoModelFor...`.
        place: arguments of `from_pretrained` for the location.
        tokenizer: whose end of sequence is a stop, too.
        encodes: whether an encoder-decoder is accepted.
        more: further arguments of `from_pretrained`.

    Raises:
        ModelError: the files cannot be read, lack weights that transformers would fill with random numbers, or are of an
            encoder-decoder that is not accepted.
    """
    from transformers import GenerationConfig

    module = whole_module(who, loader, place, dtype, **more)
    if module.config.is_encoder_decoder and not encodes:
        raise ModelError(f"{who}: {type(module).__name__} is an encoder-decoder; expected a decoder-only model")
    ends, start = module.generation_config.eos_token_id, module.generation_config.decoder_start_token_id
    stops = {*(ends if isinstance(ends, list) else [ends]), tokenizer.eos_token_id} - {None}
    # Nothing of the shipped generation settings but the stops: a repetition penalty would be a change of the logits.
    begins = {} if start is None else {"decoder_start_token_id": start}
    module.generation_config = GenerationConfig(eos_token_id=sorted(stops) or None, pad_token_id=tokenizer.pad_token_id, **begins)
    return module, stops


def whole_module(who: str, loader: Any, place: dict[str, Any], dtype: str, unused: str = "", **more: Any) -> Any:
    """Load a module in eval mode; ModelError if weights other than `unused...` are missing.

    Raises:
        ModelError: the files cannot be read, or lack weights that transformers would fill with random numbers.
    """
    import torch
    from safetensors import SafetensorError

    more = {"ignore_mismatched_sizes": True, **more}  # they are in the report, by name
    try:
        with computing(dtype):
            module, report = loader.from_pretrained(
                **place, dtype=getattr(torch, dtype), use_safetensors=True, output_loading_info=True, **more
            )
    except (OSError, ValueError, ImportError, KeyError, RuntimeError, TypeError, SafetensorError) as error:
        raise ModelError(f"{who}: its weights cannot be read: {error}") from error
    absent = sorted({*(report.get("missing_keys") or ()), *(name for name, *_ in report.get("mismatched_keys") or ())})
    absent = [name for name in absent if not unused or not name.startswith(unused)]
    if absent:
        raise ModelError(f"{who}: weights that its config asks for are absent or of another shape: {', '.join(absent[:5])}")
    return module.eval()
