"""Versions of the libraries that Qualm uses, compared with the versions it was tested with (`requirements.lock`)."""

import platform
from importlib import metadata
from importlib.metadata import PackageNotFoundError

from qualm.registry.places import PACKAGE
from qualm.registry.system import textfiles

DISTRIBUTION = "qualm-bench"
BASE = "base"
"""Group of the libraries that are installed without an extra."""
UNLISTED_EXTRAS = frozenset({"all", "dev", "docs"})


def describe_versions() -> list[str]:
    """Return lines: Qualm, Python and platform, then libraries by extra.

    The libraries of the base installation come first, then those of each extra; last the libraries that are newer than tested.
    """
    from qualm import __version__

    lines = [f"qualm {__version__}, Python {platform.python_version()}, {platform.platform()}"]
    for group, names in library_groups().items():
        versions = [(name, installed_version(name)) for name in names]
        if any(version for _, version in versions):
            lines.append(f"{group}: " + ", ".join(f"{name} {version or 'not installed'}" for name, version in versions))
        else:
            lines.append(f"{group}: not installed")
    if newer := newer_than_tested():
        lines.append(f"newer than tested: {', '.join(newer)}")
    return lines


def newer_than_tested() -> list[str]:
    """Return "NAME INSTALLED (tested TESTED)" per library newer than in requirements.lock.

    Builds of one release, such as 2.13.0+cpu and 2.13.0, count as equal. Libraries that the lock file does not list are left out.
    """
    from packaging.version import Version

    tested = tested_versions()
    newer = []
    for name in dict.fromkeys(name for names in library_groups().values() for name in names):
        installed = installed_version(name)
        if installed and name in tested and Version(Version(installed).public) > Version(tested[name]):
            newer.append(f"{name} {installed} (tested {tested[name]})")
    return newer


def tested_versions() -> dict[str, str]:
    from packaging.utils import canonicalize_name

    lines = textfiles.read_text(PACKAGE / "requirements.lock").splitlines()
    pins = [line.split()[0].split("==") for line in lines if "==" in line and not line.startswith(("#", " "))]
    return {canonicalize_name(name): version for name, version in pins}


def library_groups() -> dict[str, list[str]]:
    """Return {"base" or extra: names of its libraries}; {} if Qualm is not installed.

    A library that several groups require is listed in the first one. Where Qualm is on the path but not installed there are no groups.
    """
    if installed_version(DISTRIBUTION) is None:
        return {}
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    groups: dict[str, list[str]] = {BASE: []}
    listed = {DISTRIBUTION}
    extras = [extra for extra in metadata.metadata(DISTRIBUTION).get_all("Provides-Extra") or () if extra not in UNLISTED_EXTRAS]
    requirements = [Requirement(text) for text in metadata.requires(DISTRIBUTION) or ()]
    for group in (BASE, *extras):
        for requirement in requirements:
            marker = requirement.marker
            is_of_group = marker is None if group == BASE else marker is not None and marker.evaluate({"extra": group})
            name = canonicalize_name(requirement.name)
            if is_of_group and name not in listed:
                listed.add(name)
                groups.setdefault(group, []).append(name)
    return groups


def installed_version(name: str) -> str | None:
    """Return a distribution's version; None if it is not installed."""
    try:
        return metadata.version(name)
    except PackageNotFoundError:
        return None
