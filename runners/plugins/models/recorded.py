"""Recorded answers, scored in the same way as our own: published tables can be rebuilt from raw outputs."""

from pathlib import Path
from typing import Literal

import pyarrow as pa

from qualm.registry.formats.vub_layout import LayoutError, answer_index, is_vub, list_all_runs, logits, read_records
from qualm.registry.plugins.registry import Artifact
from qualm.registry.recordings.record import ReadOptions
from qualm.runners.contracts.models import ModelContext, ModelError, Recording
from qualm.runners.plugins.models._peer_recording import PeerRecording
from qualm.runners.prompts.thinking import ThinkingError, parse_thinking

GIVES = {
    "format": {
        "auto": [
            "text",
            "token_logprobs",
            "token_entropies",
            "logprobs_without_image",
            "logprobs_without_question",
            "logprobs_without_both",
            "option_logits",
            "p_true",
            "p_yes",
            "draws",
        ],
        "vub": ["option_logits"],
        "lmms-eval": ["text", "option_logits", "draws"],
        "lm-eval": ["text", "option_logits", "draws"],
        "vlmevalkit": ["text"],
        "seedbench": ["text"],
        "inspect": ["text", "token_logprobs", "draws"],
        "lighteval": ["text", "token_logprobs", "option_logits", "draws"],
        "helm": ["text", "token_logprobs", "option_logits", "draws"],
        "opencompass": ["text", "option_logits", "draws"],
        "vlcb": ["text"],
        "every-eval-ever": ["text", "draws"],
        "table": ["text", "draws"],
    }
}


def recorded(
    context: ModelContext,
    *,
    source: Artifact,
    run: str | None = None,
    format: Literal[
        "auto",
        "vub",
        "lm-eval",
        "lmms-eval",
        "vlmevalkit",
        "seedbench",
        "inspect",
        "lighteval",
        "helm",
        "opencompass",
        "vlcb",
        "every-eval-ever",
        "table",
    ] = "auto",
    tasks: dict[str, str] = {},  # noqa: B006 - a literal, never changed
    match: Literal["id", "question"] = "id",
    fields: dict[str, str] = {},  # noqa: B006
    filter: str | None = None,
    check_questions: bool = True,
    thinking: bool | dict[Literal["tags"], list[str]] | None = None,
) -> Recording:
    """Return a model whose outputs are looked up in a recording (docs/how-to/exchange.md).

    Args:
        source: The recording's folder.
        run: Its run: a folder, a model's name or a date; needed if there are several.
        format: Its file format; `auto` detects it.
        tasks: Dataset of this spec -> the recording's name for it, if another.
        match: Match rows to samples by id (`doc_id`, `index`, `id` or `sample_id`), or by question.
        fields: The recording's own names of fields: `{id: question_id, question: query}`; of a table also `prediction`, `model`.
        filter: lm-eval: this filter's answers instead of the raw ones; lmms-eval: `filtered`; lighteval: `post_processed`; HELM: answers
            under this perturbation instead of those to the original; OpenCompass's details: `extracted`.
        check_questions: Leave out rows whose question, options or right option are not the sample's.
        thinking: Remove a reasoning model's thinking from the texts: `true`, or `{tags: ["<think>", "</think>"]}`. A text that ends
            while thinking has no answer. Log-probabilities, of all tokens, become undefined.
    """
    folder = context.folder or Path(source)
    if format == "vub" or (format == "auto" and is_vub(folder)):
        if run is None:
            raise ModelError(f"{folder}: say which model's outputs with `run:`; there are: {', '.join(list_all_runs(folder)) or 'none'}")
        return VubRecording(folder, run)
    try:
        thought = parse_thinking(thinking)
    except ThinkingError as error:
        raise ModelError(f"model '{context.label}': {error}") from error
    return PeerRecording(folder, run, format, tasks, match, ReadOptions(fields, filter), check_questions, thought)


class VubRecording:
    """A run's recorded outputs on VLM-Uncertainty-Bench, in a folder."""

    def __init__(self, source: Path, run: str) -> None:
        self.source, self.run = source, run

    def lookup(self, dataset: str, samples: pa.Table) -> pa.Table:
        """Return recorded option logits as GENERATIONS rows, one per sample; else ModelError.

        Raises:
            ModelError: the samples are not of this benchmark, or the run holds other questions.
        """
        from qualm.registry.sample import CLEAN, GENERATIONS, GREEDY

        sources = set(samples["source"].to_pylist())
        adapter, _, official = next(iter(sources), "").partition("/")
        if len(sources) != 1 or adapter != "vlm_uncertainty_bench":
            names = ", ".join(sorted(map(str, sources))) or "no samples"
            raise ModelError(f"{self.source}: run '{self.run}' records vlm_uncertainty_bench; dataset '{dataset}' comes from {names}")
        try:
            records = {str(r["id"]): r for r in read_records(self.source, self.run, official)}
        except LayoutError as error:
            raise ModelError(str(error)) from error
        where = f"{self.source}: run '{self.run}', {official}"
        rows = []
        for sample in samples.select(["sample_id", "answer_index", "choices"]).to_pylist():
            record = records.get(sample["sample_id"])
            if record is None:
                raise ModelError(f"{where}: has no question {sample['sample_id']}; the run is of other rows than dataset '{dataset}'")
            if answer_index(record) != sample["answer_index"]:
                raise ModelError(
                    f"{where}: question {sample['sample_id']}: right answer is {record['answer']} there and option "
                    f"{sample['answer_index']} in dataset '{dataset}'; the run was made from other options"
                )
            if [record[k] if isinstance(record[k], str) else "" for k in "ABCD"] != sample["choices"][:4]:
                raise ModelError(
                    f"{where}: question {sample['sample_id']}: options differ from those of dataset '{dataset}'; the run was made from "
                    "other options"
                )
            rows.append({"sample_id": sample["sample_id"], "variant": CLEAN, "draw": GREEDY, "option_logits": logits(record).tolist()})
        return pa.Table.from_pylist(rows, schema=GENERATIONS)
