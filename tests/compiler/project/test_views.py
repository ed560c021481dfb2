"""How the command line shows things: the exact lines, in a pipe."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qualm.compiler.plan.compiled_files import Leftover
from qualm.compiler.plan.emit import FileChanges
from qualm.compiler.project import views
from qualm.compiler.project.inference import StageEstimate
from qualm.compiler.project.kept_answers import KeptAnswers
from qualm.compiler.project.needs import Need
from qualm.compiler.project.parallel import ParallelForecast, WorkerShare
from qualm.compiler.project.prices import Cost, Load
from qualm.compiler.project.rebuilds import Forecast, Reason
from qualm.compiler.project.resources import MemoryEstimate
from qualm.runners.runtime.spending import Spent


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.setenv("COLUMNS", "200")

    def shown(show: Any, *arguments: Any, **options: Any) -> list[str]:
        show(*arguments, **options)
        return [line.rstrip() for line in capsys.readouterr().out.splitlines()]

    return shown


REASONS = tuple(Reason("input", f"[{n}]") for n in range(6))


def test_a_line_for_each_stage_that_is_not_left_alone(lines) -> None:  # type: ignore[no-untyped-def]
    forecasts = [
        Forecast("a", "data", "run", REASONS),
        Forecast("b", "data", "restore", REASONS[:5]),
        Forecast("c", "data", "perhaps"),
        Forecast("d", "data", "blocked", (Reason("missing", "x"),)),
        Forecast("e", "data", "unchanged", (Reason("code", "y"),)),
        Forecast("f", "data", "run"),
    ]
    assert lines(views.print_forecasts, "s", forecasts) == [
        "+ a will run",
        *(f"    input [{n}]" for n in range(5)),
        "    and 1 more (-v)",
        "< b will be restored from the cache",
        *(f"    input [{n}]" for n in range(5)),
        "? c runs if its inputs change",
        "! d lacks something",
        "    missing x",
        "+ f will run",
        "s: 2 to run, 1 to restore, 1 perhaps to run, 1 blocked, 1 up to date",
    ]
    verbose = lines(views.print_forecasts, "s", forecasts, verbose=True)
    assert verbose[:7] == ["+ a will run", *(f"    input [{n}]" for n in range(6))] and verbose[-4:-2] == [
        "= e is up to date",
        "    code y",
    ]
    assert lines(views.print_forecasts, "s", []) == ["s: no stages"]


def test_stages_with_equal_reasons_are_one_line(lines) -> None:  # type: ignore[no-untyped-def]
    """A plan of a new benchmark is a few lines, whatever the number of its stages."""
    new, follows = Reason("new", "never run here"), Reason("input", "x may change", follows=True)
    forecasts = [
        Forecast("a", "data", "run", (new,)),
        Forecast("b", "infer", "run", (new, follows)),
        Forecast("c", "data", "blocked", (Reason("missing", "y"),)),
        Forecast("d", "infer", "blocked", (Reason("waiting", "for c", follows=True),)),
        Forecast("e", "judge", "blocked", (Reason("waiting", "for d", follows=True),)),
    ]
    assert lines(views.print_forecasts, "s", forecasts) == [
        "+ 2 stages will run: a, b",
        "    never run here",
        "! c lacks something",
        "    missing y",
        "! 2 stages wait for what is missing: d, e",
        "s: 2 to run, 3 blocked",
    ]


def test_needs(lines) -> None:  # type: ignore[no-untyped-def]
    assert lines(views.print_needs, []) == []
    shown = lines(views.print_needs, [Need("environment", "KEY", "export KEY=[...]", ("infer-a",))])
    assert shown[0] == "What this needs from you" and any("export KEY=[...]" in line for line in shown[1:])


MEMORY = MemoryEstimate(2.0 * 2**30, 0.0, 0.0, 0.0)
"""With a tenth of slack and half a GiB of the device's own: 2.7 GiB."""


def test_what_inference_takes(lines) -> None:  # type: ignore[no-untyped-def]
    head = "What inference takes at most (estimates; what is stored is not computed again; -v shows the arithmetic, --gpu a card's time)"
    estimates = [
        StageEstimate("a", "m", 1234, 8, MEMORY, 30.0, "a100", "", ("one [line]",)),
        StageEstimate("b", "m", None, 8, MEMORY, 30.0, "measured"),
        StageEstimate("c", "m", 5, 8, MEMORY),
        StageEstimate("d", "n", 5, why="x is not here"),
        StageEstimate("e", "o", None, why="y [is] not here"),
        StageEstimate("f", "o", 7, why="y [is] not here"),
    ]
    kept = [replace(estimates[0], stored=3 * 2**29), replace(estimates[1], stored=2**29)]
    assert [line.partition(" of 8")[2] for line in lines(views.print_estimates, kept)[1:]] == [
        ", 1.5 GiB of hidden states, 30 s (a100)",
        ", 0.5 GiB of hidden states a question, 30 s (measured) a question",
    ]
    assert lines(views.print_estimates, []) == []
    assert lines(views.print_estimates, estimates) == [
        head,
        "    a, 1,234 questions: 2.7 GiB in batches of 8, 30 s (a100)",
        "    b: 2.7 GiB in batches of 8, 30 s (measured) a question",
        "    c, 5 questions: 2.7 GiB in batches of 8",
        "    d, 5 questions: x is not here",
        "    2 stages: y [is] not here",
    ]
    assert lines(views.print_estimates, estimates, verbose=True)[2:] == [
        "        one [line]",
        "    b: 2.7 GiB in batches of 8, 30 s (measured) a question",
        "    c, 5 questions: 2.7 GiB in batches of 8",
        "    d, 5 questions: x is not here",
        "    e: y [is] not here",
        "    f, 7 questions: y [is] not here",
    ]


COST = Cost("a", "m", "server [1]", 1234, Load(2000, 30_000, 4), 1.5, 0.0, ("one [line]",))


def test_what_servers_are_asked(lines) -> None:  # type: ignore[no-untyped-def]
    head = "What servers are asked at most (estimates; what is stored is not asked again; -v shows the arithmetic)"
    asked = "2,000 requests, 30,000 tokens sent, 4 received"
    assert lines(views.print_costs, []) == []
    assert lines(views.print_costs, [COST]) == [head, f"    a (server [1]), 1,234 questions: {asked}: $1.50"]
    assert lines(views.print_costs, [COST], verbose=True)[2:] == ["        one [line]"]
    others = [
        replace(COST, stage="b", dollars=0.25),
        replace(COST, stage="c", questions=None, dollars=100.0),
        replace(COST, stage="d", dollars=None),
        replace(COST, stage="e", reads="a", dollars=100.0),
    ]
    assert lines(views.print_costs, [COST, *others])[2:] == [
        f"    b (server [1]), 1,234 questions: {asked}: $0.25",
        f"    c (server [1]), a question: {asked}: $100.00",
        f"    d (server [1]), 1,234 questions: {asked}: no price known (`price` of this server in qualm.toml)",
        "    e: nothing, it reads the replies to a",
        "    together $1.75",
    ]
    assert not any("together" in line for line in lines(views.print_costs, [COST, *others[1:]]))


def test_what_was_spent_and_whether_the_rest_is_enough(lines) -> None:  # type: ignore[no-untyped-def]
    def below(*priced: Cost, spent: Spent, cap: float = 0.0) -> list[str]:
        shown = lines(views.print_costs, priced, spent=spent, cap=cap)
        return [line.strip() for line in shown if "spent over all runs" in line or "more than is left" in line]

    stops = "this may cost more than is left: the run stops there; raise `max_spend` and run again"
    half_open = ", $0.25 of it reserved for requests that have not ended"
    of_two = "of $2.00 (`max_spend` in qualm.toml) spent over all runs"
    assert below(COST, spent=Spent()) == [] == below(spent=Spent())
    assert below(COST, spent=Spent(0.5), cap=2.0) == [f"$0.50 {of_two}"], "2 of 2 dollars are enough"
    assert below(COST, spent=Spent(0.5, 0.25), cap=2.0) == [f"$0.75 {of_two}{half_open}", stops]
    assert below(COST, spent=Spent(), cap=1.0) == ["$0 of $1.00 (`max_spend` in qualm.toml) spent over all runs", stops]
    assert below(spent=Spent(1.0, 0.25), cap=2.0) == [f"$1.25 {of_two}{half_open}"], "nothing is ahead"
    assert below(COST, spent=Spent(3.0)) == ["$3.00 spent over all runs"], "without a limit"
    parts = lines(views.print_costs, [replace(COST, part="[lave]", each="answer", questions=None), replace(COST, each="image")])[1:]
    assert [line.partition(": ")[0] for line in parts] == ["    a, [lave] (server [1]), an answer", "    a (server [1]), 1,234 images"]


def changes(**facts: Any) -> FileChanges:
    made = FileChanges()
    for name, value in facts.items():
        setattr(made, name, value)
    return made


def test_what_was_compiled(lines) -> None:  # type: ignore[no-untyped-def]
    made = changes(
        written=["a"],
        removed=["b"],
        moved=[("c", "d")],
        pruned={"dvc.lock": ["e", "f"]},
        leftovers=[Leftover("g", (Path("h"),), (Path("i"),))],
    )
    left = "left of 'g', whose spec is gone: h, i/; `qualm clean g` removes it"
    assert lines(views.print_changes, made, False) == [
        "wrote: a", "removed: b", "moved: c -> d", "dvc.lock: dropped entries of stages that are gone: e, f", left,
    ]  # fmt: skip
    assert lines(views.print_changes, made, True) == [
        "out of step: a", "stale: b", "to move: c -> d", "dvc.lock: holds entries of stages that are gone: e, f", left,
        "run `qualm compile`, and commit what it writes",
    ]  # fmt: skip
    assert lines(views.print_changes, changes(written=["a"]), True, ["b", "c"])[-1] == "run `qualm compile b c`, and commit what it writes"
    assert lines(views.print_changes, changes(unchanged=1), False) == ["1 file in step, nothing to write"]
    for check in (False, True):
        assert lines(views.print_changes, changes(unchanged=3), check) == ["3 files in step, nothing to write"]


ROWS = [
    {"model": "m", "dataset": "d", "variant": "clean", "metric": "accuracy", "old": 0.5, "new": 0.25, "change": -0.25},
    {"model": "n", "dataset": "d", "variant": "clean", "metric": "accuracy", "old": 0.0, "new": None, "change": None},
    {"model": "m", "dataset": "d", "variant": "clean", "metric": "ece", "old": None, "new": 0.00004, "change": 0.1},
    {"model": "n", "dataset": "d", "variant": "blur@radius=2", "metric": "ece", "old": 0.5, "new": 0.25, "change": -0.25},
]


UNTESTED = {"level": None, "test": None, "notes": []}


def test_a_difference(lines) -> None:  # type: ignore[no-untyped-def]
    difference = {
        "spec": "s", "revision": "HEAD", "spec_diff": ["@@ 1 @@", "-seed: 1", "+seed: [2]", " same"],
        "parameters": [{"stage": "score", "change": "args: [1] -> [2]"}], "results": ROWS, **UNTESTED,
    }  # fmt: skip
    shown = lines(views.print_diff, difference)
    assert shown[:6] == ["s: HEAD -> working tree", "@@ 1 @@", "-seed: 1", "+seed: [2]", " same", "  score: args: [1] -> [2]"]
    assert [line.split() for line in shown[6:] if line] == [
        ["m", "·", "d"], ["metric", "old", "new", "change"], ["accuracy", "0.5000", "0.2500", "-0.2500"], ["ece", "-", "0.0000", "+0.1000"],
        ["n", "·", "d"], ["metric", "old", "new", "change"], ["accuracy", "0.0000", "-", "-"],
        ["n", "·", "d", "·", "blur@radius=2"], ["metric", "old", "new", "change"], ["ece", "0.5000", "0.2500", "-0.2500"],
    ]  # fmt: skip


def test_a_difference_that_was_tested(lines) -> None:  # type: ignore[no-untyped-def]
    row = {"model": "m", "dataset": "d", "variant": "clean", "metric": "ece", "old": 0.5, "new": 0.25, "change": -0.25}
    found = [row | {"low": -0.3, "high": -0.2, "p_adjusted": 0.001, "significant": True, "better": "b"}]
    found.append(row | {"metric": "set_size", "low": None, "high": None, "p_adjusted": None, "significant": None, "better": None})
    tests = {"level": 0.95, "test": {"name": "paired t"}, "notes": ["d: 3 questions were left out"]}
    shown = lines(views.print_diff, {"spec": "s", "revision": "HEAD", "spec_diff": [], "parameters": [], "results": found, **tests})
    assert [line.split() for line in shown[2:5]] == [
        ["metric", "old", "new", "change", "95%", "interval", "p"],
        ["ece", "0.5000", "0.2500", "-0.2500", "-0.3000", "to", "-0.2000", "0.0010"],
        ["set_size", "0.5000", "0.2500", "-0.2500", "-", "-"],
    ]
    assert shown[5].startswith("p: paired t test on the questions that both sides share") and shown[-1] == tests["notes"][0]


@pytest.mark.parametrize("what", ["spec_diff", "parameters", "results", ""])
def test_no_difference_is_said_where_there_is_none(lines, what: str) -> None:  # type: ignore[no-untyped-def]
    full = {"spec_diff": ["+x"], "parameters": [{"stage": "s", "change": "c"}], "results": ROWS}
    difference = {"spec": "s", "revision": "HEAD", **UNTESTED, **{key: value if key == what else [] for key, value in full.items()}}
    assert (lines(views.print_diff, difference)[-1] == "no difference") == (what == "")


@pytest.fixture
def in_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.mark.usefixtures("in_colour")
def test_rows_that_were_distinguished_are_coloured_and_others_dim(capsys) -> None:  # type: ignore[no-untyped-def]
    row = {
        "model": "m",
        "dataset": "d",
        "variant": "clean",
        "old": 0.5,
        "new": 0.25,
        "change": -0.25,
        "low": -0.3,
        "high": -0.2,
        "p_adjusted": 0.001,
    }
    ways = {"x1": (True, "b"), "x2": (True, "a"), "x3": (False, None), "x4": (True, None), "x5": (None, None)}
    rows = [row | {"metric": name, "significant": apart, "better": better} for name, (apart, better) in ways.items()]
    for level, codes in ((0.95, [{"32"}, {"31"}, {"2"}, set(), {"2"}]), (None, [set()] * 5)):
        views._print_results(rows, level)
        shown = [line for line in capsys.readouterr().out.splitlines() if re.search(r"x\d", line)]
        assert [set(re.findall(r"\x1b\[([\d;]+)m", line)) - {"0"} for line in shown] == codes


@pytest.mark.usefixtures("in_colour")
def test_lines_of_a_difference_are_coloured_by_what_they_begin_with(capsys) -> None:  # type: ignore[no-untyped-def]
    spec_diff = ["@@ -1 +1 @@", "-seed: x", "+seed: y", " same"]
    nothing: dict[str, Any] = {"parameters": [], "results": [], **UNTESTED}
    views.print_diff({"spec": "s", "revision": "HEAD", "spec_diff": spec_diff, **nothing})
    shown = capsys.readouterr().out.splitlines()[1:]
    assert [set(re.findall(r"\x1b\[([\d;]+)m", line)) - {"0"} for line in shown[:4]] == [{"36"}, {"31"}, {"32"}, set()]


def test_how_long_stages_take_side_by_side(lines) -> None:  # type: ignore[no-untyped-def]
    shares = (
        WorkerShare("a", 2, {"CPU": 1.0, "GPU": 0.5, "memory": 3 * 2.0**30}, 1000, 4),
        WorkerShare("b", 1, {"CPU": 0.1}, None, 0),
        WorkerShare("c", 0, {"memory": 2.0**40}, 1000, 4),
    )
    assert lines(views.print_parallel_run, ParallelForecast(3, 30.0, 7200.0, ("score", "report"), shares), "ray")[1:] == [
        "    30 s; one by one, here: 2 h 0 min", "    not counted, since they never ran here: score, report",
        "    a: 2 workers of 1 CPU, 0.5 GPU, 3 GiB, about 125 batches of 4 questions each", "    b: 1 worker of 0.1 CPU",
        "    c: no worker has room for 1.02e+03 GiB",
    ]  # fmt: skip
    alone = lines(views.print_parallel_run, ParallelForecast(2, 1.0, 2.0, ()), None)
    assert alone[0].startswith("What it takes with --jobs 2 (") and len(alone) == 2


def test_what_is_kept_of_answers(lines) -> None:  # type: ignore[no-untyped-def]
    one = KeptAnswers("a", {"answers": 1200, "draws": 24}, {"0.1.0": 1224}, {"draws": 6}, ("x [y]",))
    two = KeptAnswers("b", {"answers": 3}, {"0.2.0": 2, "0.1.0": 1}, {})
    assert lines(views.print_kept, [one, two, KeptAnswers("c", why=("not [known]", "at all"))]) == [
        "a: 1,200 answers, 24 draws kept from version 0.1.0, at most 6 draws to compute; x [y]",
        "c: stored answers: not [known]; at all",
        "1,203 answers, 24 draws kept (1,225 from version 0.1.0, 2 from version 0.2.0), at most 6 draws to compute",
    ]
    assert views.describe_kept(KeptAnswers("d", {}, {}, {})) == "0 answers kept, 0 to compute"
    assert lines(views.print_kept, [KeptAnswers("c", why=("unknown",))]) == ["c: stored answers: unknown"]


def test_experiments(lines) -> None:  # type: ignore[no-untyped-def]
    assert lines(views.print_experiments, [])[0].startswith("no experiments start from this commit; `dvc exp run -S ... --name NAME`")
    entries = [
        {"name": "[x]", "parameters": [{"stage": "score", "change": "[a]"}], "results": []},
        {"name": "y", "parameters": [], "results": []},
    ]
    assert lines(views.print_experiments, entries) == ["[x]", "  score: [a]", "y"]
    (found,) = [line.split() for line in lines(views.print_experiments, [{**entries[1], "results": ROWS[:1]}]) if "accuracy" in line]
    assert found == ["accuracy", "0.5000", "0.2500", "-0.2500"], "without tests"
