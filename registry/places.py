"""Two roots: of the installed package, which is only read, and of the project that the working directory lies in."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
"""What holds the folders of our own packages: in the repository its top level, installed the package `qualm` itself."""


def project_root(start: Path | None = None) -> Path | None:
    """The nearest folder upwards that has `params.yaml` and `specs/`; None outside of every project."""
    here = (start or Path.cwd()).resolve()
    return next((folder for folder in (here, *here.parents) if (folder / "params.yaml").is_file() and (folder / "specs").is_dir()), None)


def is_checkout(root: Path) -> bool:
    """Whether a folder is a checkout of Qualm itself, whose cards and plugins are the package's own."""
    return (root / "registry" / "places.py").is_file()


def own_folder(folder: str) -> Path | None:
    """A folder of the project that stands beside the package's folder of the same name, for cards and plugins of the project's own.

    None outside of every project and in a checkout of Qualm.

    Args:
        folder: from the root, such as `runners/plugins/metrics`.
    """
    root = project_root()
    return None if root is None or is_checkout(root) else root / folder
