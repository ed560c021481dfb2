from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from qualm.registry.entries.adding import add
from qualm.registry.entries.card import load_card
from qualm.registry.entries.entries import EntryError, entries, find, verify

MODEL = load_card("scene-vlm-base")
Run = Callable[..., str]


@pytest.fixture
def added(repo: Path, model: Callable[..., Path]) -> Path:
    add(repo, "m", str(model()), MODEL)
    return repo


def test_cards_without_files(repo: Path) -> None:
    where = {e.name: e.where for e in entries(repo)}
    assert where["scene-vlm-base"] == "not added" and where["synthetic_scenes"] == "generated"
    assert find(repo, "unk_vqa").get == "qualm data add unk_vqa --from PATH"
    assert find(repo, "vlm_uncertainty_bench").get == "qualm fetch --data vlm_uncertainty_bench"
    with pytest.raises(EntryError, match="no entry or card named 'synthetic-scene'; did you mean 'synthetic_scenes'"):
        find(repo, "synthetic-scene")


@pytest.mark.slow
def test_where_the_bytes_are(added: Path, dvc: Run) -> None:
    def where() -> str:
        return find(added, "m").where

    assert where() == "here" and find(added, "m").get == ""
    shutil.rmtree(added / "registry/data/m")
    assert where() == "cache" and find(added, "m").get == "dvc checkout registry/data/m.dvc"
    dvc(added, "push", "-q")
    shutil.rmtree(added / ".dvc/cache")
    assert where() == "remote" and find(added, "m").get == "dvc pull registry/data/m.dvc"
    shutil.rmtree(added / "registry/store")
    assert where() == "missing"


def test_an_entry_names_its_card(added: Path) -> None:
    entry = find(added, "m")
    assert entry.card == "scene-vlm-base" and entry.details == MODEL and entry.nfiles == 6
    assert entry.version is not None and entry.md5 is not None and entry.md5.startswith(entry.version)
    assert "scene-vlm-base" not in [e.name for e in entries(added)]  # its card is in use


def test_verify_names_every_deviation(added: Path) -> None:
    entry = find(added, "m")
    assert verify(entry).good and verify(entry).checked == 6
    (entry.path / "config.json").write_text('{"x": 1}')
    (entry.path / "tokenizer.json").unlink()
    (entry.path / "more.txt").write_text("x")
    (entry.path / "model.safetensors").write_bytes(b"cut")
    verdict = verify(entry)
    assert verdict.damaged == ("config.json", "model.safetensors")
    assert verdict.missing == ("tokenizer.json",) and verdict.extra == ("more.txt",)
    assert any("truncated or corrupt safetensors" in p for p in verdict.problems) and not verdict.good


def test_verify_without_the_bytes_or_the_list(added: Path) -> None:
    entry = find(added, "m")
    (entry.path / "config.json").write_text('{"x": 1}')
    shutil.rmtree(added / ".dvc/cache")
    assert "in neither cache nor remote" in verify(entry).problems[0]
    shutil.rmtree(entry.path)
    assert "not on this disk" in verify(find(added, "m")).problems[0]
    assert "not added yet" in verify(find(added, "vlm_uncertainty_bench")).problems[0]


def test_files_that_neither_the_cache_nor_a_remote_has_are_missing(added: Path) -> None:
    record = added / "registry/data/m.dvc"
    record.write_text(record.read_text() + "meta:\n  qualm:\n    card: docci\n")
    config = added / ".dvc/config"
    shutil.rmtree(added / "registry/data/m")
    shutil.rmtree(added / ".dvc/cache")
    config.write_text("[core]\n    remote = far\n['remote \"far\"']\n    url = s3://bucket/qualm\n")
    assert find(added, "m").get == "dvc pull registry/data/m.dvc"  # a server is not asked
    config.write_text("")
    assert (find(added, "m").where, find(added, "m").get) == ("missing", "qualm data add m --from PATH --card docci")
    (problem,) = verify(find(added, "m")).problems
    assert problem.endswith("not on this disk; `qualm data add m --from PATH --card docci`, or `dvc push` where its files still are")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a: [",
        "outs: []",
        "- 1",
        "outs: [{path: m}]",
        "outs: [{path: m, md5: 12345678901234567890123456789012, hash: md5}]",
        "outs: [{path: m, md5: ../../../etc/passwd}]",
        "outs: [{path: [m], md5: d41d8cd98f00b204e9800998ecf8427e}]",
        "outs: [{path: m, md5: d41d8cd98f00b204e9800998ecf8427e}]\nmeta: {qualm: {card: [x]}}",
        "outs: 3",
        "\xff",
        "outs: " + "[" * 5000,
        "a: &a [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1 if i else ''}, *a{i - 1 if i else ''}]\n" for i in range(40)),
    ],
)
def test_a_damaged_dvc_file_disables_its_entry_alone(repo: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    data = repo / "registry/data"
    data.mkdir(parents=True)
    (data / "m.dvc").write_bytes(text.encode("latin-1"))
    (data / "sound.dvc").write_text("outs:\n- {md5: d41d8cd98f00b204e9800998ecf8427e, hash: md5, path: sound}\n")
    here = {e.name: e for e in entries(repo)}
    assert here["m"].where == "broken" and here["sound"].md5 == "d41d8cd98f00b204e9800998ecf8427e"
    assert find(repo, "sound") and entries(repo)
    warnings = capsys.readouterr().err
    assert warnings.count("m.dvc: ") == 1 and warnings.count("\n") == 1  # once, in one line
    with pytest.raises(EntryError, match=r"m\.dvc: .*git checkout"):
        find(repo, "m")
    assert "git checkout" in verify(here["m"]).problems[0]
