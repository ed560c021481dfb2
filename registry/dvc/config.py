"""DVC's settings as far as we need them: where the cache is, and the default remote where it is a folder on this disk."""

import configparser
import os
from pathlib import Path

import platformdirs

from qualm.registry.formats.textfiles import NoFileError, TextFileError, read_text


class DvcStateError(Exception):
    """A lock, folder or configuration that DVC could not read either. The message says which and what to do."""


def configuration(root: Path) -> dict[str, dict[str, str]]:
    """DVC's settings for a checkout, `section -> key -> value`, of all its files, the nearer one winning; paths absolute."""
    system = os.environ.get("DVC_SYSTEM_CONFIG_DIR") or platformdirs.site_config_dir("dvc", "iterative")
    user = os.environ.get("DVC_GLOBAL_CONFIG_DIR") or platformdirs.user_config_dir("dvc", "iterative")
    return _merged(Path(system, "config"), Path(user, "config"), root / ".dvc" / "config", root / ".dvc" / "config.local")


def shared_configuration(root: Path) -> dict[str, dict[str, str]]:
    """The settings of a checkout that git shares: those of `.dvc/config` alone."""
    return _merged(root / ".dvc" / "config")


def _merged(*files: Path) -> dict[str, dict[str, str]]:
    merged: dict[str, dict[str, str]] = {}
    for file in files:
        parser = configparser.ConfigParser(interpolation=None, strict=False)
        try:
            parser.read_string(read_text(file, 1 << 20))
        except NoFileError:
            continue
        except (configparser.Error, TextFileError) as error:
            raise DvcStateError(
                f"{file}: not a DVC configuration: {' '.join(str(error).split())}; correct it, or restore it from git"
            ) from error
        for section in parser.sections():
            name = section.strip("'").replace('"', "")
            for key, raw in parser.items(section):
                value = raw.strip().strip("'\"")
                if (name == "cache" and key == "dir") or (name.startswith("remote ") and key == "url" and "://" not in value):
                    value = os.path.normpath(file.parent / Path(value).expanduser())
                merged.setdefault(name, {})[key] = value
    return merged


def cache_folder(root: Path) -> Path:
    """Where DVC keeps its cache: `cache.dir` of the nearest configuration that says so, else `.dvc/cache`."""
    return Path(configuration(root).get("cache", {}).get("dir") or root / ".dvc" / "cache")


def local_remote(root: Path) -> Path | None:
    """The default remote's folder where it is one on this disk, such as the one in the repository; None for the others."""
    settings = configuration(root)
    url = settings.get(f"remote {settings.get('core', {}).get('remote', '')}", {}).get("url", "")
    return Path(url) if url and "://" not in url else None
