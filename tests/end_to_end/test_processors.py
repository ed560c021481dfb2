"""What is kept does not depend on threads, vector width or BLAS kernels: a small benchmark, whole, as other processors compute it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__

from tests.end_to_end.clone import MINI, Clone, make_clone

SPEC = (
    MINI.replace("artifact: scene-vlm-base", "artifact: scene-vlm-base, dtype: float64")
    .replace("{max_new_tokens: 4}", "{max_new_tokens: 4, draws: 3}")
    .replace("[perplexity]", "[perplexity, max_sequence_probability, mean_token_entropy, p_true, semantic_entropy]")
)
MACHINES = {
    "one thread": {"OMP_NUM_THREADS": "1"},
    "two threads of fewer lanes": {
        "OMP_NUM_THREADS": "2",
        "OPENBLAS_NUM_THREADS": "2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "MKL_CBWR": "AVX2",
    },
    "an old processor": {
        "OMP_NUM_THREADS": "1",
        "ATEN_CPU_CAPABILITY": "default",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "OPENBLAS_CORETYPE": "Nehalem",
        "NPY_DISABLE_CPU_FEATURES": " ".join(__cpu_dispatch__),
    },
}
"""By the variables that the libraries of this machine's family read; where they are unknown a run is one more with those threads."""
ALL_STAGES = "import sys; from qualm.runners.__main__ import main; sys.exit(max(main([key]) for key in sys.argv[1:]))"


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    return make_clone(tmp_path_factory.mktemp("processors"), text=SPEC)


def results(clone: Clone, variables: dict[str, str]) -> dict[str, bytes]:
    """Everything that the benchmark's stages write."""
    stages = clone.root / "specs/mini/stages"
    names = json.loads(clone.qualm("plan", "--json").stdout)
    keys = [f"mini/{stage['stage']}" for stage in names]
    assert {f"{key.partition('/')[2]}.json" for key in keys} == {file.name for file in stages.iterdir()}
    environment = {**clone.environment(), "QUALM_DEVICE": "cpu", "PYTHONWARNINGS": "ignore", **variables}
    done = subprocess.run(
        [sys.executable, "-c", ALL_STAGES, *keys], cwd=clone.root, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    folder = clone.root / "results"
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


@pytest.mark.slow
def test_every_machine_writes_the_same_bytes(clone: Clone, tmp_path: Path) -> None:
    by_machine = {name: results(clone.copy(tmp_path / name), variables) for name, variables in MACHINES.items()}
    first, *others = by_machine
    assert {"mini/metrics.json", "mini/plots/reliability.csv", "mini/report.html", "mini/generations/base/scenes.parquet"} <= set(
        by_machine[first]
    )
    for name in others:
        different = [file for file, data in by_machine[name].items() if by_machine[first].get(file) != data]
        assert by_machine[name].keys() == by_machine[first].keys()
        assert not different, name
