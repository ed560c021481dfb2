"""lm-evaluation-harness: `MODEL/samples_TASK_DATE.jsonl` and `MODEL/results_DATE.json`, as `--log_samples` writes them."""

from __future__ import annotations

import json
from typing import Any

from runners.exports import LETTERS, Entry, ExportContext
from runners.exports._lines import Row, document, responses, sha256, target, write_model


def lm_eval(context: ExportContext) -> None:
    """lm-evaluation-harness: samples and results, as `lm_eval --log_samples` writes them.

    A question with options has a log-likelihood per option: the log-softmax of our option logits among the options, since the
    probability of everything else is not kept. Draws are repeats. Pictures have no place there.
    """
    date = context.made.strftime("%Y-%m-%dT%H-%M-%S.%f")
    decoding = {"max_gen_toks": context.decoding["max_new_tokens"]} if "max_new_tokens" in context.decoding else {}

    def line(entry: Entry, kept: Row) -> tuple[Row, str]:
        doc, right = document(entry), target(entry)
        resps, filtered = responses(entry, 1)
        sent: list[Row] = [{"arg_0": entry.prompt, "arg_1": f" {LETTERS[i]}"} for i in range(len(entry.choices))]
        hashes: dict[str, Any] = {
            "doc_hash": sha256(json.dumps(doc, indent=2, ensure_ascii=False)),
            "prompt_hash": sha256(entry.prompt),
            "target_hash": sha256(right),
        }
        row = {
            "doc_id": entry.place,
            "doc": doc,
            "target": right,
            "arguments": {f"gen_args_{i}": args for i, args in enumerate(sent or [{"arg_0": entry.prompt, "arg_1": decoding}])},
            "resps": resps,
            "filtered_resps": filtered,
            "filter": "none",
            **hashes,
            **kept,
        }
        return row, "".join(hashes.values())

    for model in dict.fromkeys(part.model for part in context.parts):
        write_model(context, model, lambda task: f"samples_{task}_{date}.jsonl", line, f"results_{date}.json")
