"""The infer stage: what it computes, what it takes from the store, and that its tables are always the same."""

import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest

from qualm.registry.sample import GENERATIONS, IMAGES, SAMPLES
from qualm.runners.runtime.records import read_table, write_table
from qualm.runners.runtime.stage import StageError
from tests.support.models.tiny_models import tiny_llava
from tests.support.projects.tiny_project import BLUR, CLEAN, NEEDS, NOISE, Project, provenance


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_llava(tmp_path_factory.mktemp("model"))


@pytest.fixture
def project(tmp_path, model):
    made = Project(tmp_path, model)
    made.dataset("open", 10)
    made.dataset("mc", 7, choices=True)
    return made


@pytest.fixture(scope="module")
def answered_folder(tmp_path_factory, model):
    made = Project(tmp_path_factory.mktemp("answered"), model)
    made.dataset("open", 10)
    made.dataset("mc", 7, choices=True)
    made.stage(["open", "mc"])
    assert made.run().counters == {"answers computed": 17, "answers stored": 0}
    return made.folder


@pytest.fixture
def answered(tmp_path, model, answered_folder):
    """Return a copy of a project whose clean answers to `open` and `mc` are stored."""
    shutil.copytree(answered_folder, tmp_path, symlinks=True, dirs_exist_ok=True)
    return Project(tmp_path, model)


def test_rows_and_columns(project):
    project.stage(["open", "mc"], [CLEAN, BLUR])
    stage = project.run()
    assert stage.counters == {"answers computed": 34, "answers stored": 0}
    rows = project.rows("open")
    assert [(r["sample_id"], r["variant"]) for r in rows] == [(f"s{i:04d}", v) for i in range(10) for v in ("clean", "blur@radius=2.0")]
    for row in rows:
        assert row["draw"] == 0 and row["option_logits"] is None and row["p_true"] is None and len(row["input_digest"]) == 64
        assert 1 <= len(row["token_logprobs"]) == len(row["token_entropies"]) <= 4
        assert all(p <= 0 for p in row["token_logprobs"]) and all(h >= 0 for h in row["token_entropies"])
    for row in project.rows("mc"):
        assert len(row["option_logits"]) == 6 and len(row["token_logprobs"]) == 1
    assert read_table(project.output("mc"), GENERATIONS).schema == GENERATIONS
    assert len({r["input_digest"] for r in rows}) == 20
    facts = provenance(project.output("open"))
    assert (facts["stage"], facts["model"], facts["samples"], facts["rows"]) == ("t/infer", "base", 10, 20)
    assert facts["prompt"] == "USER: <image>\nQUESTION ASSISTANT:" and facts["processor"] == "LlavaProcessor"
    assert facts["image_processor"]["size"] == {"shortest_edge": 32}


@pytest.mark.slow
def test_the_likeliest_tokens_of_stored_answers_are_added_and_no_batch_changes_them(answered):
    project, before = answered, answered.rows("open")
    needs = ["text", "token_logprobs", "top_logprobs"]
    project.stage(["open"], needs=needs)
    assert project.run(batch_size=3).counters == {"answers computed": 0, "answers stored": 10, "signals computed": 10, "signals stored": 0}
    added = project.rows("open")
    shutil.rmtree(project.folder / ".qualm")
    project.stage(["open"], needs=needs)
    project.run(batch_size=8)
    for old, after, new in zip(before, added, project.rows("open"), strict=True):
        assert after["text"] == new["text"] == old["text"] and after["token_logprobs"] == old["token_logprobs"]
        assert [len(top) for top in after["top_logprobs"]] == [20] * len(old["token_logprobs"])
        assert [top[0] for top in after["top_logprobs"]] == pytest.approx(old["token_logprobs"], abs=1e-5), "greedy"
        assert all(top == sorted(top, reverse=True) for top in after["top_logprobs"])
        np.testing.assert_allclose(np.array(new["top_logprobs"]), np.array(after["top_logprobs"]), atol=1e-4)


def test_texts_of_likeliest_tokens_are_stored_where_they_are_needed_and_spell_the_answer(project):
    needs = ["text", "token_logprobs", "top_logprobs"]
    project.stage(["open"], needs=needs)
    project.run()
    assert "top_tokens" not in pq.read_schema(project.output("open")).names
    project.stage(["open"], needs=[*needs, "top_tokens"])
    assert project.run().counters == {"answers computed": 0, "answers stored": 10, "signals computed": 10, "signals stored": 10}
    for row in project.rows("open"):
        assert [len(texts) for texts in row["top_tokens"]] == [len(top) for top in row["top_logprobs"]] == [20] * len(row["token_logprobs"])
        assert "".join(texts[0] for texts in row["top_tokens"]).strip() == row["text"]


def test_the_same_again_computes_nothing_and_gives_the_same_bytes(answered):
    project = answered
    before = [project.output(n).read_bytes() for n in ("open", "mc")]
    project.output("open").unlink()  # as DVC does
    assert project.run().counters == {"answers computed": 0, "answers stored": 17}
    assert [project.output(n).read_bytes() for n in ("open", "mc")] == before


def test_more_samples_compute_only_those(answered):
    before = answered.rows("open")
    answered.dataset("open", 15)
    assert answered.run().counters == {"answers computed": 5, "answers stored": 17}
    assert answered.rows("open")[:10] == before


@pytest.mark.slow
def test_a_new_variant_computes_only_it(answered):
    project = answered
    project.stage(["open", "mc"], [CLEAN, NOISE])
    assert project.run().counters == {"answers computed": 17, "answers stored": 17}
    stronger = {**NOISE, "variant": "gaussian_noise@sigma=50.0", "args": {"sigma": 50.0}}
    project.stage(["open", "mc"], [CLEAN, NOISE, stronger])
    assert project.run().counters == {"answers computed": 17, "answers stored": 34}


@pytest.mark.slow
def test_seed_changes_only_what_is_random(project):
    project.stage(["open"], [CLEAN, BLUR, NOISE])
    project.run()
    project.stage(["open"], [CLEAN, BLUR, NOISE], seed=8)
    assert project.run().counters == {"answers computed": 10, "answers stored": 20}


def test_answer_length_is_no_matter_to_multiple_choice(answered):
    answered.stage(["open", "mc"], max_new_tokens=5)
    assert answered.run().counters == {"answers computed": 10, "answers stored": 7}


@pytest.mark.slow
def test_new_signals_compute_only_themselves(project):
    project.stage(["open", "mc"], needs=["text", "token_logprobs", "option_logits"])
    assert project.run().counters == {"answers computed": 17, "answers stored": 0}
    assert all(r["token_entropies"] is None for r in project.rows("open"))
    project.stage(["open", "mc"])
    assert project.run().counters == {"answers computed": 0, "answers stored": 17}  # entropies come with every answer
    project.stage(["open", "mc"], needs=[*NEEDS, "p_true", "logprobs_without_both"])
    assert project.run().counters == {"answers computed": 0, "answers stored": 17, "signals computed": 20, "signals stored": 0}
    for row in project.rows("open"):
        assert 0 <= row["p_true"] <= 1 and len(row["logprobs_without_both"]) == len(row["token_logprobs"])
    project.stage(["open", "mc"], needs=["text"])
    assert project.run().counters == {"answers computed": 0, "answers stored": 17}
    assert all(r["token_logprobs"] is None and r["text"] is not None for r in project.rows("open"))


@pytest.mark.slow
def test_more_draws_compute_only_those(project):
    project.stage(["open", "mc"], needs=[*NEEDS, "draws"], draws=3, temperature=0.9)
    assert project.run().counters == {"answers computed": 17, "answers stored": 0, "draws computed": 10 * 3, "draws stored": 0}
    before = project.rows("open")
    assert [(r["sample_id"], r["draw"]) for r in before[:5]] == [("s0000", d) for d in range(4)] + [("s0001", 0)]
    assert all(len(r["token_logprobs"]) == len(r["token_entropies"]) for r in before)
    assert {r["draw"] for r in project.rows("mc")} == {0}
    project.stage(["open", "mc"], needs=[*NEEDS, "draws"], draws=5, temperature=0.9)
    assert project.run().counters == {"answers computed": 0, "answers stored": 17, "draws computed": 10 * 2, "draws stored": 10 * 3}
    assert [r for r in project.rows("open") if r["draw"] < 4] == before
    project.stage(["open", "mc"], needs=[*NEEDS, "draws"], draws=5, temperature=0.8)
    assert project.run().counters == {"answers computed": 0, "answers stored": 17, "draws computed": 10 * 5, "draws stored": 0}


@pytest.mark.slow
def test_p_true_over_samples_is_about_all_draws(project):
    wanted = [*NEEDS, "draws", "p_true_sampling"]
    project.stage(["open", "mc"], needs=wanted, draws=2)
    first = {"answers computed": 17, "answers stored": 0, "draws computed": 20, "draws stored": 0}
    assert project.run().counters == {**first, "signals computed": 10, "signals stored": 0}
    values = [r["p_true_sampling"] for r in project.rows("open") if r["draw"] == 0]
    assert all(0 <= p <= 1 for p in values) and all(r["p_true_sampling"] is None for r in project.rows("mc"))
    project.stage(["open", "mc"], needs=wanted, draws=3)  # one more draw is another prompt
    more = {"answers computed": 0, "answers stored": 17, "draws computed": 10, "draws stored": 20}
    assert project.run().counters == {**more, "signals computed": 10, "signals stored": 0}
    assert [r["p_true_sampling"] for r in project.rows("open") if r["draw"] == 0] != values
    project.stage(["open", "mc"], needs=wanted, draws=2)
    assert project.run().counters["signals computed"] == 0
    assert [r["p_true_sampling"] for r in project.rows("open") if r["draw"] == 0] == values
    project.stage(["open", "mc"], needs=wanted, draws=2, temperature=2.0)
    found = project.run().counters
    assert (found["answers computed"], found["draws computed"], found["signals computed"]) == (0, 20, 10)


def test_the_same_question_under_two_names_has_draws_of_its_own(project):
    """And what is said of them: no batch waits for an answer that another is to bring."""
    path = project.folder / "results" / "t" / "data" / "open" / "samples.parquet"
    rows = read_table(path, SAMPLES).to_pylist()
    twins = [{**row, "sample_id": f"{row['sample_id']}-twin"} for row in rows[:6]]
    write_table(path, [*rows, *twins], SAMPLES)
    project.stage(["open"], needs=[*NEEDS, "draws", "p_true", "p_true_sampling"], draws=2)
    found = project.run(batch_size=2, workers=4).counters
    assert found == {
        "answers computed": 16, "answers stored": 0, "draws computed": 32, "draws stored": 0, "signals computed": 26, "signals stored": 0,
        "same as another": 6,
    }  # fmt: skip
    greedy = {r["sample_id"]: r for r in project.rows("open") if r["draw"] == 0}
    for twin in twins:
        own, other = greedy[twin["sample_id"]], greedy[twin["sample_id"].removesuffix("-twin")]
        assert (own["text"], own["p_true"]) == (other["text"], other["p_true"]) and own["p_true_sampling"] is not None


def test_equal_questions_are_answered_once(project):
    twin = {**BLUR, "variant": "blur@radius=0.0", "args": {"radius": 0.0}}
    project.stage(["open"], [CLEAN, twin])
    found = project.run().counters
    assert found == {"answers computed": 10, "answers stored": 0, "same as another": 10, "unchanged by blur@radius=0.0": 10}
    assert len({r["input_digest"] for r in project.rows("open")}) == 10  # how readers find what was not changed
    rows = project.rows("open")
    assert [r["text"] for r in rows[::2]] == [r["text"] for r in rows[1::2]]


def test_text_is_the_same_for_every_batch_size(project):
    project.dataset("open", 5)
    project.dataset("mc", 3, choices=True)
    texts = []
    for size in (1, 3, 64):
        project.stage(["open", "mc"], [CLEAN, NOISE])
        for path in project.segments():
            path.unlink()
        assert project.run(batch_size=size).counters["answers computed"] == 16
        texts.append([r["text"] for n in ("open", "mc") for r in project.rows(n)])
    assert texts[0] == texts[1] == texts[2]


def test_another_model_is_asked_anew(answered, tmp_path, tmp_path_factory):
    answered.stage(["open"])
    (tmp_path / "registry" / "data" / "tiny").unlink()
    other = Project(tmp_path, tiny_llava(tmp_path_factory.mktemp("other"), seed=1))
    before = other.rows("open")
    assert other.run().counters == {"answers computed": 10, "answers stored": 0}
    assert [r["text"] for r in other.rows("open")] != [r["text"] for r in before]
    other.stage(["open"], args={"artifact": "registry/data/tiny", "dtype": "bfloat16"})
    assert other.run().counters == {"answers computed": 10, "answers stored": 0}


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty"])
def test_a_damaged_segment_is_reported_and_computed_again(answered, capfd, damage):
    project = answered
    project.stage(["open"])
    project.run()  # computes nothing
    before = project.output("open").read_bytes()
    victim = project.segments()[1]
    raw = bytearray(victim.read_bytes())
    if damage == "flipped":
        raw[len(raw) // 2] ^= 1
    victim.write_bytes({"truncated": raw[:-9], "flipped": raw, "empty": b""}[damage])
    assert project.run().counters == {"answers computed": 4, "answers stored": 6}
    assert f"{victim.name}: " in capfd.readouterr().err
    assert project.output("open").read_bytes() == before
    assert project.run().counters == {"answers computed": 0, "answers stored": 10}
    assert capfd.readouterr().err == ""


def test_a_broken_image_fails_the_stage_by_name_and_keeps_the_rest(project):
    folder = project.folder / "results" / "t" / "data" / "open"
    pictures = read_table(folder / "images", IMAGES).to_pylist()
    whole = pictures[1]["image"]["bytes"]
    pictures[1]["image"]["bytes"] = whole[: len(whole) // 2]
    write_table(folder / "images" / "00000.parquet", pictures, IMAGES)
    project.stage(["open"])
    with pytest.raises(StageError, match=r"3 samples cannot be asked.*open: sample 's0003', image 'image0003': cannot be decoded"):
        project.run()
    assert not project.output("open").exists()
    pictures[1]["image"]["bytes"] = whole
    write_table(folder / "images" / "00000.parquet", pictures, IMAGES)
    assert project.run().counters == {"answers computed": 3, "answers stored": 7}


def test_a_missing_image_is_named(project):
    folder = project.folder / "results" / "t" / "data" / "open"
    pictures = read_table(folder / "images", IMAGES).to_pylist()
    write_table(folder / "images" / "00000.parquet", pictures[1:], IMAGES)
    project.stage(["open"])
    with pytest.raises(StageError, match=r"sample 's0000', image 'image0000': is not in the dataset's images"):
        project.run()


def test_samples_without_images_have_no_image_variants(project):
    folder = project.folder / "results" / "t" / "data" / "open" / "samples.parquet"
    rows = pq.read_table(folder).to_pylist()
    for row in rows[:4]:
        row["image_id"] = None
    write_table(folder, rows, pq.read_schema(folder))
    project.stage(["open"], [CLEAN, BLUR])
    assert project.run().counters == {"dropped (no image to perturb)": 4, "answers computed": 16, "answers stored": 0}
    assert [r["variant"] for r in project.rows("open")][:5] == ["clean"] * 5


def test_needs_that_the_model_does_not_give_are_refused(project):
    project.stage(["open"], needs=[*NEEDS, "p_false"])
    with pytest.raises(StageError, match="plugin hf_vlm does not give p_false"):
        project.run()


def test_a_perturbation_that_is_not_repeatable_is_refused(project, monkeypatch):
    from qualm.runners.plugins.perturbations import gaussian_noise as module

    plain = module.gaussian_noise
    calls = iter(range(10**6))
    monkeypatch.setattr(module, "gaussian_noise", lambda batch, rngs, *, sigma: plain(batch, rngs, sigma=sigma + next(calls)))
    project.stage(["open"], [NOISE])
    with pytest.raises(StageError, match=r"sample 's\d+', variant gaussian_noise@sigma=25.0: two runs of the perturbation differ"):
        project.run()


def test_a_perturbation_that_fails_names_the_sample(project):
    project.stage(["open"], [{**BLUR, "args": {"radius": "much"}}])
    with pytest.raises(StageError, match=r"variant blur@radius=2.0: failed on sample 's0000': TypeError"):
        project.run()


BLINDED = [{"variant": f"{way}_picture", "plugin": None, "args": {}, "picture": way} for way in ("swapped", "removed")]


def test_a_model_is_asked_with_another_samples_picture_and_without_one(project):
    project.stage(["open"], [CLEAN, *BLINDED])
    assert project.run().counters == {"answers computed": 30, "answers stored": 0}
    rows = {(r["sample_id"], r["variant"]): r for r in project.rows("open")}
    assert len(rows) == 30
    digests = [[rows[f"s{i:04d}", v]["input_digest"] for v in ("clean", "swapped_picture", "removed_picture")] for i in range(10)]
    assert all(len(set(three)) == 3 for three in digests)
    before = project.rows("open")
    project.output("open").unlink()
    assert project.run().counters["answers computed"] == 0 and project.rows("open") == before


def test_only_scored_rows_are_asked_without_their_picture(project):
    folder = project.folder / "results" / "t" / "data" / "open" / "samples.parquet"
    rows = pq.read_table(folder).to_pylist()
    for row in rows[:4]:
        row["split"] = "val"
    write_table(folder, rows, pq.read_schema(folder))
    project.stage(["open"], [CLEAN, *BLINDED], also=["val"])
    assert project.run().counters == {"answers computed": 10 + 6 + 6, "answers stored": 0}
    of = {r["sample_id"]: {q["variant"] for q in project.rows("open") if q["sample_id"] == r["sample_id"]} for r in project.rows("open")}
    assert [of[f"s{i:04d}"] == {"clean"} for i in range(10)] == [True] * 4 + [False] * 6


def test_a_recording_is_looked_up(project, monkeypatch):
    import pyarrow as pa

    from qualm.runners.inference import open_inference

    class Recording:
        def lookup(self, dataset, samples):
            ids = samples.column("sample_id").to_pylist()[1:]
            rows = [{"sample_id": i, "variant": "clean", "draw": 0, "option_logits": [1.0, 2.0]} for i in ids]
            return pa.Table.from_pylist(rows, schema=GENERATIONS)

    monkeypatch.setattr(open_inference, "load", lambda kind, name: lambda context, **args: Recording())
    project.stage(["mc"], needs=["option_logits"])
    assert project.run().counters == {"recorded": 6, "dropped (not recorded)": 1}
    assert [r["option_logits"] for r in project.rows("mc")] == [[1.0, 2.0]] * 6
    project.stage(["mc"], [CLEAN, BLINDED[0]], needs=["option_logits"])
    with pytest.raises(StageError, match="its answers are on record, so it cannot be asked as 'swapped_picture'"):
        project.run()


def test_stage_json_of_the_project_is_what_the_contract_says(project):
    project.stage(["open"])
    stage = json.loads((project.folder / "specs" / "t" / "stages" / "infer.json").read_text())
    assert set(stage) == {"kind", "seed", "params", "inputs", "outputs"}
