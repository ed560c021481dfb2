"""The remote that lies in git: small, and exactly what `dvc pull` fetches in a fresh clone."""

import subprocess
from pathlib import Path

from qualm.registry.system.dvc_files import locked_outputs, read_dvc_file
from qualm.registry.system.dvc_objects import listing, object_path

ROOT = Path(__file__).parents[2]
STORE = ROOT / "registry/store"


def in_git(folder: str) -> list[str]:
    return subprocess.run(["git", "ls-files", folder], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def test_the_store_is_under_20_mib() -> None:
    assert sum((ROOT / name).stat().st_size for name in in_git("registry/store")) < 20 * 2**20


def test_the_store_holds_the_quickstarts_model_and_results_and_nothing_else() -> None:
    """If this fails after the lock changed: `rm -r registry/store/files; dvc push`, and commit."""
    kept = {*in_git("results")}
    results = {md5 for path, md5 in locked_outputs(ROOT / "dvc.lock").items() if path not in kept}
    wanted = results | {read_dvc_file(ROOT / "registry/data/scene-vlm-base.dvc")["outs"][0]["md5"]}
    wanted |= {md5 for folder in wanted if folder.endswith(".dir") for md5 in (listing(STORE, folder) or {}).values()}
    assert len(wanted) > 20
    assert {*in_git("registry/store")} == {object_path(Path("registry/store"), md5).as_posix() for md5 in wanted}
