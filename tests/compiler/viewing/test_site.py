"""Files by path: what there is, and that there is nothing else."""

import json

import pytest

from qualm.compiler.viewing.chunks import content_of
from qualm.compiler.viewing.site import PAGE, POLICY, SCRIPTS, Site, palette


@pytest.mark.slow
def test_the_page_loads_from_itself_alone(site: Site) -> None:
    page = (site.file("index.html") or b"").decode()
    assert POLICY in page and "unsafe" not in POLICY and "http" not in POLICY
    assert page.count("<script") == len(SCRIPTS) and "<style" not in page and "://" not in page
    assert set(SCRIPTS) == {f.name for f in PAGE.glob("*.js")}


def test_scripts_parse_no_markup_and_ask_nobody() -> None:
    for name in SCRIPTS:
        text = (PAGE / name).read_text().replace("http://www.w3.org/2000/svg", "")
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "://", "localStorage"):
            assert word not in text, (name, word)
    assert "url(" not in (PAGE / "view.css").read_text() and "@import" not in (PAGE / "view.css").read_text()


def test_colours_are_those_of_the_report(site: Site) -> None:
    head = palette().decode()
    assert "--accent" in head and "prefers-color-scheme: dark" in head and "nav {" not in head
    assert (site.file("view.css") or b"").startswith(palette())


def test_the_first_chunk_names_the_results(site: Site) -> None:
    index = json.loads(content_of(site.file("data/index.js") or b""))
    assert index["title"] == "Small results" and index["pictures"] == "all"
    (one,) = index["results"]
    facts = {"title": "Synthetic scenes", "source": "generated", "licence": "CC0-1.0", "revision": ""}
    sources = sorted(one.pop("sources"), key=lambda source: str(source["dataset"]))
    assert sources == [{"dataset": name, **facts} for name in ("options", "scenes")]
    assert one == {
        "key": "small", "spec": "small", "revision": "", "title": "Small <i>benchmark</i>", "description": "Two models on a few scenes.",
        "models": ["base", "other"], "colours": ["base", "other"], "blind": [],
        "datasets": site.parts["small"].results.datasets, "changed": [],
    }  # fmt: skip
    assert index["live"] is False and sorted(one["datasets"]) == ["options", "scenes"]


def test_the_index_of_a_part_says_where_its_answers_lie(site: Site) -> None:
    part = site.parts["small"]
    index = json.loads(content_of(site.file("data/small/index.js") or b""))
    assert index["files"] == {"datasets": part.results.inputs["datasets"], "generations": part.results.inputs["generations"]}
    assert index["changes"] == {"clean": "", "blur@radius=2": "image", "typos@p=0.5": "text"}


@pytest.mark.parametrize(("kind", "limit", "rows"), [("s", "SAMPLE_ROWS", 48), ("t", "TEXT_ROWS", 288)])
def test_no_chunk_begins_behind_the_last_row(site: Site, monkeypatch: pytest.MonkeyPatch, kind: str, limit: str, rows: int) -> None:
    part = site.parts["small"]
    for size, numbers in ((rows, 1), (rows // 2, 2), (rows // 2 + 1, 2)):
        monkeypatch.setattr(f"qualm.compiler.viewing.site.{limit}", size)
        monkeypatch.setattr(f"qualm.compiler.viewing.answers.{limit}", size)
        contents = [part.content(kind, number, "all") for number in range(numbers + 1)]
        assert contents[-1] is None and sum(map(len, contents[:-1])) == rows
        assert [number for of, number in part.chunks() if of == kind] == [*range(numbers)]
    assert part.content("c", len(part.answers.columns), "all") is None and part.content("c", len(part.answers.columns) - 1, "all")
    assert part.content("d", part.n_details, "all") is None and part.content("d", part.n_details - 1, "all")


@pytest.mark.parametrize(
    "path",
    ["data/small/board.js", "data/small/tests.js", "data/small/index.js", "data/small/ids.js", "data/small/c/0.js", "data/small/d/0.js"],
)
def test_chunks_bear_their_own_name(site: Site, path: str) -> None:
    name = path.removeprefix("data/").removesuffix(".js")
    assert (site.file(path) or b"").startswith(f'qualmChunk("{name}",'.encode())


@pytest.mark.parametrize(
    "path",
    [
        *(
            "../pyproject.toml",
            "/etc/passwd",
            "page/index.html",
            "main.py",
            "data/other/board.js",
            "data/small/x/0.js",
            "data/../index.html",
        ),
        *(
            "data/small/c/999.js",
            "data/small/t/99.js",
            "data/small/s/99.js",
            "data/small/d/9999.js",
            "data/small/p/4.js",
            "data/small/t/-1.js",
        ),
        *(
            "pictures/small/2/0.webp",
            "pictures/small/9/0.webp",
            "pictures/small/0/9999.webp",
            "pictures/small/0/0-0-0.webp",
            "pictures/small/0/0-9-0.webp",
        ),
        *("pictures/small/0/9999-1-0.webp", "pictures/other/0/0.webp"),
    ],
)
def test_there_is_nothing_else(site: Site, path: str) -> None:
    assert site.file(path) is None


def test_pictures_by_path(site: Site) -> None:
    assert (site.file("pictures/small/0/0.webp") or b"")[8:12] == b"WEBP"
    assert (site.file("pictures/small/0/0-1-0.webp") or b"")[8:12] == b"WEBP"
    without = Site(list(site.parts.values()), "x", "none")
    assert without.file("pictures/small/0/0.webp") is None


def test_the_last_picture_is_there_and_none_after_it(site: Site) -> None:
    part = site.parts["small"]
    for place, dataset in enumerate(part.results.datasets):
        n = len(part.answers.pictures[dataset])
        assert site.file(f"pictures/small/{place}/{n - 1}.webp") is not None and site.file(f"pictures/small/{place}/{n}.webp") is None
