"""Names that every file system can hold, so that a project made on one system opens on the others."""

import re

_DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
_FORBIDDEN = re.compile(r'[<>:"|?*\\\x00-\x1f]')


def problem_on_windows(name: str) -> str:
    """Say why Windows cannot hold a file of this name; empty where it can.

    >>> problem_on_windows("nul.parquet"), problem_on_windows("a."), problem_on_windows("blur@radius=2")
    ("'nul.parquet' is the name of a device", "'a.' ends with a dot", '')
    """
    if _DEVICE.fullmatch(name):
        return f"'{name}' is the name of a device"
    if name.endswith((".", " ")):
        return f"'{name}' ends with a {'dot' if name.endswith('.') else 'space'}"
    if match := _FORBIDDEN.search(name):
        return f"'{name}' holds {match[0]!r}"
    return ""
