"""Plain forward passes for models whose cache cannot be branched.

Where an image enters by cross-attention (Llama 3.2 Vision), a prompt by an encoder (Florence-2), or layers keep another state than keys
and values (linear attention, state-space models), nothing can be shared or masked. Each prompt is read alone, and from its beginning for
every new token, without cache or padding: correct, and slower by about the length of an answer. The vision part and an encoder are computed
once per batch (`qualm.runners.inference.hf.once`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qualm.runners.inference.devices import to_double

if TYPE_CHECKING:
    import torch

    from qualm.runners.inference.hf.rows import GoesOn
    from qualm.runners.inference.hf.sampling import Chooser
    from qualm.runners.inference.hf.taps import AnswerStates

ROWS = "rows"
"""Key of a batch's rows for plain passes: processor outputs of single prompts."""
BOTH_WAYS = frozenset({"paligemma"})
"""Families that read a prompt in both directions, and mark generated text by 1 in `token_type_ids`. Others mark images by 1, text by 0."""
_BRANCHING = frozenset({"full_attention", "sliding_attention"})


def plain_reason(config: Any) -> str:
    """Return why a model must be read by plain passes; "" if its cache can be branched."""
    text = config.get_text_config()
    if config.is_encoder_decoder or text.is_encoder_decoder:
        return "an encoder reads the prompt"
    if getattr(text, "cross_attention_layers", None):
        return "the image enters by cross-attention"
    others = sorted(set(getattr(text, "layer_types", None) or ()) - _BRANCHING)
    return f"it has layers of {', '.join(others).replace('_', ' ')}" if others else ""


class PlainNetwork:
    """A transformers module, called without a cache, one prompt at a time."""

    side_by_side = False
    taps: Any = None

    def __init__(self, module: Any) -> None:
        self.module = module
        self.encodes = bool(module.config.is_encoder_decoder or module.config.get_text_config().is_encoder_decoder)

    @property
    def device(self) -> torch.device:
        device: torch.device = self.module.device
        return device

    def read(self, tensors: dict[str, Any], goes_on: bool = True) -> PlainRows:
        """Return the rows of a batch, each by one pass without a cache; `goes_on` has no effect."""
        rows = [self.placed(row) for row in tensors[ROWS]]
        return PlainRows.from_inputs(self, rows, [[] for _ in rows])

    def logits(self, inputs: dict[str, Any], tokens: Sequence[int]) -> torch.Tensor:
        """Return logits (1 + tokens, vocabulary) before each of these tokens and after the last."""
        whole = self._encoded(inputs, tokens) if self.encodes else append_tokens(self.module, inputs, tokens)
        logits: torch.Tensor = self.module(**whole, use_cache=False).logits[0, -1 - len(tokens) :]
        return logits

    def _encoded(self, inputs: dict[str, Any], tokens: Sequence[int]) -> dict[str, Any]:
        import torch

        decoded = torch.tensor([[start_token(self.module), *tokens]], device=self.device)
        return {**inputs, "decoder_input_ids": decoded}

    def placed(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return one prompt's processor output on the module's device and in its dtype."""
        import torch

        device, dtype = self.module.device, self.module.dtype
        return {
            name: value.to(device, dtype if value.is_floating_point() else None) if isinstance(value, torch.Tensor) else value
            for name, value in row.items()
        }


def start_token(module: Any) -> int:
    """Return the id of the token with which a decoder's text begins."""
    config, text = module.config, module.config.get_text_config()
    candidates = (getattr(c, "decoder_start_token_id", None) for c in (module.generation_config, config, text))
    return int(next(token for token in candidates if token is not None))


def append_tokens(module: Any, inputs: dict[str, Any], tokens: Sequence[int]) -> dict[str, Any]:
    """Return one prompt's inputs with text tokens appended.

    Inputs with one entry per token grow along: masks by ones, types of tokens by the type of generated text, and everything else, such as
    the mask of cross-attention, by its last entry, since appended text sees the images that the prompt's last token sees.
    """
    import torch

    if not tokens:
        return inputs
    ids = inputs["input_ids"]
    longer = {"input_ids": torch.cat([ids, ids.new_tensor([list(tokens)])], dim=1)}
    for name, value in inputs.items():
        if name == "input_ids" or not isinstance(value, torch.Tensor) or value.ndim < 2 or value.shape[:2] != ids.shape:
            continue
        last = value[:, -1:]
        if name == "attention_mask":
            last = torch.ones_like(last)
        elif name.endswith("token_type_ids"):
            last = torch.full_like(last, int(module.config.model_type in BOTH_WAYS))
        longer[name] = torch.cat([value, last.expand(-1, len(tokens), *value.shape[2:])], dim=1)
    return {**inputs, **longer}


@dataclass
class PlainRows:
    """Prompts and their later tokens, read without cache; has the interface of `rows.Rows`."""

    network: PlainNetwork
    inputs: list[dict[str, Any]]
    written: list[list[int]]
    logits: torch.Tensor
    mask: torch.Tensor
    lengths: torch.Tensor

    @classmethod
    def from_inputs(cls, network: PlainNetwork, inputs: list[dict[str, Any]], written: list[list[int]]) -> PlainRows:
        """Return rows of prompts plus tokens `written`, with next-token logits; one pass a row."""
        import torch

        logits = torch.stack([network.logits(row, tokens)[-1] for row, tokens in zip(inputs, written, strict=True)])
        return cls._with(network, inputs, written, logits)

    @classmethod
    def _with(cls, network: PlainNetwork, inputs: list[dict[str, Any]], written: list[list[int]], logits: torch.Tensor) -> PlainRows:
        import torch

        sizes = [row["input_ids"].shape[1] + len(tokens) for row, tokens in zip(inputs, written, strict=True)]
        lengths = torch.tensor(sizes, device=logits.device)
        return cls(network, inputs, written, logits, torch.ones_like(lengths, dtype=torch.bool).unsqueeze(1), lengths)

    def select(self, index: torch.Tensor) -> PlainRows:
        """Return the rows of these indices, which may repeat."""
        rows = index.tolist()
        return self._with(self.network, [self.inputs[i] for i in rows], [self.written[i] for i in rows], self.logits[index])

    def extend(self, ids: Sequence[Sequence[int]], starts: Sequence[int], keep: int = 1) -> tuple[PlainRows, torch.Tensor]:
        """Return (rows with tokens appended, (rows, keep, V) logits); `starts` are row lengths."""
        import torch

        assert list(starts) == self.lengths.tolist(), "plain passes do not branch off"
        written = [[*before, *new] for before, new in zip(self.written, ids, strict=True)]
        following = self.logits.new_zeros(len(ids), keep, self.logits.shape[1])
        for row, (inputs, tokens, new) in enumerate(zip(self.inputs, written, ids, strict=True)):
            last = self.network.logits(inputs, tokens)[-min(keep, len(new)) :]
            following[row, keep - len(last) :] = last
        return self._with(self.network, self.inputs, written, torch.stack([row[-1] for row in following])), following

    def peek(self, ids: Sequence[Sequence[int]], starts: Sequence[int], keep: int = 1) -> torch.Tensor:
        """Return only the logits of `extend`, (rows, keep, vocabulary)."""
        return self.extend(ids, starts, keep)[1]

    def decode(
        self,
        n_answers: int,
        chooser: Chooser,
        steps: int,
        stops: set[int],
        goes_on: GoesOn | None = None,
        states: AnswerStates | None = None,
    ) -> tuple[list[list[int]], list[list[float]], list[list[float]]]:
        """Decode `n_answers` per row; return (tokens, logprobs, entropies in nats) by answer."""
        import torch

        device, total = self.logits.device, len(self.inputs) * n_answers
        tokens = torch.zeros(total, steps, dtype=torch.long, device=device)
        logprobs, entropies = ([[] for _ in range(total)] for _ in range(2))  # type: ignore[var-annotated]
        live = list(range(total))
        logits = self.logits.repeat_interleave(n_answers, dim=0)
        for step in range(steps):
            rows = torch.tensor(live, device=device)
            chosen = chooser(step, logits, rows)
            tokens[rows, step] = chosen
            spread = torch.log_softmax(to_double(logits), dim=-1)
            taken = spread.gather(1, chosen.unsqueeze(1).to(spread.device)).squeeze(1).tolist()
            for row, value, entropy in zip(live, taken, torch.special.entr(spread.exp()).sum(dim=-1).tolist(), strict=True):
                logprobs[row].append(value)
                entropies[row].append(entropy)
            going = torch.tensor([token not in stops for token in chosen.tolist()], device=device)
            if goes_on is not None:
                going &= goes_on(step, rows, tokens)
            live = [row for row, on in zip(live, going.tolist(), strict=True) if on]
            if not live or step + 1 == steps:
                break
            so_far = [[*self.written[row // n_answers], *tokens[row, : step + 1].tolist()] for row in live]
            equal = {(row // n_answers, tuple(ids)): ids for row, ids in zip(live, so_far, strict=True)}  # answers that are the same so far
            read = {key: self.network.logits(self.inputs[key[0]], ids)[-1] for key, ids in equal.items()}
            logits = torch.stack([read[row // n_answers, tuple(ids)] for row, ids in zip(live, so_far, strict=True)])
        return [tokens[row, : len(values)].tolist() for row, values in enumerate(logprobs)], logprobs, entropies
