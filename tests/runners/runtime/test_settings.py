"""Execution settings: the environment over the file over the defaults; mistakes are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from qualm.runners.runtime.settings import Settings, SettingsError, read_settings


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DEVICE", "BATCH_SIZE", "WORKERS", "PROGRESS"):
        monkeypatch.delenv(f"QUALM_{name}", raising=False)


def test_defaults_file_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "qualm.toml"
    assert read_settings(file) == Settings()
    file.write_text('batch_size = 8\ndevice = "cpu"\n')
    monkeypatch.setenv("QUALM_BATCH_SIZE", "16")
    monkeypatch.setenv("QUALM_PROGRESS", "false")
    found = read_settings(file)
    assert (found.batch_size, found.device, found.progress) == (16, "cpu", False)


def test_what_holds_where_nothing_is_said() -> None:
    """One device of one machine, no limit of money, stored answers of the same series of libraries."""
    numbers = {"batch_size": 0, "workers": 0, "devices": 1, "nodes": 1, "jobs": 1, "micro_batch": 0, "checkpoint_every": 100}
    words = {
        "device": "auto",
        "gpu": "",
        "strategy": "auto",
        "launcher": "",
        "cluster": "",
        "store": ".qualm/store",
        "libraries": "minor",
        "spec": "",
    }
    others = {"max_spend": 0.0, "gradient_checkpointing": False, "progress": True, "servers": {}, "vllm": {}}
    assert vars(Settings()) == {**numbers, **words, **others}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("batchsize = 8", "unknown setting 'batchsize'"),
        ('batch_size = "8"', "batch_size: expected a whole number at least 0 and at most 1,000,000, got '8'"),
        ('progress = "yes"', "progress: expected true or false, got 'yes'"),
        ("batch_size = -1", "batch_size: expected a whole number at least 0 and at most 1,000,000, got -1"),
        ("not toml", "not TOML"),
        ("max_spend = nan", "max_spend: expected a number at least 0 and at most 10,000,000, got nan"),
        ("max_spend = inf", "max_spend: expected a number at least 0 and at most 10,000,000, got inf"),
        ('libraries = "all"', "libraries: expected one of exact, minor, any, got 'all'"),
        ("vllm = 3", "vllm: expected a table of settings, got 3"),
        ("[vllm]\ndtype = 'float16'", "vllm.dtype: unknown setting; there are: tensor_parallel_size, pipeline_parallel_size"),
        ("[vllm]\nmax_num_seqs = 0", "vllm.max_num_seqs: expected a whole number at least 1 and at most 10,000,000, got 0"),
        ("[vllm]\nmax_model_len = 8192.0", "vllm.max_model_len: expected a whole number at least 1 and at most 10,000,000, got 8192.0"),
        ("[vllm]\nenforce_eager = 1", "vllm.enforce_eager: expected true or false, got 1"),
        ("[vllm]\ngpu_memory_utilization = 90", "vllm.gpu_memory_utilization: expected a number above 0 and at most 1, got 90"),
        ("[vllm]\ngpu_memory_utilization = 0", "above 0 and at most 1, got 0"),
        ("[vllm]\ncpu_offload_gb = -1", "vllm.cpu_offload_gb: expected a number at least 0 and at most 100,000, got -1"),
        ("[vllm]\nlimit_mm_per_prompt = 4", "vllm.limit_mm_per_prompt: expected a table, got 4"),
    ],
)
def test_mistakes(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "qualm.toml").write_text(text)
    with pytest.raises(SettingsError, match=message):
        read_settings(tmp_path / "qualm.toml")


def test_a_variable_of_the_wrong_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUALM_WORKERS", "many")
    with pytest.raises(SettingsError, match="QUALM_WORKERS: expected a whole number at least 0 and at most 10,000, got 'many'"):
        read_settings(tmp_path / "qualm.toml")


@pytest.mark.parametrize(("name", "text"), [("MAX_SPEND", "nan"), ("MAX_SPEND", "1e308"), ("JOBS", "1000000000"), ("WORKERS", "-1")])
def test_a_variable_out_of_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    monkeypatch.setenv(f"QUALM_{name}", text)
    with pytest.raises(SettingsError, match=f"^QUALM_{name}: expected a (whole )?number at least .* and at most .*, got"):
        read_settings(tmp_path / "qualm.toml")


@pytest.mark.parametrize(("text", "on"), [("1", True), ("On", True), ("YES", True), ("0", False), ("off", False), ("", False)])
def test_a_variable_that_switches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, on: bool) -> None:
    monkeypatch.setenv("QUALM_PROGRESS", text)
    assert read_settings(tmp_path / "qualm.toml").progress is on
    monkeypatch.setenv("QUALM_PROGRESS", f"{text}?")
    with pytest.raises(SettingsError, match=r"QUALM_PROGRESS: expected true or false, got '.*\?'"):
        read_settings(tmp_path / "qualm.toml")


def test_stages_at_work_at_the_same_time_share_what_a_server_allows_per_minute():
    tables = {"http://lab/v1": {"requests_per_minute": 60.0, "tokens_per_minute": 1000.0, "concurrency": 4}}
    alone, beside = (Settings(servers=tables, jobs=jobs).server("http://lab/v1", "m") for jobs in (1, 4))
    assert (alone.requests_per_minute, alone.tokens_per_minute, alone.concurrency) == (60.0, 1000.0, 4)
    assert (beside.requests_per_minute, beside.tokens_per_minute, beside.concurrency) == (15.0, 250.0, 4)


def test_how_vllm_uses_cards(tmp_path: Path) -> None:
    text = "gpu_memory_utilization = 1\nmax_num_seqs = 1\ncpu_offload_gb = 0\nenforce_eager = true\nlimit_mm_per_prompt = {image = 4}\n"
    (tmp_path / "qualm.toml").write_text(f"[vllm]\n{text}")
    found = read_settings(tmp_path / "qualm.toml").vllm
    wanted = {"gpu_memory_utilization": 1.0, "max_num_seqs": 1, "cpu_offload_gb": 0.0, "enforce_eager": True}
    assert found == {**wanted, "limit_mm_per_prompt": {"image": 4}}
