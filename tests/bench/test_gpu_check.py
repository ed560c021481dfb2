"""The GPU check runs without a GPU on tiny models, and reads kernel names, arithmetic and wheels as it should."""

import json
import subprocess
import sys
import zipfile

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from tests.bench.gpu.sections import attention_kind, report_kernels
from tests.bench.gpu.subject import PassCounter, Report
from tests.bench.gpu_check import ROOT, install_missing
from tests.support.models.full_size import full_size

KERNELS = {
    "void pytorch_flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>>(Flash_fwd_params)": "flash",
    "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::bfloat16_t>::Params)": "memory-efficient",
    "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_kernel0_0": "cudnn",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas": "",
    "void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, double, double, double>(double*, double const*, int)": "",
}


def test_attention_kernels_are_told_by_their_names():
    assert {name: attention_kind(name) for name in KERNELS} == KERNELS


def test_kernel_time_is_shared_out(tmp_path):
    report = Report(tmp_path / "out.json", 0.0)
    kernels = [(name, 0.1, 2) for name in KERNELS] + [("Memcpy HtoD (Pageable -> Device)", 9.0, 3)]
    report_kernels(report, kernels, seconds=1.0, steps=5)
    saved = json.loads((tmp_path / "out.json").read_text())["findings"]
    texts = [finding["text"] for finding in saved]
    assert texts[0] == "kernels run 0.500 s of 1.000 s (50%), 2 launches a pass; float64 kernels take 20.0% of the kernel time"
    assert saved[1]["numbers"]["shares"] == {kind: pytest.approx(0.2) for kind in ("flash", "memory-efficient", "cudnn")}
    assert saved[3]["numbers"]["copies"] == {"Memcpy HtoD (Pageable -> Device)": 3}


@pytest.mark.parametrize("keep", [0, 1])
def test_arithmetic_agrees_with_the_counter_of_torch(keep, tmp_path):
    module = full_size("llava-1.5-7b", tmp_path, "cpu", "float32", shrunk=True).module
    with torch.no_grad(), PassCounter(module) as ours, FlopCounterMode(display=False) as theirs:
        module(input_ids=torch.full((3, 8), 5), logits_to_keep=keep)
    attention = 4 * 32 * 2 * 3 * 8 * 4  # width, layers, rows, tokens, mean context; the counter of torch knows no fused attention on a CPU
    assert ours.operations == [theirs.get_total_flops() + attention]


@pytest.mark.slow
def test_only_missing_wheels_are_installed(tmp_path):
    for name, module in (("qualm_absent", "qualm_absent"), ("torch", "torch")):
        about = f"{name}-1.0.dist-info"
        with zipfile.ZipFile(tmp_path / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{module}.py", "")
            wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{about}/RECORD", "")
    assert install_missing(tmp_path, tmp_path / "site") == ["qualm-absent"]
    assert (tmp_path / "site" / "qualm_absent.py").exists()
    assert not (tmp_path / "site" / "torch.py").exists()


@pytest.mark.slow
def test_quick_check_runs_every_section_without_a_problem(tmp_path):
    out = tmp_path / "check.json"
    command = [sys.executable, "tests/bench/gpu_check.py", "--quick", "--only", "smolvlm-256m", "suspicions", "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    findings = json.loads(out.read_text())["parts"]["smolvlm-256m suspicions"]["findings"]
    assert {finding["kind"] for finding in findings} == {"finding", "skipped", "suspicion"}
    assert "float32: 4 of 4 answers equal to `generate`" in next(f["text"] for f in findings if f["section"] == "compare_answers")
    assert len([finding for finding in findings if finding["kind"] == "suspicion"]) == 4
