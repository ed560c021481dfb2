"""Execution settings: what changes speed and never content. They live in a git-ignored `qualm.toml` and in
environment variables (`QUALM_BATCH_SIZE=64`), so that no result depends on them and editing them runs nothing again.
Tables `[servers....]` of the file say how servers of models are reached (`qualm.runners.servers.config`).
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from qualm.registry.formats import textfiles
from qualm.runners.runtime.libraries import POLICIES
from qualm.runners.runtime.spending import Ledger, ledger_path
from qualm.runners.servers import config as servers
from qualm.runners.servers.config import IN_WORDS, Server, SettingValueError, in_type

FILE = Path("qualm.toml")
ON, OFF = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")
"""What an environment variable may say of a setting that is true or false."""
BATCH = 32
"""Prompts in one forward pass on a CPU, where more gain nothing."""


COUNTS = ("tensor_parallel_size", "pipeline_parallel_size", "max_model_len", "max_num_seqs", "max_num_batched_tokens")
VLLM: Mapping[str, type[Any]] = {
    **dict.fromkeys(COUNTS, int), **dict.fromkeys(("gpu_memory_utilization", "cpu_offload_gb"), float),
    **dict.fromkeys(("enforce_eager", "disable_custom_all_reduce"), bool), "limit_mm_per_prompt": dict,
}  # fmt: skip
"""Arguments of vLLM's engine that may be set under [vllm], and their types: none of them is about what a model says."""


class SettingsError(Exception):
    """A setting that does not exist or has the wrong type."""


@dataclass(frozen=True)
class Settings:
    """Local settings; the environment wins over the file, the file over these defaults."""

    device: str = "auto"
    """`auto`, `cpu`, `cuda`, `mps`: as Lightning's accelerator."""
    batch_size: int = 0
    """Prompts in one forward pass; 0 = 32 on a CPU, and on a GPU what its memory holds."""
    gpu: str = ""
    """The card that `qualm plan` reckons with: `h200`, `a100`..., or "TFLOPS GB/S GIB". Changes no run."""
    workers: int = 0
    """Processes that make data; 0 = one per core."""
    devices: int = 1
    """How many devices inference and fine-tunes run on, on each machine."""
    nodes: int = 1
    """How many machines they run on; torchrun or SLURM starts one process per device there."""
    strategy: str = "auto"
    """How they share the work: `auto`, `ddp`, `fsdp`, `deepspeed_stage_3`...: as Lightning's strategy. For inference `auto` and `ddp`
    have each device answer its share; `fsdp`, `tensor_parallel` and `device_map` spread one model over all (docs/how-to/scale.md);
    the last two say nothing about fine-tunes, which then run with `auto`."""
    launcher: str = ""
    """What starts the processes of inference and fine-tunes where this machine alone cannot: `srun --ntasks-per-node 8 ...`."""
    cluster: str = ""
    """The Ray cluster that answers questions to models: `ray` (of this machine), `ray://HOST:10001`, `HOST:6379`; empty = no cluster."""
    store: str = ".qualm/store"
    """Where answers are kept; machines that work together name a folder they share."""
    libraries: str = "minor"
    """Which stored answers of other library versions are used: `exact` none, `minor` those of the same series, `any` all."""
    micro_batch: int = 0
    """Examples of a fine-tune's step that go through a device at once, gradients adding up; 0 = all at once."""
    gradient_checkpointing: bool = False
    """Compute activations twice instead of keeping them: less memory, more time, the same numbers."""
    checkpoint_every: int = 100
    """Steps of a fine-tune after which it can go on if it is killed."""
    jobs: int = 1
    """Stages that `qualm run` has at work at the same time; each has its share of what servers allow per minute."""
    max_spend: float = 0.0
    """Dollars that a spec may cost on all servers together, over all its runs; 0 = no limit. Servers may have limits of their own."""
    progress: bool = True
    """Progress bars on standard error."""
    servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, hash=False)
    """Tables of servers, by the `base_url` that specs name, and `default`; the file only."""
    vllm: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """How vLLM's engine uses cards and memory (`VLLM`); the file only."""
    spec: str = ""
    """Whose money is spent; not a setting: a stage says it."""

    def server(self, base_url: str, model: str) -> Server:
        """Return how a server's model is reached; SettingsError for a cap without a price."""
        try:
            server = servers.server(self.servers, base_url, model)
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
        """`strategy`, where it is one that fine-tunes have."""
        return "auto" if self.strategy in ("tensor_parallel", "device_map") else self.strategy

    @property
    def batch(self) -> int:
        """`batch_size`, or what it is where nothing better is known."""
        return self.batch_size or BATCH


def read_settings(file: Path = FILE) -> Settings:
    """Read settings of `qualm.toml` (keys, tables of servers) and `QUALM_*` variables.

    Raises:
        SettingsError: an unknown key, or a value of the wrong type.
    """
    values: dict[str, Any] = {}
    plain = [f.name for f in fields(Settings) if f.name not in ("servers", "vllm", "spec")]
    types: dict[str, type[Any]] = {name: type(getattr(Settings(), name)) for name in plain}
    if file.exists() or file.is_symlink():
        try:
            raw = tomllib.loads(textfiles.read_text(file, 1 << 20))
        except textfiles.TextFileError as error:
            raise SettingsError(str(error)) from None
        except (ValueError, RecursionError) as error:
            raise SettingsError(f"{file}: not TOML: {error}") from error
        for key, value in raw.items():
            try:
                values[key] = _of_file(key, value, types)
            except SettingValueError as error:
                raise SettingsError(f"{file}: {error}") from None
    for key, kind in types.items():
        text = os.environ.get(f"QUALM_{key.upper()}")
        if text is None:
            continue
        try:
            values[key] = _switch(text) if kind is bool else kind(text)
        except ValueError:
            raise SettingsError(f"QUALM_{key.upper()}: expected {IN_WORDS[kind]}, got '{text}'") from None
    settings = Settings(**values)
    if settings.libraries not in POLICIES:
        raise SettingsError(f"libraries: expected one of {', '.join(POLICIES)}, got '{settings.libraries}'")
    for name in ("devices", "nodes", "jobs", "checkpoint_every"):
        if getattr(settings, name) < 1:
            raise SettingsError(f"{name} must be at least 1, got {getattr(settings, name)}")
    if not settings.max_spend >= 0:
        raise SettingsError(f"max_spend must be at least 0, got {settings.max_spend}")
    if settings.micro_batch < 0:
        raise SettingsError(f"micro_batch must be at least 0, got {settings.micro_batch}")
    if settings.batch_size < 0 or settings.workers < 0:
        raise SettingsError(f"batch_size and workers must be at least 0, got {settings.batch_size} and {settings.workers}")
    return settings


def _of_file(key: str, value: Any, types: Mapping[str, type[Any]]) -> Any:
    """What `qualm.toml` says of a setting; `types` are those of all that are no table."""
    if key == "servers":
        return servers.checked(value, "servers")
    if key == "vllm":
        if not isinstance(value, dict):
            raise SettingValueError(f"vllm: expected a table of settings under [vllm], got {value!r}")
        return {name: _of_vllm(name, one) for name, one in value.items()}
    if key not in types:
        raise SettingValueError(f"unknown setting '{key}'; there are: {', '.join(types)}, servers, vllm")
    return in_type(value, types[key], key)


def _of_vllm(name: str, value: Any) -> Any:
    """A setting under [vllm], checked here: vLLM itself would look at it when inference begins."""
    at = f"vllm.{name}"
    if name not in VLLM:
        raise SettingValueError(f"{at}: unknown setting; there are: {', '.join(VLLM)}")
    value = in_type(value, VLLM[name], at)
    if name in COUNTS and value < 1:
        raise SettingValueError(f"{at}: expected at least 1, got {value}")
    if name == "gpu_memory_utilization" and not 0 < value <= 1:
        raise SettingValueError(f"{at}: expected a share of a card's memory, above 0 and at most 1, got {value}")
    if name == "cpu_offload_gb" and not value >= 0:
        raise SettingValueError(f"{at}: expected at least 0, got {value}")
    return value


def _switch(text: str) -> bool:
    """Return an environment variable as on or off; raise ValueError for other text."""
    if text.lower() not in (*ON, *OFF):
        raise ValueError
    return text.lower() in ON


def is_first() -> bool:
    """Whether this is the process that writes outputs: the only one, or the first of those that torchrun, SLURM or Lightning started."""
    for names in (("RANK",), ("SLURM_PROCID",), ("LOCAL_RANK", "NODE_RANK")):
        ranks = [os.environ[name] for name in names if name in os.environ]
        if ranks:
            return set(ranks) == {"0"}
    return True
