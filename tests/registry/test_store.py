"""The remote that lies in git stays small, and is what a fresh clone pulls from."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_store_is_under_20_mib() -> None:
    listed = subprocess.run(["git", "ls-files", "registry/store"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    assert listed, "registry/store holds the quickstart's base model"
    assert sum((ROOT / name).stat().st_size for name in listed) < 20 * 2**20
