"""Answers to samples, judged and scored by the real stages in the current folder."""

from dataclasses import replace
from pathlib import Path

from qualm.registry.sample import GENERATIONS, JUDGEMENTS, LABELLED_SCORES, SAMPLES
from qualm.runners.data.rows import as_row
from qualm.runners.runtime.records import read_table, write_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage
from qualm.runners.scoring.apply_judge import takes_choices
from qualm.runners.stages import judge, score
from tests.support.data.score_files import read_labelled
from tests.support.projects.stages import ref
from tests.support.servers.small_server import IMPATIENT

SETTINGS = replace(Settings(), progress=False, servers=IMPATIENT)


def asking(server, plugin, **args):
    """A judge that asks the small server."""
    return ref(plugin, by={"plugin": "openai", "args": {"model": "m", "base_url": server.url}}, **args)


def scored(samples, texts, judges, metrics, slices=(), own=(), no_answer=(), labels=None):
    """Scores by slice and metric: value, n, n_unscored. `texts` are one model's answers by sample id, `no_answer` why some have none;
    `own` the dataset's own judges, `labels` the text of people's labels."""
    write_table(Path("data/d/samples.parquet"), [as_row(s) for s in samples], SAMPLES)
    rows = [{"sample_id": s.sample_id, "variant": "clean", "draw": 0, "text": texts[s.sample_id]} for s in samples if s.sample_id in texts]
    rows = [{**row, "no_answer": dict(no_answer).get(row["sample_id"])} for row in rows]
    write_table(Path("generations/m/d.parquet"), rows, GENERATIONS)
    inputs = {"datasets": {"d": "data/d"}, "generations": {"m": {"d": "generations/m/d.parquet"}}}
    _run(judge, "judge", {"judges": judges, **({"only": {"d": list(own)}} if own else {})}, inputs, ["judgements"])
    params = {"metrics": metrics, "slices": list(slices), "interval": {"bootstrap": 20, "level": 0.9}}
    params |= {"judge": judges[0]["label"], "confidence": "sequence", **({"judge_of": {"d": own[0]}} if own else {})}
    for_choices = [label for label in own or [j["label"] for j in judges] if takes_choices(_named(judges, label))]
    params |= {"judge_of_choices": {"d": for_choices[0]}} if for_choices else {}
    outputs = ["scores", "metrics", "reliability", "risk_coverage", "set_sizes"]
    if labels is not None:
        Path("labels.csv").write_text(labels, encoding="utf-8")
        inputs["labels"] = "labels.csv"
    _run(score, "score", params, inputs | {"judgements": "results/judgements"}, outputs)
    return {(r["slice"], r["metric"]): r for r in read_labelled(Path("results/scores")).to_pylist()}


def _named(judges, label):
    return next(judge for judge in judges if judge["label"] == label)


def judgements():
    """What the judges said, by judge and sample."""
    return {(r["judge"], r["sample_id"]): r for r in read_table(Path("results/judgements"), JUDGEMENTS).to_pylist()}


def _run(module, kind, params, inputs, outputs):
    module.run(Stage(f"s/{kind}", "s", kind, kind, params, inputs, {o: f"results/{o}" for o in outputs}, 7, SETTINGS))


def rows_of(path, schema):
    """A table of scores or comparisons, row by row."""
    return (read_labelled(path) if schema is LABELLED_SCORES else read_table(path, schema)).to_pylist()
