"""What is read from sound logs and from logs with one odd record, held to tests/golden/recordings.json: questions, answers, every message.

The odd records are those of tests/bench/fuzz_recordings.py. After a change that is meant:
HELD=write pytest tests/registry/recordings/test_golden_recordings.py
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import pickle
import random
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.recorded_samples import recorded_samples
from qualm.registry.adapters.vlm_uncertainty_bench import vlm_uncertainty_bench
from qualm.registry.sample import SAMPLES, Image
from qualm.runners.contracts.models import ModelContext, ModelError
from qualm.runners.data.rows import as_row
from qualm.runners.plugins.models.recorded import recorded
from tests.bench.fuzz_recordings import Log, N, logs, mutated
from tests.support.checks.held_numbers import held

CASES = 24
FORMATS = {log.name: log for log in logs()}


def text_of(value: Any, folder: Path) -> Any:
    """A text as it is, of a longer one its beginning, length and digest."""
    text = value if isinstance(value, str) else json.dumps(value, default=repr, ensure_ascii=True)
    text = text.replace(str(folder), "~").encode("ascii", "backslashreplace").decode()
    return text if len(text) < 220 else [text[:120], len(text), hashlib.sha256(text.encode()).hexdigest()[:12]]


def read(folder: Path, of_pickle: bool, skip: bool) -> dict[str, Any]:
    """Questions, answers, and what is said of the rest."""
    notes, bad = io.StringIO(), list[str]()
    context = AdapterContext(folder, source=folder, bad=lambda error: bad.append(str(error)))
    with redirect_stderr(notes):
        try:
            options: dict[str, Any] = {"faults": "leave_out" if skip else "stop"}
            read_samples = vlm_uncertainty_bench(context, dataset="d") if of_pickle else recorded_samples(context, **options)
            samples = [as_row(item) for item in read_samples if not isinstance(item, Image)]
            model = recorded(ModelContext("m", folder=folder), source="log", **({"run": "m"} if of_pickle else {}))
            answers = model.lookup("d", pa.Table.from_pylist(samples, schema=SAMPLES)).to_pylist()
        except (AdapterError, ModelError) as error:
            return {"error": text_of(str(error), folder)}
    left_out = [str(fault) for fault in getattr(model, "left_out", ())]
    numbers = {"questions": len(samples), "answers": len(answers)}
    told = {"left out": left_out, "bad": bad, "notes": notes.getvalue()}
    return numbers | {key: text_of(of, folder) for key, of in ({"samples": samples, "rows": answers} | told).items() if of}


def written(log: Log, folder: Path, rows: list[Any], at: int) -> bool:
    path = folder / ("output/m/d.pkl" if log.name == "vub" else "m_d.x")
    try:
        log.write(path, rows)
    except (UnicodeEncodeError, ValueError, TypeError, AttributeError, KeyError, pickle.PicklingError):
        return False  # what no writer could write
    return True


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_read_from_a_log_is_what_ever_was(name: str, tmp_path: Path) -> None:
    log, shown = FORMATS[name], {}
    for case in range(CASES):
        rng, rows = random.Random(f"{name}/{case}"), copy.deepcopy(log.records)
        at = rng.randrange(N)
        for _ in range(min(case, 2)):
            rows[at] = mutated(rng, rows[at])
        folder = tmp_path / str(case)
        if written(log, folder, rows, at):
            shown[f"{case}"] = read(folder, name == "vub", skip=case % 2 == 0)
    held("recordings.json", name, shown)
