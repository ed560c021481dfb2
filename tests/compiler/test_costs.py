"""What servers are asked and what it costs: held to arithmetic by hand, and to what a server was really asked."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from compiler.costs import Cost, Load, Wish, costs, tokens
from compiler.explain import Forecast
from compiler.plan import make_plan
from compiler.resolve import resolve_file
from compiler.spec import RunWide
from compiler.views import print_costs
from runners.servers import Price
from runners.settings import Settings
from tests.tiny_project import write_dataset

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
    wish = Wish(frozenset({"p_yes", "logprobs_without_image"}), 4, 8, 100, 10, True)
    # prompt 10 + 16 + 5 + 100 = 131; four draws at once; P(yes) goes on behind prompt and answer; so does the prior, without the picture
    verify = 131 + 8 + 32 + tokens("Is that answer right? Answer yes or no.")
    assert wish.open(5, True) == Load(4, 131 + 131 + verify + (131 + 8 + 32 - 100), 8 + 32 + 1 + 1)
    assert wish.choice(5, True) == Load(1, 131, 1)
    apart = Wish(frozenset(), 4, 8, 100, 0, False).open(5, False)
    assert apart == Load(5, 5 * 21, 5 * 8)
    assert tokens("") == 0 and tokens("abcde") == 2 and tokens("é") == 1


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


def test_before_the_data_are_built_it_is_that_of_one_question(tmp_path: Path) -> None:
    (cost,) = found(tmp_path, Settings())
    assert cost.questions is None and cost.load.requests == 3


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
    assert "$1000 for a million tokens sent, $0 for a million received (qualm.toml)" in printed and "together" not in printed
