"""Repositories of the Hugging Face hub: their files at a commit, and models in the hub's cache, through huggingface_hub.

HF_ENDPOINT names another hub, and HF_TOKEN or `hf auth login` an account, as everywhere. Files of datasets are brought by `download`,
models by huggingface_hub, so that every project and library on this machine shares them.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from qualm.registry.entries.card import load_card
from qualm.registry.entries.download import MAX_SILENCE, UNREACHABLE, RemoteFile, verified
from qualm.registry.entries.layout import matches
from qualm.registry.entries.lock import BRANCH, FetchError, model_key, read
from qualm.registry.plugins.commits import COMMIT
from qualm.registry.plugins.extras import install_line

HUB = "https://huggingface.co"
TOKENS = "https://huggingface.co/settings/tokens"
CODE = ("*.py", "*.txt", "*.model", "*.tiktoken")
"""Files of a model beside those of the card transformers_model: code for `trust_remote_code`, and vocabularies."""
CONSOLIDATED = "consolidated"
"""Prefix of files that repeat a model's weights in its maker's own format."""

Kind = Literal["dataset", "model"]


@dataclass(frozen=True)
class Listing:
    """A hub repository's matching files at a commit, with licence and gate."""

    commit: str
    files: list[RemoteFile]
    others: int
    licence: str
    """Licence stated on the repository's page; empty if none."""
    gated: bool
    """Its page asks for an account that accepts its terms."""


def endpoint() -> str:
    return (os.environ.get("HF_ENDPOINT") or HUB).rstrip("/")


def page(repo: str, kind: Kind) -> str:
    return f"{endpoint()}/{'datasets/' if kind == 'dataset' else ''}{repo}"


def listing(repo: str, revision: str, patterns: Sequence[str], kind: Kind = "dataset") -> Listing:
    """Return the files (maybe none) of a hub repository that fit `patterns`; else FetchError."""
    try:
        from huggingface_hub import HfApi, get_token, hf_hub_url
    except ImportError:
        raise FetchError(f"the hub is asked through huggingface_hub, which is not installed: `{install_line('hub')}`") from None
    address, hub = page(repo, kind), endpoint()
    api = HfApi(endpoint=hub, library_name="qualm")
    host = urlsplit(hub).hostname or hub
    if host in UNREACHABLE:
        raise FetchError(f"{address}: {host} could not be reached a moment ago; check the network and HF_ENDPOINT")
    ask = api.dataset_info if kind == "dataset" else api.model_info
    try:
        info = ask(repo, revision=revision, files_metadata=True, timeout=MAX_SILENCE)
        token = get_token()
    except Exception as error:  # the library's own, its HTTP client's, the system's
        if type(error).__name__ in ("ConnectError", "ConnectTimeout"):
            UNREACHABLE.add(host)
        raise FetchError(f"{address} at {revision[:12]}: {_why(error, address)}") from error
    if not isinstance(info.sha, str) or not COMMIT.fullmatch(info.sha) or (COMMIT.fullmatch(revision) and info.sha != revision):
        raise FetchError(f"{address}: asked for {revision}, the hub answered with commit {info.sha!r}; nothing was fetched")
    headers = {"Authorization": f"Bearer {token}"} if token else {}  # httpx keeps it from other hosts that the hub redirects to
    files, others = [], 0
    for one in info.siblings or ():
        if not any(matches(pattern, one.rfilename) for pattern in patterns):
            others += 1
            continue
        url = hf_hub_url(repo, one.rfilename, repo_type=kind, revision=info.sha, endpoint=hub)
        digests = {"the hub": one.lfs.sha256} if one.lfs is not None else {}
        files.append(RemoteFile(one.rfilename, url, one.size, digests, None if digests else one.blob_id, headers))
    stated = str(info.card_data.get("license") or "") if info.card_data is not None else ""
    return Listing(info.sha, files, others, stated, bool(info.gated))


def model_listing(repo: str, revision: str) -> Listing:
    """Return the files that transformers needs of a hub model; FetchError if no safetensors."""
    patterns = [rule.files for rule in load_card("transformers_model").layout] + [*CODE]
    found = listing(repo, revision, patterns, "model")
    files = [file for file in found.files if not file.name.startswith(CONSOLIDATED)]
    if not any(file.name.endswith(".safetensors") for file in files):
        raise FetchError(
            f"{page(repo, 'model')} at {revision[:12]}: has no *.safetensors, the only format of weights that is read here; look for a "
            "branch or another repository that has them (`refs/pr/N` of the hub's own conversion works as `revision:`)"
        )
    return Listing(found.commit, files, found.others, found.licence, found.gated)


def model_commit(root: Path, repo: str, revision: str | None) -> str:
    """Return the commit of a model's revision: itself, the pinned one, or the newest."""
    asked = revision or BRANCH
    if COMMIT.fullmatch(asked):
        return asked
    pin = read(root).get(model_key(repo, asked))
    return pin.revision if pin is not None else model_listing(repo, asked).commit


def cached(repo: str, commit: str, file: RemoteFile) -> Path | None:
    """Return a model file's path in the hub's cache; None if absent or of wrong size."""
    from huggingface_hub import try_to_load_from_cache

    path = try_to_load_from_cache(repo, file.name, revision=commit)
    return Path(path) if isinstance(path, str) and (file.size is None or Path(path).stat().st_size == file.size) else None


def cache_folder() -> Path:
    from huggingface_hub.constants import HF_HUB_CACHE

    return Path(HF_HUB_CACHE)


def download_model(repo: str, commit: str, files: Sequence[RemoteFile], bars: bool, fetched: Callable[[str, int], None]) -> None:
    """Download a model's missing files to the hub's cache and verify them; else FetchError.

    Files that came whole before an interruption are kept.

    Args:
        bars: show huggingface_hub's progress bars.
        fetched: told the name and size of each file that is here.
    """
    from huggingface_hub import hf_hub_download
    from huggingface_hub.utils import disable_progress_bars, enable_progress_bars  # type: ignore[attr-defined]

    (enable_progress_bars if bars else disable_progress_bars)()
    for file in files:  # one by one, since an interrupt would wait for every thread's file
        if cached(repo, commit, file) is None:
            try:
                path = hf_hub_download(repo, file.name, revision=commit, endpoint=endpoint(), library_name="qualm")
            except Exception as error:  # the library's own, its HTTP client's, the system's
                raise FetchError(
                    f"{file.url}: {_why(error, page(repo, 'model'))}; files that came whole are kept, the same command goes on"
                ) from error
            verified(file, Path(path))
        fetched(file.name, file.size or 0)


def _why(error: Exception, address: str) -> str:
    kind = type(error).__name__
    if kind == "GatedRepoError":
        return f"its authors ask you to accept terms: do so at {address}, then set HF_TOKEN to a token of that account ({TOKENS})"
    if kind == "RepositoryNotFoundError":
        return f"there is no such repository, or only for some accounts: set HF_TOKEN to a token of one ({TOKENS}), or `hf auth login`"
    if kind == "RevisionNotFoundError":
        return "there is no such revision"
    if kind == "OfflineModeIsEnabled":
        return "HF_HUB_OFFLINE is set, so that the hub is not asked; unset it, or fetch the files elsewhere and `qualm data add`"
    return f"the hub does not answer ({kind}: {' '.join(str(error).split())[:200]})"
