"""Data sets of the Hugging Face hub: which files they have at a commit, asked through huggingface_hub.

HF_ENDPOINT names another hub and HF_TOKEN, or `hf auth login`, an account, as everywhere. The bytes themselves are brought by
`download`, which goes on with half a file after a kill; huggingface_hub begins it anew.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from qualm.registry.entries.fetching.download import FetchError, RemoteFile
from qualm.registry.entries.layout import matches
from qualm.registry.plugins.extras import install_line

COMMIT = re.compile("[0-9a-f]{40}")
HUB = "https://huggingface.co"


@dataclass(frozen=True)
class Listing:
    """A data set at a commit."""

    commit: str
    files: list[RemoteFile]
    """Those that were asked for."""
    others: int
    """How many more it has."""


def endpoint() -> str:
    return (os.environ.get("HF_ENDPOINT") or HUB).rstrip("/")


def listing(repo: str, revision: str, patterns: Sequence[str]) -> Listing:
    """Return a dataset's files that fit the patterns, at a commit, branch or tag.

    Raises:
        FetchError: there is none, or the hub does not answer.
    """
    try:
        from huggingface_hub import HfApi, get_token, hf_hub_url
    except ImportError:
        raise FetchError(f"the hub is asked through huggingface_hub, which is not installed: `{install_line('hub')}`") from None
    hub = endpoint()
    try:
        info = HfApi(endpoint=hub, library_name="qualm").dataset_info(repo, revision=revision, files_metadata=True, timeout=60)
        token = get_token()
    except Exception as error:  # the library's own, its HTTP client's, the system's
        raise FetchError(f"{hub}/datasets/{repo} at {revision[:12]}: {_why(error, hub, repo)}") from error
    if not isinstance(info.sha, str) or not COMMIT.fullmatch(info.sha) or (COMMIT.fullmatch(revision) and info.sha != revision):
        raise FetchError(f"{hub}/datasets/{repo}: asked for {revision}, the hub answered with commit {info.sha!r}; nothing was fetched")
    headers = {"Authorization": f"Bearer {token}"} if token else {}  # httpx keeps it from other hosts that the hub redirects to
    files, others = [], 0
    for one in info.siblings or ():
        if not any(matches(pattern, one.rfilename) for pattern in patterns):
            others += 1
            continue
        url = hf_hub_url(repo, one.rfilename, repo_type="dataset", revision=info.sha, endpoint=hub)
        digests = {"the hub": one.lfs.sha256} if one.lfs is not None else {}
        files.append(RemoteFile(one.rfilename, url, one.size, digests, None if digests else one.blob_id, headers))
    return Listing(info.sha, files, others)


def _why(error: Exception, hub: str, repo: str) -> str:
    kind = type(error).__name__
    if kind == "GatedRepoError":
        return f"its authors ask you to accept terms: do so at {hub}/datasets/{repo}, then `hf auth login`"
    if kind == "RepositoryNotFoundError":
        return "there is no such data set, or only for some accounts: `hf auth login`"
    if kind == "RevisionNotFoundError":
        return "there is no such revision"
    if kind == "OfflineModeIsEnabled":
        return "HF_HUB_OFFLINE is set, so that the hub is not asked; unset it, or fetch the files elsewhere and `qualm data add`"
    return f"the hub does not answer ({kind}: {' '.join(str(error).split())[:200]})"
