"""DVC's state as the compiler sees it. The registry reads it too, so it lives there: see `registry.dvcstate`."""

from registry.dvcstate import (
    EMPTY_FOLDER,
    Checkout,
    DvcStateError,
    Ignore,
    cache_folder,
    dir_md5,
    file_md5,
    read_lock,
    run_cache_key,
    tree_md5,
)

__all__ = [
    "EMPTY_FOLDER",
    "Checkout",
    "DvcStateError",
    "Ignore",
    "cache_folder",
    "dir_md5",
    "file_md5",
    "read_lock",
    "run_cache_key",
    "tree_md5",
]
