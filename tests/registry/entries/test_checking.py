"""`qualm data check`: all that is bad in a dataset's records at once, each with its place."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator
from pathlib import Path

import PIL.Image
import pytest
import yaml
from typer.testing import CliRunner

from qualm.registry.adapters import AdapterContext, AdapterError, find_problem
from qualm.registry.entries.card import Card, CardError, load_card
from qualm.registry.entries.checking import check_entries, check_records, check_results, recorded_results
from qualm.registry.entries.cli import app
from qualm.registry.entries.entries import EntryError
from qualm.registry.sample import Image, Sample
from qualm.registry.system.dvc_files import RecordedOutput
from qualm.registry.system.dvc_objects import object_path
from tests.support.data.small_pictures import png


@pytest.fixture
def vizwiz(tmp_path: Path) -> Path:
    answers = [{"answer": "red", "answer_confidence": "yes"}] * 10
    good = {"question": "?", "answers": answers, "answer_type": "other", "answerable": 1}
    records = [{**good, "image": f"VizWiz_val_{i:08d}.jpg"} for i in (0, 1, 1, 2)]
    records.append({**good, "image": "VizWiz_val_00000003.jpg", "answerable": 7})
    (tmp_path / "Annotations").mkdir()
    (tmp_path / "Annotations/val.json").write_text("[" + ",\n".join(map(json.dumps, records)) + "]")
    (tmp_path / "val").mkdir()
    for i in (0, 1, 3):
        (tmp_path / f"val/VizWiz_val_{i:08d}.jpg").write_bytes(png(i))
    return tmp_path


def test_all_problems_with_their_places(vizwiz: Path) -> None:
    found = check_records(vizwiz, load_card("vizwiz"), {})
    assert found.splits == {"val": 2} and found.images == 2 and len(found.problems) == 3
    places = ("line 3, record 2)", "line 4, record 3: expected its image", "line 5, record 4: answerable: expected 0 or 1")
    assert all(place in problem for place, problem in zip(places, found.problems, strict=True)), found.problems


def test_what_ends_the_reading_is_the_last_problem(vizwiz: Path) -> None:
    found = check_records(vizwiz, load_card("vizwiz"), {"split": "train"})
    assert not found.splits and len(found.problems) == 1 and "train.json: expected" in found.problems[0]
    text = (vizwiz / "Annotations/val.json").read_text()
    (vizwiz / "Annotations/val.json").write_text(text[: len(text) // 2])
    found = check_records(vizwiz, load_card("vizwiz"), {})
    assert found.splits.total() == 2 and "expected a whole JSON list" in found.problems[-1]


def test_pictures_that_come_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def adapter(context: AdapterContext, **arguments: object) -> Iterator[Image | Sample]:
        yield from (Image("a", png(1)), Image("a", png(1)), Sample("s", "?", "a", ("x",)))

    monkeypatch.setattr("qualm.registry.entries.checking.load", lambda kind, name: adapter)
    found = check_records(None, load_card("synthetic_scenes"), {})
    assert found.problems == ["image 'a' comes twice; image ids must be unique"] and found.splits.total() == 1


def test_questions_without_an_answer_and_images_that_are_shown_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are declared unanswerable, or of a table that is said to have no answers, are no problem."""

    def adapter(context: AdapterContext, **arguments: object) -> Iterator[Image | Sample]:
        yield Image("a", drawn("RGBA", "PNG"))
        yield Image("b", drawn("RGB", "GIF", save_all=True, append_images=[PIL.Image.new("RGB", (8, 8), "red")]))
        yield Image("c", b"no image")
        yield Image("d", png(3))
        yield from (Sample("1", "?", "a", ("x",)), Sample("2", "?", "b"), Sample("3", "?", "c", answerable=False), Sample("4", "?", "d"))
        yield Sample("5", "?", choices=("x", "y"), answer_index=1)

    monkeypatch.setattr("qualm.registry.entries.checking.load", lambda kind, name: adapter)
    found = check_records(None, load_card("synthetic_scenes"), {})
    assert found.notes == [
        "1 images with transparency; transparent pixels are shown on white",
        "1 images of several frames or pages; the first is shown",
    ]
    unanswered, broken = found.problems
    assert unanswered.startswith("2 of 5 questions have no reference answer and are not declared unanswerable")
    assert "the first is '2'" in unanswered
    assert broken == "image 'c' cannot be read as an image: not an image in a known format"
    assert check_records(None, load_card("synthetic_scenes"), {"answer": None}).problems == [broken]


def drawn(mode: str, form: str, **how: object) -> bytes:
    with io.BytesIO() as file:
        PIL.Image.new(mode, (8, 8)).save(file, form, **how)
        return file.getvalue()


def test_cards_that_nothing_reads() -> None:
    with pytest.raises(CardError, match="has no adapter"):
        check_records(None, load_card("scene-vlm-base"), {})
    needy: Card = load_card("vlm_uncertainty_bench").model_copy(update={"args": {}})
    with pytest.raises(CardError, match="needs dataset; give it by -O dataset=VALUE"):
        check_records(None, needy, {})


def test_what_no_sample_may_be() -> None:
    assert find_problem(Sample("a", "?", "i", choices=("x", "y"), answer_index=1), {"i"}, {"b"}) == ""
    for sample, said in (
        (Sample("b", "?"), "comes twice"),
        (Sample("a", "?", "j"), "has not come before it"),
        (Sample("a", "?", choices=("x", "y"), answer_index=2), "answer_index 2 is not one of its 2 choices"),
    ):
        assert said in find_problem(sample, {"i"}, {"b"})
    with pytest.raises(AdapterError), AdapterContext(Path()).record():
        raise AdapterError("ends")


@pytest.mark.slow
def test_the_command(repo: Path, vizwiz: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo)
    run = CliRunner()
    done = run.invoke(app, ["check", "vizwiz", "--from", str(vizwiz)])
    assert done.exit_code == 1 and "vizwiz: 2 samples (val 2), 2 images, 3 problems" in done.output and "record 3" in done.output
    done = run.invoke(app, ["check", "vizwiz", "--from", str(vizwiz), "--json"])
    assert done.exit_code == 1 and len(json.loads(done.output)["problems"]) == 3
    assert run.invoke(app, ["check", "synthetic_scenes", "-O", "test=3"]).exit_code == 0
    for arguments, said in (
        (["check", "vizwiz", "--from", str(vizwiz), "-O", "part=val"], "expected NAME=VALUE"),
        (["check", "vizwiz", "--from", str(vizwiz / "gone")], "gone: does not exist; expected the folder with the official files"),
        (["check", "vizwiz", "--from", str(vizwiz / "Annotations/val.json")], "val.json: is a file; an archive has to be unpacked"),
        (["check", "vizwiz"], "its files are not here; get them by `qualm fetch --data vizwiz`, or"),
        (["check", "vizwis"], "did you mean 'vizwiz'?"),
        (["check", "scene-vlm-base"], "has no adapter"),
    ):
        done = run.invoke(app, arguments)
        assert done.exit_code == 2 and said in " ".join(done.output.split()), done.output


def md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def keep(root: Path, data: bytes, name: str = "") -> str:
    """Bytes in the cache; their hash."""
    file = object_path(root / ".dvc/cache", name or md5(data))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return name or md5(data)


def add(root: Path, name: str, files: dict[str, bytes]) -> str:
    """A folder, its pointer and its objects."""
    rows = [{"md5": keep(root, data), "relpath": path} for path, data in sorted(files.items())]
    listing = json.dumps(rows).encode()
    whole = keep(root, listing, f"{md5(listing)}.dir")
    for path, data in files.items():
        (root / name / path).parent.mkdir(parents=True, exist_ok=True)
        (root / name / path).write_bytes(data)
    if not name.startswith("results/"):
        out = {"md5": whole, "hash": "md5", "path": Path(name).name, "nfiles": len(files)}
        (root / f"{name}.dvc").write_text(yaml.safe_dump({"outs": [out]}))
    return whole


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / ".dvc").mkdir()
    add(tmp_path, "registry/data/mine", {"a.txt": b"a", "deep/b.txt": b"b"})
    add(tmp_path, "registry/data/other", {"c.txt": b"c"})
    return tmp_path


def lock(root: Path, file: str, outs: dict[str, str]) -> None:
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    stage = {"cmd": "c", "outs": [{"path": path, "md5": value} for path, value in outs.items()]}
    (root / file).write_text(yaml.safe_dump({"schema": "2.0", "stages": {"s": stage}}))


def spoil(root: Path, data: bytes) -> Path:
    file = object_path(root / ".dvc/cache", md5(data))
    file.write_bytes(b"x")
    return file


def test_all_that_are_here_or_those_that_are_named(root: Path) -> None:
    (root / "registry/data/broken.dvc").write_text("outs: 3\n")
    (root / "registry/data/gone.dvc").write_text((root / "registry/data/mine.dvc").read_text().replace("mine", "gone"))
    object_path(root / ".dvc/cache", md5(b"a")).unlink()
    verdicts = check_entries(root, None)
    assert list(verdicts) == ["broken", "mine", "other"]
    assert [verdict.good for verdict in verdicts.values()] == [False, True, True]
    assert (verdicts["mine"].checked, verdicts["other"].checked) == (2, 1)
    assert list(check_entries(root, ["other", "results/x"])) == ["other"] and list(check_entries(root, ["results/x"])) == []
    with pytest.raises(EntryError, match="no entry or card named 'othr'; did you mean 'other'"):
        check_entries(root, ["othr"])
    (gone,) = check_entries(root, ["gone"]).values()
    assert not gone.good and "not on this disk" in gone.problems[0]


def test_an_unknown_name_ends_it_before_any_file_is_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    monkeypatch.setattr("qualm.registry.entries.checking.verify", lambda entry: read.append(entry.name))
    with pytest.raises(EntryError):
        check_entries(root, ["mine", "othr"])
    assert read == []


def test_an_entry_s_objects_are_read_too(root: Path) -> None:
    file = spoil(root, b"b")
    (mine, other) = check_entries(root, None).values()
    assert mine.problems == (f"damaged in DVC's cache: {file.relative_to(root)}, of registry/data/mine",)
    assert not mine.good and mine.damaged == () and other.good
    (root / "registry/data/mine/a.txt").write_bytes(b"z")
    (mine,) = check_entries(root, ["mine"]).values()
    assert mine.damaged == ("a.txt",) and len(mine.problems) == 1


def test_a_cache_elsewhere_is_named_by_its_whole_path(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    far = tmp_path_factory.mktemp("far") / "cache"
    (root / ".dvc/cache").rename(far)
    (root / ".dvc/config").write_text(f"[cache]\n    dir = {far}\n")
    file = object_path(far, md5(b"c"))
    file.write_bytes(b"x")
    (verdict,) = check_entries(root, ["other"]).values()
    assert verdict.problems == (f"damaged in DVC's cache: {file}, of registry/data/other",)


def test_results_are_those_of_every_lock(root: Path) -> None:
    one, two, three = (keep(root, data) for data in (b"1", b"2", b"3"))
    assert recorded_results(root) == {}
    lock(root, "dvc.lock", {"results/main/a.json": one, "results/main/deep/b.json": two})
    lock(root, "specs/z/dvc.lock", {"results/z/a.json": three})
    lock(root, "specs/b/dvc.lock", {"results/b/a.json": one})
    assert recorded_results(root) == {
        "results/main": [RecordedOutput("results/main/a.json", one), RecordedOutput("results/main/deep/b.json", two)],
        "results/b": [RecordedOutput("results/b/a.json", one)],
        "results/z": [RecordedOutput("results/z/a.json", three)],
    }
    assert list(check_results(root, None, aside=False)) == ["results/main", "results/b", "results/z"]
    assert list(check_results(root, ["results/z/", "mine"], aside=False)) == ["results/z"]
    assert check_results(root, ["mine"], aside=False) == {}
    with pytest.raises(EntryError, match=r"results/y: no dvc\.lock records it; there are: results/main, results/b, results/z"):
        check_results(root, ["results/y"], aside=False)


@pytest.fixture
def made(root: Path) -> Path:
    """Three results: two files and a folder."""
    hashes = {}
    for name, data in (("a.json", b"1"), ("b.json", b"2")):
        (root / "results/s").mkdir(parents=True, exist_ok=True)
        (root / "results/s" / name).write_bytes(data)
        hashes[f"results/s/{name}"] = keep(root, data)
    hashes["results/s/many"] = add(root, "results/s/many", {"x": b"10", "y": b"11"})
    lock(root, "dvc.lock", hashes)
    return root


def print_verdict(root: Path, aside: bool = False):  # type: ignore[no-untyped-def]
    (verdict,) = check_results(root, None, aside).values()
    return verdict


def test_results_as_recorded_and_what_is_not_here(made: Path) -> None:
    assert print_verdict(made).good and print_verdict(made).checked == 3
    (made / "results/s/a.json").unlink()
    verdict = print_verdict(made, aside=True)
    assert verdict.good and (verdict.checked, verdict.absent) == (2, 1) and not (made / ".qualm").exists()


def test_damaged_results_are_told_and_set_aside_where_that_is_wanted(made: Path) -> None:
    (made / "results/s/a.json").write_bytes(b"other")
    (made / "results/s/many/y").write_bytes(b"other")
    assert print_verdict(made).damaged == ("results/s/a.json", "results/s/many") and (made / "results/s/a.json").exists()
    assert print_verdict(made, aside=True).damaged == ("results/s/a.json", "results/s/many")
    assert not (made / "results/s/a.json").exists() and not (made / "results/s/many").exists() and (made / "results/s/b.json").exists()
    assert sorted(p.name for p in (made / ".qualm/damaged").iterdir()) == ["results__s__a.json", "results__s__many"]
    assert print_verdict(made).good


def test_a_damaged_object_alone_leaves_the_file_where_it_is(made: Path) -> None:
    file = spoil(made, b"2")
    verdict = print_verdict(made, aside=True)
    assert verdict.damaged == () and verdict.problems == (f"damaged in DVC's cache: {file.relative_to(made)}, of results/s/b.json",)
    assert (made / "results/s/b.json").read_bytes() == b"2" and not file.exists() and print_verdict(made).good
