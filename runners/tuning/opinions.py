"""What the base model says of the rows it is to be trained on, how right that is, and how sure it is of it.

Answers come from the sample-level store or go there, so that a killed stage resumes, and what the `infer` stage has asked
already is not asked again.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from registry import CLEAN
from registry.plugins import Chosen, get
from runners.answers import STORE, answer_tables
from runners.code import engine_digest
from runners.devices import torch_device
from runners.finetunes import FinetuneContext, FinetuneError
from runners.inputs import BrokenSample, Dataset, Variant
from runners.judges import JudgeError
from runners.judges.rules import normalise
from runners.judging import Answered, judge
from runners.models import Answer, Request
from runners.progress import progress
from runners.stage import Stage
from runners.store import Store, answer_key, pixel_digest
from runners.tuning.examples import Row
from runners.tuning.recipe import trainable

if TYPE_CHECKING:
    from runners.models.hf_vlm import HfVlm


def greedy(context: FinetuneContext, name: str, datasets: Mapping[str, Dataset]) -> dict[tuple[str, str], str]:
    """The greedy answer of a model of the spec to every sample: (dataset, sample id) -> text."""
    module = get("models", context.models[name]["plugin"]).module
    tables = answer_tables(
        trainable(context, name), module, list(datasets.values()), [Variant(CLEAN)], frozenset({"text"}), _stage(context)
    )
    return {
        (dataset, sample): text
        for dataset, table in zip(datasets, tables, strict=True)
        for sample, text in zip(table["sample_id"].to_pylist(), table["text"].to_pylist(), strict=True)
    }


def right(context: FinetuneContext, rows: Sequence[Row], answers: Sequence[str], by: Chosen) -> list[bool | None]:
    """Whether each answer is at least partly right; None where the judge cannot tell. Options are right by their letter.

    Raises:
        FinetuneError: the judge fails; what it had judged is kept.
    """
    asked = [k for k, row in enumerate(rows) if not row.choices]
    chosen = {"plugin": by, "args": {}} if isinstance(by, str) else dict(by)
    counters: Counter[str] = Counter()
    given = [Answered(rows[k].question, tuple(rows[k].references) if rows[k].answerable else (), answers[k]) for k in asked]
    try:
        judged = judge({"label": chosen["plugin"], **chosen}, given, context.settings, counters)
    except JudgeError as error:
        raise FinetuneError(str(error)) from error
    finally:
        context.count(**counters)
    verdicts: list[bool | None] = [answer.strip() == row.target for row, answer in zip(rows, answers, strict=True)]
    for k, judgement in zip(asked, judged, strict=True):
        verdicts[k] = None if judgement.rating is None else judgement.rating > 0
    return verdicts


def entropy(texts: Sequence[str]) -> float:
    """Entropy in nats of a list of answers, up to case, punctuation and articles: 0 if all are the same.

    >>> entropy(["Red.", "red", "the red"]), round(entropy(["red", "blue"]), 4)
    (0.0, 0.6931)
    """
    counts = Counter(normalise(t) for t in texts).values()
    return max(0.0, -sum(n / len(texts) * math.log(n / len(texts)) for n in counts))


def sampled(context: FinetuneContext, name: str, dataset: Dataset, rows: Sequence[Row], draws: int, temperature: float) -> list[list[str]]:
    """Several answers to each row, drawn at a temperature; chance comes from the seed, the sample and the draw alone.

    Args:
        context: the stage's.
        name: of a model of the spec.
        dataset: that the rows are of.
        rows: without options.
        draws: answers to each.
        temperature: of the softmax they are drawn from.
    """
    stage = _stage(context)
    model = trainable(context, name)
    module = get("models", context.models[name]["plugin"]).module
    store = Store(STORE, model.digest, engine := engine_digest(module))
    requests: list[tuple[Request, int]] = []
    keys: list[bytes] = []
    for row in rows:
        try:
            image = dataset.image(row.row)
        except BrokenSample as error:
            raise FinetuneError(str(error)) from error
        request = Request(model.render(list(row.conversation)), image, question=row.question)
        for draw in range(1, draws + 1):
            seed = int.from_bytes(hashlib.sha256(f"{context.seed} {row.sample_id} {draw}".encode()).digest()[:7])
            decoding = {"method": "sample", "temperature": temperature, "max_new_tokens": stage.params["max_new_tokens"], "seed": seed}
            pixels = None if image is None else pixel_digest(image)
            keys.append(answer_key(model.digest, engine + _VERSION, request.prompt, pixels, decoding, draw))
            requests.append((request, seed))
    absent = [k for k, key in enumerate(keys) if store.find(key, _TEXT) is None]
    if absent:
        _draw(model, stage, store, [(keys[k], *requests[k]) for k in absent], temperature)
    found = [store.find(key, _TEXT) for key in keys]
    texts = store.take([f for f in found if f is not None])["text"].to_pylist()
    return [texts[start : start + draws] for start in range(0, len(texts), draws)]


_VERSION = " sampled 1"
"""Part of the keys of drawn answers: changed whenever `_Noise` draws others."""
_TEXT = frozenset({"text"})


def _draw(model: HfVlm, stage: Stage, store: Store, wanted: list[tuple[bytes, Request, int]], temperature: float) -> None:
    import torch
    from transformers import LogitsProcessorList

    model.load().to(torch_device(stage.settings.device))
    groups = [[w for w in wanted if (w[1].image is None) is alone] for alone in (False, True)]
    size = stage.settings.batch_size
    with progress(stage.settings, "drawing answers", len(wanted)) as advance, torch.inference_mode():
        for group in groups:
            for start in range(0, len(group), size):
                part = group[start : start + size]
                tensors = model.on_device(model.encode([request for _, request, _ in part]))
                noise = LogitsProcessorList([_Noise([seed for _, _, seed in part], temperature)])
                out = model.module.generate(
                    **tensors, do_sample=False, max_new_tokens=stage.params["max_new_tokens"], logits_processor=noise
                )
                texts = model.texts(out[:, tensors["input_ids"].shape[1] :].tolist())
                store.put([key for key, _, _ in part], [Answer(text) for text in texts])
                stage.count(drawn_answers=len(part))
                advance(len(part))


class _Noise:
    """Turns greedy decoding into sampling: the largest of logits / T plus Gumbel noise is a draw from softmax(logits / T)."""

    def __init__(self, seeds: Sequence[int], temperature: float) -> None:
        import torch

        self.generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        self.temperature = temperature

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        import torch

        uniform = torch.stack([torch.rand(scores.shape[1], generator=g, dtype=torch.float64) for g in self.generators])
        gumbel = -torch.log(-torch.log(uniform.clamp(1e-300, 1 - 1e-16)))
        return scores.double() / self.temperature + gumbel.to(scores.device)


def _stage(context: FinetuneContext) -> Stage:
    if context.stage is None:
        raise FinetuneError("a recipe that asks its base model can only be made within a stage")
    return context.stage
