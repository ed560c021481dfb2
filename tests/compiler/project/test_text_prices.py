"""What recipes and judges ask of servers: by hand, and no less than what a server was really asked."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from qualm.compiler.plan.make import make_plan
from qualm.compiler.project.prices import IMAGE_TOKENS, Cost, Load, tokens
from qualm.compiler.project.text_prices import UNKNOWN_CAPTION, sum_by_stage, text_costs
from qualm.compiler.project.views import print_costs
from qualm.compiler.spec.language import RunWide
from qualm.compiler.spec.resolve import resolve_file
from qualm.registry.sample import SAMPLES
from qualm.runners.prompts.templates import read_prompt
from qualm.runners.runtime.records import read_table, write_table
from qualm.runners.runtime.server_config import Price
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.spending import Ledger, Spent, ledger_path, read_spent
from tests.support.projects.tiny_project import write_dataset

URL = "http://127.0.0.1:8000/v1"
BY = f'{{openai: {{model: w, base_url: "{URL}"}}}}'
NAMES = f"{{question_llm: {{generator: {BY}, attempts: 3}}}}"
WRITES, LAVE = f"generator: {BY}, per_image: 2, max_new_tokens: 50", f"[lave: {{by: {BY}, max_new_tokens: 20}}]"
SPEC = f"""\
qualm: 1
name: t
taxonomy:
  epistemic:
    knowledge: {{definition: Needs a fact., answer: Decline.}}
    extraneous: {{definition: Not there., answer: Decline.}}
datasets:
  scenes: {{card: synthetic_scenes, train: 1, test: 10}}
pairs:
  ours:
    recipes:
      - from_caption: {{dataset: scenes, category: epistemic/knowledge, {WRITES}}}
      - inpainted: {{dataset: scenes, category: epistemic/extraneous, saliency: {NAMES}, mask: boxes}}
models:
  here: {{hf_vlm: {{artifact: x}}}}
inference: {{max_new_tokens: 8}}
judges: {LAVE}
metrics: [lave_idk_accuracy]
"""
LAVE_PROMPTS = sum(sorted(tokens(read_prompt(f"lave_{name}")) for name in ("refusal", "rating_first", "rationale_first"))[-2:])
SETTINGS = Settings(servers={URL: {"price": Price(1.0, 2.0)}})


def found(root: Path, text: str = SPEC, settings: Settings = SETTINGS) -> dict[str, Cost]:
    (root / "t.yaml").write_text(text)
    plan = make_plan(resolve_file(root / "t.yaml", root, RunWide(default="t")))
    return {c.stage.partition("-")[0] + c.part[:8]: c for c in text_costs(plan, plan.stages, root, settings)}


def test_before_the_data_are_built_it_is_that_of_one(tmp_path: Path) -> None:
    costs = found(tmp_path)
    assert {name: (c.questions, c.each) for name, c in costs.items()} == {
        "pairfrom_cap": (None, "image"), "pairinpainte": (None, "question"), "judgelave": (None, "answer"),
    }  # fmt: skip
    caption = costs["pairfrom_cap"]
    about = tokens("Needs a fact. Decline.")
    prompt = tokens(read_prompt("knowledge"))
    assert caption.load == Load(2, 2 * (prompt + 16 + about + UNKNOWN_CAPTION // 4), 2 * 50)
    assert caption.dollars == pytest.approx((caption.load.sent + 2 * caption.load.received) / 1e6)
    assert costs["pairinpainte"].load.requests == 3 and costs["pairinpainte"].part == "inpainted: question_llm"
    assert costs["judgelave"].load.requests == 2


@pytest.mark.parametrize("longest", [8, 8000])
def test_an_answer_that_is_not_there_yet_counts_as_long_as_it_may_be(tmp_path: Path, longest: int) -> None:
    text = SPEC.replace("inference: {max_new_tokens: 8}", f"inference: {{max_new_tokens: {longest}}}")
    question = 60 / 4  # bytes of one that is not known, four of them a token
    assert found(tmp_path, text)["judgelave"].load == Load(2, LAVE_PROMPTS + 2 * (16 + question + longest), 2 * 20)


def test_a_judge_of_what_rules_leave_unread_is_priced_as_if_it_were_asked_about_every_answer(tmp_path: Path) -> None:
    costs = found(tmp_path, SPEC.replace(LAVE, f"[rules: {{otherwise: {{llm_extract: {{by: {BY}}}}}}}]"))
    (name,) = (name for name in costs if name.startswith("judge"))
    assert (costs[name].part, costs[name].each, costs[name].load.requests) == ("rules: llm_extract", "answer", 1)
    assert costs[name].load.received == 32


def test_every_picture_question_and_answer_is_counted(tmp_path: Path) -> None:
    folder = tmp_path / "results/t/data/scenes"
    write_dataset(folder, 5, choices=False)
    ours = tmp_path / "results/t/data/ours"
    write_dataset(ours, 4, choices=False)
    rows, asked_ours = (read_table(of / "samples.parquet", SAMPLES).to_pylist() for of in (folder, ours))
    for i, row in enumerate([*rows, *asked_ours]):
        row["references"] = ["a cube of another color", "red"][: i % 3]
        row["meta"] = {"caption": {0: "Some cubes on a table.", 3: ""}.get(i, "A longer caption of a later question.")}
    write_table(folder / "samples.parquet", rows, SAMPLES)
    write_table(ours / "samples.parquet", asked_ours, SAMPLES)
    assert [row["image_id"] for row in rows] == ["image0000"] * 3 + ["image0003"] * 2
    costs = found(tmp_path)
    prompt, about = tokens(read_prompt("knowledge")), tokens("Needs a fact. Decline.")
    captions = tokens("Some cubes on a table.") + UNKNOWN_CAPTION // 4
    assert costs["pairfrom_cap"].questions == 2 * 2
    assert costs["pairfrom_cap"].load == Load(2 * 2 * 2, 2 * 2 * (2 * (prompt + 16 + about) + captions), 2 * 2 * 2 * 50)
    asked = [row for row in rows if row["image_id"] is not None]
    saliency, prompt = costs["pairinpainte"], tokens(read_prompt("salient_object"))
    told = sum(tokens(row["question"]) + max((tokens(r) for r in row["references"]), default=0) for row in asked)
    about = tokens("Not there. Decline.")
    assert saliency.load == Load(3 * len(asked), 3 * (len(asked) * (prompt + 16 + about) + told), 3 * 60 * len(asked))
    judged = costs["judgelave"]
    answered = sum(tokens(row["question"]) + sum(map(tokens, row["references"])) + 8 for row in asked_ours)
    assert judged.questions == 4 and judged.load == Load(2 * 4, 4 * LAVE_PROMPTS + 2 * (4 * 16 + answered), 2 * 4 * 20)
    write_dataset(ours, 4, choices=True)
    assert found(tmp_path)["judgelave"].questions == 0, "options need no judge"


@pytest.mark.parametrize(("told", "each"), [({}, IMAGE_TOKENS), ({"image_tokens": 50}, 50)])
def test_pictures_that_are_shown_count_as_much_as_their_server_says(tmp_path: Path, told: dict[str, int], each: int) -> None:
    text = SPEC.replace(NAMES, f"scene_graph, question: llm, asker: {BY}, attempts: 1")
    write_dataset(tmp_path / "results/t/data/scenes", 5, choices=False)
    rows = read_table(tmp_path / "results/t/data/scenes/samples.parquet", SAMPLES).to_pylist()
    cost = found(tmp_path, text, Settings(servers={URL: {"price": Price(1.0, 2.0), **told}}))["pairinpainte"]
    one = tokens(read_prompt("extraneous")) + 16 + tokens("Not there. Decline.") + 2 * each
    assert cost.load.requests == 5 and cost.load.sent == 5 * one + sum(tokens(row["question"]) for row in rows)
    assert cost.arithmetic[0].startswith("1 requests for each") and f"image {each}" in cost.arithmetic[0]


def test_models_of_our_own_and_rules_cost_nothing(tmp_path: Path) -> None:
    text = SPEC.replace(WRITES, "per_image: 2").replace(LAVE, "[rules]")
    assert set(found(tmp_path, text)) == {"pairinpainte"}
    assert found(tmp_path, text.replace(NAMES, "scene_graph")) == {}


def test_parts_of_a_stage_are_joined(tmp_path: Path) -> None:
    one = Cost("judge", "a", "s", 3, Load(1, 2, 3), 1.0, 0.0)
    other = Cost("judge", "b", "s", 4, Load(10, 20, 30), 0.5, 0.0)
    (both,) = sum_by_stage([one, other]).values()
    assert (both.model, both.server, both.questions, both.load, both.dollars) == ("a, b", "s", 7, Load(11, 22, 33), 1.5)
    (unknown,) = sum_by_stage([one, Cost("judge", "b", "t", None, Load(), None, 0.0)]).values()
    assert (unknown.server, unknown.questions, unknown.dollars) == ("s, t", None, None)


def test_what_was_spent_stands_below(tmp_path: Path) -> None:
    settings = Settings(servers=SETTINGS.servers, max_spend=5.0)
    ledger = Ledger(tmp_path / ledger_path(settings.store, "t"), 0.0, "w")
    ledger.settle(ledger.hold(2.0), 1.02)
    ledger.hold(0.25)
    spent = read_spent(tmp_path, settings.store, "t")
    assert spent == Spent(1.02, 0.25)
    with redirect_stdout(io.StringIO()) as out:
        print_costs(list(found(tmp_path).values()), spent=spent, cap=5.0)
        print_costs([Cost("judge", "a", "s", 3, Load(1, 2, 3), 4.0, 0.0, part="lave", each="answer")], spent=spent, cap=5.0)
        print_costs([])
    text = out.getvalue()
    assert f"from_caption (w at {URL}), an image: 2 requests" in text
    assert "$1.27 of $5.00 (`max_spend` in qualm.toml) spent over all runs, $0.25 of it reserved for requests that have not ended" in text
    assert "judge, lave (s), 3 answers: 1 requests" in text and "this may cost more than is left" in text
