"""Every Eval Ever, schema 0.3: scores with intervals, and each answer, in the files of its data store."""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

from qualm import __version__
from qualm.registry import option_label
from qualm.registry.recordings.signals import KEY, pack
from qualm.registry.system.atomic import create_folder
from qualm.runners.plugins.exports import NO_PROMPT, DatasetCredits, ExportContext, ExportEntry, ExportPart, slug
from qualm.runners.plugins.exports._model_names import PublishedModel, model_name
from qualm.runners.scoring.measuring.labels import metric_of, plugin_of

SCHEMA = "0.3.0"
NO_DIRECTION = "scores of metrics with no better direction, which the format demands"
_DATASET = re.compile(r"https://huggingface\.co/datasets/([\w.-]+/[\w.-]+?)/?")
Row = dict[str, Any]


def every_eval_ever(
    context: ExportContext,
    *,
    organization: str = "unknown",
    relationship: Literal["first_party", "third_party", "collaborative", "other"] = "other",
    developer: str = "local",
    samples: bool = True,
) -> None:
    """Write Every Eval Ever 0.3 as `data/SPEC/DEVELOPER/MODEL/UUID.json` and `_samples.jsonl`.

    There is a file for each model, dataset and variant. A sample's `score` is a judge's rating, or whether the likeliest option is right;
    `is_correct` means 1. Sampled answers follow the greedy one in `output.raw`; all other signals are under `metadata.qualm`.

    Args:
        organization: Who ran the benchmark.
        relationship: Of that organization to the models' developers.
        developer: Of models without a public name.
        samples: Write each answer too.
    """
    if "scores" not in context.tables:
        raise context.without_scores()
    for part in context.parts:
        model = model_name(part.model, context.models.get(part.model, {}), slug(developer))
        results = [_result(context, part, row) for row in context.scores(part) if _is_exportable(context, row)]
        if not results:
            context.lose("models and datasets without any score")
            continue
        name = _uuid(context, part)
        folder = f"data/{slug(context.spec)}/{'/'.join(slug(word) for word in model.id.split('/', 1))}"
        create_folder(context.folder / folder)
        own = f"{slug(context.spec)}.{part.task}"
        log: Row = {
            "schema_version": SCHEMA,
            "evaluation_id": f"{own}/{model.id}/{int(context.time.timestamp())}",
            "retrieved_timestamp": str(int(context.time.timestamp())),
            "source_metadata": {
                "source_name": "Qualm",
                "source_type": "evaluation_run",
                "source_organization_name": organization,
                "evaluator_relationship": relationship,
                "additional_details": {
                    "spec": context.spec,
                    "title": context.title,
                    "revision": context.revision,
                    "recipe": context.recipe,
                },
            },
            "eval_library": {"name": "qualm-bench", "version": __version__},
            "model_info": _model(context, part, model),
            "evaluation_results": results,
        }
        path = f"{folder}/{name}_samples.jsonl"
        if samples and (written := _write(context.folder / path, _lines(context, part, log["evaluation_id"], model.id))):
            log["detailed_evaluation_results"] = {"format": "jsonl", "file_path": path, "hash_algorithm": "sha256", **written}
        (context.folder / folder / f"{name}.json").write_text(
            json.dumps(log, indent=2, ensure_ascii=False, allow_nan=False), encoding="utf-8", newline="\n"
        )


def _is_exportable(context: ExportContext, row: Row) -> bool:
    """Return true if a score is defined and has a better direction; else count it as lost."""
    if row["value"] is None:
        context.lose("undefined scores")
    elif context.higher_is_better.get(metric_of(row["metric"])) is None:
        context.lose(NO_DIRECTION)
    else:
        return True
    return False


def _result(context: ExportContext, part: ExportPart, row: Row) -> Row:
    label = row["metric"]
    plain = metric_of(label)
    uncertainty: Row = {"num_samples": row["n"]}
    if row["low"] is not None and row["high"] is not None:
        interval = {"lower": row["low"], "upper": row["high"], "method": f"{row['interval'] or 'bootstrap'}, over groups of questions"}
        uncertainty["confidence_interval"] = interval | ({} if row["level"] is None else {"confidence_level": row["level"]})
        uncertainty |= {} if not row["n_resamples"] else {"num_bootstrap_samples": row["n_resamples"]}
    beside = ("n_unscored", "n_groups", "n_undefined_resamples", "why_no_interval", "promise", "collapsed", "null", "p_null")
    result: Row = {
        "evaluation_result_id": f"{part.task}/{label}",
        "evaluation_name": f"{slug(context.spec)}.{part.task}",
        "source_data": _source(part, context.about.get(part.dataset, DatasetCredits())),
        "metric_config": {
            "metric_id": "accuracy" if label == "accuracy" else f"qualm.{label}",
            "metric_name": label,
            "metric_kind": plugin_of(label),
            "lower_is_better": context.higher_is_better[plain] is False,
            "additional_details": {"bounds_status": "unknown"},
        },
        "score_details": {
            "score": row["value"],
            "details": {name: str(row[name]) for name in beside if row[name] is not None},
            "uncertainty": uncertainty,
        },
    }
    if decoding := context.decoding_of(part):
        length = {"max_tokens": decoding["max_new_tokens"]} if "max_new_tokens" in decoding else {}
        more = {name: json.dumps(value, sort_keys=True) for name, value in decoding.items()} | {"seed": str(part.seed)}
        result["generation_config"] = {"generation_args": {"temperature": 0, **length}, "additional_details": more}
    return result


def _source(part: ExportPart, credits: DatasetCredits) -> Row:
    about = {"variant": part.variant.name, "title": credits.title, "licence": credits.licence, "citation": credits.citation}
    details = {"additional_details": {name: value for name, value in about.items() if value}}
    if hub := _DATASET.fullmatch(credits.source):
        return {"dataset_name": part.dataset, "source_type": "hf_dataset", "hf_repo": hub[1], **details}
    if credits.source.startswith("https://"):
        return {"dataset_name": part.dataset, "source_type": "url", "url": [credits.source], **details}
    return {"dataset_name": part.dataset, "source_type": "other", **details}


def _model(context: ExportContext, part: ExportPart, model: PublishedModel) -> Row:
    declared = context.models.get(part.model, {})
    deployment = {True: "externally_managed", False: "self_deployed", None: "unknown"}[model.served]
    availability = {True: "open_weights", False: "closed_weights", None: "unknown"}[model.open_weights]
    args = {"plugin": str(declared["plugin"]), "args": json.dumps(declared["args"], sort_keys=True)} if declared else {}
    details = {"deployment_type": deployment, "model_availability": availability, "label": part.model, **args}
    engine = {"inference_engine": {"name": "transformers"}} if declared.get("plugin") == "hf_vlm" else {}
    return {"name": part.model, "id": model.id, "developer": model.developer, **engine, "additional_details": details}


def _write(path: Path, lines: Iterator[Row]) -> Row:
    """Write one JSON line per row; return checksum and row count, or {} and no file if none."""
    checksum, n = hashlib.sha256(), 0
    with path.open("w", encoding="utf-8", newline="\n") as handle:
        for line in lines:
            n += 1
            text = json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n"
            checksum.update(text.encode())
            handle.write(text)
    if not n:
        path.unlink()
    return {"checksum": checksum.hexdigest(), "total_rows": n} if n else {}


def _lines(context: ExportContext, part: ExportPart, evaluation: str, model: str) -> Iterator[Row]:
    for entry in context.entries(part):
        context.lose("images", int(entry.sample["image_id"] is not None))
        context.lose(NO_PROMPT, int(entry.prompt is None))
        scores: dict[str, float | None] = (
            {"": None if entry.correct is None else float(entry.correct)} if entry.by_numbers else entry.ratings
        )
        scored = {judge: score for judge, score in scores.items() if score is not None}
        context.lose("answers that nothing scored, which the format has no place for", int(not scored))
        for judge, score in scored.items():
            yield _line(part, entry, judge, score) | {
                "schema_version": SCHEMA,
                "evaluation_id": evaluation,
                "model_id": model,
                "evaluation_name": f"{slug(context.spec)}.{part.task}",
            }


def _line(part: ExportPart, entry: ExportEntry, judge: str, score: float) -> Row:
    sample, texts = entry.sample, [entry.reply, *(answer["text"] or "" for answer in entry.answers[1:])]
    right = sample["answer_index"]
    reference = entry.references or ([entry.choices[right]] if entry.choices and right is not None else [])
    about = {
        name: str(sample[name])
        for name in ("category", "answerable", "answer_index", "split", "image_id", "pair_id")
        if sample[name] is not None
    }
    thoughts = [answer["thinking"] for answer in entry.answers if answer.get("thinking")]
    return {
        "sample_id": entry.name,
        "sample_hash": hashlib.sha256((entry.question + "".join(reference)).encode()).hexdigest(),
        "interaction_type": "single_turn",
        "input": {"raw": entry.question, "formatted": entry.prompt, "reference": reference, "choices": entry.choices or None},
        "output": {"raw": texts} | ({"reasoning_trace": thoughts} if thoughts else {}),
        "answer_attribution": [
            {
                "turn_idx": 0,
                "source": "output.raw",
                "extracted_value": option_label(entry.predicted) if entry.predicted is not None else entry.reply,
                "extraction_method": "likeliest option" if entry.by_numbers else f"judge {judge}",
                "is_terminal": True,
            }
        ],
        "evaluation": {"score": score, "is_correct": score == 1.0},
        "metadata": {
            **about,
            "variant": part.variant.name,
            **({"judge": judge} if judge else {}),
            KEY: json.dumps([pack(answer, ("text",)) for answer in entry.answers], ensure_ascii=False),
        },
    }


def _uuid(context: ExportContext, part: ExportPart) -> str:
    identity = json.dumps([context.spec, context.revision, context.time.isoformat(), part.model, part.dataset, part.variant.name])
    return str(UUID(bytes=hashlib.sha256(identity.encode()).digest()[:16], version=4))
