"""Who decides that a question has no answer: equation 1 of CertainlyUncertain, and its released data from files to scores."""

import json
from collections import Counter
from pathlib import Path

import pytest

from qualm.registry.adapters.certainly_uncertain_release import FILES
from qualm.registry.sample import SAMPLES, Sample
from qualm.runners.data.rows import as_sample
from qualm.runners.runtime.records import read_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage, StageError
from qualm.runners.scoring.measuring.reference_abstentions import decide_answerable
from qualm.runners.stages import data
from tests.support.data.scenes_folder import ABOUT
from tests.support.projects.scored import scored
from tests.support.projects.stages import ref
from tests.support.servers.small_server import IMPATIENT, serving

RULES = {"label": "rules", "plugin": "rules", "args": {}}
SETTINGS = Settings(progress=False, workers=1, device="cpu", servers={"default": {**IMPATIENT["default"], "concurrency": 1}})


def decided(samples):
    return decide_answerable(samples, RULES, SETTINGS, Counter())


def sample(name, *references, **more):
    return Sample(sample_id=name, question="What color is the car?", references=references, **more)


def test_a_question_whose_references_mostly_abstain_is_unanswerable():
    made = decided(
        [
            sample("a", "red"), sample("b", "I don't know."), sample("c", "red", "I can't tell."),
            sample("d", "unanswerable", "I can't tell.", "red"), sample("e"), sample("f", answerable=False),
            sample("g", "I don't know.", choices=("x", "I don't know."), answer_index=1),
        ]
    )  # fmt: skip
    assert {s.sample_id: s.answerable for s in made.samples} == {
        "a": True, "b": False, "c": True, "d": False, "e": True, "f": False, "g": True,
    }  # fmt: skip


def test_only_contrasts_stay_pairs():
    made = decided(
        [
            sample("a", "red", pair_id="1"), sample("b", "I don't know.", pair_id="1"),
            sample("c", "red", pair_id="2"), sample("d", "blue", pair_id="2"), sample("e", "red", pair_id="3"),
        ]
    )  # fmt: skip
    assert [s.pair_id for s in made.samples] == ["1", "1", None, None, None]
    assert made.summary == "references abstain in 1 of 5 questions (0 could not be read and are left out); 1 pairs"


# -- the release, from files to scores ------------------------------------------------------------------------------------

ENTRY = "registry/data/certainly_uncertain_release"
WORDS = {
    "Knowledge": ("What does the bike cost?", "Unanswerable", "What is the bike for?", "Riding"),
    "Complex": ("How many leaves are there?", "There are too many to count.", "How many wheels are there?", "Two"),
    "Temporal": ("What will the boy do next?", "I can't predict that.", "What is the boy doing?", "Running"),
    "Ambiguous": ("What is the dog doing?", "It is unclear which dog is meant.", "What is the left dog doing?", "Sleeping"),
}


def release(root: Path) -> None:
    """Both files in the release's layout: questions and answers, no field that says which questions are answerable."""
    records = []
    for n in range(3):
        image = f"test_{n:05d}.jpg"
        for category, (asked, declined, other, answer) in WORDS.items():
            records += [(image, category, asked, declined), (image, category, other, answer)]
        photograph = f"COCO_val2014_{n:012d}.jpg"
        records.append((photograph, "Extraneous", "What color is the car?", "Red"))
        if n:  # one copy was found invalid, and its photograph stayed
            records.append((photograph.replace(".jpg", "_inpainted.jpg"), "Extraneous", "What color is the car?", "I don't see any car."))
    (root / "images").mkdir(parents=True)
    for image in {record[0] for record in records}:
        (root / "images" / image).write_bytes(b"a picture")
    rows = [{"image": i, "category": c, "question": q, "answer": a} for i, c, q, a in records]
    (root / FILES["test"]).write_text("".join(json.dumps(row) + "\n" for row in rows))
    turns = [
        {"id": n, "image": r["image"], "type": r["category"], "conversations": [
            {"from": "human", "value": f"<image>\n{r['question']}"}, {"from": "gpt", "value": r["answer"]}]}
        for n, r in enumerate(rows)
    ]  # fmt: skip
    (root / FILES["train"]).write_text(json.dumps(turns))


def laid_down(judge, **args):
    params = {
        "dataset": "released", "card": "certainly_uncertain_release", "adapter": "certainly_uncertain_release", "args": args, "limit": None,
        "about": ABOUT, **({"answerable_by": judge} if judge else {}),
    }  # fmt: skip
    outputs = {"dataset": "data/released", "card": "data/released.md"}
    stage = Stage("s/data", "s", "data", "data", params, {"source": ENTRY}, outputs, 7, SETTINGS)
    data.run(stage)
    return stage, read_table(Path("data/released/samples.parquet"), SAMPLES).to_pylist()


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    release(tmp_path / ENTRY)


def test_the_release_comes_out_as_the_papers_table_1(capsys):
    stage, rows = laid_down(RULES)
    counts = Counter((row["split"], row["category"], row["answerable"]) for row in rows)
    for split in ("train", "test"):
        for path in ("epistemic/knowledge", "epistemic/complexity", "aleatoric/temporal", "aleatoric/ambiguity"):
            assert (counts[split, path, False], counts[split, path, True]) == (3, 3)
        assert (counts[split, "epistemic/extraneous", False], counts[split, "epistemic/extraneous", True]) == (2, 3)
    assert len({row["pair_id"] for row in rows} - {None}) == 2 * (4 * 3 + 2)
    assert {dict(row["meta"])["category"] for row in rows} == {*WORDS, "Extraneous"}
    said = capsys.readouterr().err
    assert "1 of 29 questions of split test are of no contrastive pair" in said
    assert "references abstain in 28 of 58 questions (0 could not be read and are left out); 28 pairs" in said
    assert "What was left out\n\n- nothing" in Path("data/released.md").read_text()
    assert stage.counters["samples"] == 58


def test_lave_decides_and_what_it_cannot_read_is_left_out():
    def script(body, nth):
        (turn,) = body["messages"]
        answer = turn["content"].rpartition("Answer: ")[2]
        return (
            "Who knows?" if answer == "Riding" else f"Rating: {int(answer in {a for _, a, _, _ in WORDS.values()} or 'see any' in answer)}"
        )

    with serving(script) as server:
        lave = {"plugin": "lave", "args": {"by": {"plugin": "openai", "args": {"model": "m", "base_url": server.url}}}}
        stage, rows = laid_down(lave, parts=["test"])
        assert len(server.bodies) == 10, "each question with its answer is judged once, in one request"
    assert len(rows) == 26 and sum(not row["answerable"] for row in rows) == 14
    assert stage.counters["left out (reference cannot be read)"] == 3
    assert {row["pair_id"] for row in rows if row["question"] == "What does the bike cost?"} == {None}


def test_without_a_judge_the_release_is_refused():
    with pytest.raises(StageError, match="say who decides from the answers which questions are answerable"):
        laid_down(None)


def test_the_release_is_scored_by_equation_1():
    """A model that answers some of the answerable questions rightly, and abstains twice where it should and once where it should not."""
    _, rows = laid_down(RULES)
    idk = [r["sample_id"] for r in rows if not r["answerable"] and r["split"] == "test"]
    can = [r for r in rows if r["answerable"] and r["split"] == "test"]
    said = {r["sample_id"]: "Blue" for r in rows} | {r["sample_id"]: r["references"][0] for r in can[:5]}
    said |= dict.fromkeys([*idk[:2], can[5]["sample_id"]], "I can't tell.")
    values = scored([as_sample(r) for r in rows], said, [RULES], [ref("lave_idk_accuracy"), ref("f1_idk")], slices=["category"])
    assert values["all", "lave_idk_accuracy"]["n"] == len(idk) + len(can) == 29
    assert values["all", "lave_idk_accuracy"]["value"] == pytest.approx((5 + 2) / 29)
    assert values["all", "f1_idk"]["value"] == pytest.approx(2 * 2 / (3 + len(idk)))
    assert values["category=epistemic/extraneous", "f1_idk"]["n"] == 5
