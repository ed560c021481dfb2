"""A published folder holds what `qualm view` serves, and what results hold."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from qualm.compiler.results.scores import read_spec_results
from qualm.compiler.spec.errors import ProjectError
from qualm.compiler.viewing.chunks import content_of
from qualm.compiler.viewing.publish import MARK, publish
from qualm.compiler.viewing.site import Site, SitePart
from qualm.runners.results.results import Results


def test_every_file_is_the_one_that_is_served(site: Site, published: Path) -> None:
    files = sorted(str(f.relative_to(published)) for f in published.rglob("*") if f.is_file())
    assert {"index.html", "view.css", "icon.svg", "main.js", ".nojekyll", MARK, "data/index.js", "data/small/d/0.js"} <= set(files)
    for name in files:
        if name not in (MARK, ".nojekyll"):
            assert (published / name).read_bytes() == site.file(name), name
    assert not [n for n in files if n.startswith("data") and not n.endswith(".js")]


def test_numbers_in_the_folder_are_those_of_the_results(results: Results, published: Path) -> None:
    """Accuracy of each model, taken from the published columns alone."""
    index = json.loads(content_of((published / "data/small/index.js").read_bytes()))
    data = {
        c["name"]: np.frombuffer(content_of((published / f"data/small/c/{i}.js").read_bytes()), dtype=f"<{c['type']}")
        for i, c in enumerate(index["columns"])
    }
    values = {c["name"]: c["values"] for c in index["columns"]}
    for row in results.scores.filter(slice="all", label="accuracy").to_dicts():
        here = np.ones(index["rows"], dtype=bool)
        for name in ("model", "dataset", "variant"):
            here &= data[name] == values[name].index(row[name])
        assert np.nanmean(data["correct"][here]) == pytest.approx(row["value"], abs=1e-6)


@pytest.mark.slow
def test_pictures_as_far_as_is_wanted(site: Site, published: Path, tmp_path: Path) -> None:
    of_variants = list((published / "pictures").rglob("*-*-0.webp"))
    assert len(of_variants) == 48 and len(list((published / "pictures").rglob("*.webp"))) > 48
    for pictures, n in (("clean", len(list((published / "pictures").rglob("*.webp"))) - 48), ("none", 0)):
        publish(Site(list(site.parts.values()), "x", pictures), tmp_path / pictures)  # type: ignore[arg-type]
        assert len(list((tmp_path / pictures).rglob("*.webp"))) == n


def test_only_its_own_folder_is_written_again(site: Site, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ProjectError, match="expected an empty folder, or one that `qualm view --publish` wrote"):
        publish(site, tmp_path)
    folder = tmp_path / "site"
    bare = Site(list(site.parts.values()), "x", "none")
    publish(bare, folder)
    (folder / "data" / "small" / "t" / "77.js").write_text("of before")
    assert publish(bare, folder) > 0 and not (folder / "data" / "small" / "t" / "77.js").exists()


@pytest.mark.slow
def test_the_page_that_is_there_stays_until_the_new_one_is_written(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, bare = tmp_path / "site", Site(list(site.parts.values()), "x", "none")
    publish(bare, folder)
    (folder / "CNAME").write_text("mine.org")
    before = {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}

    def full(one: Site, tell: object) -> Iterator[tuple[str, bytes]]:
        yield "index.html", b"half"
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("qualm.compiler.viewing.publish._files", full)
        for place in (folder, tmp_path / "new"):
            with pytest.raises(OSError, match="No space left") as caught:
                publish(bare, place)
            assert caught.value.filename == str(place)
    assert {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before and not (tmp_path / "new").exists()
    (tmp_path / "new" / ".qualm-view-new").mkdir(parents=True)  # as one that was killed leaves it
    assert publish(bare, tmp_path / "new") == publish(bare, folder) and (folder / "CNAME").is_file()
    assert not (tmp_path / "new" / ".qualm-view-new").exists()


@pytest.mark.slow
def test_the_same_results_give_the_same_bytes(viewed, published: Path, tmp_path: Path) -> None:
    publish(Site([SitePart(read_spec_results(viewed, "small"), viewed.plan("small").stages)], "Small results", "all"), tmp_path / "again")
    for file in published.rglob("*.js"):
        assert file.read_bytes() == (tmp_path / "again" / file.relative_to(published)).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [1, 400])
def test_details_that_are_made_a_few_at_a_time_are_the_same(
    at_once: int, site: Site, published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qualm.compiler.viewing.publish.MAX_ANSWERS_PER_SCAN", at_once)
    monkeypatch.setattr(type(site.parts["small"].answers), "questions_per_chunk", 4)
    few = Site(list(site.parts.values()), "x", "none")
    publish(few, tmp_path / "few")
    files = sorted((tmp_path / "few" / "data" / "small" / "d").glob("*.js"), key=lambda path: int(path.stem))
    rows = [row for file in files for row in json.loads(content_of(file.read_bytes()))]
    whole = sorted((published / "data" / "small" / "d").glob("*.js"), key=lambda path: int(path.stem))
    assert rows == [row for file in whole for row in json.loads(content_of(file.read_bytes()))]
    assert len(files) == few.parts["small"].n_details > len(whole)
    for number, file in enumerate(files):
        assert file.read_bytes() == few.file(f"data/small/d/{number}.js")
