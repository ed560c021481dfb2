"""Write the hashes of all files of every pinned release into the lock files.

Change pins (`NAME==VERSION`) in a lock file by hand, or replace them by the output of `pip freeze`; their hashes may stay or go. Then type
`pip install uv && python .ci/lock.py` in `.venv`. The script asks PyPI for the files of each release, so that a lock serves every platform.
For torch, only the builds without CUDA are allowed, which PyTorch's own index has; it is asked when the version of torch changes.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ("requirements.lock", ".ci/peers.txt", ".ci/services.txt", ".ci/weights.txt")
CPU_INDEX = "https://download.pytorch.org/whl/cpu"


def resolve_hashes(pins: str) -> dict[str, set[str]]:
    """Return the SHA-256 digests of all files on PyPI, for each pin."""
    options = ("--no-config", "--no-deps", "--generate-hashes", "--no-annotate", "--no-header", "--python", sys.executable)
    done = subprocess.run(["uv", "pip", "compile", "-", *options], input=pins, stdout=subprocess.PIPE, text=True, check=True)
    return read_lock(done.stdout)


def read_lock(text: str) -> dict[str, set[str]]:
    """Return the digests of a lock file, for each pin."""
    blocks = re.findall(r"^([\w.-]+==[^\s;#]+)((?: \\\n +--hash=sha256:\w+)*)", text, re.MULTILINE)
    return {pin: set(re.findall(r"sha256:(\w+)", hashes)) for pin, hashes in blocks}


def torch_builds(version: str) -> set[str]:
    """Return the digests of torch's builds without CUDA for Linux and macOS."""
    page = httpx.get(f"{CPU_INDEX}/torch/", follow_redirects=True).raise_for_status().text
    return set(re.findall(rf"torch-{re.escape(version)}(?:%2Bcpu)?-\w+-\w+-(?:\w*linux|macosx)\w+\.whl#sha256=(\w+)", page))


def write_lock(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    old = read_lock(text)
    new = resolve_hashes("\n".join(old))
    for pin, hashes in new.items():
        if pin.startswith("torch=="):
            # PyPI has the same files for macOS, so the old hashes are of this version if they share some.
            new[pin] = old[pin] if old[pin] & hashes else torch_builds(pin.removeprefix("torch=="))
    head = "".join(f"{line}\n" for line in text.splitlines() if line.startswith("#"))
    entries = (" \\\n    ".join([pin, *(f"--hash=sha256:{digest}" for digest in sorted(hashes))]) for pin, hashes in new.items())
    path.write_text(head + "\n".join(entries) + "\n", encoding="utf-8")
    print(f"{path.relative_to(ROOT)}: {len(new)} releases, {sum(map(len, new.values()))} files")


for name in LOCKS:
    write_lock(ROOT / name)
