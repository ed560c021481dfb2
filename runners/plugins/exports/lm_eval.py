"""lm-evaluation-harness: `MODEL/samples_TASK_DATE.jsonl` and `MODEL/results_DATE.json`, as `--log_samples` writes them."""

import json
from typing import Any

from qualm.registry import option_label
from qualm.runners.plugins.exports import NO_PROMPT, ExportContext, ExportEntry, ExportPart
from qualm.runners.plugins.exports._lines import Row, document, responses, sha256, target, write_model


def lm_eval(context: ExportContext) -> None:
    """Write samples and results of lm-evaluation-harness, as `lm_eval --log_samples` does.

    An option's log-likelihood is the log-softmax of its logit among the options, since the probability of all else is not stored. Sampled
    answers are repeats. Images are left out. `arguments` of a recording hold its prompt, or nothing.
    """
    date = context.time.strftime("%Y-%m-%dT%H-%M-%S.%f")

    def line(part: ExportPart, entry: ExportEntry, signals: Row) -> tuple[Row, str]:
        doc, right = document(entry), target(entry)
        resps, filtered = responses(entry, 1)
        hashes: dict[str, Any] = {
            "doc_hash": sha256(json.dumps(doc, indent=2, ensure_ascii=False)),
            **({"prompt_hash": sha256(entry.prompt)} if entry.prompt is not None else {}),
            "target_hash": sha256(right),
        }
        context.lose(NO_PROMPT, int(entry.prompt is None))
        row = {
            "doc_id": entry.place,
            "doc": doc,
            "target": right,
            "arguments": {f"gen_args_{i}": sent for i, sent in enumerate(_requests(context, part, entry))},
            "resps": resps,
            "filtered_resps": filtered,
            "filter": "none",
            **hashes,
            **signals,
        }
        return row, "".join(hashes.values())

    for model in dict.fromkeys(part.model for part in context.parts):
        write_model(context, model, lambda task: f"samples_{task}_{date}.jsonl", line, f"results_{date}.json")


def _requests(context: ExportContext, part: ExportPart, entry: ExportEntry) -> list[Row]:
    """Return a request per option, or one for an open question ([] if its prompt is unknown)."""
    prompt: Row = {} if entry.prompt is None else {"arg_0": entry.prompt}
    if entry.by_numbers:
        return [prompt | ({"arg_1": f" {option_label(i)}"} if part.recorded is None else {}) for i in range(len(entry.choices))]
    decoding = context.decoding_of(part)
    length = {"max_gen_toks": decoding["max_new_tokens"]} if "max_new_tokens" in decoding else {}
    return [prompt | {"arg_1": length}] if prompt else []
