"""Pictures and questions under variants are made as inference makes them."""

import io
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import PIL.Image
import pytest

from qualm.compiler.viewing.answers import AnswerTable
from qualm.compiler.viewing.model_inputs import MAX_LOSSLESS_SIDE, ModelInputs, encode_webp
from qualm.compiler.viewing.site import Site
from qualm.runners.data.dataset import BrokenSampleError, VariantInput
from qualm.runners.results.results import Results


def opened(data: bytes | None) -> PIL.Image.Image:
    assert data is not None
    return PIL.Image.open(io.BytesIO(data))


def test_small_pictures_are_kept_exactly_and_large_ones_brought_down(results: Results) -> None:
    noise = PIL.Image.fromarray(np.random.default_rng(0).integers(0, 255, (MAX_LOSSLESS_SIDE, 40, 3), dtype=np.uint8))
    assert np.array_equal(np.asarray(opened(encode_webp(noise)).convert("RGB")), np.asarray(noise))
    assert opened(encode_webp(PIL.Image.new("RGB", (3000, 1500)))).size == (1000, 500)
    larger = noise.resize((MAX_LOSSLESS_SIDE + 1, 40))
    assert not np.array_equal(np.asarray(opened(encode_webp(larger)).convert("RGB")), np.asarray(larger)), "saved with loss"


def test_pictures_of_questions(site: Site, results: Results, answers: AnswerTable) -> None:
    inputs = site.parts["small"].model_inputs
    sample = answers.samples.row(1, named=True)
    own = results.image(sample["dataset"], sample["sample_id"])
    clean = opened(inputs.clean_picture(sample["dataset"], sample["image_id"])).convert("RGB")
    assert own is not None and np.array_equal(np.asarray(clean), np.asarray(own))
    blurred = opened(inputs.picture(sample["dataset"], sample["sample_id"], "blur@radius=2", 0)).convert("RGB")
    assert np.asarray(blurred).std() < np.asarray(clean).std()
    assert inputs.picture(sample["dataset"], sample["sample_id"], "blur@radius=2", 1) is None
    assert inputs.picture(sample["dataset"], "nobody", "blur@radius=2", 0) is None
    assert inputs.picture(sample["dataset"], sample["sample_id"], "nothing", 0) is None
    assert inputs.clean_picture(sample["dataset"], "nothing") is None


def test_what_a_plan_says_of_variants() -> None:
    def asking(name: str, seed: int, perturbed: dict[str, dict[str, str]]) -> SimpleNamespace:
        entries = [{"variant": name, "modality": "cross"}, {"variant": f"without {name}", "picture": "grey"}]
        inputs = {"datasets": {"d": "data/d"}, "perturbed": perturbed}
        return SimpleNamespace(outputs={"generations": {}}, seed=seed, params={"variants": entries}, inputs=inputs)

    stages = [
        asking("a", 5, {"a": {"d": "made/a-d"}}),
        asking("b", 5, {"a": {"e": "made/a-e"}, "b": {"d": "made/b-d"}}),
        SimpleNamespace(outputs={"scores": {}}, seed=9),
    ]
    inputs = ModelInputs(SimpleNamespace(root=Path("/r")), stages)  # type: ignore[arg-type]
    assert inputs._perturbed == {"a": {"d": "/r/made/a-d", "e": "/r/made/a-e"}, "b": {"d": "/r/made/b-d"}} and inputs.seed == 5
    assert [inputs.modality(name) for name in ("a", "without a", "b", "c")] == ["cross", "image", "cross", ""]


def test_what_variants_change(site: Site, answers: AnswerTable) -> None:
    inputs: ModelInputs = site.parts["small"].model_inputs
    assert {name: inputs.modality(name) for name in answers.variants} == {
        "clean": "",
        "blur@radius=2": "image",
        "typos@p=0.5": "text",
    }
    sample = answers.samples.row(2, named=True)
    texts = inputs.questions(sample["dataset"], sample["sample_id"], answers.variants)
    assert set(texts) == {"typos@p=0.5"} and texts["typos@p=0.5"] != sample["question"]


def test_a_question_that_alone_is_changed_needs_no_picture(site: Site, answers: AnswerTable, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(item: VariantInput) -> tuple[PIL.Image.Image, ...]:
        raise BrokenSampleError("cannot be read")

    inputs: ModelInputs = site.parts["small"].model_inputs
    sample = answers.samples.row(2, named=True)
    monkeypatch.setattr(VariantInput, "images", broken)
    assert set(inputs.questions(sample["dataset"], sample["sample_id"], answers.variants)) == {"typos@p=0.5"}
    assert inputs.picture(sample["dataset"], sample["sample_id"], "blur@radius=2", 0) is None
