"""Stages asked by a batch API: the same answers as asked one by one, and nothing bought twice whatever is killed when."""

import json
import math
import signal
import time
from collections import Counter
from types import SimpleNamespace

import pytest

from qualm.registry.system import atomic
from qualm.runners.data.answers import Store
from qualm.runners.inference import rounds
from qualm.runners.inference.exchange import TRIES
from qualm.runners.inference.waiting import Waiting
from qualm.runners.runtime import journal, spending
from qualm.runners.runtime.server_config import Price
from qualm.runners.runtime.stage import StageError
from qualm.runners.servers.batch_api import BatchApi
from tests.runners.plugins.models.test_openai import SIGNALS, Served
from tests.support.processes.waiting import TIMEOUT
from tests.support.servers.batch_server import batch_serving
from tests.support.servers.small_server import completion
from tests.support.servers.toy_server import Toy

BATCH = {"default": {"retries": 2, "pause": 0.01, "concurrency": 2, "batch": True}}
ONE_BY_ONE = {"default": {**BATCH["default"], "batch": False}}
FEW = ["text", "token_logprobs", "p_yes", "draws"]


@pytest.fixture
def project(tmp_path):
    made = Served(tmp_path, "http://127.0.0.1:9/v1")
    made.dataset("open", 3)
    made.dataset("mc", 2, choices=True)
    made.servers = BATCH
    return made


def folder(project):
    return project.folder / ".qualm/batches/t/infer"


def bought(server):
    return Counter(json.dumps(body, sort_keys=True) for body in server.live) + server.bought


@pytest.mark.slow
def test_answers_are_those_of_requests_sent_one_by_one(project):
    tables = []
    for servers in (ONE_BY_ONE, BATCH):
        with batch_serving(Toy()) as server:
            project.url = server.url
            project.servers = {"default": {**servers["default"], "concurrency": 1}}  # the temperature is tested on what comes first
            project.stage(["open", "mc"], needs=[*SIGNALS, "logprobs_without_image"], n=False, prompt_logprobs=True)
            counters = project.run().counters
            tables.append(([project.rows(name) for name in ("open", "mc")], bought(server)))
    assert tables[0] == tables[1]
    assert len(server.batches) == 2 and len(server.live) == 2, "answers, then what is asked about them; the temperature was tested at once"
    assert counters["batches"] == 2 and counters["draws computed"] == 9
    told = project.served()[-1]
    assert [(b["id"], b["status"]) for b in told["batches"]] == [("batch_0", "completed"), ("batch_1", "completed")]
    assert [path for path in folder(project).iterdir() if path.suffix != ".lock"] == [], "all is stored, so nothing is left to go on with"
    stored = {name: n for name, n in project.run().counters.items() if n and name.endswith("stored")}
    assert stored == {"answers stored": 5, "draws stored": 9, "signals stored": 12}


class Killed(BaseException):
    """What no `except Exception` catches."""


def steps(monkeypatch):
    """Make every step that leaves a trace, here or at the server, one where the run may be killed: before it, or after it."""
    count = {"at": 0, "kill": None}

    def step(holder, name):
        own = getattr(holder, name)

        def stepped(*args, **more):
            for moment in range(2):
                count["at"] += 1
                if count["at"] == count["kill"]:
                    raise Killed
                if moment == 0:
                    value = own(*args, **more)
            return value

        monkeypatch.setattr(holder, name, stepped)

    for holder, names in {
        BatchApi: ["upload", "make", "get", "download"], Store: ["put"], journal.Journal: ["append"], atomic: ["write_bytes", "write_text"],
        Waiting: ["clear"],
    }.items():  # fmt: skip
        for name in names:
            step(holder, name)
    return count


PRICED = {"default": {**BATCH["default"], "price": Price(1000.0, 500.0), "max_spend": 100.0, "concurrency": 1}}


@pytest.mark.parametrize("stride", [pytest.param(1, marks=pytest.mark.slow), 17])
def test_nothing_is_bought_twice_whichever_step_a_kill_hits(monkeypatch, tmp_path, stride):
    """At every step in turn the run dies, and the next one goes on. Tables, requests bought and money are those of a run that lives."""
    count = steps(monkeypatch)
    outcomes = {}
    kill = 0
    while True:
        project = Served(tmp_path / f"killed-{kill}", "")
        project.dataset("open", 1)
        project.servers = PRICED
        with batch_serving(Toy()) as server:
            project.url = server.url
            project.stage(["open"], needs=FEW, n=False, draws=2, temperature=1.0)
            count.update(at=0, kill=kill)
            if kill:
                with pytest.raises(Killed):
                    project.run(spec="t")
                count["kill"] = 0
            project.run(spec="t")
            outcomes[kill] = (project.rows("open"), server.bought, spending.read_spent(project.folder, ".qualm/store", "t"), server.live)
        total = count["at"] if not kill else total  # noqa: F821 - the first run is not killed
        kill += stride
        if kill > total:
            break
    rows, once, paid, _ = outcomes[0]
    assert total > 40 and set(once.values()) == {1} and paid.open == 0 and paid.settled > 0
    for number, outcome in outcomes.items():
        assert outcome == (rows, once, paid, []), f"killed at step {number}"


def run_until(project, server, seen, how):
    """Start the stage as `qualm run` does, wait for what the server sees, end it; its exit status and what it said."""
    process = project.start(preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    deadline = time.monotonic() + TIMEOUT
    while not seen(server) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(how)
    return process.wait(TIMEOUT)


@pytest.mark.slow
@pytest.mark.parametrize(("how", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130)])
def test_a_run_that_is_killed_while_it_waits_leaves_its_batch(project, how, code):
    with batch_serving(Toy(), looks=10**6) as server:
        project.url = server.url
        project.stage(["open"], needs=["text"])
        (project.folder / "qualm.toml").write_text("[servers.default]\nbatch = true\npause = 0.05\n")
        assert run_until(project, server, lambda s: "GET /batches/batch_0" in s.calls, how) == code
        server.looks = 1
        project.run()
        assert [call for call in server.calls if call.startswith("POST")] == ["POST /files", "POST /batches"]
    assert len(project.rows("open")) == 3 and set(server.bought.values()) == {1}


def test_a_batch_that_was_made_unheard_is_found_again(project):
    """The server makes it and its reply is lost: it is looked for, on later pages of the list too, and not made again."""
    lost = Counter()

    def trouble(call, nth):
        if call == "POST /batches" and not lost[call]:
            lost[call] += 1
            return "lost", b""
        return None

    with batch_serving(Toy(), trouble=trouble) as server:
        project.url = server.url
        project.stage(["open"], needs=["text"])
        project.run()
        assert server.calls.count("POST /batches") == 1 and server.calls.count("GET /batches") == 1
        assert set(server.bought.values()) == {1}


def test_lines_that_expire_are_sent_again_and_counted(project, capfd):
    with batch_serving(Toy(), fate=lambda batch, n: "expired" if n == 0 else None) as server:
        project.url = server.url
        project.stage(["open"], needs=["text"])
        counters = project.run().counters
    assert counters["requests expired"] == 2 and counters["batches"] == 2 and set(server.bought.values()) == {1}
    assert "t/infer: batch batch_0 expired: 1 of 3 requests answered" in capfd.readouterr().err
    assert [len(server.files[b["input_file_id"]].splitlines()) for b in server.batches.values()] == [3, 2]


def test_lines_that_fail_are_sent_again_three_times_at_most(project):
    busy = (500, '{"error": {"message": "busy"}}', {})
    first = []

    def trouble(body, nth):
        first.append(body) if not first else None
        return busy if body == first[0] and nth < trouble.fails else None

    trouble.fails = 2
    with batch_serving(Toy(trouble=trouble)) as server:
        project.url = server.url
        project.stage(["open"], needs=["text"])
        assert project.run().counters["requests sent again"] == 2 and len(server.batches) == TRIES
    for path in project.segments():
        path.unlink()
    trouble.fails = 10**6
    first.clear()
    with batch_serving(Toy(trouble=trouble)) as server:
        project.url = server.url
        project.stage(["open"], needs=["text"])
        with pytest.raises(StageError, match=r"1 of 3 samples failed; sample \d: failed 3 times, the last .*500: .*busy.*infer"):
            project.run()
        assert len(server.batches) == TRIES
        trouble.fails = 0
        counters = project.run().counters
        assert counters["answers stored"] == 2 and counters["answers computed"] == 1 and len(server.batches) == TRIES + 1


def test_a_request_without_any_reply_is_sent_again(project):
    with batch_serving(Toy(), discard=lambda line, batch: batch["id"] == "batch_0") as server:
        project.url = server.url
        project.stage(["open"], needs=["text"])
        assert project.run().counters["batches"] == 2 and set(server.bought.values()) == {1}
        for path in project.segments():
            path.unlink()
        server.discard = lambda line, batch: True
        with pytest.raises(StageError, match=r"3 of 3 samples failed.*was sent in 3 batches, and the last came back without a reply to it"):
            project.run()


def test_a_sample_that_the_server_rejects_is_undefined(project):
    def trouble(body, nth):
        first.append(body) if not first else None
        return (400, '{"error": {"message": "against our rules"}}', {}) if body["messages"] == first[0]["messages"] else None

    first = []
    with batch_serving(Toy(trouble=trouble)) as server:
        project.url = server.url
        project.stage(["open"], needs=["text", "p_yes"])
        counters = project.run().counters
    assert counters["rejected"] == 2 and sum(row["text"] is None for row in project.rows("open")) == 1
    assert len(server.batches) == 2 and "against our rules" in project.served()[-1]["undefined"][0]["reason"]


def test_a_server_that_rejects_everything_ends_the_run_and_keeps_nothing(project):
    refused = (400, '{"error": {"message": "unknown model"}}', {})
    script = Toy(trouble=lambda body, nth: refused)
    with batch_serving(script) as server:
        project.url = server.url
        project.stage(["open"], needs=["text"])
        with pytest.raises(StageError, match=r"every request was rejected \(3 samples\); the first: status 400: .*unknown model"):
            project.run()
        script.trouble = None
        assert project.run().counters["answers computed"] == 3, "what was refused is asked again"


def test_draws_of_one_request_are_stored_with_those_held_back(project):
    """A filtered draw among others is paid for with them: a kill after it does not have it bought again."""

    class Filtering(Toy):
        def _choice(self, body, index, *more):
            choice = super()._choice(body, index, *more)
            held_back = {"finish_reason": "content_filter", "message": {"role": "assistant", "content": None}}
            return {**choice, **held_back} if index == 1 and body.get("n", 1) > 1 else choice

    with batch_serving(Filtering()) as server:
        project.url = server.url
        project.stage(["open"], needs=["text", "draws"], draws=3, temperature=1.0)
        put = Store.put
        Store.put = lambda self, keys, *rest: (put(self, keys, *rest), stop(len(keys)))
        stop = lambda n: (_ for _ in ()).throw(Killed)  # noqa: E731
        try:
            with pytest.raises(Killed):
                project.run()
        finally:
            Store.put = put
        counters = project.run().counters
        assert set(server.bought.values()) == {1} and len(server.batches) == 1 and not server.live
    assert counters["draws stored"] == 3 and [row["text"] is None for row in project.rows("open")] == [False, False, True, False] * 3


def test_a_batch_too_large_for_the_account_is_divided(project, capfd):
    full = {"code": "token_limit_exceeded", "message": "Enqueued token limit reached for toy.", "line": None}
    with batch_serving(Toy(), fate=lambda batch, n: full if batch["request_counts"]["total"] > 1 else None) as server:
        project.url = server.url
        project.stage(["open"], needs=["text"])
        project.run()
    assert [b["request_counts"]["total"] for b in server.batches.values()] == [3, 1, 1, 1]
    assert "Enqueued token limit reached for toy.; its requests are sent in batches of 1" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("fate", "message"),
    [
        (
            {"code": "model_not_found", "message": "no model toy", "line": 2},
            r"batch_0 of 3 requests: no model toy \(line 2\)",
        ),
        ("cancelled", "batch batch_0 was cancelled at the server with 2 requests unanswered; run again to resend them"),
    ],
)
def test_a_batch_that_fails_or_is_cancelled_stops_the_run(project, fate, message):
    with batch_serving(Toy(), fate=lambda batch, n: fate) as server:
        project.url = server.url
        project.stage(["open"], needs=["text"])
        with pytest.raises(StageError, match=message):
            project.run()
        server.fate = None
        assert project.run().counters["batches"] == 1 and len(server.batches) == 2
        assert set(server.bought.values()) == {1}


def test_a_limit_on_spending_sends_what_it_leaves_room_for(project):
    """A request may cost a dollar at half the price: two at a time go out below a limit of 2.5, and the rest when those have cost less."""
    project.servers = {"default": {**BATCH["default"], "price": Price(900.0, 0.0), "max_spend": 2.5}}
    with batch_serving(Toy()) as server:
        project.url = server.url
        project.stage(["open"], needs=["text"])
        counters = project.run(spec="t").counters
        spent = spending.read_spent(project.folder, ".qualm/store", "t")
    assert [b["request_counts"]["total"] for b in server.batches.values()] == [2, 1]
    assert spent.open == 0 and spent.settled == pytest.approx(3 * 50 * 450 / 1e6) and counters["cents spent"] == 7


def test_a_batch_that_nobody_needs_any_more_is_waited_for_where_its_money_is(project, monkeypatch):
    """It was sent for a stage that has been edited since; what it may cost leaves no room for another."""
    project.servers = {"default": {**BATCH["default"], "price": Price(900.0, 0.0), "max_spend": 1.5}}
    with batch_serving(Toy(), looks=10**6) as server:
        project.url = server.url
        project.stage(["mc"], needs=["text"])
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(rounds.time, "sleep", lambda seconds: (_ for _ in ()).throw(KeyboardInterrupt))
            project.run(spec="t")
        server.looks = 1
        project.stage(["open"], needs=["text"])
        project.run(spec="t")
    assert [row["text"] is not None for row in project.rows("open")] == [True] * 3
    assert [path for path in folder(project).iterdir() if path.suffix != ".lock"] == [] and spending.read_spent(
        project.folder, ".qualm/store", "t"
    ).open == 0


def test_a_limit_that_leaves_no_room_for_one_request_stops_the_run(project):
    project.servers = {"default": {**BATCH["default"], "price": Price(900.0, 0.0), "max_spend": 0.5}}
    with batch_serving(Toy()) as server:
        project.url = server.url
        project.stage(["open"], needs=["text"])
        with pytest.raises(StageError, match=r"the next request could exceed the spending limit \(max_spend of toy at \S+ = \$0.5"):
            project.run(spec="t")
        assert not server.calls


def test_two_runs_of_one_stage_do_not_wait_for_the_same_batches(project):
    other = Waiting(folder(project))
    assert other.open()
    try:
        project.stage(["open"], needs=["text"])
        with pytest.raises(StageError, match="another run is waiting for the batches in"):
            project.run()
    finally:
        other.close()


def test_who_asks_one_by_one_is_told_of_batches_on_their_way(project, capfd, monkeypatch):
    monkeypatch.setattr(rounds.time, "sleep", lambda seconds: (_ for _ in ()).throw(KeyboardInterrupt))
    with batch_serving(Toy(), looks=10**6) as server:
        project.url = server.url
        project.stage(["open"], needs=["text"])
        with pytest.raises(KeyboardInterrupt):
            project.run()
        assert "t/infer: batch batch_0 stays at the server; run again to go on with it" in capfd.readouterr().err
        project.servers = ONE_BY_ONE
        project.run()
    told = "t/infer: batch batch_0 of 3 requests is on its way, and its replies are not waited for; `batch = true` in qualm.toml"
    assert told in capfd.readouterr().err


def test_without_logprobs_and_with_a_reply_that_cannot_be(project):
    with batch_serving(lambda body, nth: completion("red") if nth else "[]") as server:
        project.url = server.url
        project.stage(["open"], needs=["text"], logprobs=0)
        assert project.run().counters["requests sent again"] == 3 and len(server.batches) == 2


def test_the_likeliest_tokens_come_with_the_batch_of_the_answers(project):
    with batch_serving(Toy()) as server:
        project.url = server.url
        project.stage(["open"], needs=["text", "token_logprobs", "top_logprobs"], logprobs=5)
        project.run()
        assert len(server.batches) == 1 and set(server.bought.values()) == {1}
    rows = project.rows("open")
    assert rows and all([len(top) for top in row["top_logprobs"]] == [5] * len(row["token_logprobs"]) for row in rows)


def test_odd_replies_in_a_batch_keep_their_text_and_are_bought_once(project):
    """A refusal without log-probabilities, one at -Infinity, one in parts and with bytes that are no text: one batch, and all answered."""
    entry = {"token": "red", "logprob": -0.5, "top_logprobs": [{"token": "red", "logprob": -0.5}, {"token": "x", "logprob": -math.inf}]}

    def odd(body, nth):
        choice = {"index": 0, "finish_reason": "STOP", "message": {"role": "assistant", "content": "red"}, "logprobs": {"content": [entry]}}
        number = len(server.bought)
        if number % 3 == 0:
            choice |= {"message": {"content": None, "refusal": "I will not."}, "logprobs": {"content": None}}
        elif number % 3 == 1:
            choice["message"] = {"content": [{"type": "text", "text": "red"}]}
        return json.dumps({"choices": [choice], "usage": None})

    with batch_serving(odd) as server:
        project.url = server.url
        project.stage(["open"], needs=["text", "token_logprobs"])
        counters = project.run().counters
        assert set(server.bought.values()) == {1} and len(server.batches) == 1
        project.run()
        assert set(server.bought.values()) == {1} and len(server.batches) == 1
    rows = project.rows("open")
    assert {row["text"] for row in rows} <= {"red", "I will not."} and len(rows) == counters["answers computed"] == 3
    assert all((row["token_logprobs"] is None) == (row["text"] != "red") for row in rows)


@pytest.mark.parametrize(("pause", "pauses"), [(10.0, [10.0, 15.0, 22.5, 33.75, 50.625, 60.0, 60.0]), (80.0, [80.0] * 7), (0.0, [0.0] * 7)])
def test_looks_at_the_batches_come_to_a_minute_apart(monkeypatch, pause, pauses):
    """Or further, where the settings say so."""
    slept, looks = [], iter([False] * 7 + [True])
    monkeypatch.setattr(rounds.time, "sleep", slept.append)
    monkeypatch.setattr(rounds._Rounds, "_look", lambda self, batches: next(looks))
    client = SimpleNamespace(server=SimpleNamespace(pause=pause))
    rounds._Rounds(None, SimpleNamespace(client=client, needed=lambda: ["batch"])).wait()
    assert slept == pauses
