"""Roots of the installed package, which is read-only, and of the current project."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
"""Parent folder of our packages: the repository's root, or the installed package `qualm`."""


def project_root(start: Path | None = None) -> Path | None:
    """Return the first folder from `start` up with params.yaml and specs/; or None."""
    here = Path.cwd() if start is None else start.resolve()  # Path.cwd() is already resolved
    return next((folder for folder in (here, *here.parents) if (folder / "params.yaml").is_file() and (folder / "specs").is_dir()), None)


def is_checkout(root: Path) -> bool:
    """Return whether a folder is a checkout of Qualm, not a user's project."""
    return (root / "registry" / "places.py").is_file()


def project_folder(folder: str) -> Path | None:
    """Return `folder` in the user's project; None outside a project or in Qualm's checkout."""
    root = project_root()
    return None if root is None or is_checkout(root) else root / folder
