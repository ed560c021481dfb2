"""The hub's protocol, asked through huggingface_hub, against a server of our own."""

from __future__ import annotations

import pytest

from qualm.registry.entries.download import UNREACHABLE, client, download
from qualm.registry.entries.hub import HUB, cached, download_model, endpoint, listing, model_listing
from qualm.registry.entries.lock import FetchError
from tests.support.servers.hub_server import COMMIT, OLD, REPO, hub_server

pytest.importorskip("huggingface_hub")


@pytest.fixture
def hub(monkeypatch):
    with hub_server(**{"data/a.parquet": b"many bytes", "README.md": b"read me"}) as server:
        server.large = {"data/a.parquet"}
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("HF_TOKEN", "hf_secret")
        yield server


def test_files_at_a_commit(hub, tmp_path):
    found = listing(REPO, COMMIT, ["**/*.parquet", "*.md"])
    assert (found.commit, found.others) == (COMMIT, 0)
    large, small = found.files
    assert (large.name, large.size, set(large.sha256), large.blob) == ("data/a.parquet", 10, {"the hub"}, None)
    assert (small.name, dict(small.sha256), len(small.blob or "")) == ("README.md", {}, 40)
    with client() as web:
        for file in found.files:
            download(file, tmp_path, web, lambda name, size: None)
    assert (tmp_path / "data/a.parquet").read_bytes() == b"many bytes" and (tmp_path / "README.md").read_bytes() == b"read me"
    assert [path for path, _ in hub.asked] == [
        f"/datasets/{REPO}/resolve/{COMMIT}/data/a.parquet", "/store/data/a.parquet", f"/datasets/{REPO}/resolve/{COMMIT}/README.md"
    ]  # fmt: skip
    tokens = {path.partition("/")[0] or path.split("/")[1]: token for path, token in hub.tokens}
    assert (tokens["api"], tokens["datasets"], tokens["store"]) == ("Bearer hf_secret", "Bearer hf_secret", None)


def test_a_branch_is_the_commit_that_it_is_now(hub):
    found = listing(REPO, "main", ["*.md"])
    assert found.commit == COMMIT and found.others == 1 and f"/resolve/{COMMIT}/" in found.files[0].url


def test_what_the_hub_has_not(hub):
    with pytest.raises(FetchError, match="there is no such revision"):
        listing(REPO, OLD, ["*"])
    with pytest.raises(FetchError, match="no such repository, or only for some accounts: set HF_TOKEN"):
        listing("org/other", COMMIT, ["*"])
    hub.gated = True
    with pytest.raises(FetchError, match=f"accept terms: do so at {hub.url}/datasets/{REPO}"):
        listing(REPO, COMMIT, ["*"])


def test_no_hub(monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9/")
    for told in ("the hub does not answer", "127.0.0.1 could not be reached a moment ago"):
        with pytest.raises(FetchError, match=told):
            listing(REPO, COMMIT, ["*"])
    UNREACHABLE.clear()
    monkeypatch.delenv("HF_ENDPOINT")
    assert endpoint() == HUB


def test_a_model_comes_into_the_hubs_cache(hub, tmp_path, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(FetchError, match=r"has no \*\.safetensors"):
        model_listing(REPO, "main")
    hub.files |= {"model.safetensors": b"w" * 100, "consolidated.safetensors": b"again", "pytorch_model.bin": b"p", "config.json": b"{}"}
    hub.large = {"model.safetensors"}
    found = model_listing(REPO, "main")
    assert [file.name for file in found.files] == ["README.md", "model.safetensors", "config.json"]
    assert (found.commit, found.licence, found.gated) == (COMMIT, "mit", False)
    hub.claimed["model.safetensors"] = b"v" * 100
    with pytest.raises(FetchError, match=r"model\.safetensors: SHA-256 .* where the hub has .* it was deleted"):
        download_model(REPO, COMMIT, model_listing(REPO, "main").files, False, lambda name, size: None)
    del hub.claimed["model.safetensors"]
    told: list[str] = []
    download_model(REPO, COMMIT, found.files, False, lambda name, size: told.append(name))
    assert told == ["README.md", "model.safetensors", "config.json"] and all(cached(REPO, COMMIT, file) for file in found.files)
    hub.asked.clear()
    download_model(REPO, COMMIT, found.files, False, lambda name, size: None)
    assert hub.asked == []
