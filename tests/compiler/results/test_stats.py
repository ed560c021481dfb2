"""`qualm stats`: the paper's table from a made-up dataset, both ways round, and what is not there."""

import io
import json
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console

from qualm.compiler.project.checkout import Project
from qualm.compiler.results.stats import print_statistics, read_statistics, read_without_looking, show_statistics
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.sample import SAMPLES, SHORTCUTS
from qualm.runners.data.statistics import COLUMNS, statistics
from qualm.runners.runtime.records import write_table


def rows(category: str, split: str, n: int, answerable: bool, image: str) -> list[dict]:
    return [
        {
            "sample_id": f"{category}-{split}-{answerable}-{i}", "image_id": f"{image}{i}", "category": category, "answerable": answerable,
            "split": split, "group": "", "pair_id": f"{category}-{split}-{i}",
        }
        for i in range(n)
    ]  # fmt: skip


TABLE = [
    *rows("epistemic/knowledge", "train", 1200, True, "a"),
    *rows("epistemic/knowledge", "train", 1200, False, "a"),
    *rows("epistemic/extraneous", "train", 3, True, "a"),
    *rows("epistemic/extraneous", "train", 3, False, "new"),
    *rows("epistemic/extraneous", "test", 2, True, "t"),
    *rows("epistemic/extraneous", "test", 1, False, "newt"),
]


def printed(counts: dict, width: int = 140) -> str:
    out = io.StringIO()
    print_statistics("ours", counts, Console(file=out, width=width))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def counted(table: list[dict]) -> dict:
    return statistics(pl.DataFrame(table).select(COLUMNS), {"new0", "new1", "new2", "newt0"})


def test_the_table_of_the_paper() -> None:
    counts = counted(TABLE)
    counts["recipes"] = [
        {"label": "inpainted", "pairs": 5, "dropped": {"no box": 1200, "too large": 1}},
        {"label": "from_caption@category=epistemic/knowledge", "pairs": 1200, "dropped": {}},
    ]
    counts["dropped"] = {"review: invalid": 1}
    counts["near_duplicates"] = {"distance": 4, "dropped": False, "pairs": 2, "between": {"train/test": 2}, "closest": []}
    assert (
        printed(counts)
        == """\
ours
                                    epistemic    epistemic
split                              extraneous    knowledge          all
train  images (perturbed/clean)           3/3      -/1,200      3/1,200
       questions (IDK/answerable)         3/3  1,200/1,200  1,203/1,203
test   images (perturbed/clean)           1/2          -/0          1/2
       questions (IDK/answerable)         1/2          -/0          1/2
total  pictures/questions                 9/9  1,200/2,400  1,206/2,409
recipe                                     pairs  dropped
inpainted                                      5  1,200 no box, 1 too large
from_caption@category=epistemic/knowledge  1,200  -
  left out of the set: 1 pair, review: invalid
  images that look alike across splits (at most 4 of 64 bits differ): 2 between train/test; kept
"""
    )


def test_many_categories_go_down_the_side() -> None:
    text = printed(counted([r for i in range(9) for r in rows(f"kind {i}", "", 2, True, "x")]))
    assert "kind 8" in text and "seen: images (perturbed/clean); asked: questions (IDK/answerable)" in " ".join(text.split())
    assert [line.split() for line in text.splitlines() if line.startswith("kind 3")] == [["kind", "3", "-/2", "-/2", "2/2"]]


class Plain(Project):
    """A checkout with one spec, whose compiling needs none of our own files but these."""

    def __init__(self, root: Path) -> None:
        (root / "specs").mkdir()
        (root / "params.yaml").write_text("default: t\n")
        (root / "specs/t.yaml").write_text(
            "qualm: 1\nname: t\ndatasets:\n  scenes: {card: synthetic_scenes, test: 10}\n  others: {card: synthetic_scenes, test: 20}\n"
        )
        super().__init__(root)

    def plan(self, spec: str | None = None):
        from qualm.compiler.plan.make import make_plan

        return make_plan(self.resolve(spec))


def test_what_is_on_disk_is_counted_and_the_rest_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = Plain(tmp_path)
    with pytest.raises(ProjectError) as caught:
        show_statistics(project, None, False)
    assert str(caught.value) == "no dataset of t is on disk; `dvc pull` fetches what others have made, `qualm run t` makes it"
    write_table(tmp_path / "results/t/data/scenes/samples.parquet", TABLE, SAMPLES)
    show_statistics(project, None, False)
    out = capsys.readouterr().out
    assert "1,206/2,409" in out
    assert "others: not on disk; `dvc pull results/t/data/others` or `qualm run t`" in " ".join(out.split())
    show_statistics(project, None, True)
    found = json.loads(capsys.readouterr().out)["scenes"]
    assert found["cells"]["test"]["all"]["clean"] == 3
    assert [r["why"] for r in found["without_looking"] if (r["category"], r["sees"]) == ("epistemic/extraneous", "question")] == [
        "too few: 3 rows of the rarer class to learn from, expected 10"
    ]


def test_what_is_told_without_looking_is_worked_out_now_or_read_as_it_was_assembled_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project, folder = Plain(tmp_path), tmp_path / "results/t/data/scenes"
    table = [{**r, "question": f"Where{'' if r['answerable'] else ' later'}?"} for r in rows("k", "train", 20, True, "a")]
    table += [{**r, "question": f"Where{'' if r['answerable'] else ' later'}?"} for r in rows("k", "train", 20, False, "b")]
    table += [
        {**r, "question": f"Where{'' if r['answerable'] else ' later'}?"} for a in (True, False) for r in rows("k", "test", 20, a, "c")
    ]
    write_table(folder / "samples.parquet", table, SAMPLES)
    show_statistics(project, None, False)
    line = next(x for x in capsys.readouterr().out.splitlines() if x.startswith("all") and "100.0%" in x)
    assert line.split()[:5] == ["all", "40", "100.0%", "0.500", "1.000"] and "undefined: no rows with an image" in line
    [first, *_] = read_without_looking("scenes", folder, None)
    write_table(tmp_path / "kept.parquet", [{**first, "category": "kept"}], SHORTCUTS)
    assert [r["category"] for r in read_without_looking("scenes", folder, tmp_path / "kept.parquet")] == ["kept"]
    (tmp_path / "kept.parquet").write_text("no table")
    with pytest.raises(ProjectError, match="`qualm run SPEC` re-creates it"):
        read_without_looking("scenes", folder, tmp_path / "kept.parquet")


def test_an_assembled_set_knows_its_counts(tmp_path: Path) -> None:
    (tmp_path / "statistics.json").write_text('{"splits": []}')
    assert read_statistics(tmp_path) == {"splits": []}
    (tmp_path / "statistics.json").write_text("{")
    with pytest.raises(ProjectError, match="`qualm run SPEC` re-creates it"):
        read_statistics(tmp_path)


def test_a_table_may_be_wider_than_the_terminal() -> None:
    narrow = printed(counted(TABLE), 20)
    assert max(map(len, narrow.splitlines())) > 20 and "1,203/1,203" in narrow and "1,206/2,409" in narrow


@pytest.mark.parametrize(("categories", "first"), [(6, "split"), (7, "category")])
def test_six_categories_go_across_where_they_fit(categories: int, first: str) -> None:
    text = printed(counted([r for i in range(categories) for r in rows(f"k{i}", "test", 2, True, "x")]), 400)
    assert [line.split()[0] for line in text.splitlines() if line.split()[:1] in (["split"], ["category"])] == [first]


def test_nothing_is_cut_off_in_a_narrow_terminal() -> None:
    table = [r for i in range(9) for split in ("train", "val", "test") for r in rows(f"a long category {i}", split, 2, True, split)]
    assert "…" not in printed(counted(table), 80)
    counts = counted(TABLE)
    counts["recipes"] = [{"label": "from_caption@category=epistemic/knowledge,generator=hf(artifact=x)", "pairs": 5, "dropped": {}}]
    assert "…" not in printed(counts, 80)


def test_a_table_goes_across_where_it_just_fits() -> None:
    counts = counted([r for i in range(3) for r in rows(f"category {i}", "test", 2, True, "x")])
    width = max(map(len, printed(counts, 400).splitlines()))
    heads = [printed(counts, columns).splitlines()[1].split()[0] for columns in (width, width - 1)]
    assert heads[0] != heads[1] and printed(counts, width) == printed(counts, 400)


def test_what_is_said_below_the_table_in_numbers_of_one_and_of_many() -> None:
    counts = counted(TABLE)
    counts["dropped"] = {"near duplicate": 1200, "review: skip": 0}
    counts["near_duplicates"] = {"distance": 4, "dropped": True, "pairs": 1201, "between": {"train/test": 1200, "train/val": 1}}
    text = printed(counts, 200)
    assert "  left out of the set: 1,200 pairs, near duplicate\n  left out of the set: 0 pairs, review: skip\n" in text
    assert text.endswith("differ): 1,200 between train/test, 1 between train/val; those of the earlier split were left out\n")
    assert "recipe" not in text and "without looking" not in text
    counts["near_duplicates"]["pairs"] = 0
    assert "look alike" not in printed(counts)
