"""Execution settings, which change speed and never content.

They are in `qualm.toml`, which git ignores, and in environment variables (`QUALM_BATCH_SIZE=64`), so that editing them reruns nothing.
Tables `[servers....]` configure servers of models (`qualm.runners.runtime.server_config`).
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le

from qualm.registry.plugins.registry import MAX_NUMBER, plain_type
from qualm.registry.system import textfiles
from qualm.runners.runtime import server_config as servers
from qualm.runners.runtime.server_config import Dollars, Server, SettingValueError, convert_setting, convert_settings
from qualm.runners.runtime.spending import Ledger, ledger_path

FILE = Path("qualm.toml")
ON, OFF = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")
"""Values of environment variables for booleans."""
BATCH = 32
"""Prompts in one forward pass on a CPU; more are no faster."""

Processes = Annotated[int, Ge(1), Le(10_000)]
Examples = Annotated[int, Ge(0), Le(1_000_000)]
_Count = Annotated[int, Ge(1), Le(MAX_NUMBER)]
_PerPrompt = Annotated[int, Ge(0), Le(10_000)]
VLLM: Mapping[str, Any] = {
    "tensor_parallel_size": Processes,
    "pipeline_parallel_size": Processes,
    "max_model_len": _Count,
    "max_num_seqs": _Count,
    "max_num_batched_tokens": _Count,
    "gpu_memory_utilization": Annotated[float, Gt(0), Le(1)],
    "cpu_offload_gb": Annotated[float, Ge(0), Le(100_000)],
    "enforce_eager": bool,
    "disable_custom_all_reduce": bool,
    "limit_mm_per_prompt": dict[str, _PerPrompt | dict[str, _PerPrompt]],
}
"""Engine arguments of vLLM that may be set under [vllm], with types; none changes what a model says."""


class SettingsError(Exception):
    """A setting is unknown, invalid, or lacks another that it needs; the message says which."""


@dataclass(frozen=True)
class Settings:
    """Local settings of runs: environment variables over qualm.toml over these defaults."""

    device: str = "auto"
    """`auto`, `cpu`, `cuda`, `mps`: as Lightning's accelerator."""
    batch_size: Examples = 0
    """Prompts in one forward pass; 0 = 32 on a CPU, and on a GPU what its memory holds."""
    gpu: str = ""
    """Card for the estimates of `qualm plan`: `h200`, `a100`..., or "TFLOPS GB/S GIB". Changes no run."""
    workers: Annotated[int, Ge(0), Le(10_000)] = 0
    """Processes that build datasets; 0 = one per core."""
    devices: Processes = 1
    """Devices per machine for inference and fine-tunes."""
    nodes: Processes = 1
    """Machines for inference and fine-tunes; torchrun or SLURM starts one process per device."""
    strategy: str = "auto"
    """Lightning's strategy for several devices: `auto`, `ddp`, `fsdp`, `deepspeed_stage_3`... For inference, `auto` and `ddp` divide the
    questions; `fsdp`, `tensor_parallel` and `device_map` divide one model (docs/how-to/scale.md), with `auto` for fine-tunes instead of the
    last two."""
    launcher: str = ""
    """Command that starts the processes of inference and fine-tunes, such as `srun --ntasks-per-node 8 ...`."""
    cluster: str = ""
    """Ray cluster for inference: `ray` (on this machine), `ray://HOST:10001`, `HOST:6379`; empty = none."""
    store: str = ".qualm/store"
    """Folder of stored answers; machines that work together name a shared one."""
    libraries: Literal["exact", "minor", "any"] = "minor"
    """Stored answers of other library versions to use: `exact` = none, `minor` = of the same series, `any` = all."""
    micro_batch: Examples = 0
    """Examples per forward pass of a fine-tune, whose gradients are accumulated; 0 = the whole step."""
    gradient_checkpointing: bool = False
    """Recompute activations instead of storing them: less memory, more time, equal numbers."""
    checkpoint_every: Annotated[int, Ge(1), Le(MAX_NUMBER)] = 100
    """Steps between checkpoints of a fine-tune, from which it resumes after a kill."""
    jobs: Annotated[int, Ge(1), Le(1000)] = 1
    """Stages that `qualm run` runs in parallel; they share the rate limits of servers."""
    max_spend: Dollars = 0.0
    """Maximum dollars per spec on all servers, over all its runs; 0 = no limit. Servers may have further limits."""
    progress: bool = True
    servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, hash=False)
    """Tables of servers by `base_url`, and `default`; only in the file."""
    vllm: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Engine arguments of vLLM (`VLLM`); only in the file."""
    spec: str = ""
    """Spec whose spending is counted, set by a stage."""

    def server(self, base_url: str, model: str) -> Server:
        """Return a model's server settings, rates divided by `jobs`; SettingsError if invalid."""
        try:
            server = servers.server_settings(self.servers, base_url, model)
        except SettingValueError as error:
            raise SettingsError(f"{FILE}: {error}") from None
        requests, tokens = server.requests_per_minute / self.jobs, server.tokens_per_minute / self.jobs
        server = replace(server, requests_per_minute=requests, tokens_per_minute=tokens)
        if server.price is None:
            if self.max_spend and server.key:
                raise SettingsError(
                    f"{FILE}: max_spend: expected a `price` for {model} at {base_url}, which wants a key; nothing can be counted without: "
                    f'give `price = {{input = DOLLARS, output = DOLLARS}}` under [servers."{base_url}"]'
                )
            return server
        if not self.spec:
            return server
        account = f"{model} at {base_url}"
        return replace(server, spending=Ledger(ledger_path(self.store, self.spec), self.max_spend, account, server.max_spend))

    @property
    def training_strategy(self) -> str:
        """Return `strategy` for fine-tunes: `auto` where it is for inference only."""
        return "auto" if self.strategy in ("tensor_parallel", "device_map") else self.strategy

    @property
    def batch(self) -> int:
        """Return `batch_size`, or 32 if it is not set."""
        return self.batch_size or BATCH


def read_settings(file: Path = FILE) -> Settings:
    """Return the settings of qualm.toml, if there, under `QUALM_*` variables, over defaults.

    Raises:
        SettingsError: an unknown key, or a value of the wrong type.
    """
    values: dict[str, Any] = {}
    types: dict[str, Any] = {f.name: f.type for f in fields(Settings) if f.name not in ("servers", "vllm", "spec")}
    if file.exists() or file.is_symlink():
        try:
            raw = tomllib.loads(textfiles.read_text(file, 1 << 20))
        except textfiles.TextFileError as error:
            raise SettingsError(str(error)) from None
        except (ValueError, RecursionError) as error:
            raise SettingsError(f"{file}: not TOML: {error}") from error
        for key, value in raw.items():
            try:
                values[key] = _check_setting(key, value, types)
            except SettingValueError as error:
                raise SettingsError(f"{file}: {error}") from None
    for key, annotation in types.items():
        variable = f"QUALM_{key.upper()}"
        if variable not in os.environ:
            continue
        try:
            values[key] = convert_setting(_convert_text(os.environ[variable], plain_type(annotation)), annotation, variable)
        except SettingValueError as error:
            raise SettingsError(str(error)) from None
    return Settings(**values)


def _check_setting(key: str, value: Any, types: Mapping[str, Any]) -> Any:
    if key == "servers":
        return servers.check_servers(value, "servers")
    if key == "vllm":
        return convert_settings(value, VLLM, key)
    if key not in types:
        raise SettingValueError(f"unknown setting '{key}'; there are: {', '.join(types)}, servers, vllm")
    return convert_setting(value, types[key], key)


def _convert_text(text: str, kind: Any) -> Any:
    """Convert an environment variable's text to a bool, int or float; unchanged if it is none."""
    if kind is bool:
        return True if text.lower() in ON else False if text.lower() in OFF else text
    try:
        return kind(text) if kind in (int, float) else text
    except ValueError:
        return text


def is_first() -> bool:
    """Return whether this is the only process of a run, or the first of a distributed one."""
    for names in (("RANK",), ("SLURM_PROCID",), ("LOCAL_RANK", "NODE_RANK")):
        ranks = [os.environ[name] for name in names if name in os.environ]
        if ranks:
            return set(ranks) == {"0"}
    return True
