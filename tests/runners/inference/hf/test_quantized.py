"""Quantised loading: what is made small and what is not, what it does to the numbers, and what is refused."""

import importlib.util

import pytest
import torch

from qualm.runners.contracts.models import Decoding, ModelContext, ModelError
from qualm.runners.inference.check_cases import scene_cases
from qualm.runners.inference.check_model import DoctorOptions, check_model, checks
from qualm.runners.inference.hf.quantized import PACKAGES, quantization_arguments, verify_quantization
from qualm.runners.inference.model_under_test import ModelUnderTest, run_check
from qualm.runners.plugins.models.hf_vlm import hf_vlm
from tests.support.models.each_family import EACH_FAMILY
from tests.support.models.tiny_models import FAMILIES, TEMPLATES, tiny_llava


def needs(package):
    """torchao and bitsandbytes are extras: `pip install 'qualm-bench[quantize]'`."""
    return pytest.importorskip(package)


@pytest.mark.parametrize("form", ["int8", "nf4"])
@pytest.mark.parametrize("family", EACH_FAMILY)
def test_only_the_language_model_is_made_small(family, form, tmp_path):
    needs(PACKAGES[form])
    model = hf_vlm(ModelContext("m", FAMILIES[family](tmp_path)), quantization=form, template=TEMPLATES.get(family))
    module = model.load()  # holds itself to what was asked
    small = [
        name
        for name, layer in module.named_modules()
        if isinstance(layer, torch.nn.Linear) and type(layer.weight) is not torch.nn.Parameter
    ]
    assert len(small) >= 8 and not any("vision" in name or "visual" in name or "lm_head" in name for name in small)


@pytest.mark.parametrize(("form", "size"), [("int8", 1 + 5 / 64), ("nf4", 0.5 + 4 / 64)])
def test_the_doctor_counts_bits(form, size, tmp_path):
    """A weight and its share of a scale: of 5 bytes (with a zero point) for a row of 64, or of 4 bytes for 64 weights."""
    needs(PACKAGES[form])
    folder = tiny_llava(tmp_path, width=64)
    weights = []
    for how in ("none", form):
        wish = DoctorOptions("m", "hf_vlm", {"quantization": how, "dtype": "bfloat16"}, folder, "cpu")
        weights.append(next(f for f in check_model(wish, scene_cases(3)) if f.check == "weights").numbers)
    assert weights[0]["parameters"] == weights[1]["parameters"]
    linear = 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 64)
    assert weights[0]["bytes"] - weights[1]["bytes"] == pytest.approx(linear * (2 - size), rel=0.02)


@pytest.mark.parametrize("form", ["int8", "nf4"])
def test_the_engine_is_right_about_a_quantised_model(form, tmp_path):
    """Its numbers are those of a plain forward pass of the same quantised module."""
    needs(PACKAGES[form])
    model = hf_vlm(ModelContext("m", tiny_llava(tmp_path, width=64)), quantization=form)  # on a CPU bitsandbytes packs 64 weights together
    model.load()
    tested = ModelUnderTest(model, scene_cases(3), Decoding(4, 0.9))
    for name in ("padding", "log-probabilities", "draws", "batches", "priors", "p_yes, p_true"):
        finding = run_check(name, checks()[name], tested)
        assert finding.verdict == "ok", finding


def projections(model):
    return [m for n, m in model.load().named_modules() if "language_model" in n and n.endswith(("mlp.down_proj", "self_attn.q_proj"))]


def test_8_bits_are_half_a_step_off_at_most(tmp_path):
    """A row's step is its largest weight over 127."""
    needs("torchao")
    folder = tiny_llava(tmp_path)
    for whole, small in zip(*(projections(hf_vlm(ModelContext("m", folder), quantization=form)) for form in ("none", "int8")), strict=True):
        off = (whole.weight - small.weight.dequantize()).abs().amax(dim=1)
        assert (off <= 0.5 * whole.weight.abs().amax(dim=1) / 127 * 1.02 + 1e-7).all() and off.max() > 0


def test_nf4_is_half_its_widest_gap_off_at_most(tmp_path):
    """Levels of Tim Dettmers et al., "QLoRA", NeurIPS 2023, appendix E: from -1 to -0.6962 at the widest, of the largest of 64 weights."""
    bitsandbytes = needs("bitsandbytes")
    folder = tiny_llava(tmp_path, width=64)
    for whole, small in zip(*(projections(hf_vlm(ModelContext("m", folder), quantization=form)) for form in ("none", "nf4")), strict=True):
        made = bitsandbytes.functional.dequantize_4bit(small.weight.data, small.weight.quant_state).float()
        off = (whole.weight - made).reshape(-1, 64).abs().amax(dim=1)
        assert (off <= 0.5 * (1 - 0.6962) * whole.weight.reshape(-1, 64).abs().amax(dim=1) * 1.02).all() and off.max() > 0


def test_bits_are_part_of_what_a_model_is(tmp_path):
    folder = tiny_llava(tmp_path)
    digests = {hf_vlm(ModelContext("m", folder), quantization=form).digest for form in ("none", "int8", "int4", "nf4")}
    assert len(digests) == 4 and hf_vlm(ModelContext("m", folder)).digest in digests


@pytest.mark.parametrize("form", ["int8", "nf4"])
def test_a_package_that_is_absent_is_named(form, monkeypatch):
    there = importlib.util.find_spec
    monkeypatch.setattr("qualm.runners.inference.hf.quantized.find_spec", lambda name: None if name == PACKAGES[form] else there(name))
    with pytest.raises(ModelError, match=f"model 'm': quantization {form} needs {PACKAGES[form]}; `pip install 'qualm-bench"):
        quantization_arguments("model 'm'", form, "bfloat16")


def test_what_is_refused(tmp_path):
    folder = tiny_llava(tmp_path)
    assert quantization_arguments("m", "none", "float32") == {}
    with pytest.raises(ModelError, match="weights of int8 are not trained"):
        hf_vlm(ModelContext("m", folder), quantization="int8").load("float32")
    model = hf_vlm(ModelContext("m", folder))
    with pytest.raises(ModelError, match=r"quantization int8: \d+ linear layers were not converted as asked, such as model.language"):
        verify_quantization("m", "int8", model.load())


def test_int4_computes_in_bfloat16():
    needs("torchao")
    with pytest.raises(ModelError, match="int4 computes in bfloat16, and dtype is float32"):
        quantization_arguments("m", "int4", "float32")
