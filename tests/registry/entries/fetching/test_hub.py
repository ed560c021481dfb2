"""The hub's protocol, asked through huggingface_hub, against a server of our own."""

from __future__ import annotations

import pytest

from qualm.registry.entries.fetching.download import FetchError, client, download
from qualm.registry.entries.fetching.hub import HUB, endpoint, listing
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
    assert {token for _, token in hub.tokens} == {"Bearer hf_secret"}


def test_a_branch_is_the_commit_that_it_is_now(hub):
    found = listing(REPO, "main", ["*.md"])
    assert found.commit == COMMIT and found.others == 1 and f"/resolve/{COMMIT}/" in found.files[0].url


def test_what_the_hub_has_not(hub):
    with pytest.raises(FetchError, match="there is no such revision"):
        listing(REPO, OLD, ["*"])
    with pytest.raises(FetchError, match="no such data set, or only for some accounts"):
        listing("org/other", COMMIT, ["*"])
    hub.gated = True
    with pytest.raises(FetchError, match=f"accept terms: do so at {hub.url}/datasets/{REPO}"):
        listing(REPO, COMMIT, ["*"])


def test_no_hub(monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9/")
    with pytest.raises(FetchError, match="the hub does not answer"):
        listing(REPO, COMMIT, ["*"])
    monkeypatch.delenv("HF_ENDPOINT")
    assert endpoint() == HUB
