"""lmms-eval: `MODEL/DATE_samples_TASK.jsonl` and `MODEL/DATE_results.json`, as `--log_samples` writes them."""

import json

from qualm.runners.plugins.exports import NO_PROMPT, ExportContext, ExportEntry, ExportPart
from qualm.runners.plugins.exports._lines import Row, document, responses, sha256, target, write_model


def lmms_eval(context: ExportContext) -> None:
    """Write samples and results in lmms-eval's format, as `lmms_eval --log_samples` does.

    A question with options has a loss per option, the smallest being the prediction: minus the log-softmax of our option logits
    among the options. Draws are repeats. Documents and images have no place there; `sample_id` stands beside `doc_id`.
    """
    date = context.time.strftime("%Y%m%d_%H%M%S")

    def line(part: ExportPart, entry: ExportEntry, signals: Row) -> tuple[Row, str]:
        context.lose("options, categories and other fields of samples")
        context.lose(NO_PROMPT, int(entry.prompt is None))
        resps, filtered = responses(entry, -1)
        predictions = filtered[0] if len(filtered) == 1 else filtered
        opened = resps[0] if len(resps) == 1 else resps
        tokens = entry.answers[0]["token_logprobs"]
        row = {
            "doc_id": entry.place,
            "sample_id": entry.name,
            "target": target(entry),
            "filtered_resps": predictions,
            "token_counts": [{"output_tokens": len(tokens)} if tokens else None],
            "doc_hash": sha256(json.dumps(document(entry), indent=2, ensure_ascii=False)),
            **({"input": entry.prompt} if entry.prompt is not None else {}),
            **signals,
        }
        if opened not in (predictions, [predictions]):
            row["resps"] = opened
        return row, f"sample_{entry.place}{row['doc_hash']}"

    for model in dict.fromkeys(part.model for part in context.parts):
        write_model(context, model, lambda task: f"{date}_samples_{task}.jsonl", line, f"{date}_results.json")
