"""A shard on a worker, in this process: the rows of its segment are those that the stage would have stored itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from qualm.compiler.project.checkout import Project
from qualm.runners.data.segments import parse_segment
from qualm.runners.inference.batch_plan import Batch, PlanFile, look_up, stored_parts
from qualm.runners.inference.driver import pack_stage
from qualm.runners.inference.run import open_store
from qualm.runners.inference.shards import Shards
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import read_stage
from tests.support.projects.asked_project import INFER, asked_project

OPENER = "qualm.runners.inference.open_inference:open_inference"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    project = asked_project(tmp_path_factory.mktemp("home") / "trees" / "tree")  # as deep as a worker's
    with chdir(project.root):
        yield project


@pytest.mark.slow
def test_its_rows_are_those_of_the_stage(project: Project) -> None:
    settings = Settings(device="cpu", batch_size=2, workers=1, progress=False)
    stage = read_stage(f"t/{INFER}", settings)
    shards = Shards(OPENER, *pack_stage(stage), settings)
    asker = shards.asker
    assert shards.identity["model"] == asker.model.digest and shards.identity["libraries"] == dict(asker.engine.libraries)
    cells, broken = asker.survey()
    assert not broken
    whole = open_store(asker, {})  # what the stage has stored when it ran here
    stage.settings = Settings(device="cpu", batch_size=2, workers=1, progress=False, store="empty")
    asker.stage = stage
    empty = open_store(asker, {})
    work = PlanFile(asker, cells).remaining_work(asker, look_up(asker, cells, empty).missing, empty, lambda _: 2)
    batch = work.batches[0]
    assert isinstance(batch, Batch) and len(batch.places) == 2 and not stored_parts(asker, batch, empty).any()
    answers = shards.answer(batch, None, False)
    for segment in answers.segments:
        empty.add(parse_segment(segment))
    assert stored_parts(asker, batch, empty).all() and answers.served == b""
    keys = [asker.key(place, part) for place in batch.places for part in ("answer", "draw 1", "draw 2")]
    here, there = whole.take(keys).to_pylist(), empty.take(keys).to_pylist()
    assert [row["tokens"] for row in here] == [row["tokens"] for row in there]
    assert [row["text"] for row in here] == [row["text"] for row in there]
    assert not list(Path.cwd().parents[1].glob("shard-*"))


def test_damaged_bytes_are_no_segment(project: Project) -> None:
    data: Any = b"qualm segment 2\n" + b" " * 200
    with pytest.raises(ValueError, match="a segment fails its checksum"):
        parse_segment(data)
