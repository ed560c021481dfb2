"""VLM-Uncertainty-Bench's released outputs through every format and back: questions, options and logits to the last bit."""

from pathlib import Path

import pytest

from qualm.registry.adapters import AdapterContext
from qualm.registry.adapters.vlm_uncertainty_bench import vlm_uncertainty_bench
from qualm.registry.plugins.registry import load
from qualm.registry.sample import GENERATIONS, SAMPLES
from qualm.runners.contracts.models import ModelContext
from qualm.runners.data.rows import as_row
from qualm.runners.plugins.models.recorded import recorded
from qualm.runners.runtime.records import read_table, write_table
from tests.support.projects.exported import bits, context, generations, read_back

FIXTURE = Path(__file__).resolve().parents[5] / "shared" / "fixtures" / "vlm_uncertainty_bench"
RUN = "llava-v1.6-vicuna-13b"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FIXTURE.is_dir(), reason="needs the recorded outputs in ../shared/fixtures/vlm_uncertainty_bench"),
]


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vub")
    made = vlm_uncertainty_bench(AdapterContext(folder, source=FIXTURE), dataset="mmbench", run=RUN)
    write_table(folder / "data" / "samples.parquet", [as_row(sample) for sample in made], SAMPLES)
    table = recorded(ModelContext("m", folder=FIXTURE), source="x", run=RUN).lookup(
        "d", read_table(folder / "data/samples.parquet", SAMPLES)
    )
    write_table(folder / "generations.parquet", table, GENERATIONS)
    return folder


@pytest.mark.parametrize(("name", "args"), [("lm_eval", {}), ("lmms_eval", {}), ("inspect", {}), ("vlmevalkit", {"table": "tsv"})])
def test_there_and_back(released, tmp_path, name, args):
    made = context(released, tmp_path)
    made.tables = {}
    load("exports", name)(made, **args)
    assert made.counts["answers"] == 4377
    assert bits(read_back(tmp_path, released)) == bits(generations(released))
