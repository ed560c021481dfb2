import json
from collections import Counter
from pathlib import Path

import pytest

from qualm.registry.plugins.registry import load
from qualm.registry.sample import SAMPLES
from qualm.registry.scenes.contrast import CATEGORIES, REFUSALS, prove
from qualm.runners.contracts.generators import NoPairError
from qualm.runners.contracts.pairs import PairContext, PairError
from qualm.runners.data.scene_graphs import read_scenes
from qualm.runners.plugins.judges._refusals import is_refusal
from qualm.runners.plugins.pairs._written import gives_away, prompt_sections, read_pair
from qualm.runners.prompts.templates import PromptError, fill_placeholders, replace_sections
from qualm.runners.runtime.records import read_table, write_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage, StageError
from qualm.runners.stages import pair
from tests.support.data.scenes_folder import scenes_folder
from tests.support.models.tiny_models import tiny_llm
from tests.support.servers.small_server import IMPATIENT, serving

FOUR = [c for name, c in CATEGORIES.items() if name != "extraneous"]
SETTINGS = Settings(progress=False, workers=1, device="cpu", servers={"default": {**IMPATIENT["default"], "concurrency": 1}})


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scenes")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return scenes_folder(folder, seed=5, train=24, val=6, test=20, questions=1)


@pytest.fixture
def captioned(tmp_path):
    """A dataset in DOCCI's manner: pictures with a paragraph each, no questions."""
    rows = [
        {
            "sample_id": f"d{i}", "image_id": f"d{i}", "question": "", "split": "train" if i < 3 else "test", "answerable": True,
            "meta": [("caption", f"Picture {i} of a dog on a lawn.")] if i != 4 else [], "group": "", "source": "docci", "category": "",
        }
        for i in range(6)
    ]  # fmt: skip
    write_table(tmp_path / "docci" / "samples.parquet", rows, SAMPLES)
    return tmp_path / "docci"


def run(folder, seed=7, label="cap", about=None, **args):
    context = PairContext({"d": folder}, seed, label, SETTINGS, about or {})
    made = list(load("pairs", "from_caption")(context, dataset="d", **{"category": FOUR[0], **args}))
    return made, context


def pairs_of(samples):
    assert [s.answerable for s in samples] == [True, False] * (len(samples) // 2)
    assert all(a.pair_id == u.pair_id for a, u in zip(samples[::2], samples[1::2], strict=True))
    return list(zip(samples[::2], samples[1::2], strict=True))


# -- rules ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("category", FOUR)
def test_every_pair_about_scenes_is_proved_on_its_words(scenes, category):
    made, context = run(scenes, category=category, per_image=2)
    graphs = read_scenes(scenes)
    pairs = pairs_of(made)
    assert len(pairs) + sum(context.dropped.values()) == 2 * len(graphs)
    assert len(pairs) > len(graphs)
    for first, second in pairs:
        proof = prove(graphs[first.image_id], first.question, first.references[0], second.question)
        assert first.meta["proof"] == second.meta["proof"] == proof
        assert first.image_id == second.image_id
        assert first.category == second.category == category
        assert is_refusal(second.references[0], second.question)
    asked = Counter((s.image_id, s.question) for s in made)
    assert set(asked.values()) == {1}


def test_splits_and_groups_are_the_pictures(scenes):
    rows = {r["image_id"]: r for r in read_table(scenes / "samples.parquet", SAMPLES).to_pylist()}
    made, _ = run(scenes)
    assert {s.split for s in made} == {"train", "val", "test"}
    for sample in made:
        assert sample.split == rows[sample.image_id]["split"]
        assert sample.group == rows[sample.image_id]["group"]
        assert sample.source == "from_caption"


def test_more_pairs_change_none_of_the_earlier(scenes):
    one, _ = run(scenes, per_image=1)
    three, _ = run(scenes, per_image=3)
    assert {s.sample_id: s for s in three}.items() >= {s.sample_id: s for s in one}.items()
    assert run(scenes)[0] == one
    assert run(scenes, seed=8)[0] != one


def test_refusals_of_one_kind(scenes):
    made, _ = run(scenes, generator={"plugin": "rules", "args": {"refusals": "first"}})
    assert {s.references for s in made if not s.answerable} == {(REFUSALS["knowledge"][0],)}


def test_rules_need_scene_graphs_and_a_known_category(scenes, captioned):
    with pytest.raises(PairError, match=r"expected scene graphs.*hf and openai write pairs from captions"):
        run(captioned)
    with pytest.raises(PairError, match="expected one of knowledge, complexity, temporal, ambiguity, got 'taste'"):
        run(scenes, category="epistemic/taste")


# -- a model ----------------------------------------------------------------------------------------------------------

GOOD = "Q1: How heavy is dog {n}?\nA1: I don't know.\nQ2: What animal is on lawn {n}?\nA2: a dog"


def served(server):
    return {"plugin": "openai", "args": {"model": "m", "base_url": server.url}}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_pairs_from_captions_by_a_server(captioned):
    def script(body, nth):
        (turn,) = body["messages"]
        n = turn["content"].split("Picture ")[1][0]
        return "what?" if n == "2" and nth == 0 else GOOD.format(n=n)

    with serving(script) as server:
        made, context = run(captioned, generator=served(server))
        assert [s.image_id for s in made[::2]] == ["d0", "d1", "d2", "d3", "d5"]
        first, second = made[:2]
        assert (first.question, first.references) == ("What animal is on lawn 0?", ("a dog",))
        assert (second.question, second.references) == ("How heavy is dog 0?", ("I don't know.",))
        assert (first.pair_id, first.sample_id, second.sample_id) == ("d0-0-cap", "d0-0-cap-a", "d0-0-cap-u")
        assert (first.group, first.split, made[-1].split) == ("d0", "train", "test")
        assert context.dropped == {"no caption": 1}
        assert context.counters["replies computed"] == 6
        seeds = {b["seed"] for b in server.bodies}
        assert len(seeds) == len(server.bodies) == 6
        again, context = run(captioned, generator=served(server))
        assert (again, context.counters, len(server.bodies)) == (made, {"replies stored": 6}, 6)


BAD = {
    "part missing": "Q1: Why?\nA1: I don't know.\nQ2: Who?",
    "not a good question": "Q1: Why?\nA1: Not a good question.\nQ2: What animal is it?\nA2: a dog",
    "not a question": "Q1: Why\nA1: I don't know.\nQ2: What animal is it?\nA2: a dog",
    "same question twice": "Q1: What is it?\nA1: I don't know.\nQ2: What is it?\nA2: a dog",
    "unanswerable one is answered": "Q1: Why?\nA1: Because.\nQ2: What animal is it?\nA2: a dog",
    "answerable one is declined": "Q1: Why?\nA1: I don't know.\nQ2: What animal is it?\nA2: I can't tell.",
    "answer in the question": "Q1: Why?\nA1: I don't know.\nQ2: What is the dog?\nA2: The dog.",
}


@pytest.mark.parametrize("reason", BAD)
def test_a_bad_reply_is_tried_again_and_then_dropped_by_its_reason(captioned, reason):
    def script(body, nth):
        n = body["messages"][0]["content"].split("Picture ")[1][0]
        return BAD[reason] if n == "1" else GOOD.format(n=n)

    with serving(script) as server:
        made, context = run(captioned, generator=served(server), attempts=3)
        assert len(made) == 8
        assert context.dropped == {"no caption": 1, reason: 1}
        assert len(server.bodies) == 5 + 2


def test_pairs_as_objects_where_the_server_holds_to_them(captioned):
    def script(body, nth):
        n = body["messages"][0]["content"].split("Picture ")[1][0]
        return json.dumps(dict(line.split(": ", 1) for line in GOOD.format(n=n).splitlines())) if "response_format" in body else "Sorry."

    with serving(script) as server:
        chosen = served(server)
        held, _ = run(captioned, generator={**chosen, "args": {**chosen["args"], "structured": "json_schema"}})
    with serving(lambda body, nth: GOOD.format(n=body["messages"][0]["content"].split("Picture ")[1][0])) as server:
        text, _ = run(captioned, generator=served(server))
    assert held == text and len(held) == 10


def test_the_same_question_twice_about_one_picture(captioned):
    with serving(lambda body, nth: GOOD.format(n=body["messages"][0]["content"].split("Picture ")[1][0])) as server:
        made, context = run(captioned, generator=served(server), per_image=2, attempts=2)
        assert len(made) == 10
        assert context.dropped == {"no caption": 2, "asked before": 5}


def test_a_reply_that_was_cut_off(captioned):
    with serving(
        lambda body, nth: (200, json.dumps({"choices": [{"finish_reason": "length", "message": {"content": GOOD}}]}), {})
    ) as server:
        made, context = run(captioned, generator=served(server), attempts=1)
        assert (made, context.dropped["reply cut off"]) == ([], 5)


def test_what_the_taxonomy_says_reaches_the_model(captioned, scenes):
    with serving(lambda *_: GOOD.format(n=1)) as server:
        about = {"definition": "About taste.", "answer": "Nobody can taste a picture.", "examples": ["How sweet is the cake?"]}
        run(captioned, generator=served(server), about=about, attempts=1)
        text = server.bodies[0]["messages"][0]["content"]
        assert "## Definition\n\nAbout taste.\n\n## Examples\n\nDescription: " in text
        assert "needs a fact that lies outside" not in text
        assert "- How sweet is the cake?" in text
        assert "Nobody can taste a picture." in text
        assert text.endswith("Picture 0 of a dog on a lawn.")
        server.bodies.clear()
        run(scenes, generator=served(server), category="aleatoric/temporal", attempts=1)
        text = server.bodies[0]["messages"][0]["content"]
        assert "what was before the picture was taken" in text
        assert "on a plain gray table." in text


def test_nothing_is_added_to_a_prompt_that_a_paper_prints(captioned, tmp_path):
    printed = tmp_path / "specs" / "prompts" / "paper" / "knowledge.md"
    printed.parent.mkdir(parents=True)
    printed.write_text("As printed. Q1: <a question> A1: <answer to Q1>\nCaption: {caption}")
    replies = "Q1: What did dog {n} cost?\nA1: Unanswerable\nQ2: Which animal is on lawn {n}?\nA2: Most likely a dog"
    with serving(lambda body, nth: replies.format(n=body["messages"][0]["content"].split("Picture ")[1][0])) as server:
        made, _ = run(captioned, generator=served(server), about={"definition": "About taste."}, prompt=str(printed))
        assert server.bodies[0]["messages"][0]["content"] == (
            "As printed. Q1: <a question> A1: <answer to Q1>\nCaption: Picture 0 of a dog on a lawn."
        )
    assert [s.references for s in made[:2]] == [("Most likely a dog",), ("Unanswerable",)]


def test_a_sixth_category(captioned, tmp_path):
    with serving(lambda *_: GOOD.format(n=1)) as server:
        with pytest.raises(PairError, match=r"category 'aleatoric/taste' has no prompt.*write specs/prompts/taste.md.*say `prompt: taste`"):
            run(captioned, generator=served(server), category="aleatoric/taste")
        path = tmp_path / "taste.md"
        path.write_text("Ask about taste: {caption}")
        made, _ = run(captioned, generator=served(server), category="aleatoric/taste", prompt=str(path), about={"definition": "Sweetness."})
        assert server.bodies[0]["messages"][0]["content"] == "## Definition\n\nSweetness.\n\nAsk about taste: Picture 0 of a dog on a lawn."
        assert made[0].category == "aleatoric/taste"
        path.write_text("Ask about taste.")
        with pytest.raises(PairError, match=f"{path}: expected the placeholder {{caption}} in it, found none"):
            run(captioned, generator=served(server), category="aleatoric/taste", prompt=str(path))


def stage(folder, generator, **args):
    own = {"dataset": "d", "category": FOUR[0], "generator": generator, "attempts": 1, **args}
    params = {"plugin": "from_caption", "label": "cap", "args": own, "about": {}}
    return Stage("s/pair", "s", "pair", "pair", params, {"datasets": {"d": str(folder)}}, {"pairs": "results/pairs"}, 7, SETTINGS)


def test_the_stage(scenes):
    one = stage(scenes, "rules")
    pair.run(one)
    recipe = json.loads(Path("results/pairs/recipe.json").read_text())
    assert recipe["pairs"] == one.counters["pairs"] > 20
    assert read_table(Path("results/pairs/samples.parquet"), SAMPLES).num_rows == 2 * recipe["pairs"]
    before = {p: p.read_bytes() for p in Path("results/pairs").rglob("*.*")}
    pair.run(stage(scenes, "rules"))
    assert before == {p: p.read_bytes() for p in Path("results/pairs").rglob("*.*")}


def test_a_limit_ends_the_requests(captioned):
    """Three images of each split: two pairs of the test images are wanted, and one of them becomes none."""

    def script(body, nth):
        n = body["messages"][0]["content"].split("Picture ")[1][0]
        return "Sorry." if n == "3" else GOOD.format(n=n)

    with serving(script) as server:
        limited = stage(captioned, served(server))
        limited.params["limit"] = {"train": 1, "test": 1}
        pair.run(limited)
        splits = read_table(Path("results/pairs/samples.parquet"), SAMPLES)["split"].to_pylist()
        assert sorted(splits) == ["test"] * 2 + ["train"] * 2
        assert sum("Picture 0" in text or "Picture 1" in text or "Picture 2" in text for text in map(str, server.bodies)) == 1


def test_a_failing_server_names_itself_and_loses_nothing(captioned):
    with serving(lambda body, nth: GOOD.format(n=1) if "Picture 0" in body["messages"][0]["content"] else (500, "broken", {})) as server:
        with pytest.raises(StageError, match=r"recipe cap: openai \(m at http://127.*status 500: broken.*what was answered is kept"):
            pair.run(stage(captioned, served(server)))
        assert not Path("results/pairs").exists()
    assert sum(len(p.read_text().splitlines()) for p in Path(".qualm/replies").rglob("*.replies")) == 1


def test_a_random_model_writes_no_pair(captioned, tmp_path_factory):
    """A real local model of random weights: every reply is counted, none is taken for a pair."""
    folder = tiny_llm(tmp_path_factory.mktemp("llm") / "m")
    generator = {"plugin": "hf", "args": {"artifact": str(folder), "dtype": None}}
    with pytest.raises(StageError, match=r"made no pair of d \(.*(no part found|reply cut off): 5"):
        pair.run(stage(captioned, generator, max_new_tokens=8))


# -- reading replies --------------------------------------------------------------------------------------------------


def test_what_is_no_pair():
    for text, reason in ((GOOD.replace("Q2", "Q3"), "text between"), (GOOD.replace("a dog", ""), "part missing"), ("", "no part found")):
        with pytest.raises(NoPairError, match=reason):
            read_pair(text)
    with pytest.raises(NoPairError, match="no reply"):
        read_pair(None)


def test_answers_in_questions():
    assert gives_away("What color is the red cube?", "Red.")
    assert not gives_away("Is it red or blue?", "red")
    assert not gives_away("What reddens?", "red")
    assert not gives_away("Is it red?", "yes")


def test_sections():
    whole = "Description: d\nQ1: a?\nA1: b\nQ2: c?\nA2: d"
    assert prompt_sections({"definition": "", "examples": [whole]}) == {"Examples": whole}
    assert (
        replace_sections("Intro\n\n## Examples\n\nold\n\n## Format\n\nx", {"Examples": "new"})
        == "Intro\n\n## Examples\n\nnew\n\n## Format\n\nx"
    )
    with pytest.raises(PromptError, match=r"p: \{what\}: no such placeholder"):
        fill_placeholders("{what} {caption}", {"caption": "c"}, "p")
    assert fill_placeholders("{caption}", {"caption": "{caption} {x}"}, "p") == "{caption} {x}"
