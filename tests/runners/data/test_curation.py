"""Decisions become a filtered test split: by majority, for whole pairs, and only where the content is what was reviewed."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import PIL.Image
import pytest
from sklearn.metrics import cohen_kappa_score

from qualm.registry.sample import IMAGES
from qualm.runners.data.curation import (
    CurationError,
    Decision,
    content_of,
    curate,
    decide_by_majority,
    pixels_of,
    read_decisions,
    write_decisions,
)
from qualm.runners.runtime.records import write_table


def png(colour: str, compress_level: int = 6) -> bytes:
    data = io.BytesIO()
    PIL.Image.new("RGB", (8, 6), colour).save(data, "PNG", compress_level=compress_level)
    return data.getvalue()


def row(pair: str, member: str, split: str = "test", **more: Any) -> dict[str, Any]:
    can = member == "a"
    base: dict[str, Any] = {"sample_id": f"{pair}-{member}", "pair_id": pair, "split": split, "answerable": can, "choices": []}
    base |= {"question": f"What is {pair}?", "references": ["red" if can else "I cannot tell"], "answer_index": None}
    return base | {"category": "epistemic/extraneous", "image_id": "clean" if can else "changed"} | more


SAMPLES = [row(p, m) for p in ("p1", "p2", "p3", "p4") for m in "au"] + [row("t1", m, "train") for m in "au"]


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    recipe, source = tmp_path / "recipe", tmp_path / "source"
    write_table(recipe / "images" / "00000.parquet", [{"image_id": "changed", "image": {"bytes": png("gray"), "path": ""}}], IMAGES)
    write_table(source / "images" / "00000.parquet", [{"image_id": "clean", "image": {"bytes": png("red"), "path": ""}}], IMAGES)
    return [recipe, source]


def said(sample: dict[str, Any], decision: str, reviewer: str = "ann", colour: str | None = None) -> Decision:
    picture = pixels_of(png(colour or ("red" if sample["image_id"] == "clean" else "gray")))
    return Decision(sample["sample_id"], content_of(sample, picture), reviewer, decision)


def test_a_table_survives_writing_and_reading(tmp_path: Path) -> None:
    decisions = [Decision("b", "c2", "bob", "skip", 'hm, a comma, "quotes"\nand a line'), Decision("a", "c1", "ann", "valid", "日本")]
    write_decisions(tmp_path / "decisions.csv", decisions)
    first = (tmp_path / "decisions.csv").read_bytes()
    assert read_decisions(tmp_path) == sorted(decisions) == read_decisions(tmp_path / "decisions.csv")
    write_decisions(tmp_path / "decisions.csv", reversed(decisions))
    assert (tmp_path / "decisions.csv").read_bytes() == first
    assert first.startswith(b"sample_id,content,reviewer,decision,note\na,c1,ann,valid,")
    (tmp_path / "by_hand.csv").write_text("sample_id,content,reviewer,decision,note\nb,c2,bob,skip,\na,c1,ann,valid,\n")
    assert [one.sample_id for one in read_decisions(tmp_path / "by_hand.csv")] == ["a", "b"], "however its lines stand"
    assert read_decisions(tmp_path / "nowhere") == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("sample_id,decision\n", "expected columns sample_id,content"),
        ("sample_id,content,reviewer,decision,note\na,c,ann,maybe,\n", "decisions.csv:2: decision: expected one of valid"),
        ("sample_id,content,reviewer,decision,note\na,c\n", "decisions.csv:2: expected 5 fields"),
        ("sample_id,content,reviewer,decision,note\na,c,ann,valid,\na,c,ann,invalid,\n", "ann decided 'a' twice"),
        ("\xff", "expected columns"),
    ],
)
def test_a_broken_table_says_where(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "decisions.csv").write_text(text, encoding="utf-8")
    with pytest.raises(CurationError, match=complaint):
        read_decisions(tmp_path)


def test_majority_ties_and_skips() -> None:
    votes = {"v": "valid valid invalid", "i": "invalid", "t": "valid invalid", "s": "skip", "w": "skip valid"}
    votes |= {"m": "misplaced misplaced invalid", "n": "misplaced invalid", "o": "valid valid misplaced invalid"}
    decisions = [Decision(s, "c", f"r{i}", d) for s, text in votes.items() for i, d in enumerate(text.split())]
    settled = {sample: verdict for (sample, _), verdict in decide_by_majority(decisions).items()}
    assert settled == {"v": "valid", "i": "invalid", "t": "unresolved", "w": "valid", "m": "misplaced", "n": "invalid", "o": "unresolved"}


def test_pairs_stay_or_go_together(tmp_path: Path, folders: list[Path]) -> None:
    p1a, p1u, p2a, p2u, p3a = SAMPLES[:5]
    decisions = [said(p1a, "valid"), said(p1u, "valid"), said(p2a, "valid"), said(p2u, "invalid"), said(p3a, "valid")]
    write_decisions(tmp_path / "reviews" / "decisions.csv", decisions)
    dropping = curate(SAMPLES, folders, tmp_path / "reviews")
    assert dropping.remaining == {"p1-a", "p1-u", "t1-a", "t1-u"}
    assert dropping.facts["units"] == {"all": 4, "kept": 1, "dropped": {"invalid": 1, "unreviewed": 2}}
    keeping = curate(SAMPLES, folders, tmp_path / "reviews", unreviewed="keep")
    assert keeping.remaining == {s["sample_id"] for s in SAMPLES} - {"p2-a", "p2-u"}
    share = dropping.facts["categories"][-1]
    assert (share["category"], share["valid"], share["invalid"], share["unreviewed"], share["share"]) == ("all", 4, 1, 3, 0.8)
    assert share["low"] < 0.8 < share["high"]


def test_the_worse_of_two_fates_is_told(tmp_path: Path, folders: list[Path]) -> None:
    p1a, p1u, p2a, p2u = SAMPLES[:4]
    told = {"ann": ["valid", "invalid", "misplaced", "invalid"], "bob": ["invalid", "invalid", "misplaced", "invalid"]}
    decisions = [said(s, d, r) for r, of in told.items() for s, d in zip((p1a, p1u, p2a, p2u), of, strict=True)]
    write_decisions(tmp_path / "reviews" / "decisions.csv", decisions)
    found = curate(SAMPLES, folders, tmp_path / "reviews", unreviewed="keep")
    assert found.facts["units"]["dropped"] == {"invalid": 2}, "one member is unresolved, another misplaced"


def test_decisions_on_other_content_are_stale(tmp_path: Path, folders: list[Path]) -> None:
    p1a, p1u, p2a, p2u = SAMPLES[:4]
    reworded = {**p2a, "question": "What was p2?"}
    decisions = [said(p1a, "valid"), said(p1u, "valid", colour="blue"), said(reworded, "invalid"), Decision("gone", "c", "ann", "valid")]
    write_decisions(tmp_path / "reviews" / "decisions.csv", [*decisions, said(p2u, "skip")])
    curated = curate(SAMPLES, folders, tmp_path / "reviews", unreviewed="keep")
    assert curated.facts["decisions"] == {"applied": 2, "skipped": 1, "stale": 2, "gone": 1}
    assert len(curated.remaining) == len(SAMPLES)


def test_a_decision_on_a_split_that_is_not_filtered_is_not_outdated(tmp_path: Path, folders: list[Path]) -> None:
    write_decisions(tmp_path / "reviews" / "decisions.csv", [said(SAMPLES[0], "valid"), said(SAMPLES[-1], "invalid")])
    curated = curate(SAMPLES, folders, tmp_path / "reviews", unreviewed="keep")
    assert curated.facts["decisions"] == {"applied": 1, "skipped": 0, "stale": 0, "gone": 0}
    assert len(curated.remaining) == len(SAMPLES)


def test_a_picture_written_anew_is_the_same_picture(tmp_path: Path, folders: list[Path]) -> None:
    assert png("red", 0) != png("red", 9)
    assert pixels_of(png("red", 0)) == pixels_of(png("red", 9)) != pixels_of(png("blue"))
    assert pixels_of(None) == ""
    assert pixels_of(b"no picture") != pixels_of(b"another")


def test_without_decisions_nothing_or_everything_stays(tmp_path: Path, folders: list[Path]) -> None:
    assert curate(SAMPLES, folders, tmp_path / "none").remaining == {"t1-a", "t1-u"}
    kept = curate(SAMPLES, folders, tmp_path / "none", unreviewed="keep")
    assert len(kept.remaining) == len(SAMPLES)
    assert kept.facts["agreement"] == {
        "reviewers": [],
        "shared": 0,
        "by_all": 0,
        "raw": None,
        **dict.fromkeys(f"{name}{of}" for name in ("cohen_kappa", "fleiss_kappa", "krippendorff_alpha") for of in ("", "_interval")),
    }
    assert kept.facts["categories"][0]["share"] is None


def test_agreement_is_of_what_both_decided(tmp_path: Path, folders: list[Path]) -> None:
    ann = ["valid", "valid", "invalid", "valid", "invalid", "valid", "skip", "valid"]
    bob = ["valid", "valid", "invalid", "invalid", "invalid", "valid", "valid", "skip"]
    decisions = [said(s, d, r) for r, ds in (("ann", ann), ("bob", bob)) for s, d in zip(SAMPLES, ds, strict=False)]
    write_decisions(tmp_path / "reviews" / "decisions.csv", decisions)
    found = curate(SAMPLES, folders, tmp_path / "reviews").facts["agreement"]
    assert (found["shared"], found["by_all"], found["fleiss_kappa"]) == (6, 6, None)
    assert found["raw"] == pytest.approx(5 / 6)
    assert found["cohen_kappa"] == pytest.approx(cohen_kappa_score(ann[:6], bob[:6]))


def test_rows_without_a_pair_stand_alone(tmp_path: Path, folders: list[Path]) -> None:
    alone = [row(f"q{i}", "a", pair_id=None) for i in range(2)]
    write_decisions(tmp_path / "reviews" / "decisions.csv", [said(alone[0], "valid"), said(alone[1], "invalid")])
    assert curate(alone, folders, tmp_path / "reviews").remaining == {"q0-a"}


def test_decisions_of_earlier_releases_are_known_again() -> None:
    """By the first twenty digits of SHA-256 of what was shown, as JSON in UTF-8."""
    sample = row("p1", "u") | {"question": "Welche Tür?"}
    text = '["Welche Tür?", ["I cannot tell"], [], null, false, "abc"]'
    assert content_of(sample, "abc") == hashlib.sha256(text.encode()).hexdigest()[:20]
    assert content_of(sample, "abc", ("red",)) == hashlib.sha256(f'{text[:-1]}, ["red"]]'.encode()).hexdigest()[:20]
