"""Mutated logs of every format through everything that reads them: no traceback, no hang, no wrong number.

    .venv/bin/python tests/bench/fuzz_recordings.py [--cases 10000] [--seed 0] [--only FORMAT]

A case is a whole log of a few records, one of which (or the file itself) is damaged: bytes, JSON values, cells, members of an archive,
pickled values. It is read by the adapter of questions and by the model of answers, judged and rated. Held:

- what is refused is refused by an error of ours (`AdapterError`, `ModelError`) that names the file, within `SECONDS`;
- a record that was not touched is scored as in the whole log, or is counted as left out; never otherwise;
- every sample has an answer that is scored, or a line in `left_out` that says why not;
- no number that cannot be (a positive log-probability, a NaN) comes through.
"""

from __future__ import annotations

import argparse
import copy
import io
import json
import pickle
import random
import signal
import sys
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import pyarrow as pa

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.recorded_samples import recorded_samples
from qualm.registry.adapters.vlm_uncertainty_bench import vlm_uncertainty_bench
from qualm.registry.sample import SAMPLES, Image
from qualm.runners.contracts.models import ModelContext, ModelError
from qualm.runners.data.rows import as_row
from qualm.runners.plugins.judges.rules import rules
from qualm.runners.plugins.models.recorded import recorded
from tests.support.data import recordings as rec

SECONDS = 5
N = 5
QUESTIONS = [f"What is shown in picture {i}?" for i in range(N)]
OPTIONS = ["a red cube", "a blue ball", "two cats", "nothing"]
REPLIES = ["B. a blue ball", "The answer is (A)", "I am not sure", "two cats", "A or B"]
GOLD = [1, 2, 0, 2, 1]
ODD: list[Any] = [
    None, True, -1, 0, 10**400, 1e308, -0.0, 5.0, float("nan"), float("inf"), "", " ", "x" * 3000, "\ud800", "\0", "=1+1", "NaN", "-inf",
    "B" * 50, [], {}, [[]], [None], ["a", 1], {"a": None}, [[[[[]]]]], "[" * 2000, "attachment://x", "data:image/png;base64,!", b"\xff",
    "\x1b[31m", "ï»¿", "__reduce__", 3, "A", "D", ["B"], [[-1, "True"]], [["5.0", "False"]],
]  # fmt: skip


@dataclass
class Log:
    """The records of a log, and how they become a file."""

    name: str
    records: list[Any]
    write: Callable[[Path, list[Any]], Path]
    takes_text: bool = False
    """Whether a record may be half a line of JSON."""


def _open(i: int) -> str:
    return f"{QUESTIONS[i]}\nA. {OPTIONS[0]}\nB. {OPTIONS[1]}\nC. {OPTIONS[2]}\nD. {OPTIONS[3]}\nAnswer with the letter."


def _scores(i: int) -> list[float]:
    return [-1.0 - ((k + i) % 4) for k in range(4)]


def _letter(i: int) -> str:
    return "ABCD"[GOLD[i]]


def _vek(i: int) -> dict[str, Any]:
    return rec.vek_row(i, REPLIES[i], question=QUESTIONS[i], **dict(zip("ABCD", OPTIONS, strict=True)), answer=_letter(i))


def _vub(i: int) -> dict[str, Any]:
    options = dict(zip("ABCD", OPTIONS, strict=True))
    return {"id": i, "question": QUESTIONS[i], **options, "answer": _letter(i), "logits": [float(v) for v in (*_scores(i), -9, -9)]}


def _pickled(path: Path, rows: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(rows))
    return path


def _csv(path: Path, rows: list[Any], suffix: str) -> Path:
    names = list(dict.fromkeys(name for row in rows if isinstance(row, dict) for name in row))
    path = path.with_suffix(suffix)
    path.parent.mkdir(parents=True, exist_ok=True)
    import csv

    with path.open("w", encoding="utf-8", newline="", errors="surrogatepass") as handle:
        writer = csv.writer(handle, delimiter="\t")
        writer.writerow(names)
        writer.writerows([_cell(row.get(n)) for n in names] if isinstance(row, dict) else [_cell(row)] for row in rows)
    return path


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else str(value) if not (isinstance(value, int) and abs(value) > 10**300) else "1" * 400


def _xlsx(path: Path, rows: list[Any]) -> Path:
    from openpyxl import Workbook
    from openpyxl.utils.exceptions import IllegalCharacterError

    names = list(dict.fromkeys(name for row in rows if isinstance(row, dict) for name in row))
    book = Workbook()
    book.active.append(names)
    for row in rows:
        cells = [row.get(n) for n in names] if isinstance(row, dict) else [row]
        try:
            book.active.append(
                [c if isinstance(c, str | float | None) or (isinstance(c, int) and abs(c) < 1e15) else repr(c)[:99] for c in cells]
            )
        except (IllegalCharacterError, ValueError):
            book.active.append([repr(c)[:99] for c in cells])
    path.parent.mkdir(parents=True, exist_ok=True)
    data = io.BytesIO()
    book.save(data)
    path.with_suffix(".xlsx").write_bytes(data.getvalue().replace(b"\xed\xa0\x80", b"?"))
    return path.with_suffix(".xlsx")


def _fits_excel(value: Any) -> bool:
    return isinstance(value, str | float | None) or (isinstance(value, int) and abs(value) < 1e15)


def _json_lines(make: Callable[..., Path]) -> Callable[[Path, list[Any]], Path]:
    return lambda path, rows: make(path.parent, *(row if isinstance(row, str) else json.dumps(row, default=repr) for row in rows))


def _inspect(path: Path, rows: list[Any]) -> Path:
    path = path.with_suffix(".json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**rec.inspect_header("d"), "samples": rows}, default=repr), encoding="utf-8")
    return path


def _eval(path: Path, rows: list[Any]) -> Path:
    path = path.with_suffix(".eval")
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for i, row in enumerate(rows):
            archive.writestr(f"samples/{i}_epoch_1.json", row if isinstance(row, str) else json.dumps(row, default=repr))
        archive.writestr("header.json", json.dumps(rec.inspect_header("d")))
    return path


def _lighteval(path: Path, rows: list[Any]) -> Path:
    import pyarrow as pa

    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        return rec.lighteval(path.parent, *rows)
    except (pa.ArrowException, OverflowError) as error:
        raise ValueError(error) from error


def _helm(path: Path, rows: list[Any]) -> Path:
    path = path.parent / "suite" / "d,model=m" / "scenario_state.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"adapter_spec": {"model": "m"}, "request_states": rows}, default=repr), encoding="utf-8")
    return path


def _helm_state(i: int) -> dict[str, Any]:
    options = [(option, place == GOLD[i]) for place, option in enumerate(OPTIONS)]
    return rec.helm_state(rec.helm_instance(str(i), QUESTIONS[i], options), REPLIES[i], mapping=dict(zip("ABCD", OPTIONS, strict=True)))


def _opencompass(path: Path, rows: list[Any]) -> Path:
    path = path.parent / "predictions" / "m" / "d.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({str(i): row for i, row in enumerate(rows)}, default=repr), encoding="utf-8")
    return path


def _vlmevalkit_json(path: Path, rows: list[Any]) -> Path:
    path = path.with_suffix(".json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows, default=repr), encoding="utf-8")
    return path


def logs() -> list[Log]:
    """A sound log of every format."""
    samples = [rec.inspect_sample(str(i), QUESTIONS[i], _letter(i), REPLIES[i], logprobs=[-0.5, -0.25], choices=OPTIONS) for i in range(N)]
    likelihoods = [rec.leh_choice(i, QUESTIONS[i], OPTIONS, GOLD[i], _scores(i)) for i in range(N)]
    return [
        Log("lm-eval numbers", likelihoods, _json_lines(rec.leh), True),
        Log("lm-eval words", [rec.leh_open(i, _open(i), _letter(i), REPLIES[i]) for i in range(N)], _json_lines(rec.leh), True),
        Log("lmms-eval words", [rec.lmms_row(i, _open(i), _letter(i), REPLIES[i]) for i in range(N)], _json_lines(rec.lmms), True),
        Log("lmms-eval losses", [_losses(i) for i in range(N)], _json_lines(rec.lmms), True),
        Log("vlmevalkit tsv", [_vek(i) for i in range(N)], lambda path, rows: _csv(path, rows, ".tsv")),
        Log("vlmevalkit xlsx", [_vek(i) for i in range(N)], _xlsx),
        Log("vlmevalkit json", [_vek(i) for i in range(N)], _vlmevalkit_json),
        Log("inspect json", samples, _inspect),
        Log("inspect eval", samples, _eval, True),
        Log("lighteval", [rec.lighteval_row(str(i), QUESTIONS[i], OPTIONS, GOLD[i], (), _scores(i)) for i in range(N)], _lighteval),
        Log("helm", [_helm_state(i) for i in range(N)], _helm),
        Log("opencompass", [rec.opencompass_entry(_open(i), REPLIES[i], _letter(i)) for i in range(N)], _opencompass),
        Log(
            "every eval ever",
            [rec.eee_line(str(i), QUESTIONS[i], _letter(i), REPLIES[i], choices=OPTIONS) for i in range(N)],
            _json_lines(rec.eee),
            True,
        ),
        Log("vub", [_vub(i) for i in range(N)], _pickled),
    ]


def _losses(i: int) -> dict[str, Any]:
    return rec.lmms_row(i, QUESTIONS[i], _letter(i), [[str(-v), "False"] for v in _scores(i)])


Scores = dict[str, tuple[Any, ...]]


@dataclass
class Outcome:
    """What reading a log came to."""

    scores: Scores = field(default_factory=dict)
    """Sample id -> rating or the place of the likeliest option, whether it declines, and its log-probabilities."""
    counted: int = 0
    """Rows and samples that are left out, by a line each."""
    error: str = ""


def outcome(folder: Path, vub: bool, skip: bool) -> Outcome:
    """Read a log as a spec would, by the adapter and by the model, and rate every answer."""
    notes = io.StringIO()
    bad: list[AdapterError] = []
    context = AdapterContext(folder, source=folder, bad=bad.append)
    faults = {"faults": "leave_out" if skip else "stop"}
    with redirect_stderr(notes):
        try:
            made = list(vlm_uncertainty_bench(context, dataset="d") if vub else recorded_samples(context, **faults))  # type: ignore[arg-type]
            samples = [as_row(item) for item in made if not isinstance(item, Image)]
            table = pa.Table.from_pylist(samples, schema=SAMPLES)
            model = recorded(ModelContext("m", folder=folder), source="log", **({"run": "m"} if vub else {}))
            rows = model.lookup("d", table).to_pylist()
        except (AdapterError, ModelError) as error:
            return Outcome(error=str(error))
    left = len(getattr(model, "left_out", ())) + notes.getvalue().count("\n")
    return Outcome(_scored(samples, rows), left)


def _scored(samples: list[dict[str, Any]], rows: list[dict[str, Any]]) -> Scores:
    by_id = {sample["sample_id"]: sample for sample in samples}
    found: Scores = {}
    for row in rows:
        sample, logits = by_id[row["sample_id"]], row["option_logits"]
        numbers = row["token_logprobs"]
        if any(v > 0 or v != v for v in numbers or ()) or any(v != v or abs(v) == float("inf") for v in logits or ()):
            raise AssertionError(f"impossible numbers came through: {numbers} {logits}")
        if row["draw"]:
            continue
        if logits:
            found[row["sample_id"]] = (max(range(len(logits)), key=logits.__getitem__), sample["answer_index"], None)
        elif row["text"] is not None and sample["choices"] and sample["answer_index"] is not None:
            right = sample["answer_index"]
            references = [sample["choices"][right], "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[right]]
            (one,) = rules([sample["question"]], [references], [row["text"]], [sample["choices"]])
            found[row["sample_id"]] = (one.rating, one.pred_is_idk, tuple(numbers or ()))
        elif row["text"] is not None:
            (one,) = rules([sample["question"]], [sample["references"]], [row["text"]])
            found[row["sample_id"]] = (one.rating, one.pred_is_idk, tuple(numbers or ()))
    return found


def mutated(rng: random.Random, value: Any, depth: int = 0) -> Any:
    """The value with one thing in it changed: a part replaced, dropped, doubled, renamed or cut."""
    if isinstance(value, dict) and value and (depth == 0 or rng.random() < 0.8):
        key, made = rng.choice(list(value)), dict(value)
        how = rng.random()
        if how < 0.12:
            del made[key]
        elif how < 0.18:
            made[key + rng.choice(["", "_", "x"])] = made.pop(key)
        else:
            made[key] = mutated(rng, value[key], depth + 1)
        return made
    if isinstance(value, list) and value and rng.random() < 0.7:
        made, at = list(value), rng.randrange(len(value))
        how = rng.random()
        if how < 0.2:
            del made[at]
        elif how < 0.35:
            made.insert(at, copy.deepcopy(made[at]))
        else:
            made[at] = mutated(rng, made[at], depth + 1)
        return made
    if isinstance(value, str) and value and rng.random() < 0.4:
        at = rng.randrange(len(value))
        return value[:at] + rng.choice(["", "\0", "\ud800", "ß", '"', "\t", "\n", "A", value]) + value[at + rng.randrange(2) :]
    return copy.deepcopy(rng.choice(ODD))


SHORTER = -2
"""A log that lost whole lines and nothing else is a shorter log: no reader can tell, and all that is left is sound."""


CUT = -3
"""A table that ends within the last cell of a row, with as many cells as the header: no reader can tell that rows are missing."""


def damaged(rng: random.Random, log: Log, folder: Path) -> int | None:
    """Write a damaged log; the place of the record that is damaged, None where the file itself is, `SHORTER` where it lost whole lines."""
    path = folder / ("output/m/d.pkl" if log.name == "vub" else "m_d.x")
    how = rng.random()
    if how < 0.75:
        at, rows = rng.randrange(N), copy.deepcopy(log.records)
        for _ in range(rng.choice([1, 1, 1, 2, 4])):
            rows[at] = mutated(rng, rows[at])
        if (
            rng.random() < 0.05
            and log.write not in (_inspect, _vlmevalkit_json)
            and log.name not in ("vub", "vlmevalkit tsv", "vlmevalkit xlsx")
        ):
            rows[at] = json.dumps(rows[at], default=repr)[: rng.randrange(200)].replace("\n", "")
        try:
            log.write(path, rows)
        except (UnicodeEncodeError, ValueError, TypeError, AttributeError, KeyError, pickle.PicklingError):
            rows[at] = {"broken": True}  # what no writer could write
            log.write(path, rows)
        return at
    if how < 0.82 and log.write is not _opencompass:  # whose questions are known by their number
        rows = copy.deepcopy(log.records)
        rng.shuffle(rows)
        log.write(path, rows)
        return -1
    written = log.write(path, copy.deepcopy(log.records))
    whole = written.read_bytes()
    data = bytearray(whole)
    for _ in range(rng.choice([1, 1, 3, 20])):
        at = rng.randrange(len(data))
        kind = rng.random()
        if kind < 0.5:
            data[at] = rng.randrange(256)
        elif kind < 0.7:
            del data[at : at + rng.randrange(1, 40)]
        elif kind < 0.85:
            data[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 9)))
        else:
            del data[at:]
        if not data:
            break
    written.write_bytes(bytes(data))
    if {*bytes(data).splitlines()} <= {*whole.splitlines()}:
        return SHORTER
    header, _, rest = bytes(data).partition(b"\n")
    last = rest.rpartition(b"\n")[2]
    return CUT if log.name == "vlmevalkit tsv" and last.count(b"\t") == header.count(b"\t") else None


@contextmanager
def deadline(seconds: int) -> Iterator[None]:
    def late(*_: Any) -> None:
        raise TimeoutError(f"not done within {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def fault_of(log: Log, sound: Outcome, at: int | None, found: Outcome, folder: Path) -> str:
    """What is wrong with how a damaged log was read; empty where nothing is."""
    if found.error:
        return (
            ""
            if str(folder) in found.error or "m_d" in found.error or "d.pkl" in found.error
            else f"an error without its file: {found.error}"
        )
    for name, score in sound.scores.items():
        untouched = at not in (None, CUT) and str(at) != name
        if name in found.scores and untouched and found.scores[name] != score:
            return f"record {name} was not damaged: {score} became {found.scores[name]}"
        if name not in found.scores and untouched and at != SHORTER and not found.counted:
            return f"record {name} vanished and nothing was counted"
    if at not in (SHORTER, CUT) and len(found.scores) < len(sound.scores) and not found.counted:
        return f"{len(sound.scores) - len(found.scores)} records vanished and nothing was counted"
    return ""


def run(cases: int, seed: int, only: str = "") -> tuple[Counter[str], list[str]]:
    """Counts of what cases came to, and what is wrong with any."""
    formats = [log for log in logs() if only in log.name]
    counts: Counter[str] = Counter()
    findings: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        sound = {}
        for log in formats:
            log.write(Path(scratch) / "sound" / log.name / ("output/m/d.pkl" if log.name == "vub" else "m_d.x"), log.records)
            sound[log.name] = outcome(Path(scratch) / "sound" / log.name, log.name == "vub", skip=True)
            if len(sound[log.name].scores) != N or sound[log.name].counted or sound[log.name].error:
                raise AssertionError(f"{log.name}: the sound log is not read: {sound[log.name]}")
        for case in range(cases):
            log, rng = formats[case % len(formats)], random.Random(f"{seed}/{case}")
            with tempfile.TemporaryDirectory(dir=scratch) as folder:
                wrong = _case(rng, log, sound[log.name], Path(folder), counts)
            if wrong:
                findings.append(f"case {case} ({log.name}): {wrong}")
    return counts, findings


def _case(rng: random.Random, log: Log, sound: Outcome, folder: Path, counts: Counter[str]) -> str:
    at = damaged(rng, log, folder)
    try:
        with deadline(SECONDS):
            found = outcome(folder, log.name == "vub", skip=rng.random() < 0.8)
    except Exception:  # noqa: BLE001 - the point of it all
        counts["tracebacks"] += 1
        return traceback.format_exc(limit=-4)
    counts["refused" if found.error else "read whole" if found.scores == sound.scores else "read in part"] += 1
    return fault_of(log, sound, at, found, folder)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="formats whose name has this in it")
    options = parser.parse_args()
    start = time.monotonic()
    counts, findings = run(options.cases, options.seed, options.only)
    for finding in findings[:20]:
        print(finding)
    shown = ", ".join(f"{n:,} {what}" for what, n in counts.most_common())
    print(f"{options.cases:,} cases, seed {options.seed}: {shown}; {len(findings)} findings; {time.monotonic() - start:.0f} s")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
