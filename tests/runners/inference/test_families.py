"""The correctness table: every family of tiny models passes every check of the doctor, and the doctor's measure is right.

What a check found is held to a second plain forward pass, written apart from the first (`tests.support.models.plain_vlm`).
"""

from dataclasses import replace
from functools import cache

import pytest
import torch
import transformers

from qualm.registry.entries.published_models import verified
from qualm.runners.contracts.models import ANSWER, Decoding
from qualm.runners.inference.check_cases import scene_cases
from qualm.runners.inference.check_model import checks
from qualm.runners.inference.model_under_test import ModelUnderTest, run_check
from qualm.runners.runtime.libraries import series
from tests.support.models.each_family import EACH_FAMILY
from tests.support.models.loaded import loaded_model
from tests.support.models.plain_vlm import Plain
from tests.support.models.tiny_experts import EXPERTS
from tests.support.models.tiny_models import FAMILIES, PLAIN, TEMPLATES
from tests.support.models.tiny_newest import NEWEST
from tests.support.models.tiny_recent import RECENT
from tests.support.models.tiny_timm import WITH_TIMM
from tests.support.models.tiny_torchvision import WITH_TORCHVISION

WARNED = {
    "llava_onevision": {"answer turn"},  # its template prompts with a line break where its own answers have a space
    "paligemma": {
        "text alone",
        "continuation",
        "priors",
        "image divergence",
    },  # a prompt read both ways, by a processor that insists on a picture
}
"""Family -> checks that rightly warn."""

LATER = {**RECENT, **EXPERTS, **NEWEST}
PLAIN_LATER = {"qwen3_5_moe"}
SKIPPED = {"padding": "skip", "continuation": "skip"}
"""What there is nothing to examine of where every prompt is read by itself."""


DECODING = Decoding(4, 0.9)


@cache
def cases():
    """Return three questions about small drawn scenes: the first and last about one image, the second about another."""
    return [replace(case, image=case.image.reduce(4)) for case in scene_cases(4)[:3]]


@pytest.fixture(scope="module", params=EACH_FAMILY)
def tested(request, family_folder):
    family = request.param
    return ModelUnderTest(loaded_model(family_folder(family), family, template=TEMPLATES.get(family)), cases(), DECODING)


@pytest.mark.parametrize("name", list(checks()))
def test_check(tested, name):
    finding = run_check(name, checks()[name], tested)
    assert finding.verdict == ("warn" if name in WARNED.get(tested.model.label, ()) else "ok"), finding


@pytest.mark.parametrize("family", ["qwen3_5", *(pytest.param(f, marks=pytest.mark.slow) for f in sorted(PLAIN) if f != "qwen3_5")])
def test_families_that_are_read_by_plain_passes(family, family_folder):
    own = ModelUnderTest(loaded_model(family_folder(family), family, template=TEMPLATES.get(family)), cases(), DECODING)
    findings = [run_check(name, check, own) for name, check in checks().items()]
    assert {f.check: f.verdict for f in findings if f.verdict != "ok"} == SKIPPED


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted(LATER))
def test_families_that_came_later(family, tmp_path):
    plain, findings = examined(family, LATER[family](tmp_path))
    assert plain == (family in PLAIN_LATER) and findings == (SKIPPED if plain else {})


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted(WITH_TORCHVISION))
def test_families_whose_processors_need_torchvision(family, tmp_path):
    pytest.importorskip("torchvision", reason="torchvision, which these processors need, is not among our libraries")
    if family == "llama4" and series("transformers", transformers.__version__) == "5.24":
        pytest.xfail("its own forward pass fails on an image: MoeCausalLMOutputWithPast has no image_outputs")
    plain, findings = examined(family, WITH_TORCHVISION[family](tmp_path))
    assert plain == (family in verified()["with torchvision"]["plain passes"]) and findings == (SKIPPED if plain else {})


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted(WITH_TIMM))
def test_families_whose_picture_towers_are_timms(family, tmp_path):
    pytest.importorskip("torchvision", reason="torchvision, which timm needs, is not among our libraries")
    pytest.importorskip("timm", reason="timm, which these towers are from, is not among our libraries")
    assert examined(family, WITH_TIMM[family](tmp_path)) == (False, {})


def examined(family, folder):
    """Whether it is read by plain passes, and all that the doctor does not call well."""
    made = loaded_model(folder, family)
    own = ModelUnderTest(made, cases(), DECODING)
    return bool(made.plain), {name: f.verdict for name, check in checks().items() if (f := run_check(name, check, own)).verdict != "ok"}


def test_the_list_of_verified_families_is_of_these_tests():
    """`registry/entries/verified.yaml` says what was examined here, and with which release of transformers."""
    table = verified()
    assert series("transformers", str(table["transformers"])) == series("transformers", transformers.__version__)
    assert table["one pass"] == sorted({*FAMILIES, *LATER} - PLAIN_LATER) and table["plain passes"] == sorted({*PLAIN, *PLAIN_LATER})
    beside = table["with torchvision"]
    assert sorted([*beside["one pass"], *beside["plain passes"]]) == sorted(WITH_TORCHVISION)
    assert table["with timm"]["one pass"] == sorted(WITH_TIMM)


def test_the_measure_is_right(tested):
    """Log-probabilities and entropies of forced tokens, and logits, by the doctor's plain pass and by the tests' own."""
    oracle = Plain(tested.model)
    for case, parts in list(zip(tested.cases, tested.baseline, strict=True))[:2]:
        request, tokens = tested.request(case), parts[ANSWER].tokens
        ours, theirs = tested.plain.logits(request.prompt, case.image, tokens), oracle.logits(request.prompt, case.image, tokens)
        assert torch.allclose(ours, theirs, atol=1e-4)
        assert tested.plain.forced(request.prompt, case.image, tokens)[0] == pytest.approx(
            oracle.forced(request.prompt, case.image, tokens), abs=1e-4
        )
