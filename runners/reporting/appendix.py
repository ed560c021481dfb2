"""Appendix of a report: methods, prompts, judges, and models and datasets with digests.

The commit, the machine, the times and what servers cost are no content: they are drawn into images beside the run's record
(`qualm.runners.runtime.stamp`, `run_times`), which the page shows where they lie in the checkout that made it.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qualm.registry.system.dvc_files import DvcStateError, read_dvc_file
from qualm.runners.reporting import sentences as say
from qualm.runners.reporting.load import Report
from qualm.runners.reporting.text import visible
from qualm.runners.runtime.run_times import PICTURE
from qualm.runners.scoring.families import PAIRED_TEST, describe_correction

PLACE = "../../.qualm/runs"
"""From a report to the records of runs."""


@dataclass(frozen=True)
class Appendix:
    facts: list[tuple[str, str]]
    models: list[list[str]]
    header: list[str]
    stamps: list[str]
    """Paths of the images, relative to the page."""
    data: list[list[str]]
    data_header: list[str]


def appendix(results: Report) -> Appendix | None:
    """Return the appendix of a report; None if the stage has no parameters for it."""
    settings = results.stage.params.get("made")
    if settings is None:
        return None
    facts = [
        *facts_of(settings),
        *conformal_facts(results.stage.params.get("settings", ())),
        (say.SEED_FACT, str(results.stage.seed)),
        (say.SPEC_DIGEST, str(results.stage.params.get("spec_sha256") or say.NOT_GIVEN)),
    ]
    models = [model_row(about, Path()) for about in settings["models"]]
    folders: Mapping[str, str] = results.stage.inputs.get("datasets", {})
    data = [data_row(about, Path(), folders.get(about["name"])) for about in settings.get("data", ())]
    stamps = [f"{PLACE}/{results.stage.spec}/{name}" for name in ("made.svg", PICTURE)]
    return Appendix(facts, models, [*say.MODEL_COLUMNS], stamps, data, [*say.DATA_COLUMNS])


def facts_of(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (heading, text) facts on methods, judges and prompts that hold for all models."""
    interval = settings["interval"]
    resamples = say.INTERVALS_FROM.format(level=100 * interval["level"], n=interval["bootstrap"])
    yield say.INTERVALS_FACT, resamples if interval["bootstrap"] else say.NO_BOOTSTRAP
    if family := settings.get("family"):
        yield say.RANKINGS_FACT, say.RANKINGS_FROM.format(correction=describe_correction({"correction": "max_t", "family": family}))
    if compare := settings.get("compare"):
        margin = compare.get("margin")
        margins = ", ".join(f"{name} {value:g}" for name, value in margin.items()) if isinstance(margin, dict) else f"{margin or 0:g}"
        equality = say.MARGIN_OF_EQUALITY.format(margins=visible(margins, 200)) if margin else ""
        yield say.TESTS_FACT, say.TESTS_OVER_GROUPS.format(test=PAIRED_TEST, correction=describe_correction(compare), margin=equality)
    yield from _judge_facts(settings)
    if settings["models"] and all(about["plugin"] == "recorded" for about in settings["models"]):
        yield say.DECODING_FACT, say.ALL_RECORDED
        return
    decoding = settings["decoding"]
    longest = say.NEW_TOKENS.format(n=decoding["max_new_tokens"])
    top_k = say.TOP_K.format(k=decoding["top_k"]) if decoding.get("top_k") else ""
    sampled = say.NO_SAMPLED_ANSWERS
    if "draws" in decoding:
        chances = {name: decoding[name] for name in ("temperature", "top_p")}
        sampled = say.SAMPLED_ANSWERS.format(n=decoding["draws"], top_k=top_k, **chances)
    yield say.DECODING_FACT, say.GREEDY.format(tokens=longest, sampled=sampled)
    by_prompt: dict[str, list[str]] = {}
    for name, prompt in settings.get("prompts", {}).items():
        by_prompt.setdefault(prompt, []).append(name)
    for prompt, names in by_prompt.items():
        yield say.PROMPT_OF.format(names=visible("; ".join(names), 200)), visible(prompt, 2000)
    yield say.CONFIDENCE_OF_OPEN_ANSWERS, visible(settings["confidence"], 40)


def conformal_facts(settings: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield (heading, text) per conformal setting: its scores, alpha, calibration settings."""
    for about in settings:
        scores = ", ".join(score["label"] for score in about["scores"])
        chosen = ", ".join(f"{key} {value}" for key, value in sorted((about.get("calibration") or {}).items()) if value is not None)
        text = say.CONFORMAL_FACTS.format(scores=scores, alpha=about["alpha"], rows=chosen)
        yield say.CONFORMAL_SETS.format(label=about["label"]), visible(text, 400)


def _judge_facts(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (heading, text) facts: the judges, the estimators, and versions other than 1."""
    for about in settings.get("judges", ()):
        yield say.JUDGE_FACT.format(label=visible(about["label"], 80)), visible(format_plugin(about), 400)
    if estimators := settings.get("estimators"):
        yield say.ESTIMATORS_FACT, visible(", ".join(estimators), 600)
    if "versions" in settings:
        raised = ", ".join(f"{name} {version}" for name, version in sorted(settings["versions"].items()))
        yield say.VERSIONS, say.ALL_OTHERS_1.format(versions=raised) if raised else say.ALL_1


def format_plugin(about: Mapping[str, Any]) -> str:
    """Return a plugin with its set parameters as text: `lave (by: openai (model: gpt-4))`."""
    args = {key: value for key, value in about.get("args", {}).items() if value is not False and value not in (None, {}, [])}
    texts = {key: format_plugin(value) if isinstance(value, dict) and "plugin" in value else value for key, value in args.items()}
    parts = [f"{key}: {text}" for key, text in sorted(texts.items())]
    return f"{about['plugin']} ({', '.join(parts)})" if parts else str(about["plugin"])


def data_row(entry: Mapping[str, Any], root: Path, samples_folder: str | None) -> list[str]:
    """Return a dataset's table row: name, source, files, digest, licence, questions' SHA-256."""
    files = entry.get("files") or entry.get("source") or "–"
    digest = file_digest(root, str(entry["files"])) if entry.get("files") else "–"
    samples = root / str(samples_folder) / "samples.parquet"
    questions = hashlib.sha256(samples.read_bytes()).hexdigest() if samples_folder and samples.is_file() else say.NOT_AVAILABLE
    return [visible(t, 200) for t in (entry["name"], entry["of"], files, digest, entry.get("licence") or say.AS_ITS_SOURCE, questions)]


def model_row(entry: Mapping[str, Any], root: Path) -> list[str]:
    """Return the table row of a model: plugin, files with digest, dtype, other parameters."""
    args = dict(entry["args"])
    hub, revision, dtype = args.pop("hub", None), args.pop("revision", None), args.pop("dtype", None)
    folder = entry.get("files")
    for key, value in list(args.items()):
        if value in (None, False, {}, "none", folder):
            del args[key]
    digest = f"revision {revision}" if hub else file_digest(root, str(folder)) if folder else say.NO_FILES_HERE
    rest = ", ".join(f"{k}: {v}" for k, v in sorted(args.items()))
    files = hub or folder or say.NONE_HERE
    return [visible(t, 200) for t in (entry["name"], entry["plugin"], files, digest, dtype or say.NOT_SPECIFIED, rest or "–")]


def file_digest(root: Path, folder: str) -> str:
    """Return `md5 HASH` from an entry's .dvc file, or a phrase that says why there is none."""
    pointer = root / f"{folder}.dvc"
    if not pointer.is_file():
        return say.NOT_ADDED if folder.startswith("registry/data/") else say.MADE_BY_A_STAGE
    try:
        return f"md5 {read_dvc_file(pointer)['outs'][0]['md5']}"
    except (DvcStateError, KeyError):
        return say.NOT_READABLE


def library_versions(results: Report) -> list[tuple[str, str]]:
    """Return (library, versions) from the tables' provenance; several if machines differ."""
    versions_of: dict[str, set[str]] = {}
    for record in results.provenance:
        versions: Mapping[str, str] = record.get("libraries", {})
        for library, version in versions.items():
            versions_of.setdefault(visible(library, 40), set()).add(visible(version, 40))
    return [(library, ", ".join(sorted(versions_of[library]))) for library in sorted(versions_of)]


def metric_list(results: Report) -> list[tuple[str, str, str]]:
    """Return (title, direction, summary) of every metric on the page."""
    by_plugin = {a.plugin: a for a in results.labels.values()}
    direction = {True: say.HIGHER_IS_BETTER, False: say.LOWER_IS_BETTER, None: say.NO_DIRECTION}
    return [(a.title, direction[a.higher_is_better], visible(a.summary, 300)) for a in by_plugin.values()]
