"""A model behind a server on loopback: a toy whose every probability is known, in all ways a server can be lacking or fail."""

import base64
import hashlib
import io
import json
import os
import random
import signal
import time

import numpy as np
import PIL.Image
import pytest

from qualm.runners.contracts.models import ModelContext, ModelError
from qualm.runners.plugins.models._completions import depends_on_temperature, logprobs_in_prompt, option_logits, yes_share
from qualm.runners.plugins.models.openai import openai
from qualm.runners.prompts.question import Prompt, messages, p_true_prompt, render_question, verbalisation, verification
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import StageError
from qualm.runners.servers.protocol import data_url
from tests.support.models.tiny_models import tiny_llava
from tests.support.processes.waiting import TIMEOUT
from tests.support.projects.asking import picture, png, sample, write_samples
from tests.support.projects.tiny_project import BLUR, CLEAN, NOUNS, Project
from tests.support.servers.hostile_replies import draw
from tests.support.servers.small_server import IMPATIENT, NONSENSE, completion
from tests.support.servers.toy_server import END, WORDS, Toy, logprobs, toy_serving
from tests.support.servers.transformers_serve import transformers_serve

SIGNALS = ["text", "token_logprobs", "option_logits", "p_yes", "p_true", "said_confidence", "draws"]
PRIORS = ["logprobs_without_image", "logprobs_without_question", "logprobs_without_both"]
PATIENT = {"default": {"retries": 3, "pause": 0.01, "concurrency": 4}}


class Served(Project):
    """A project whose model is behind a server."""

    def __init__(self, folder, url):
        super().__init__(folder, folder)
        self.url, self.servers = url, PATIENT

    def stage(
        self, datasets, variants=(CLEAN,), needs=SIGNALS, draws=3, temperature=0.7, max_new_tokens=4, in_words=False, prompt=None, **args
    ):
        data = {name: f"results/t/data/{name}" for name in datasets}
        out = {name: f"results/t/generations/base/{name}.parquet" for name in datasets}
        args = {"model": "toy", "base_url": self.url, "logprobs": 20, **args}
        args.setdefault("partial_p_true", args["logprobs"] > 0)
        params = {
            "model": {"label": "gpt", "plugin": "openai", "args": args}, "variants": list(variants), "needs": list(needs),
            **({"in_words": True} if in_words else {}), **({"prompt": prompt} if prompt else {}),
            "max_new_tokens": max_new_tokens, "draws": draws, "temperature": temperature, "top_p": 1.0,
        }  # fmt: skip
        stage = {"kind": "infer", "seed": 7, "params": params, "inputs": {"datasets": data}, "outputs": {"generations": out}}
        path = self.folder / "specs" / "t" / "stages" / "infer.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(stage))

    def run(self, **settings):
        from contextlib import chdir

        from qualm.runners.runtime.stage import read_stage
        from qualm.runners.stages import infer

        with chdir(self.folder):
            stage = read_stage("t/infer", Settings(**{"progress": False, "workers": 2, "servers": self.servers, **settings}))
            infer.run(stage)
        return stage

    def served(self):
        return [json.loads(line) for line in (self.folder / ".qualm/runs/t/infer.served.jsonl").read_text().splitlines()]


@pytest.fixture
def project(tmp_path):
    made = Served(tmp_path, "http://127.0.0.1:9/v1")
    made.dataset("open", 6)
    made.dataset("mc", 4, choices=True)
    return made


def sent(picture, *talk):
    """Messages as the toy gets them."""
    turns = []
    for turn in talk:
        parts = [{"type": "image_url", "image_url": {"url": picture}} if p["type"] == "image" else p for p in turn["content"]]
        alone = len(parts) == 1 and parts[0]["type"] == "text"
        turns.append({"role": turn["role"], "content": parts[0]["text"] if alone else parts})
    return turns


def pictures(server):
    """Question -> picture, as they were sent."""
    found = {}
    for body in server.bodies:
        content = body["messages"][0]["content"]
        if not isinstance(content, str) and len(body["messages"]) == 1:
            found[content[1]["text"]] = content[0]["image_url"]["url"]
    return found


def expected(talk, longest=4):
    """The greedy answer by hand: text, log-probabilities."""
    said, found = [], []
    while len(said) < longest and (not said or said[-1] != END):
        row = logprobs(talk, said)
        said.append(WORDS[int(row.argmax())])
        found.append(float(row.max()))
    return "".join(w for w in said if w != END).strip(), found


def test_every_number_is_the_toys_own(project):
    with toy_serving() as server:
        project.url = server.url
        project.stage(["open"], needs=[*SIGNALS, *PRIORS], prompt_logprobs=True)
        counters = project.run().counters
        assert [counters[f"{kind} computed"] for kind in ("answers", "signals", "draws")] == [6, 36, 18]
        seen = pictures(server)
        rows = project.rows("open")
    assert len(rows) == 6 * 4
    for greedy in rows[::4]:
        question = next(q for q in seen if q in QUESTIONS[greedy["sample_id"]])
        picture = seen[question]
        text, known = expected(sent(picture, *messages(question)))
        assert greedy["text"] == text and greedy["token_entropies"] is None
        np.testing.assert_allclose(greedy["token_logprobs"], known, rtol=1e-6)
        first = np.exp(logprobs(sent(picture, *verification(question, text)), []))
        yes, no = (sum(first[WORDS.index(w)] for w in words) for words in (("yes", " Yes"), ("no", " No")))
        assert greedy["p_yes"] == pytest.approx(yes / (yes + no))
        assert greedy["said_confidence"] == expected(sent(picture, *verbalisation(question, text)), 8)[0]
        first = np.exp(logprobs(sent(picture, *messages(p_true_prompt(question, text))), []))
        assert greedy["p_true"] == pytest.approx(first[WORDS.index("True")])
        tokens = [WORDS.index(w) for w in _words(sent(picture, *messages(question)))]
        for column, talk in {
            "logprobs_without_image": sent(picture, *messages(question, n_images=False)),
            "logprobs_without_question": sent(picture, *messages("")),
            "logprobs_without_both": sent(picture, *messages("", n_images=False)),
        }.items():
            by_hand = [logprobs(talk, [WORDS[t] for t in tokens[:i]])[token] for i, token in enumerate(tokens)]
            if greedy[column] is not None:  # None where the answer's tokens, written out, are read as others
                np.testing.assert_allclose(greedy[column], by_hand, rtol=1e-6)
    assert sum(r["logprobs_without_image"] is not None for r in rows[::4]) >= 3


QUESTIONS = {f"s{i:04d}": f"What color is the {'big ' * (i % 4)}{NOUNS[i % 4]} {i % 10} ?" for i in range(10)}


def _words(talk, longest=4):
    said = []
    while len(said) < longest and (not said or said[-1] != END):
        said.append(WORDS[int(logprobs(talk, said).argmax())])
    return said


def test_draws_are_drawn_and_raising_their_number_asks_for_the_rest_only(project):
    with toy_serving() as server:
        project.url = server.url
        project.stage(["open"], needs=["text", "token_logprobs", "draws"], draws=10)
        project.run()
        rows = project.rows("open")
        assert [r["draw"] for r in rows[:11]] == list(range(11))
        assert len({r["text"] for r in rows if r["draw"]}) > 5
        drawn = [b for b in server.bodies if b.get("n", 1) > 1]
        assert [b["n"] for b in drawn] == [10] * 6 and {b["temperature"] for b in drawn} == {0.7} and "seed" not in drawn[0]
        seen = pictures(server)
        for row in rows:
            talk = sent(seen[QUESTIONS[row["sample_id"]]], *messages(QUESTIONS[row["sample_id"]]))
            first = logprobs(talk, [])
            assert min(abs(row["token_logprobs"][0] - first)) < 1e-6  # of the model's own softmax, at whatever temperature
        before = len(server.bodies)
        project.stage(["open"], needs=["text", "token_logprobs", "draws"], draws=14)
        counters = project.run().counters
        assert counters.pop("answers that end at max_new_tokens")
        assert counters == {"answers computed": 0, "answers stored": 6, "draws computed": 24, "draws stored": 60}
        more = project.rows("open")
        assert [r for r in more if r["draw"] <= 10] == rows
        assert [b["n"] for b in server.bodies[before:] if b["max_tokens"] == 4] == [4] * 6


@pytest.mark.slow
def test_a_server_without_n_is_asked_for_each_draw_with_its_own_seed(project):
    with toy_serving(takes_n=False) as server:
        project.url, project.servers = server.url, {"default": {**PATIENT["default"], "concurrency": 1}}
        project.stage(["open"], needs=["text", "draws"], draws=3, logprobs=0)
        project.run()
        assert sum("n" in b for b in server.bodies) == 1  # and never again
        seeds = [b["seed"] for b in server.bodies if "seed" in b]
        assert len(seeds) == len(set(seeds)) == 18 and max(seeds) < 2**31
        assert all(r["token_logprobs"] is None for r in project.rows("open"))
        first = project.rows("open")
        for path in project.segments():
            path.unlink()
        project.run()
        assert project.rows("open") == first  # one seed, one text


@pytest.mark.slow
def test_log_probabilities_of_another_temperature_are_refused(project):
    with toy_serving(scaled=True) as server:
        project.url = server.url
        project.stage(["open"])
        with pytest.raises(
            StageError, match=r"of the softmax at temperature 0\.7, expected those of the model's own; SGLang: start it with"
        ):
            project.run()
        project.stage(["open"], temperature=1.0)
        project.run()
        project.stage(["open"], needs=["text", "draws"], logprobs=0)
        project.run()


def test_options_are_what_is_shown_of_them(project, capfd):
    with toy_serving() as server:
        project.url = server.url
        project.stage(["mc"])
        assert project.run().counters == {"answers computed": 4, "answers stored": 0}
        seen = pictures(server)
        for row in project.rows("mc"):
            question = next(q for q in seen if q.startswith(QUESTIONS[row["sample_id"]] + "\n"))
            first = np.exp(logprobs(sent(seen[question], *messages(question)), []))
            by_hand = [first[WORDS.index("A")] + first[WORDS.index(" A")], *(first[WORDS.index(c)] for c in "BCDEF")]
            np.testing.assert_allclose(row["option_logits"], np.log(by_hand))
            assert len(row["token_logprobs"]) == 1 and row["p_yes"] is None
        assert {b["max_tokens"] for b in server.bodies} == {1} and {b["top_logprobs"] for b in server.bodies} == {20}
        project.stage(["mc"], logprobs=3)
        counters = project.run().counters
        assert counters == {"answers computed": 4, "answers stored": 0, "undefined options": 4}
        assert all(r["option_logits"] is None and r["text"] is not None for r in project.rows("mc"))
        told = capfd.readouterr().err
        assert "mc s0000 clean options: undefined: " in told and "not among the 3 likeliest first tokens" in told
        assert [u["sample"] for u in sorted(project.served()[-1]["undefined"], key=str)] == [f"s{i:04d}" for i in range(4)]


def test_multiple_choice_needs_log_probabilities(project):
    project.stage(["open", "mc"], needs=["text"], logprobs=0)
    with pytest.raises(StageError, match=r"model 'gpt': openai with these parameters gives no option_logits.*dataset mc has some, such as"):
        project.run()


def test_multiple_choice_in_words_where_a_judge_reads_them(project):
    with toy_serving() as server:
        project.url = server.url
        project.stage(["open", "mc"], needs=["text", "draws"], logprobs=0, draws=2, in_words=True)
        assert project.run().counters["answers computed"] == 10
        rows = project.rows("mc")
        assert [r["draw"] for r in rows] == [0] * 4 and all(r["text"] and r["option_logits"] is None for r in rows)
        assert all("Answer with the option's letter" in q for q in pictures(server) if q.startswith(QUESTIONS["s0000"] + "\nA. "))
        assert {r["draw"] for r in project.rows("open")} == {0, 1, 2}
        assert project.run().counters["answers computed"] == 0


def test_entropies_are_a_lower_bound_and_only_given_under_that_name(project):
    with toy_serving() as server:
        project.url = server.url
        project.stage(["open"], needs=["text", "token_logprobs"])
        project.run()
        assert all(r["token_entropies"] is None for r in project.rows("open"))
        project.stage(["open"], needs=["text", "token_logprobs", "token_entropies"], logprobs=5, truncated_entropies=True)
        project.run()
        seen = pictures(server)
        for row in project.rows("open"):
            first = logprobs(sent(seen[QUESTIONS[row["sample_id"]]], *messages(QUESTIONS[row["sample_id"]])), [])
            top = np.sort(first)[-5:]
            assert row["token_entropies"][0] == pytest.approx(-(np.exp(top) * top).sum(), rel=1e-6)
            assert row["token_entropies"][0] < -(np.exp(first) * first).sum()


def test_the_likeliest_tokens_cost_no_request_of_their_own(project):
    with toy_serving() as server:
        project.url = server.url
        project.stage(["open"], needs=["text", "token_logprobs", "top_logprobs"], logprobs=5)
        project.run()
        rows, asked = project.rows("open"), len(server.bodies)
        assert asked == len(rows) > 0 and {b["top_logprobs"] for b in server.bodies} == {5}
        seen = pictures(server)
        for row in rows:
            first = logprobs(sent(seen[QUESTIONS[row["sample_id"]]], *messages(QUESTIONS[row["sample_id"]])), [])
            assert row["top_logprobs"][0] == pytest.approx(np.sort(first)[:-6:-1].tolist(), rel=1e-6)
            assert [len(top) for top in row["top_logprobs"]] == [5] * len(row["token_logprobs"])
        project.run()
        assert len(server.bodies) == asked


def test_a_server_without_log_probabilities_says_so(project):
    with toy_serving(offers=False) as server:
        project.url = server.url
        project.stage(["open"])
        with pytest.raises(StageError, match=r"every request was rejected \(\d samples\).*status 400.*logprobs are not supported"):
            project.run()
        assert len(server.bodies) < 3 * 4 + 4
        project.stage(["open"], needs=["text", "draws"], logprobs=0)
        project.run()
    with toy_serving(scores_prompts=False) as server:
        project.url = server.url
        project.stage(["open"], needs=["text", PRIORS[0]], prompt_logprobs=True)
        assert project.run().counters["undefined without_image"] == 6, "the answers are there"


def test_the_end_is_counted_where_the_server_keeps_it_to_itself(project):
    with toy_serving(shows_end=False) as server:
        project.url = server.url
        project.stage(["open"], needs=["text", "token_logprobs"], max_new_tokens=16)
        assert project.run().counters["answers without the end's log-probability"] == 6


def test_the_pixels_are_sent_as_they_are_or_as_jpeg(project):
    with toy_serving() as server:
        project.url = server.url
        project.stage(["open"], [CLEAN, BLUR], needs=["text"], logprobs=0, detail="low", prompt={"system": "Be brief."})
        project.run()
        system, user = server.bodies[0]["messages"]
        assert system == {"role": "system", "content": "Be brief."} and user["content"][0]["image_url"]["detail"] == "low"
        images = {b["messages"][1]["content"][0]["image_url"]["url"] for b in server.bodies}
        assert len(images) == 4  # two pictures, clean and blurred
        decoded = [PIL.Image.open(io.BytesIO(base64.b64decode(url.removeprefix("data:image/png;base64,")))) for url in images]
        rng = np.random.default_rng([0, 0])
        clean = rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)
        assert any((np.asarray(d) == clean).all() for d in decoded)
        before = len(server.bodies)
        project.stage(["open"], needs=["text"], logprobs=0, jpeg=90)
        assert project.run().counters["answers computed"] == 6
        assert server.bodies[before]["messages"][0]["content"][0]["image_url"]["url"].startswith("data:image/jpeg;base64,/9j/")


def test_what_shapes_answers_is_in_the_digest_and_nothing_else():
    def digest(servers=None, **args):
        made = {"model": "m", "base_url": "http://h/v1", **args}
        return openai(ModelContext("gpt", settings=Settings(servers=servers or {})), **made).digest

    plain = digest()
    others = [{"version": "2"}, {"model": "n"}, {"base_url": "http://i/v1"}, {"logprobs": 5}, {"detail": "low"}]
    others += [{"jpeg": 90}, {"jpeg": 91}, {"sampling": False}, {"logprobs": 5, "truncated_entropies": True}]
    assert len({plain, *(digest(**o) for o in others)}) == len(others) + 1
    assert digest(n=False, seeds=False, limit_name="max_completion_tokens") == plain
    assert digest({"http://h/v1": {"address": "http://elsewhere/v1", "key": "K", "concurrency": 3}}) == plain


@pytest.mark.parametrize(
    ("args", "message"),
    [({"base_url": "http://me:pass@host/v1"}, "without user, password"), ({"truncated_entropies": True}, "need logprobs of at least 1")],
)
def test_wrong_parameters(args, message):
    with pytest.raises(ModelError, match=message):
        openai(ModelContext("gpt"), **{"model": "m", "base_url": "http://h/v1", **args})


# -- what goes wrong ----------------------------------------------------------------------------------------------------


def asked(body):
    content = body["messages"][0]["content"]
    return content if isinstance(content, str) else content[-1]["text"]


def test_what_may_pass_is_tried_again_and_tables_are_those_of_a_good_day(project):
    troubles = [(500, "{}", {}), (429, "{}", {"retry-after": "0.02"}), *((200, n, {}) for n in NONSENSE[:2])]
    with toy_serving() as server:
        project.url = server.url
        project.stage(["open"], needs=["text", "token_logprobs", "p_yes"])
        project.run()
        good = project.rows("open")
    for path in project.segments():
        path.unlink()
    with toy_serving(trouble=lambda body, nth: troubles[nth % 4] if nth < len(asked(body)) % 4 else None) as server:
        project.servers = {project.url: {**PATIENT["default"], "address": server.url}}  # the same model elsewhere
        again = project.run()
        assert again.counters["tries repeated"] > 0 and again.counters["signals computed"] == 6
    assert project.rows("open") == good


def test_a_refused_sample_is_undefined_with_its_reason_and_the_rest_goes_on(project, capfd):
    def trouble(body, nth):
        if " 1 ?" in asked(body):
            return 400, '{"error": {"message": "too rude"}}', {}
        return None

    with toy_serving(trouble=trouble) as server:
        project.url = server.url
        project.stage(["open"])
        counters = project.run().counters
        assert counters["rejected"] == 7 and (counters["draws computed"], counters["signals computed"]) == (18, 18)
        rows = [r for r in project.rows("open") if r["sample_id"] == "s0001"]
        assert [r["text"] for r in rows] == [None] * 4 and rows[0]["p_yes"] is None
        assert sum(" 1 ?" in asked(b) for b in server.bodies) == 1  # what hangs on it is not asked
        assert 'open s0001 clean answer: undefined: status 400: {"error": {"message": "too rude"}}' in capfd.readouterr().err
        told = project.served()[-1]
        assert {(u["sample"], u["rejected"]) for u in told["undefined"]} == {("s0001", "yes")}
        assert {u["part"] for u in told["undefined"]} == {"answer", "p_yes", "p_true", "said_confidence", "draw 1", "draw 2", "draw 3"}
        assert set(told["served"]) == {"toy-1 fp_7"} and told["tokens"]["sent"] > 0 and told["dollars"] is None
        before = len(server.bodies)
        assert sum(n for name, n in project.run().counters.items() if name.endswith("computed")) == 0
        assert len(server.bodies) == before


@pytest.mark.parametrize("status", [401, 403, 404])
def test_the_hopeless_stops_at_once(project, monkeypatch, status):
    monkeypatch.setenv("QUALM_TEST_KEY", "sk-secret")
    with toy_serving(trouble=lambda *_: (status, "wrong key sk-secret", {})) as server:
        project.url, project.servers = server.url, {"default": {"key": "QUALM_TEST_KEY", "concurrency": 1}}
        project.stage(["open"])
        with pytest.raises(
            StageError, match=rf"model 'gpt' \(toy at http://127.*status {status}: wrong key \[key\]. 1 sample failed and 5"
        ) as caught:
            project.run()
        assert len(server.bodies) == 1 and server.keys == ["Bearer sk-secret"]
    assert "sk-secret" not in str(caught.value) + "".join(p.read_text(errors="replace") for p in project.folder.rglob("*") if p.is_file())


@pytest.mark.slow
@pytest.mark.parametrize("trouble", [(500, "out of order", {}), (200, NONSENSE[0], {}), 3.0])
def test_a_server_that_fails_stops_the_run_and_nothing_is_lost(project, trouble):
    with toy_serving(trouble=lambda body, nth: trouble if asked(body).endswith(("4 ?", "5 ?")) else None) as server:
        project.url = server.url
        project.servers = {"default": {**IMPATIENT["default"], "timeout": 0.5}}
        project.stage(["open"], needs=["text"])
        with pytest.raises(
            StageError, match=r"sample [56] of 6: failed once.*2 samples failed and 0 were not sent; what was answered is kept"
        ):
            project.run()
        server.script.trouble = None
        counters = project.run().counters
        assert (counters["answers computed"], counters["answers stored"]) == (2, 4)


def test_spending_stops_below_the_cap(project):
    from qualm.runners.runtime.server_config import Price

    with toy_serving() as server:
        project.url = server.url
        project.servers = {"default": {"price": Price(1000.0, 0.0), "max_spend": 2.25, "concurrency": 2}}
        project.stage(["open"], needs=["text"], logprobs=0)
        with pytest.raises(
            StageError, match=r"could exceed the spending limit \(max_spend of toy at \S+ = \$2.25, \$0\.\d+ spent over all runs"
        ):
            project.run()
        told = project.served()[-1]
        done = round(told["dollars"] / 0.05)
        assert 1 <= done < 6 and told["tokens"]["sent"] == 50 * done
        project.servers["default"]["max_spend"] = 30.0
        counters = project.run().counters
        assert [counters[name] for name in ("answers computed", "answers stored", "cents spent")] == [6 - done, done, 5 * (6 - done)]


@pytest.mark.slow
@pytest.mark.parametrize(("how", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130)])
def test_a_kill_costs_what_was_on_its_way(project, how, code):
    """kill -9 or Ctrl-C in the middle: the next run asks for the rest, and the table is that of an undisturbed run."""
    project.dataset("open", 60)

    def slowly(body, nth):
        time.sleep(0.03)

    with toy_serving(trouble=slowly) as server:
        project.url = server.url
        project.stage(["open"], needs=["text", "token_logprobs"])
        (project.folder / "qualm.toml").write_text("[servers.default]\nconcurrency = 3\n")
        first = project.fork()
        while len(server.bodies) < 20 and first.poll() is None:
            time.sleep(0.005)
        os.kill(first.pid, how)
        assert first.wait(TIMEOUT) == code
        time.sleep(0.1)
        before = len(server.bodies)
        assert 20 <= before < 60
        stage = project.run()
        assert stage.counters["answers stored"] >= before - 2 * 3
        assert len(server.bodies) == before + 60 - stage.counters["answers stored"]
        rows = project.rows("open")
        for path in project.segments():
            path.unlink()
        server.script.trouble = None
        project.run()
        assert project.rows("open") == rows


def likely(value):
    """A reply whose every log-probability is this."""
    entry = {"token": "True", "logprob": value}
    text = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "True"}}
    return json.dumps({"choices": [{**text, "logprobs": {"content": [{**entry, "top_logprobs": [entry]}]}}]})


BAD = {
    "deep": "[" * 100_000,
    "no choice": '{"choices": []}',
    "an error": '{"error": {"message": "Provider returned error", "code": 502}}',
    "broken off": completion("re", finish="error"),
    "cut short": likely(-1.0)[:-9],
    "compressed badly": (200, b"\x1f\x8bnot", {"content-encoding": "gzip"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_reply_that_cannot_be_costs_one_sample(project, bad, capfd):
    trouble = bad if isinstance(bad, tuple) else (200, bad, {})
    with toy_serving(trouble=lambda body, nth: trouble if "cup 5" in asked(body) or QUESTIONS["s0005"] in asked(body) else None) as server:
        project.url = server.url
        project.stage(["open"])
        counters = project.run().counters
    assert counters["rejected"] == 7 and counters["replies that cannot be used"] == 1  # the answer; what is about it is not asked
    rows = project.rows("open")
    poor = [r for r in rows if r["sample_id"] == "s0005"]
    assert len(poor) == 4 and all(r["text"] is None and r["token_logprobs"] is None and r["p_true"] is None for r in poor)
    assert all(r["text"] is not None and max(r["token_logprobs"]) <= 0 for r in rows if r["sample_id"] != "s0005")
    assert all(r["p_true"] is None or 0 <= r["p_true"] <= 1 for r in rows)
    tries = 4 if bad == BAD["an error"] else 3  # what the server says is its own failure may pass
    assert f"s0005 clean answer: undefined: none of {tries} replies can be used; the last: " in capfd.readouterr().err
    assert {u["sample"] for u in project.served()[-1]["undefined"] if u.get("rejected")} == {"s0005"}


def test_a_part_that_cannot_be_leaves_the_others(project):
    """P(True) of 148, and answers that are whole."""
    with toy_serving(trouble=lambda body, nth: (200, likely(5.0), {}) if body["max_tokens"] == 1 else None) as server:
        project.url = server.url
        project.stage(["open"], needs=["text", "token_logprobs", "p_true", "p_yes"])
        counters = project.run().counters
        assert (counters["undefined p_true"], counters["undefined p_yes"], len(server.bodies)) == (6, 6, 18), "each is asked for once"
    assert all(r["p_true"] is None and r["p_yes"] is None and r["text"] is not None for r in project.rows("open"))


@pytest.mark.parametrize("bad", ["[" * 100_000, '{"choices": []}', completion("re", finish="abort")])
def test_a_server_that_never_says_what_can_be_stops_the_run(project, bad):
    with toy_serving(trouble=lambda *_: (200, bad, {})) as server:
        project.url, project.servers = server.url, {"default": {**PATIENT["default"], "concurrency": 1}}
        project.stage(["open"])
        with pytest.raises(StageError, match=r"every request was rejected \(3 samples\)|no reply to 3 requests in a row can be used"):
            project.run()
        assert len(server.bodies) <= 12 and not project.segments()


def test_a_log_probability_that_is_kept_back_is_none(project):
    """-9999 is how OpenAI and vLLM say that a token is not among the likeliest: no log-probability, and the text stays."""
    entry = {"token": "red", "logprob": -9999.0, "top_logprobs": [{"token": "blue", "logprob": -0.1}]}
    text = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "red"}}
    answer = json.dumps({"choices": [{**text, "logprobs": {"content": [entry]}}]})
    with toy_serving(trouble=lambda body, nth: (200, answer, {})) as server:
        project.url = server.url
        project.stage(["open"], needs=["text", "token_logprobs"])
        assert project.run().counters["undefined answer"] == 6
    assert all(r["text"] == "red" and r["token_logprobs"] is None for r in project.rows("open"))
    assert {u["reason"] for u in project.served()[-1]["undefined"]} == {"logprobs[0]: the server does not show the log-probability (-9999)"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_stage_under_hostile_replies_keeps_what_can_be(project, seed, capfd):
    """A third of all replies are hostile; what is stored and shown can be, and whatever ends the stage is one line."""
    honest = Toy()

    def trouble(body, nth):
        rng = random.Random(f"{seed} {json.dumps(body, sort_keys=True)} {nth}")
        if rng.random() > 0.3:
            return None
        status, data, headers = draw(rng, json.loads(honest(body, 0)[1]))
        return status if status < 200 else (200, data, headers)

    with toy_serving(trouble=lambda body, nth: made if isinstance(made := trouble(body, nth), tuple) else None) as server:
        project.url, project.servers = server.url, {"default": {"retries": 1, "pause": 0.001, "concurrency": 2}}
        project.stage(["open", "mc"], needs=[*SIGNALS, *PRIORS, "token_entropies"], prompt_logprobs=True, truncated_entropies=True)
        try:
            project.run()
        except StageError as error:
            assert str(error).isprintable()
            server.script.trouble = None
            project.run()
    for row in [*project.rows("open"), *project.rows("mc")]:
        for column in ("token_logprobs", *PRIORS):
            assert all(-9000 <= p <= 1e-5 for p in row[column] or ())
        assert all(-1e-5 <= e <= 30 for e in row["token_entropies"] or ())
        assert all(row[column] is None or 0 <= row[column] <= 1.00001 for column in ("p_true", "p_yes"))
        assert all(-9000 <= p <= 0.01 for p in row["option_logits"] or ())
    assert not set("\x1b\x07\x9b\u202e") & set(capfd.readouterr().err)


# -- a real server -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_transformers_serve_answers_as_hf_vlm_does(tmp_path):
    """One model on disk, asked by ourselves and behind transformers' own server: the same greedy text on every picture."""
    folder = tiny_llava(tmp_path / "model")
    ours = Project(tmp_path / "ours", folder)
    ours.dataset("open", 9)
    ours.stage(["open"], [CLEAN, BLUR], needs=["text"], max_new_tokens=6)
    ours.run()
    with transformers_serve(tmp_path) as url:
        project = Served(tmp_path / "theirs", url)
        project.servers = {"default": {"timeout": 60.0, "concurrency": 2}}
        project.dataset("open", 9)
        args = {"needs": ["text", "draws"], "logprobs": 0, "model": str(folder), "draws": 2, "max_new_tokens": 6}
        project.stage(["open"], [CLEAN, BLUR], **args)
        counters = project.run().counters
        assert counters.pop("answers that end at max_new_tokens")
        assert counters == {"answers computed": 18, "answers stored": 0, "draws computed": 36, "draws stored": 0}
        rows = project.rows("open")
        assert [r["text"] for r in rows if not r["draw"]] == [r["text"] for r in ours.rows("open")]
        assert len({r["text"] for r in rows if r["draw"]}) > 2
        again = project.run().counters
        assert (again["answers stored"], again["draws stored"]) == (18, 36), "and how they ended is counted again"
        assert again["answers that end at max_new_tokens"] > 30
        project.stage(["open"], **{**args, "logprobs": 5, "needs": ["text", "token_logprobs"]})
        assert project.run().counters["undefined answer"] == 9
    assert project.served()[0]["tokens"]["received"] > 0


# -- reading ------------------------------------------------------------------------------------------------------------


def test_reading():
    assert option_logits([{"A": -1.0, " A": -1.0, "▁B": -2.0, "b": -0.5}], 2) == [pytest.approx(-1 + np.log(2)), -2.0]
    assert option_logits([{"A": -1.0, "B": -9999.0}], 2).startswith("B not among the 2 likeliest")
    assert option_logits([], 2).startswith("A, B not among the 0 likeliest")
    assert yes_share([{"Yes": np.log(0.6), " no": np.log(0.2)}]) == pytest.approx(0.75)
    assert yes_share([{"Yes": -0.1, "yesterday": -3.0}]).startswith("no not among")
    prompt = [{}, {5: -1.0}, {6: -2.0}, {5: -3.0}, {6: -4.0}, {7: -5.0}]
    assert (
        logprobs_in_prompt(prompt, [5, 6]),
        logprobs_in_prompt(prompt, [6, 5]),
        logprobs_in_prompt(prompt, [7, 8]),
        logprobs_in_prompt([], [1]),
    ) == (
        [-3.0, -4.0],
        [-2.0, -3.0],
        None,
        None,
    )


def test_scales():
    cold = {"a": -0.1, "b": -3.0, "c": -5.0}
    warm = {k: v / 0.7 + 0.05 for k, v in cold.items()}
    assert depends_on_temperature(cold, warm, 0.7) and not depends_on_temperature(cold, {k: v + 0.02 for k, v in cold.items()}, 0.7)
    assert depends_on_temperature({"a": 0.0, "b": -500.0}, {"a": -0.1, "b": -3.0}, 0.7)  # temperature 0 taken at its word
    assert depends_on_temperature({"a": 0.0, "b": -9999.0}, {"a": -0.1, "b": -3.0}, 0.7)
    assert not depends_on_temperature({"a": -0.1}, {"a": -0.2}, 0.7)


def test_rendered_prompts_stand_for_the_whole_conversation():
    model = openai(ModelContext("gpt"), model="m", base_url="http://h/v1")
    text = model.render(Prompt(system="Be brief.").messages("What?", ["x", "y"]))
    assert json.loads(text)[1]["content"][1]["text"] == render_question("What?", ["x", "y"])
    assert hashlib.sha256(text.encode()).hexdigest() != hashlib.sha256(model.render(messages("What?")).encode()).hexdigest()


def test_several_pictures_and_none_are_sent_in_their_places(project):
    """Every request shows exactly the sample's pictures, whatever is asked for; what is sent without the image has none and no mark."""
    data = {name: png(picture(k, 40)) for k, name in enumerate("ab")}
    words = {"two": "Is <image> like <image> ?", "before": "Which is red ?", "one": "What does <image> mean ?", "none": "What is a cone ?"}
    ids = {"two": '["a", "b"]', "before": '["b", "a"]', "one": "a", "none": None}
    rows = [sample(name, ids[name], question) for name, question in words.items()]
    write_samples(project.folder / "results/t/data/several", rows, data)
    a, b = ({"type": "image_url", "image_url": {"url": data_url(png(picture(k, 40)))}} for k in (0, 1))

    def text(words):
        return {"type": "text", "text": words}

    shown = {
        "two": [text("Is "), a, text(" like "), b, text(" ?")],
        "before": [b, a, text("Which is red ?")],
        "one": [a, text("What does <image> mean ?")],
        "none": "What is a cone ?",
    }
    with toy_serving() as server:
        project.url = server.url
        project.stage(["several"], needs=[*SIGNALS, *PRIORS], prompt_logprobs=True)
        assert project.run().counters["answers computed"] == 4
        first = [body["messages"][0]["content"] for body in server.bodies]
        for name, content in shown.items():
            assert first.count(content) >= 3, name  # the answer, the draws, how sure
    silent = {"two": "Is like ?", "before": "Which is red ?", "one": "What does <image> mean ?", "none": "What is a cone ?"}
    rows = {row["sample_id"]: row for row in project.rows("several") if row["draw"] == 0}
    for name, content in shown.items():
        talk = [{"role": "user", "content": content}]
        answer, numbers = expected(talk)
        assert rows[name]["text"] == answer and rows[name]["token_logprobs"] == pytest.approx(numbers, abs=1e-6)
        blind, words = [{"role": "user", "content": silent[name]}], _words(talk)
        by_hand = [float(logprobs(blind, words[:i])[WORDS.index(word)]) for i, word in enumerate(words)]
        if rows[name]["logprobs_without_image"] is not None:  # None where the answer's tokens, written out, are read as others
            assert rows[name]["logprobs_without_image"] == pytest.approx(by_hand, abs=1e-6)
    assert sum(row["logprobs_without_image"] is not None for row in rows.values()) >= 2


def test_json_is_asked_for_by_its_schema_and_its_answer_is_the_text(project):
    schema = {"type": "object", "properties": {"answer": {"type": "string"}, "why": {"type": "string"}}, "required": ["answer"]}
    with toy_serving() as server:
        project.url = server.url
        project.stage(["open"], needs=["text"], logprobs=0, prompt={"answer_format": "json", "schema": schema})
        stage = project.run()
        assert all(body["response_format"]["json_schema"]["schema"] == schema for body in server.bodies)
        assert json.dumps(schema) in server.bodies[0]["messages"][0]["content"][1]["text"]
        assert stage.counters["answers without the JSON that was asked for"] == 6  # the toy replies in words
