"""Hugging Face's evaluation results: read back by huggingface_hub's own parsers."""

from pathlib import Path

import pytest
import yaml
from huggingface_hub import ModelCard, parse_eval_result_entries

from qualm.runners.plugins.exports import ExportError
from qualm.runners.plugins.exports.eval_results import eval_results
from qualm.runners.plugins.exports.hf import hf
from tests.support.data.score_files import write_scores
from tests.support.projects.exported import context, ran, same_bytes

__all__ = ["ran"]
SCORE = {"model": "m", "dataset": "d", "variant": "clean", "slice": "all", "n": 1600, "n_unscored": 1}
ROWS = [
    {**SCORE, "metric": "ece@bins=5", "value": 0.25},
    {**SCORE, "metric": "auroc[p_true]", "value": None},
    {**SCORE, "metric": "accuracy", "value": 0.625, "n_groups": 4, "low": 0.41, "high": 0.8, "level": 0.95},
    {**SCORE, "metric": "accuracy", "value": 0.1, "slice": "split=test"},
]
BETTER = {"ece@bins=5": False, "auroc": True, "accuracy": True}


def exported(ran: Path, folder: Path, rows=ROWS, **options):
    write_scores(folder / "scores.parquet", rows)
    made = context(ran, folder / "out")
    made.tables, made.higher_is_better = {"scores": folder / "scores.parquet"}, BETTER
    eval_results(made, **{"repository": "lab/bench", **options})
    return made


def test_results_of_a_model_as_the_hub_reads_them(ran, tmp_path):
    made = exported(ran, tmp_path, metric="accuracy", developer="a lab", source="https://example.org/view", user="ann")
    folder = made.folder / "models" / "a-lab" / "m"
    (entry,) = parse_eval_result_entries(yaml.safe_load((folder / ".eval_results" / "bench.yaml").read_text()))
    assert (entry.dataset_id, entry.task_id, entry.value) == ("lab/bench", "d", 0.625)
    assert entry.notes == "accuracy of 1,600 questions; 95% interval 0.410 to 0.800"
    assert (entry.source_url, entry.source_user, entry.date) == ("https://example.org/view", "ann", None)


def test_a_folder_for_the_developer_and_one_for_the_model(ran, tmp_path):
    """Servers name models with more than one slash; the hub's repositories have one."""
    write_scores(tmp_path / "scores.parquet", ROWS)
    made = context(ran, tmp_path / "out")
    made.tables, made.higher_is_better = {"scores": tmp_path / "scores.parquet"}, BETTER
    made.models = {"m": {"plugin": "openai", "args": {"model": "accounts/lab/models/vlm-2"}}}
    eval_results(made, repository="lab/bench")
    (card,) = (made.folder / "models").rglob("model_card.md")
    assert card.parent == made.folder / "models" / "accounts" / "lab-models-vlm-2"
    assert ModelCard.load(card).data.model_name == "accounts/lab/models/vlm-2"


def test_the_task_is_a_config_of_the_exported_data_set(ran, tmp_path):
    made = exported(ran, tmp_path, metric="accuracy")
    benchmark = yaml.safe_load((made.folder / "benchmark" / "eval.yaml").read_text())
    assert benchmark["description"].endswith("whether they know when they are wrong. Data: Data.")
    assert set(benchmark) == {"name", "description", "evaluation_framework", "tasks"} and benchmark["name"] == "A benchmark"
    (task,) = benchmark["tasks"]
    assert task == {"id": "d", "config": "data-d", "split": "test"}
    hf(context(ran, tmp_path / "hf"), images=False)
    head = yaml.safe_load((tmp_path / "hf" / "README.md").read_text().split("---\n")[1])
    assert task["config"] in {config["config_name"] for config in head["configs"]}


def test_the_model_card_holds_all_defined_scores(ran, tmp_path):
    made = exported(ran, tmp_path)
    card = ModelCard.load(made.folder / "models" / "local" / "m" / "model_card.md")
    assert card.data.model_name == "local/m"
    assert [(r.metric_name, r.metric_type, r.metric_value) for r in card.data.eval_results] == [
        ("ece@bins=5", "ece", 0.25),
        ("accuracy", "accuracy", 0.625),
    ]
    first = card.data.eval_results[0]
    assert (first.task_type, first.dataset_type, first.dataset_name) == ("visual-question-answering", "lab/bench", "Data")
    assert "| d | `accuracy` | 0.625 | 95% interval 0.410 to 0.800 | 1,600 |" in card.text
    assert "| d | `auroc[p_true]` | undefined |  | 1,600 |" in card.text


def test_without_a_metric_the_first_that_is_better_when_higher(ran, tmp_path):
    """Here AUROC, which is undefined: no number stands in its place."""
    made = exported(ran, tmp_path)
    assert not list(made.folder.rglob(".eval_results")) and made.lost == {"undefined scores": 1}
    assert made.counts["scores"] == 2
    only_ece = exported(ran, tmp_path / "ece", ROWS[:1])
    assert only_ece.lost == {"tasks without a score for a leaderboard": 1}
    assert yaml.safe_load((only_ece.folder / "benchmark" / "eval.yaml").read_text())["tasks"] == []


def test_a_metric_is_named_with_or_without_its_setting(ran, tmp_path):
    rows = [{**SCORE, "metric": "accuracy[ours]", "value": 0.5}]
    for metric in ("accuracy", "accuracy[ours]"):
        made = exported(ran, tmp_path / metric, rows, metric=metric)
        (path,) = made.folder.rglob(".eval_results/*.yaml")
        (entry,) = parse_eval_result_entries(yaml.safe_load(path.read_text()))
        assert entry.value == 0.5 and entry.notes == "accuracy[ours] of 1,600 questions"


@pytest.mark.parametrize(
    "options, message",
    [
        ({"repository": ""}, "-O repository=ORGANISATION/NAME"),
        ({"repository": "one/../two"}, "-O repository=ORGANISATION/NAME"),
        ({"user": "ann"}, "-O source=https://..."),
        ({"metric": "f1"}, r"no metric 'f1' in these results; there are: ece@bins=5, auroc\[p_true\], accuracy"),
        ({"metric": "ece@bins=5"}, "is not a metric of which higher is better"),
    ],
)
def test_mistakes(ran, tmp_path, options, message):
    with pytest.raises(ExportError, match=message):
        exported(ran, tmp_path, **options)


def test_nothing_scored(ran, tmp_path):
    made = context(ran, tmp_path)
    made.tables = {}
    with pytest.raises(ExportError, match="'bench' has no scores; `qualm run bench` makes them"):
        eval_results(made, repository="lab/bench")


def test_somebody_elses_words_stay_text(ran, tmp_path):
    write_scores(tmp_path / "scores.parquet", ROWS)
    made = context(ran, tmp_path / "out")
    made.tables, made.higher_is_better, made.title = {"scores": tmp_path / "scores.parquet"}, BETTER, "a: b\n---\n<script>"
    eval_results(made, repository="lab/bench", metric="accuracy")
    (card,) = made.folder.rglob("model_card.md")
    assert ModelCard.load(card).data.eval_results[0].task_name == made.title and "<script>" not in ModelCard.load(card).text


def test_equal_inputs_equal_bytes(ran, tmp_path):
    same_bytes(eval_results, ran, tmp_path, repository="lab/bench")
