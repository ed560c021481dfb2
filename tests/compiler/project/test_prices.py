"""What servers are asked and what it costs: held to arithmetic by hand, and to what a server was really asked."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from qualm.compiler.plan.make import make_plan
from qualm.compiler.project.prices import Cost, Load, QuestionLoad, costs, tokens
from qualm.compiler.project.rebuilds import Forecast
from qualm.compiler.project.views import print_costs
from qualm.compiler.spec.language import RunWide
from qualm.compiler.spec.resolve import resolve_file
from qualm.registry.sample import SAMPLES
from qualm.runners.prompts.question import CONFIDENCE, CONFIDENCE_TOKENS, p_true_prompt
from qualm.runners.runtime.records import read_table
from qualm.runners.runtime.server_config import Price
from qualm.runners.runtime.settings import Settings
from qualm.runners.servers.client import MAX_ANSWERS_PER_REQUEST
from tests.support.projects.tiny_project import Project, write_dataset
from tests.support.servers.small_server import serving

URL = "http://127.0.0.1:8000/v1"
MODEL = '{openai: {model: m, base_url: "http://127.0.0.1:8000/v1", logprobs: 5, partial_p_true: true}}'
SPEC = f"""\
qualm: 1
name: t
datasets:
  scenes: {{card: synthetic_scenes, train: 1, test: 10}}
perturbations: [blur: {{radius: 2.0}}]
models:
  gpt: {MODEL}
inference: {{draws: 4, max_new_tokens: 8}}
judges: [rules]
estimators: [lexical_similarity, p_true]
metrics: [accuracy]
"""


def found(tmp_path: Path, settings: Settings, text: str = SPEC) -> list[Cost]:
    (tmp_path / "t.yaml").write_text(text)
    resolved = resolve_file(tmp_path / "t.yaml", tmp_path, RunWide(default="t"))
    plan = make_plan(resolved)
    forecasts = [Forecast(s.name, s.kind, "run") for s in plan.stages]
    return list(costs(resolved, plan, forecasts, tmp_path, settings))


def test_an_open_question_by_hand() -> None:
    wish = QuestionLoad(frozenset({"p_yes", "logprobs_without_image"}), 4, 8, 100, 10, True)
    # prompt 10 + 16 + 5 + 100 = 131; four draws at once; P(yes) goes on behind prompt and answer; so does the prior, without the picture
    verify = 131 + 8 + 32 + tokens("Is that answer right? Answer yes or no.")
    assert wish.open(5, True) == Load(4, 131 + 131 + verify + (131 + 8 + 32 - 100), 8 + 32 + 1 + 1)
    assert wish.choice(5, True) == Load(1, 131, 1)
    apart = QuestionLoad(frozenset(), 4, 8, 100, 0, False).open(5, False)
    assert apart == Load(5, 5 * 21, 5 * 8)
    assert tokens("") == 0 and tokens("abcde") == 2 and tokens("é") == 1


@pytest.mark.parametrize(
    ("signal", "sent", "received"),
    [
        ("logprobs_without_image", 131 + 8 + 32 - 100, 1),
        ("logprobs_without_question", 131 + 8 + 32 - 5, 1),
        ("logprobs_without_both", 131 + 8 + 32 - 105, 1),
        ("p_true", 131 + 8 + tokens(p_true_prompt("", "")), 1),
        ("said_confidence", 131 + 8 + 32 + tokens(CONFIDENCE), CONFIDENCE_TOKENS),
        ("text", None, None),
    ],
)
def test_a_signal_is_one_request_more(signal: str, sent: int | None, received: int | None) -> None:
    """Behind a prompt of 131 tokens, of which 5 are the question and 100 the picture, and an answer of 8."""
    without, own = (QuestionLoad(needs, 0, 8, 100, 10, True).open(5, 1) for needs in (frozenset[str](), frozenset({signal})))
    assert without == Load(1, 131, 8)
    assert own == (without if sent is None or received is None else Load(2, 131 + sent, 8 + received))


@pytest.mark.parametrize(("draws", "requests"), [(0, 0), (1, 1), (MAX_ANSWERS_PER_REQUEST, 1), (MAX_ANSWERS_PER_REQUEST + 1, 2)])
def test_draws_share_requests_as_far_as_servers_let_them(draws: int, requests: int) -> None:
    assert QuestionLoad(frozenset(), draws, 8, 100, 10, True).open(5, 2) == Load(1 + requests, (1 + requests) * 231, 8 * (1 + draws))
    assert QuestionLoad(frozenset(), draws, 8, 100, 10, False).open(5, 0) == Load(1 + draws, (1 + draws) * 31, 8 * (1 + draws))


def test_a_stage_is_the_sum_of_its_questions(tmp_path: Path) -> None:
    write_dataset(tmp_path / "results/t/data/scenes", 9, choices=False)
    settings = Settings(servers={URL: {"price": Price(1.0, 2.0), "image_tokens": 50, "max_spend": 0.001}})
    (cost,) = found(tmp_path, settings)
    assert (cost.stage, cost.model, cost.questions) == ("infer-gpt-scenes", "gpt", 18)
    assert cost.load.requests == 18 * 3 and cost.load.received == 18 * (8 + 4 * 8 + 1)
    assert cost.dollars == pytest.approx((cost.load.sent + 2 * cost.load.received) / 1e6)
    assert cost.arithmetic[-1].startswith("more than max_spend ($0.001): the run stops there")
    (low,) = found(tmp_path, Settings(), SPEC.replace("logprobs: 5", "logprobs: 5, detail: low"))
    (plain,) = found(tmp_path, Settings())
    assert low.dollars is None and plain.load.sent - low.load.sent == 18 * 3 * (765 - 85)


def test_a_system_message_is_sent_with_every_request(tmp_path: Path) -> None:
    write_dataset(tmp_path / "results/t/data/scenes", 9, choices=False)
    (plain,) = found(tmp_path, Settings())
    (cost,) = found(tmp_path, Settings(), SPEC + "prompt: {system: Answer in one word.}\n")
    assert cost.load.requests == plain.load.requests == 18 * 3
    assert cost.load.sent - plain.load.sent == 18 * 3 * (16 + tokens("Answer in one word."))


def test_batches_cost_half_or_what_the_settings_say(tmp_path: Path) -> None:
    write_dataset(tmp_path / "results/t/data/scenes", 9, choices=False)
    live, half, own = (
        found(tmp_path, Settings(servers={URL: {"price": Price(1.0, 2.0), **more}}))[0]
        for more in ({}, {"batch": True}, {"batch": True, "batch_price": Price(0.25, 3.0)})
    )
    assert live.dollars and half.dollars == pytest.approx(live.dollars / 2) and live.load == half.load == own.load
    assert own.dollars == pytest.approx((own.load.sent / 4 + 3 * own.load.received) / 1e6)
    assert half.arithmetic[-2:] == (
        "in 2 rounds of batches: each may take a day",  # P(True) is asked about the answer
        "$0.5 per million tokens sent, $1 per million received in batches (qualm.toml)",
    )
    plain = SPEC.replace("lexical_similarity, p_true", "lexical_similarity")
    assert "in batches: a day at most" in found(tmp_path, Settings(servers={URL: {"batch": True}}), plain)[0].arithmetic


def test_before_the_data_are_built_it_is_that_of_one_question(tmp_path: Path) -> None:
    (cost,) = found(tmp_path, Settings())
    assert cost.questions is None and cost.load.requests == 3


WRITTEN = f"""\
qualm: 1
name: t
datasets:
  scenes: {{card: synthetic_scenes, train: 1, test: 10}}
perturbations:
  - inv: {{generator: {{openai: {{model: w, base_url: "{URL}"}}}}, retries: 1}}
  - sbj: {{generator: {{openai: {{model: w, base_url: "{URL}"}}}}, prompt: inv, retries: 0}}
  - amb: {{generator: {{openai: {{model: w, base_url: "{URL}"}}}}, max_new_tokens: 50}}
  - ive: {{generator: {{openai: {{model: w, base_url: "{URL}"}}}}, max_new_tokens: 50}}
models:
  here: {{hf_vlm: {{artifact: x}}}}
metrics: [accuracy]
"""


def test_questions_written_by_a_server_are_priced_and_asked_no_more_often(tmp_path: Path) -> None:
    (tmp_path / "specs/prompts").mkdir(parents=True)
    (tmp_path / "specs/prompts/inv.md").write_text("<!-- ours -->\nAsk it so that nobody can know: {question}\n")
    settings = Settings(servers={URL: {"price": Price(1.0, 2.0), "image_tokens": 50}})
    before = {cost.stage.split("-")[1]: cost for cost in found(tmp_path, settings, WRITTEN)}
    prompt = 16 + tokens("Ask it so that nobody can know: {question}")
    assert before["sbj"].questions is None and before["sbj"].load == Load(1, prompt + 15, 64)  # a question not known yet has 60 bytes
    folder = tmp_path / "results/t/data/scenes"
    write_dataset(folder, 5, choices=False)
    now = {cost.stage.split("-")[1]: cost for cost in found(tmp_path, settings, WRITTEN)}
    inv, own, amb, ive = (now[name] for name in ("inv", "sbj", "amb", "ive"))
    asked = [row["question"] for row in read_table(folder / "samples.parquet", SAMPLES).to_pylist()]
    assert own.load == Load(5, sum(prompt + tokens(q) for q in asked), 5 * 64)
    assert (inv.load.requests, inv.load.received) == (5 * 2, 5 * 2 * 64)
    assert (amb.load.requests, amb.load.received) == (5 * 4, 5 * 4 * 50) and amb.load.sent > 5 * 4 * 50
    assert ive.reads == amb.stage and ive.load == Load() and ive.dollars == 0
    assert inv.dollars == pytest.approx((inv.load.sent + 2 * inv.load.received) / 1e6)
    project = Project(tmp_path, tmp_path)
    (tmp_path / "t.yaml").write_text(WRITTEN)
    plan = make_plan(resolve_file(tmp_path / "t.yaml", tmp_path, RunWide(default="t")))
    with serving(lambda body, nth: "no question") as running:
        servers = {URL: {"address": running.url}}
        for cost in (inv, own, amb, ive):
            start = len(running.bodies)
            project.perturb(plan.stage(cost.stage).params, ["scenes"], servers=servers)
            sent = running.bodies[start:]
            assert (len(sent), sum(b["max_tokens"] for b in sent)) == (cost.load.requests, cost.load.received)
            assert sum(tokens(_text(body)) for body in sent) <= cost.load.sent


def _text(body: dict[str, Any]) -> str:
    content = body["messages"][0]["content"]
    return str(content if isinstance(content, str) else next(part["text"] for part in content if part["type"] == "text"))


def test_models_of_our_own_cost_nothing(tmp_path: Path) -> None:
    text = SPEC.replace(
        '{openai: {model: m, base_url: "http://127.0.0.1:8000/v1", logprobs: 5, partial_p_true: true}}', "{hf_vlm: {artifact: x}}"
    )
    assert found(tmp_path, Settings(), text) == []


def test_as_it_is_printed(tmp_path: Path) -> None:
    write_dataset(tmp_path / "results/t/data/scenes", 9, choices=False)
    text = SPEC.replace(
        "models:\n", 'models:\n  other: {openai: {model: n, base_url: "http://127.0.0.1:8000/v1", logprobs: 5, partial_p_true: true}}\n'
    )
    settings = Settings(servers={URL: {"models": {"m": {"price": Price(1000.0, 0.0)}}}})
    with redirect_stdout(io.StringIO()) as out:
        print_costs([])
        print_costs(found(tmp_path, settings, text), verbose=True)
    printed = out.getvalue()
    assert printed.startswith("What servers are asked at most (estimates; what is stored is not asked again;")
    assert "infer-gpt-scenes (m at http://127.0.0.1:8000/v1), 18 questions: 54 requests, " in printed
    assert "received: no price known (`price` of this server in qualm.toml)" in printed
    assert "$1000 per million tokens sent, $0 per million received (qualm.toml)" in printed and "together" not in printed
