"""Sights: a picture that was seen is not decoded again, and whatever might change its pixels makes it be looked at anew."""

import io
import shutil
from contextlib import chdir
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from qualm.registry.sample import IMAGES
from qualm.runners.data.dataset import Variant
from qualm.runners.inference import pixel_digests as module
from qualm.runners.inference.pixel_digests import ROOT, InputDigest, PixelDigestCache
from qualm.runners.runtime.code_digest import Engine, imported_versions
from qualm.runners.runtime.records import read_table, write_table
from tests.support.models.tiny_models import tiny_llava
from tests.support.projects.tiny_project import BLUR, CLEAN, NOISE, Project

BLUR_CODE = "qualm.runners.plugins.perturbations.blur"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_llava(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def answered(tmp_path_factory, model):
    made = Project(tmp_path_factory.mktemp("answered"), model)
    made.dataset("open", 6)
    made.stage(["open"], [CLEAN, BLUR, NOISE])
    made.run()
    return made.folder


@pytest.fixture
def project(tmp_path, model, answered):
    shutil.copytree(answered, tmp_path, symlinks=True, dirs_exist_ok=True)
    return Project(tmp_path, model)


def forbid_decoding(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a picture was decoded")

    monkeypatch.setattr(PIL.Image, "open", refuse)


def test_nothing_is_decoded_again(project, monkeypatch):
    before = project.output("open").read_bytes()
    forbid_decoding(monkeypatch)
    assert project.run().counters == {"answers computed": 0, "answers stored": 18}
    assert project.output("open").read_bytes() == before


def test_another_model_has_the_same_sights(project, monkeypatch, tmp_path):
    project.stage(["open"], [CLEAN, BLUR, NOISE], args={"artifact": "registry/data/tiny", "dtype": "bfloat16"})
    before = list((tmp_path / ROOT).rglob("*.segment"))
    assert project.run().counters["answers computed"] == 18
    assert list((tmp_path / ROOT).rglob("*.segment")) == before


def test_other_bytes_under_the_same_name_are_another_picture(project):
    place = project.folder / "results/t/data/open/images"
    pictures = read_table(place, IMAGES).to_pylist()
    data = io.BytesIO()
    PIL.Image.fromarray(np.random.default_rng(5).integers(0, 256, (32, 32, 3), np.uint8)).save(data, "PNG")
    pictures[1]["image"]["bytes"] = data.getvalue()
    write_table(place / "00000.parquet", pictures, IMAGES)
    assert project.run().counters == {"answers computed": 9, "answers stored": 9}  # three questions on it, three variants


def test_damaged_sights_are_reported_and_looked_at_again(project, capfd, tmp_path):
    (path,) = (tmp_path / ROOT).rglob("*.segment")
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    assert project.run().counters == {"answers computed": 0, "answers stored": 18}
    assert "fails its checksum" in capfd.readouterr().err


def variants(**changed):
    given = {"name": "blur@radius=2.0", "modality": "image", "function": None, "args": {"radius": 2.0}, "module": BLUR_CODE, **changed}
    return [Variant("clean"), Variant(**given)]


def key(seed=7, number=1, encoded=b"x" * 32, sample="s", question="q", folder=Path("d"), **changed):
    return PixelDigestCache(folder, variants(**changed), seed).key(number, encoded, sample, question)


def test_a_key_holds_all_that_pixels_depend_on(tmp_path, monkeypatch):
    with chdir(tmp_path):
        others = [{"seed": 8}, {"encoded": b"y" * 32}, {"sample": "t"}, {"args": {"radius": 3.0}}, {"name": "other"},
                  {"module": "qualm.runners.plugins.perturbations.gaussian_noise"}, {"modality": "cross"}, {"number": 0}]  # fmt: skip
        assert len({key(), *(key(**o) for o in others)}) == 1 + len(others)
        assert key() == key(question="r")  # which an image variant does not read
        assert key(modality="cross") != key(modality="cross", question="r")
        assert key(number=0) == key(number=0, seed=8, sample="t")  # nothing but the picture itself
        assert key(module="") is None
        before = key()
        monkeypatch.setattr(module, "imported_versions", lambda name: {"pillow": "0"})
        module._code_digest.cache_clear()
        assert key() != before
        module._code_digest.cache_clear()


def test_versions_of_what_a_perturbation_imports():
    assert "pillow" in imported_versions(BLUR_CODE) and "numpy" in imported_versions("qualm.runners.plugins.perturbations.gaussian_noise")


def test_sights_come_back_and_files_stay_few(tmp_path):
    with chdir(tmp_path):
        for i in range(2 * module.MANY_FILES + 3):
            seen = PixelDigestCache(Path("d"), variants(), 7)
            seen.add(seen.key(1, bytes([i]) * 32, "s", "q"), InputDigest(f"{i}", (i, 2), None if i % 2 else "why ?"))
            seen.save()
        assert len(list(ROOT.rglob("*.segment"))) <= module.MANY_FILES
        again = PixelDigestCache(Path("d"), variants(), 7)
        for i in range(2 * module.MANY_FILES + 3):
            assert again.get(again.key(1, bytes([i]) * 32, "s", "q")) == InputDigest(f"{i}", (i, 2), None if i % 2 else "why ?")
        assert again.get(None) is None and PixelDigestCache(Path("other"), variants(), 7).get(key()) is None


def test_text_and_cross_variants_need_no_second_look(project, monkeypatch):
    """A question that was changed by what is in the picture is remembered; one that was changed by itself is changed again."""
    from qualm.runners.contracts.models import ModelContext
    from qualm.runners.data.dataset import DatasetFolder
    from qualm.runners.inference.requests import Asker
    from qualm.runners.plugins.models.hf_vlm import hf_vlm
    from qualm.runners.runtime.settings import Settings
    from qualm.runners.runtime.stage import read_stage

    calls = []

    def louder(batch, rngs):
        calls.append("text")
        return [text + " ?" for text in batch]

    def cross(batch, rngs):
        calls.append("cross")
        return [(image.rotate(90), f"{text} {image.getpixel((0, 0))[0]}") for image, text in batch]

    chosen = [Variant("clean"), Variant("text", "text", louder, {}, BLUR_CODE), Variant("cross", "cross", cross, {}, BLUR_CODE)]
    with chdir(project.folder):
        stage = read_stage("t/infer", Settings(device="cpu", workers=1, progress=False))
        model = hf_vlm(ModelContext("m", Path("registry/data/tiny")))
        data = [DatasetFolder("open", Path("results/t/data/open"))]
        first, _ = Asker(model, Engine(), data, chosen, frozenset({"text"}), stage).survey()
        assert calls == ["text", "cross"] * 6
        forbid_decoding(monkeypatch)
        second, _ = Asker(model, Engine(), data, chosen, frozenset({"text"}), stage).survey()
    assert second == first and calls[12:] == ["text"] * 6
    assert len({cell.input_digest for cell in first}) == 18 and first[0].pixels == first[1].pixels != first[2].pixels
