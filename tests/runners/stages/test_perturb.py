"""The perturb stage: what it writes is what the loader would have made, and what models then see; what does not apply is left out."""

import io

import numpy as np
import PIL.Image
import pytest

from qualm.registry.plugins.registry import load
from qualm.registry.sample import IMAGES, SAMPLES
from qualm.runners.contracts.perturbations import random_generator
from qualm.runners.data.data_cards import read_card
from qualm.runners.data.dataset import DatasetFolder, read_variants
from qualm.runners.runtime.records import iterate_rows, read_table, write_table
from qualm.runners.runtime.stage import StageError
from tests.support.checks.plugin_files import made_up
from tests.support.data.hostile import questions
from tests.support.data.scenes_folder import scenes_folder
from tests.support.models.tiny_models import tiny_llava
from tests.support.projects.tiny_project import CLEAN, NOISE, Project
from tests.support.servers.small_server import IMPATIENT, serving

MADE = {"made": True}
SOME = {"variant": "some", "plugin": "some", "modality": "text", "args": {"times": 2}}
SOURCE = """
MODALITY = "text"
SEEN = []

def some(context, batch, rngs, *, times: int = 1):
    SEEN.append((context.label, [r["sample_id"] for r in context.rows], [p[:4] for p in context.pictures], dict(context.scenes())))
    opened = context.once("count", list)
    opened.append(len(batch))
    context.counters["batches"] = len(opened)
    made = []
    for row, question in zip(context.rows, batch, strict=True):
        if row["sample_id"].endswith("3"):
            context.drop("ends with three")
            made.append(None)
        elif row["sample_id"].endswith("4"):
            made.append(question)
        else:
            made.append(question * times)
    return made
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_llava(tmp_path_factory.mktemp("model"))


@pytest.fixture
def project(tmp_path, model):
    made = Project(tmp_path, model)
    made.dataset("open", 10)
    return made


def test_materialised_pixels_are_those_of_the_loader(project):
    stage = project.perturb(NOISE, ["open"])
    assert stage.counters == {"samples": 10, "applied": 10}
    folder = project.folder / "results/t/perturbed" / NOISE["variant"] / "open"
    pictures = {row["image_id"]: row["image"]["bytes"] for row in iterate_rows(folder / "images", IMAGES)}
    data = DatasetFolder("open", project.folder / "results/t/data/open")
    (loader,) = read_variants([NOISE])
    for i, row in enumerate(read_table(folder / "samples.parquet", SAMPLES).to_pylist()):
        want, question = loader.apply(7, data.item(i), data.image(i))
        got = PIL.Image.open(io.BytesIO(pictures[row["image_id"]]))
        assert np.array_equal(np.asarray(got), np.asarray(want)) and row["question"] == question
        assert row["sample_id"] == data.samples[i]["sample_id"]


def test_whether_pixels_are_materialised_is_nothing_to_a_model(project):
    project.stage(["open"], [CLEAN, NOISE])
    assert project.run().counters["answers computed"] == 20
    before = project.rows("open")
    project.perturb(NOISE, ["open"])
    project.stage(["open"], [CLEAN, {**NOISE, **MADE}])
    assert project.run().counters == {"answers computed": 0, "answers stored": 20}
    assert project.rows("open") == before
    assert project.run().counters == {"answers computed": 0, "answers stored": 20}


def test_the_folder_is_a_data_set_and_the_same_every_time(project):
    project.perturb(NOISE, ["open"])
    folder = project.folder / "results/t/perturbed" / NOISE["variant"] / "open"
    files = {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*.parquet")}
    alone = DatasetFolder("perturbed", folder)
    assert len(alone) == 10 and alone.image(3).size == (32, 32)
    project.perturb(NOISE, ["open"])
    assert {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*.parquet")} == files


def test_equal_pictures_are_written_once(project):
    blurred = {"variant": "blur", "plugin": "blur", "modality": "image", "args": {"radius": 1.0}}
    project.perturb(blurred, ["open"])
    images = project.folder / "results/t/perturbed/blur/open/images"
    assert sum(1 for _ in iterate_rows(images, IMAGES)) == 4  # ten questions on four pictures, blurred alike


def test_a_context_is_handed_who_the_items_are_and_what_does_not_apply_is_left_out(project, tmp_path_factory):
    with made_up(tmp_path_factory.mktemp("plugins")) as add:
        add("perturbations", "some", SOURCE)
        stage = project.perturb(SOME, ["open"])
        assert stage.counters == {"samples": 10, "applied": 9, "batches": 1, "dropped (ends with three)": 1}
        ((label, ids, starts, scenes),) = load("perturbations", "some").__globals__["SEEN"]
        assert (label, len(ids), set(starts), scenes) == ("some", 10, {b"\x89PNG"}, {})
    folder = project.folder / "results/t/perturbed/some/open"
    assert not (folder / "images").exists()
    project.stage(["open"], [CLEAN, {**SOME, **MADE}])
    found = project.run().counters
    assert found == {
        "answers computed": 18, "answers stored": 0, "dropped (some: not applicable)": 1, "unchanged by some": 1, "same as another": 1,
    }  # fmt: skip
    rows = project.rows("open")
    assert [r["variant"] for r in rows if r["sample_id"] == "s0003"] == ["clean"]
    assert len(rows) == 19
    assert project.run().counters["answers computed"] == 0


def with_two_pictures(project, *questions):
    """The first samples have two pictures, and these questions."""
    path = project.folder / "results/t/data/open/samples.parquet"
    rows = read_table(path, SAMPLES).to_pylist()
    for row, question in zip(rows, questions, strict=False):
        row |= {"image_id": '["image0003", "image0000"]', "question": question}
    write_table(path, rows, SAMPLES)
    return DatasetFolder("open", path.parent)


def test_each_of_several_pictures_is_what_the_loader_would_have_made(project):
    data = with_two_pictures(project, "Same?", "Is <image> like <image> ?")
    assert project.perturb(NOISE, ["open"]).counters == {"samples": 10, "applied": 10}
    made = DatasetFolder("made", project.folder / "results/t/perturbed" / NOISE["variant"] / "open")
    (loader,) = read_variants([NOISE])
    for row in (0, 1, 2):
        item = data.item(row)
        wanted, question = loader.perturb(7, item, item.images())
        assert made.samples[row]["question"] == question and len(made.files(row)) == len(wanted) == (2 if row < 2 else 1)
        for file, picture in zip(made.files(row), wanted, strict=True):
            assert np.array_equal(np.asarray(PIL.Image.open(io.BytesIO(file))), np.asarray(picture))


def test_who_is_handed_a_context_is_handed_samples_of_several_pictures_one_by_one(project, tmp_path_factory):
    with_two_pictures(project, "Same?", "Is <image> like <image> ?")
    twice, paint = (
        {"variant": name, "plugin": name, "modality": kind, "args": {}} for name, kind in (("twice", "text"), ("paint", "image"))
    )
    with made_up(tmp_path_factory.mktemp("plugins")) as add:
        add("perturbations", "twice", "MODALITY = 'text'\n\ndef twice(context, batch, rngs):\n    return [q * 2 for q in batch]\n")
        add("perturbations", "paint", "MODALITY = 'image'\n\ndef paint(context, batch, rngs):\n    return list(batch)\n")
        texts, pictures = (project.perturb(variant, ["open"]).counters for variant in (twice, paint))
    assert texts == {"samples": 10, "applied": 9, "dropped (marks of images lost)": 1}
    assert pictures == {"samples": 10, "applied": 8, "dropped (several images)": 2}
    rows = read_table(project.folder / "results/t/perturbed/twice/open/samples.parquet", SAMPLES).to_pylist()
    assert (rows[0]["question"], rows[0]["image_id"]) == ("Same?" * 2, '["image0003", "image0000"]')


def test_cards_say_what_was_left_out_of_each_data_set(project, tmp_path_factory):
    project.dataset("more", 5)
    silent = "MODALITY = 'text'\n\ndef odd(batch, rngs):\n    return [q if i % 2 else None for i, q in enumerate(batch)]\n"
    odd = {"variant": "odd", "plugin": "odd", "modality": "text", "args": {}}
    with made_up(tmp_path_factory.mktemp("plugins")) as add:
        add("perturbations", "some", SOURCE)
        add("perturbations", "odd", silent)
        found = {}
        for variant in (SOME, odd):
            project.perturb(variant, ["open", "more"])
            for name in ("open", "more"):
                found[variant["plugin"], name] = read_card(project.folder / f"results/t/perturbed/{variant['plugin']}/{name}.md")
    assert {key: card["left_out"] for key, card in found.items()} == {
        ("some", "open"): {"samples: ends with three": 1},
        ("some", "more"): {"samples: ends with three": 1},
        ("odd", "open"): {"samples: it cannot be applied to": 5},
        ("odd", "more"): {"samples: it cannot be applied to": 3},
    }
    card = found["some", "more"]
    assert (card["kind"], card["recipe"]["args"], card["counts"]["all"]["answerable"]) == ("perturbed", {"times": 2}, 4)
    assert [parent["name"] for parent in card["parents"]] == ["more"]


def test_scene_graphs_of_scenes(tmp_path, monkeypatch, model, tmp_path_factory):
    monkeypatch.chdir(tmp_path)
    project = Project(tmp_path, model)
    folder = scenes_folder(tmp_path, test=8)
    folder.rename(tmp_path / "results/t-scenes")
    (tmp_path / "results/t/data").mkdir(parents=True)
    (tmp_path / "results/t-scenes").rename(tmp_path / "results/t/data/scenes")
    with made_up(tmp_path_factory.mktemp("plugins")) as add:
        add("perturbations", "some", SOURCE)
        project.perturb(SOME, ["scenes"])
        scenes = load("perturbations", "some").__globals__["SEEN"][0][3]
    samples = read_table(tmp_path / "results/t/data/scenes/samples.parquet", SAMPLES)
    assert set(scenes) == set(samples["image_id"].to_pylist()) and all(s["objects"] for s in scenes.values())


@pytest.mark.slow
def test_hostile_questions_are_written_and_read_as_they_are(project):
    asked = questions()
    rows = [{"sample_id": f"s{i}", "question": q, "split": "test", "answerable": True, "references": []} for i, q in enumerate(asked)]
    write_table(project.folder / "results/t/data/hostile/samples.parquet", rows, SAMPLES)
    typos = {"variant": "typos", "plugin": "typos", "modality": "text", "args": {"p": 0.15}}
    assert project.perturb(typos, ["hostile"]).counters == {"samples": 500, "applied": 500}
    folder = project.folder / "results/t/perturbed/typos/hostile"
    made = load("perturbations", "typos")(asked, [random_generator(7, "typos", f"s{i}") for i in range(500)], p=0.15)
    assert read_table(folder / "samples.parquet", SAMPLES)["question"].to_pylist() == made


def test_a_stage_that_was_cut_short_asks_only_for_the_rest_and_a_rerun_for_nothing(project):
    def script(body, nth):
        return "Is it loud, then?" if len(running.bodies) <= 4 or resumed else (500, "down", {})

    resumed = False
    with serving(script) as running:
        by = {"plugin": "openai", "args": {"model": "writer-2026", "base_url": running.url}}
        inv = {"prompt": None, "temperature": 0.7, "retries": 1, "max_new_tokens": 20, "generator": by}
        variant = {"variant": "inv", "plugin": "inv", "modality": "text", "args": inv}
        settings = {"default": {**IMPATIENT["default"], "concurrency": 1}}
        with pytest.raises(StageError, match="variant inv: "):
            project.perturb(variant, ["open"], servers=settings)
        before = len(running.bodies)
        resumed = True
        stage = project.perturb(variant, ["open"], servers=settings)
        assert (stage.counters["applied"], stage.counters["replies stored"], stage.counters["replies computed"]) == (10, 4, 6)
        assert len(running.bodies) == before + 6
        assert project.perturb(variant, ["open"], servers=settings).counters["replies stored"] == 10
        assert len(running.bodies) == before + 6


def test_a_perturbation_that_applies_to_nothing_says_so(project, capsys):
    amb = {"prompt": None, "temperature": 0.7, "retries": 1, "max_new_tokens": 20, "generator": "rules"}
    stage = project.perturb({"variant": "amb", "plugin": "amb", "modality": "cross", "args": amb}, ["open"])
    assert stage.counters == {"samples": 10, "applied": 0, "dropped (no rule for it)": 10}
    assert "amb could be applied to none of 10 samples" in capsys.readouterr().err


def test_a_broken_picture_is_named(project):
    project.dataset("odd", 3)
    broken = {"image_id": "image0000", "image": {"bytes": b"?", "path": ""}}
    write_table(project.folder / "results/t/data/odd/images/00000.parquet", [broken], IMAGES)
    with pytest.raises(StageError, match=r"variant gaussian_noise@sigma=25.0: odd: sample 's0000', image 'image0000': cannot be decoded"):
        project.perturb(NOISE, ["odd"])
    assert not (project.folder / "results/t/perturbed").exists()
