"""A few hundred of the mutated logs of tests/bench/fuzz_recordings.py; what held once holds on."""

import pytest

from tests.bench.fuzz_recordings import logs, run


@pytest.mark.slow
def test_mutated_logs_of_every_format():
    counts, findings = run(cases=30 * len(logs()), seed=3)
    assert not findings
    assert counts["tracebacks"] == 0 and min(counts[kind] for kind in ("refused", "read whole", "read in part")) > 20
