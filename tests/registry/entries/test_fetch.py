"""From the card to the entry, with real DVC and a hub of our own."""

from __future__ import annotations

import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from qualm.registry.entries import lock
from qualm.registry.entries.card import Card
from qualm.registry.entries.entries import find
from qualm.registry.entries.fetch import FOLDER, IncompleteError, fetch, fetch_missing_files, plan, single_files
from qualm.registry.entries.lock import FetchError
from qualm.registry.system.locks import ProcessLock
from tests.support.servers.hub_server import COMMIT, REPO, hub_server

pytest.importorskip("huggingface_hub")
ROWS = b'{"q": "?"}\n' * 3


def card(address=None, **more) -> Card:
    layout = [{"files": "rows.jsonl", "count": 1}, {"files": "pictures/*.txt", "at_least": 0}]
    splits = {"test": {"files": "rows.jsonl", "records": 3}}
    texts = {"title": "Things", "description": "d", "source": "https://x", "licence": "CC BY 4.0", "citation": ""}
    given = {"name": "things", "kind": "dataset", "adapter": "image_table", **texts, "layout": layout, "splits": splits}
    return Card.model_validate({**given, "fetch": address, **more})


@pytest.fixture
def hub(monkeypatch):
    with hub_server(**{"rows.jsonl": ROWS, "other.txt": b"x"}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server


def added(root: Path) -> bool:
    return (root / "registry/data/things.dvc").exists()


def archive(**members: bytes) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as packed:
        for name, content in members.items():
            packed.writestr(name, content)
    return data.getvalue()


def test_a_pinned_data_set_of_the_hub_becomes_an_entry(repo: Path, hub):
    pinned = card({"repo": REPO, "revision": COMMIT})
    wanted = plan(repo, "things", pinned)
    assert [f.name for f in wanted.files] == ["rows.jsonl"] and not wanted.files[0].sha256 and wanted.files[0].blob and not added(repo)
    told = []
    fetched = fetch(repo, wanted, lambda what, file, size, total: told.append(what))
    assert fetched.added.outcome == "added" and fetched.recorded == 1 and added(repo) and "fetching" in told
    assert (repo / "registry/data/things/rows.jsonl").read_bytes() == ROWS and not (repo / FOLDER / "things").exists()
    sha = hashlib.sha256(ROWS).hexdigest()
    assert json.loads((repo / lock.FILE).read_text()) == {
        "things": {"source": f"hub:{REPO}", "revision": COMMIT, "sha256": {"rows.jsonl": sha}}
    }
    assert find(repo, "things").where == "here"
    again = fetch(repo, plan(repo, "things", pinned))
    assert again.added.outcome == "unchanged" and again.recorded == 0


def test_an_entry_is_added_also_where_what_was_fetched_cannot_be_deleted(repo: Path, hub, monkeypatch):
    remove = os.rmdir

    def busy(path, **more):
        if str(path).endswith("things") and "registry" not in str(path):
            raise OSError(16, "Device or resource busy", str(path))
        remove(path, **more)

    monkeypatch.setattr(os, "rmdir", busy)
    assert fetch(repo, plan(repo, "things", card({"repo": REPO, "revision": COMMIT}))).added.outcome == "added"
    assert added(repo) and (repo / FOLDER / "things").is_dir()


@pytest.mark.slow
def test_a_branch_is_pinned_once_and_moves_only_when_asked_to(repo: Path, hub):
    branch = card({"repo": REPO})
    fetch(repo, plan(repo, "things", branch))
    assert lock.read(repo)["things"].revision == COMMIT
    hub.commit, hub.files["rows.jsonl"] = "c" * 40, ROWS.replace(b"?", b"!")
    assert plan(repo, "things", branch).revision == COMMIT
    moved = plan(repo, "things", branch, upgrade=True)
    assert moved.revision == "c" * 40 and fetch(repo, moved).added.outcome == "replaced"
    assert lock.read(repo)["things"].revision == "c" * 40
    assert plan(repo, "things", card({"repo": REPO, "revision": COMMIT}), upgrade=True).revision == COMMIT


def test_other_bytes_than_the_lock_has_are_refused(repo: Path, hub):
    pinned = card({"repo": REPO, "revision": COMMIT})
    fetch(repo, plan(repo, "things", pinned))
    hub.files["rows.jsonl"] = ROWS.replace(b"?", b"!")
    with pytest.raises(FetchError, match=r"where registry/fetch\.lock has"):
        fetch(repo, plan(repo, "things", pinned))
    assert (repo / "registry/data/things/rows.jsonl").read_bytes() == ROWS


def test_other_bytes_than_the_hub_announced_are_refused(repo: Path, hub):
    hub.claimed["rows.jsonl"] = ROWS.replace(b"?", b"!")
    with pytest.raises(FetchError, match=r"git object .* where the hub has"):
        fetch(repo, plan(repo, "things", card({"repo": REPO, "revision": COMMIT})))
    assert not added(repo) and not (repo / lock.FILE).exists()


def test_plain_addresses_and_archives(repo: Path, hub):
    hub.files["p.zip"] = packed = archive(**{"a.txt": b"a", "b.txt": b"b", "notes.md": b"n"})
    sha = hashlib.sha256(packed).hexdigest()
    urls = {"rows.jsonl": {"url": hub.address("rows.jsonl")}, "p.zip": {"url": hub.address("p.zip"), "bytes": len(packed)}}
    wanted = plan(repo, "things", card({"urls": urls, "sha256": {"p.zip": sha}, "unpack": {"p.zip": "pictures"}}))
    assert (wanted.size, wanted.revision) == (len(packed), "")
    assert fetch(repo, wanted).recorded == 2
    folder = repo / "registry/data/things"
    assert sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*.*")) == ["pictures/a.txt", "pictures/b.txt", "rows.jsonl"]


def test_files_of_some_uses_and_a_folder_within_an_archive(repo: Path, hub):
    hub.files["p.zip"] = archive(**{"top/a.txt": b"a", "top/notes.md": b"n", "b.txt": b"b"})
    urls = {
        "rows.jsonl": {"url": hub.address("rows.jsonl")},
        "p.zip": {"url": hub.address("p.zip"), "when": {"parts": "train"}},
    }
    source = card({"urls": urls, "unpack": {"p.zip": {"strip": "top", "into": "pictures"}}})
    assert [file.name for file in plan(repo, "things", source, [{"parts": None}]).files] == ["rows.jsonl"]
    assert [file.name for file in plan(repo, "things", source).files] == ["rows.jsonl"]
    fetch(repo, plan(repo, "things", source, [{"parts": ["val", "train"]}]))
    folder = repo / "registry/data/things"
    assert sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*.*")) == ["pictures/a.txt", "rows.jsonl"]


@pytest.mark.slow
def test_single_files_of_few_questions_and_more_later(repo: Path, hub):
    hub.files |= {"p.zip": b"not asked for", "a.txt": b"a", "b.txt": b"b"}
    urls = {"rows.jsonl": {"url": hub.address("rows.jsonl")}, "p.zip": {"url": hub.address("p.zip")}}
    single = {"pictures/*.txt": {"url": hub.address("{name}"), "instead_of": ["p.zip"]}}
    source = card({"urls": urls, "unpack": {"p.zip": "."}, "single": single})
    source = source.model_copy(update={"layout": (source.layout[0], source.layout[1].model_copy(update={"count": 2}))})
    first = plan(repo, "things", source, [], lambda folder: [("images/a.txt", "pictures/a.txt")])
    assert [file.name for file in first.files] == ["rows.jsonl"]
    part = fetch(repo, first).added
    assert part.inspection.skipped == ["pictures/*.txt: expected 2, found 1"] and part.entry.skipped
    both = fetch_missing_files(repo, plan(repo, "things", source, [], lambda folder: [("pictures/b.txt",)]))
    assert both.added.outcome == "replaced" and sorted(both.added.inspection.files) == ["pictures/a.txt", "pictures/b.txt", "rows.jsonl"]
    assert not both.added.inspection.skipped and "/plain/p.zip" not in [path for path, _ in hub.asked]
    with pytest.raises(FetchError, match="no address for single files"):
        single_files(source.fetch, [("other/c.txt",)])


def test_an_archive_that_leads_out_is_refused(repo: Path, hub):
    hub.files["p.zip"] = archive(**{"../../../evil.txt": b"x"})
    urls = {"p.zip": {"url": hub.address("p.zip")}, "rows.jsonl": {"url": hub.address("rows.jsonl")}}
    with pytest.raises(FetchError, match=r"p\.zip: .*leads out of the archive"):
        fetch(repo, plan(repo, "things", card({"urls": urls, "unpack": {"p.zip": "."}})))
    assert not list(repo.rglob("evil.txt")) and not added(repo)


def test_names_of_the_hub_that_lead_out_are_refused(repo: Path, hub):
    hub.files["../../rows.txt"] = b"x"
    with pytest.raises(FetchError, match=r"it is not downloaded"):
        plan(repo, "things", card({"repo": REPO, "revision": COMMIT, "files": ["**/*.txt"]}))


def test_what_does_not_fit_the_card_is_kept_for_completing(repo: Path, hub):
    with pytest.raises(IncompleteError) as error:
        fetch(repo, plan(repo, "things", card({"repo": REPO, "revision": COMMIT, "files": ["other.txt"], "also": "the rows: by post"})))
    assert error.value.also == "the rows: by post" and (error.value.folder / "other.txt").read_bytes() == b"x"
    assert "nothing of the layout" in str(error.value)


def test_no_address(repo: Path):
    with pytest.raises(FetchError, match=r"names no address to fetch from. Download it by hand \(https://x\)"):
        plan(repo, "things", card())
    with pytest.raises(FetchError, match=r"not a valid name"):
        plan(repo, "../things", card())


def test_none_of_the_files(repo: Path, hub):
    with pytest.raises(FetchError, match=r"none of its 2 files is \*\.parquet"):
        plan(repo, "things", card({"repo": REPO, "revision": COMMIT, "files": ["*.parquet"]}))


def test_two_at_once(repo: Path, hub):
    wanted = plan(repo, "things", card({"repo": REPO, "revision": COMMIT}))
    lock = ProcessLock(repo / ".qualm/locks/fetch-things.lock")
    assert lock.acquire()
    with pytest.raises(FetchError, match=r"another `qualm fetch` brings things into this checkout"):
        fetch(repo, wanted)
    lock.release()


KILLED = """
import sys
from pathlib import Path
from tests.registry.entries.test_fetch import card
from qualm.registry.entries.fetch import fetch, plan
fetch(Path(sys.argv[1]), plan(Path(sys.argv[1]), "things", card({"repo": sys.argv[2], "revision": sys.argv[3]})))
"""


@pytest.mark.slow
def test_a_killed_fetch_goes_on_where_it_was(repo: Path, hub):
    hub.files["rows.jsonl"], hub.large, hub.pause = b'{"q": "?"}\n' * 200_000, {"rows.jsonl"}, 0.2
    running = subprocess.Popen([sys.executable, "-c", KILLED, str(repo), REPO, COMMIT], env={**os.environ, "PYTHONPATH": str(Path.cwd())})
    part = repo / FOLDER / "things/files/rows.jsonl.part"
    deadline = time.monotonic() + 60
    while not (part.exists() and part.stat().st_size):
        assert running.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    running.send_signal(signal.SIGKILL)
    running.wait()
    begun, hub.pause, hub.asked = part.stat().st_size, 0.0, []
    assert 0 < begun < len(hub.files["rows.jsonl"])
    many = card({"repo": REPO, "revision": COMMIT}, splits={})
    assert fetch(repo, plan(repo, "things", many)).added.outcome == "added"
    assert hub.asked[-1] == ("/store/rows.jsonl", f"bytes={begun}-")
    assert (repo / "registry/data/things/rows.jsonl").read_bytes() == hub.files["rows.jsonl"]
