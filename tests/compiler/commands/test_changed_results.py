"""Every command that shows or exports results says so if a result file is not the one that dvc.lock records."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import polars as pl
import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

import qualm
from qualm.compiler.commands.main import complete_app
from qualm.compiler.project.checkout import Project
from qualm.compiler.viewing.chunks import content_of
from tests.support.projects.finished_project import commit, git
from tests.support.projects.recorded import record_results

SCORES, RANKINGS, JUDGEMENTS, METRICS = "scores.parquet", "rankings.parquet", "judgements.parquet", "metrics.json"
ANSWERS, SCENES = "generations/base/scenes.parquet", "data/scenes/samples.parquet"
READING: dict[str, list[tuple[str, *tuple[str, ...]]]] = {
    "show": [("show small", SCORES, RANKINGS), ("show small --json", SCORES), ("show small --how --json", SCENES)],
    "view": [("view small --no-open", SCORES, RANKINGS), ("view small --no-open", ANSWERS, SCENES)],
    "compare": [
        ("compare small base other --json", ANSWERS, JUDGEMENTS),
        ("compare results/small/scores.parquet results/small/scores.parquet --json", SCORES),
    ],
    "diff": [("diff small --json", METRICS)],
    "power": [("power small --json", ANSWERS)],
    "stats": [("stats small --json", SCENES)],
    "lineage": [("lineage results/small/scores.parquet --json", SCORES), ("lineage results/small/scores.parquet", SCENES)],
    "export": [
        ("export small OUT --to csv", RANKINGS),
        ("export small OUT --to lm-eval", ANSWERS),
        ("export small OUT --to inspect", JUDGEMENTS),
        ("export small OUT --to croissant -d scenes", SCENES),
    ],
    "share": [("share small --dry-run", SCORES, METRICS)],
    "verify": [("verify small scenes", SCENES)],
    "strength": [("strength small -p blur -d scenes --auto --distance 1-ssim=0.3 -n 2 -o OUT", SCENES)],
    "doctor model": [("doctor model specs --spec small", SCENES)],
}
"""Each command that reads results, with lines to type and the files that it then reads."""
NOT_READING = {
    "init new validate compile ls schema graph cite clean": "they read specs, plugins and entries",
    "data ls, data show, data add, data new, data diff, data check, data verify": "they read entries, each with its own hashes",
    "fetch": "brings data and models from outside",
    "judges": "measures the judges on answers that people labelled",
    "experiments": "reads commits",
    "prompt": "shows a request, no result",
    "plan": "compares every output with the lock itself, and says which was changed by hand",
    "run": "restores what differs before anything is shown",
    "cache du, cache gc, cache audit, cache accept": "they read the store of answers, whose parts have checksums",
}
LOADING: dict[str, tuple[Callable[[Any], object], str]] = {
    "scores": (lambda r: r.scores, SCORES),
    "table": (lambda r: r.table("rankings"), RANKINGS),
    "answers": (lambda r: r.answers("base", "scenes"), JUDGEMENTS),
    "scan": (lambda r: r.scan("rankings"), RANKINGS),
    "labelled": (lambda r: r.labelled(), SCORES),
    "verdicts": (lambda r: r.verdicts(), JUDGEMENTS),
    "cells": (lambda r: next(r.cells()), JUDGEMENTS),
    "texts": (lambda r: r.texts("base", "scenes"), ANSWERS),
    "scan_generations": (lambda r: r.scan_generations("base", "scenes"), ANSWERS),
    "generations": (lambda r: r.generations("base", "scenes"), ANSWERS),
    "samples": (lambda r: r.samples("scenes"), SCENES),
    "scored_samples": (lambda r: r.scored_samples("scenes"), SCENES),
    "image": (lambda r: r.image("scenes", r.samples("scenes")["sample_id"][1]), SCENES),
    "images": (lambda r: r.images("scenes", r.samples("scenes")["sample_id"][1]), SCENES),
}
"""What `qualm.load` gives that reads results."""
NOT_LOADING = {"answer_source", "located_stage", "shortcuts", "inputs", "is_scored", "datasets", "tables"}


@pytest.fixture(scope="module")
def project(copy_viewed: Callable[[Path], Project], tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A benchmark whose results are as recorded, in git."""
    root = tmp_path_factory.mktemp("recorded")
    project = copy_viewed(root)
    (root / ".dvc").mkdir()
    (root / ".dvc/config").write_text("[core]\n    remote = lab\n['remote \"lab\"']\n    url = ../../lab\n")
    (root / ".gitignore").write_text(".qualm/\n/runners\n/registry\n/specs/prompts\n*.parquet\n")
    record_results(project, "small")
    (root / "results/small/report.html").write_text("never made, so in no lock")
    git(root, "init", "-q")
    commit(root)
    return project


@contextmanager
def edited(file: Path) -> Iterator[None]:
    """Another value in a file, which stays one that can be read."""
    before = file.read_bytes()
    if file.suffix == ".json":
        file.write_bytes(before.replace(b"0.", b"0.9", 1))
    else:
        table = pl.read_parquet(file)
        name = next(n for n in ("value", "question", "text", "rating", "p_adjusted") if n in table.columns)
        changed = pl.lit("edited") if table.schema[name] == pl.String else pl.lit(0.125)
        first = pl.int_range(pl.len()) == 0
        write(file, table.with_columns(pl.when(first).then(changed).otherwise(pl.col(name)).alias(name)))
    assert file.read_bytes() != before
    try:
        yield
    finally:
        file.write_bytes(before)


def write(file: Path, table: pl.DataFrame) -> None:
    """As `table`, with the schema that the file has."""
    import pyarrow.parquet as pq

    schema = pq.read_schema(file)
    pq.write_table(table.to_arrow().cast(schema), file)


def typed(line: str, root: Path, out: Path, patch: pytest.MonkeyPatch) -> Result:
    patch.chdir(root)
    stopped = Event()
    stopped.set()

    @contextmanager
    def stop_event() -> Iterator[Event]:
        yield stopped

    patch.setattr("qualm.compiler.viewing.show.stop_event", stop_event)
    words = [str(out) if word == "OUT" else word for word in line.split()]
    return CliRunner().invoke(complete_app(), words, env={"COLUMNS": "200"})


def test_it_is_known_of_every_command_whether_it_reads_results() -> None:
    def leaves(command: Any, before: str = "") -> Iterator[str]:
        for name, inner in command.commands.items():
            yield from leaves(inner, f"{before}{name} ") if hasattr(inner, "commands") else [f"{before}{name}"]

    others = {name.strip() for names in NOT_READING for name in (names.split(",") if "," in names else names.split())}
    assert set(leaves(typer.main.get_command(complete_app()))) == others | set(READING)


@pytest.mark.slow
@pytest.mark.parametrize(("line", "files"), [(line, files) for lines in READING.values() for line, *files in lines])
def test_a_command_says_which_file_differs(
    line: str, files: list[str], project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_recorded = typed(line, project.root, tmp_path / "a", monkeypatch)
    assert "differ" not in as_recorded.stderr and "recorded" not in as_recorded.stderr
    with ExitStack() as edits:
        for file in files:
            edits.enter_context(edited(project.root / "results/small" / file))
        done = typed(line, project.root, tmp_path / "b", monkeypatch)
    verb, them = ("differs", "it") if len(files) == 1 else ("differ", "them")
    notice = f" {verb} from what was recorded in dvc.lock; `qualm run small` restores {them}"
    (told,) = {text for text in (done.stdout if line.startswith("share") else done.stderr).splitlines() if notice in text}
    outputs = ["results/small/data/scenes" if file == SCENES and "data/scenes/" not in told else f"results/small/{file}" for file in files]
    assert all(output in told for output in outputs)
    if "--json" in line:
        facts = json.loads(done.stdout)
        if line.split()[0] in ("compare", "diff") or "--how" in line:
            assert f"{' and '.join(outputs)}{notice}" in facts["changed_results"]
    refuses = line.split()[0] in ("export", "share")
    assert done.exit_code == (1 if refuses else as_recorded.exit_code) and not (refuses and (tmp_path / "b").exists())


@pytest.fixture(scope="module")
def results(project: Project) -> qualm.Results:
    return qualm.load("small", project.root)


@pytest.mark.parametrize("name", LOADING)
def test_loaded_results_warn(name: str, project: Project, results: qualm.Results) -> None:
    read, file = LOADING[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(results)
    with edited(project.root / "results/small" / file), pytest.warns(qualm.ChangedResultsWarning, match="differs from what was recorded"):
        read(results)


def test_it_is_known_of_every_property_of_loaded_results_whether_it_reads() -> None:
    assert {name for name in vars(qualm.Results) if not name.startswith("_")} == set(LOADING) | NOT_LOADING


@pytest.mark.slow
def test_published_pages_and_exports_hold_the_notice(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = f"view small --publish {tmp_path / 'site'} --images none"
    tables = f"export small {tmp_path / 'tables'} --to markdown"
    with edited(project.root / "results/small" / SCORES):
        for line in (page, tables):
            refused = typed(line, project.root, tmp_path, monkeypatch)
            assert refused.exit_code == 1 and "--force writes these results, with a notice" in refused.stderr
        assert not list(tmp_path.iterdir())
        for line in (page, tables):
            done = typed(f"{line} --force", project.root, tmp_path, monkeypatch)
            assert done.exit_code == 0 and "scores.parquet differs" in done.stderr
    (part,) = json.loads(content_of((tmp_path / "site/data/index.js").read_bytes()))["results"]
    assert part["changed"] == ["results/small/scores.parquet differs from what was recorded in dvc.lock; `qualm run small` restores it"]
    assert "scores.parquet differs" in (tmp_path / "tables/CHANGED_RESULTS.txt").read_text()
    assert "-changed-results" in (tmp_path / "tables/tables.md").read_text()
    assert typed(f"{tables} --force", project.root, tmp_path, monkeypatch).exit_code == 0
    assert [file.name for file in (tmp_path / "tables").iterdir()] == ["tables.md"], "the notice goes with what it is of"


def test_results_without_a_record_are_published_with_a_word(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = project.root / "dvc.lock"
    before = lock.read_text()
    lock.unlink()
    try:
        shown = typed("show small", project.root, tmp_path, monkeypatch)
        done = typed("export small OUT --to markdown", project.root, tmp_path / "tables", monkeypatch)
    finally:
        lock.write_text(before)
    assert shown.stderr == "" and done.exit_code == 0
    assert "results/small/scores.parquet" in done.stderr and "not recorded in a dvc.lock" in done.stderr
