"""Reviewers' decisions about questions: reading, combining, and filtering of what is scored.

A decision is about content (question, answer, image, subset), not about an id: if the content under an id changes, earlier decisions are
counted as stale and ignored.

- A question is `valid` if more reviewers called it so than did not; `skip` is no vote; a tie is `unresolved`. Otherwise the more frequent
  reason counts: `invalid`, or `misplaced` (good, but of another subset); `invalid` if equal.
- A pair stays if both its members are valid: lone members would reward a model that always answers, or always abstains. With
  `lone: keep`, as in CertainlyUncertain, a valid member stays without the other, and is of no pair.
- `unreviewed: drop` (as in the papers) or `keep` applies to questions without a decision. Unresolved ones are dropped under both.
- Only scored samples are filtered (of pair sets the test split); training data stays as it is.
"""

import csv
import hashlib
import io
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from qualm.registry.formats.picture_lists import all_ids, picture_ids
from qualm.registry.formats.pictures import PictureError, decoded
from qualm.registry.sample import IMAGES
from qualm.registry.system import atomic
from qualm.registry.system.textfiles import TextFileError, read_text
from qualm.runners.data.agreement import cohen_kappa, fleiss_kappa, jackknife, krippendorff_alpha, raw_agreement, wilson
from qualm.runners.runtime.records import iterate_rows

FILE = "decisions.csv"
"""The only file of a reviews entry."""

COLUMNS = ("sample_id", "content", "reviewer", "decision", "note")
CHOICES = ("valid", "invalid", "misplaced", "skip")
REASONS = ("invalid", "misplaced")
"""Decisions that remove a question."""
Unreviewed = Literal["drop", "keep"]
Lone = Literal["drop", "keep"]


class CurationError(Exception):
    """Error of a malformed table of decisions; the message names line and expectation."""


@dataclass(frozen=True, order=True)
class Decision:
    """A reviewer's decision about one question as shown, with its image and answer."""

    sample_id: str
    content: str
    """Digest of what was shown (`content_of`)."""
    reviewer: str
    decision: str
    """One of CHOICES."""
    note: str = ""


@dataclass(frozen=True)
class Curated:
    """Ids of the samples that remain after curation, and facts about it."""

    remaining: frozenset[str]
    """Ids of the remaining samples of all splits."""
    facts: dict[str, Any]
    """Counts, valid shares and agreement, as JSON: `verification.json` of the dataset's folder."""


def read_decisions(path: Path) -> list[Decision]:
    """Return decisions, sorted, from a CSV file or a folder's decisions.csv; [] if missing.

    Raises:
        CurationError: wrong columns, an unknown decision, or two decisions of one reviewer on one question.
    """
    file = path / FILE if path.is_dir() or path.suffix != ".csv" else path
    if not file.is_file():
        return []
    try:
        reader = csv.DictReader(io.StringIO(read_text(file, 256 << 20), newline=""), strict=True)
        rows = list(reader)
    except (TextFileError, csv.Error) as error:
        raise CurationError(f"{file}: not a readable CSV table: {error}") from error
    if tuple(reader.fieldnames or ()) != COLUMNS:
        raise CurationError(f"{file}: expected columns {','.join(COLUMNS)}, got {','.join(map(str, reader.fieldnames or ())) or 'none'}")
    decisions: dict[tuple[str, str, str], Decision] = {}
    for line, row in enumerate(rows, 2):
        if None in row or None in row.values():
            raise CurationError(f"{file}:{line}: expected {len(COLUMNS)} fields")
        decision = Decision(**row)
        if decision.decision not in CHOICES:
            raise CurationError(f"{file}:{line}: decision: expected one of {', '.join(CHOICES)}, got '{decision.decision}'")
        key = (decision.sample_id, decision.content, decision.reviewer)
        if decisions.setdefault(key, decision) != decision:
            raise CurationError(f"{file}:{line}: {decision.reviewer} decided '{decision.sample_id}' twice and differently; keep one line")
    return sorted(decisions.values())


def write_decisions(path: Path, decisions: Iterable[Decision]) -> None:
    """Write a table of decisions atomically, sorted, the same bytes for the same decisions."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(d) for d in sorted(set(decisions)))
    atomic.write_text(path, text.getvalue())


def content_of(sample: Mapping[str, Any], pixels: str, claims: Sequence[str] = ()) -> str:
    """Return the digest of what a reviewer sees of a sample, which decisions refer to.

    Args:
        pixels: `pixels_of` its image; empty if it has none.
        claims: `qualm.runners.data.claims` of it, if its dataset makes any.
    """
    content: list[Any] = [
        sample["question"],
        list(sample["references"] or ()),
        list(sample["choices"] or ()),
        sample["answer_index"],
        sample["answerable"] is not False,
        pixels,
        *([list(claims)] if claims else []),
    ]
    return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()[:20]


def pixels_of(data: bytes | None) -> str:
    """Return the SHA-256 of an image's decoded pixels, else of its bytes; "" for None."""
    if data is None:
        return ""
    try:
        picture = decoded(data)
    except PictureError:
        return hashlib.sha256(data).hexdigest()
    return hashlib.sha256(f"{picture.width}x{picture.height}:".encode() + picture.tobytes()).hexdigest()


def combine_digests(digests: Sequence[str]) -> str:
    """Return one digest for the images of a question; "" for none, unchanged for one."""
    return digests[0] if len(digests) == 1 else hashlib.sha256("\n".join(digests).encode()).hexdigest() if digests else ""


def decide_by_majority(decisions: Iterable[Decision]) -> dict[tuple[str, str], str]:
    """Return `valid`, one of REASONS or `unresolved` by (sample_id, content), skips ignored."""
    votes: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for d in decisions:
        if d.decision != "skip":
            votes[d.sample_id, d.content][d.decision] += 1
    return {key: _verdict(v) for key, v in votes.items()}


def _verdict(votes: Counter[str]) -> str:
    against = sum(votes[reason] for reason in REASONS)
    if votes["valid"] == against:
        return "unresolved"
    return "valid" if votes["valid"] > against else max(REASONS, key=lambda reason: votes[reason])


def curate(
    samples: Sequence[Mapping[str, Any]],
    folders: Sequence[Path],
    reviews: Path,
    *,
    unreviewed: Unreviewed = "drop",
    lone: Lone = "drop",
    splits: Collection[str] = ("test",),
    claims: Callable[[Mapping[str, Any]], Sequence[str]] = lambda _: (),
) -> Curated:
    """Filter `splits` of a dataset by reviewers' decisions; return remaining ids and facts.

    Args:
        samples: rows of SAMPLES of all splits.
        folders: folders whose `images/` hold the images, in order of precedence: for a pair set those of the recipes, then the sources.
        reviews: the entry `registry/data/NAME`; without a decisions.csv in it nothing is reviewed yet.
        lone: with `keep`, members of pairs are judged one by one.
        splits: splits to filter; rows of others remain.
        claims: returns the claims about a row (`qualm.runners.data.claims`).

    Returns:
        The remaining ids, and the facts for `verification.json`. A row without `pair_id` is a unit of its own, and with
        `lone: keep` every row is.

    Raises:
        CurationError: the table of decisions is malformed.
    """
    decisions = read_decisions(reviews)
    reviewable = [s for s in samples if s["split"] in splits]
    about = {s["sample_id"]: tuple(claims(s)) for s in reviewable}
    decided = {d.sample_id for d in decisions}
    ids = {s["sample_id"] for s in samples}
    pictures = _pixels(folders, all_ids(s["image_id"] for s in reviewable if s["sample_id"] in decided))
    content = {
        s["sample_id"]: content_of(
            s, combine_digests([pictures.get(name, "") for name in picture_ids(s["image_id"])]), about[s["sample_id"]]
        )
        for s in reviewable
        if s["sample_id"] in decided
    }
    applied = [d for d in decisions if content.get(d.sample_id) == d.content]
    settled = {sample: verdict for (sample, _), verdict in decide_by_majority(applied).items()}
    verdicts = {s["sample_id"]: settled.get(s["sample_id"], "unreviewed") for s in reviewable}
    units = {s["sample_id"]: s["sample_id"] if lone == "keep" else s["pair_id"] or s["sample_id"] for s in reviewable}
    pairs: dict[str, list[str]] = defaultdict(list)
    for sample, unit in units.items():
        pairs[unit].append(verdicts[sample])
    fates = {pair: _fate(v, unreviewed) for pair, v in pairs.items()}
    remaining = frozenset(s["sample_id"] for s in samples if s["split"] not in splits or fates[units[s["sample_id"]]] == "kept")
    dropped = Counter(fate for fate in fates.values() if fate != "kept")
    facts = {
        "splits": sorted(splits),
        "unreviewed": unreviewed,
        "lone": lone,
        "decisions": {
            "applied": len(applied),
            "skipped": sum(d.decision == "skip" for d in applied),
            "stale": sum(d.sample_id in content and content[d.sample_id] != d.content for d in decisions),
            "gone": sum(d.sample_id not in ids for d in decisions),
        },
        "unit": "pair" if lone == "drop" and any(s["pair_id"] for s in reviewable) else "question",
        "units": {"all": len(fates), "kept": len(fates) - sum(dropped.values()), "dropped": dict(sorted(dropped.items()))},
        "categories": _shares(((s["category"] or "", verdicts[s["sample_id"]]) for s in reviewable), total=True),
        "subsets": _shares(((name, verdicts[sample]) for sample, names in about.items() for name in names), total=False),
        "agreement": _agreement(applied),
    }
    return Curated(remaining, facts)


def without_lone_pairs(samples: pa.Table) -> pa.Table:
    """Return all samples, with `pair_id` null where no other row has the same."""
    counts = Counter(samples["pair_id"].to_pylist())
    ids = [name if counts[name] > 1 else None for name in samples["pair_id"].to_pylist()]
    return samples.set_column(samples.schema.get_field_index("pair_id"), samples.schema.field("pair_id"), pa.array(ids, pa.string()))


def _fate(verdicts: Collection[str], unreviewed: Unreviewed) -> str:
    for worst in (*REASONS, "unresolved"):
        if worst in verdicts:
            return worst
    return "unreviewed" if "unreviewed" in verdicts and unreviewed == "drop" else "kept"


def _pixels(folders: Sequence[Path], ids: set[str]) -> dict[str, str]:
    """Return the pixel digest by image id, from the first folder with it; others are absent."""
    digests: dict[str, str] = {}
    for folder in folders:
        if len(digests) < len(ids) and (folder / "images").is_dir():
            for row in iterate_rows(folder / "images", IMAGES, batch_size=64):
                name = row["image_id"]
                if name in ids and name not in digests:
                    digests[name] = pixels_of(row["image"]["bytes"] if row["image"] else None)
    return digests


def _shares(group_verdicts: Iterable[tuple[str, str]], total: bool) -> list[dict[str, Any]]:
    """Return rows of verdict counts, valid share and interval per group; `total`: also `all`."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for group, verdict in group_verdicts:
        for name in (group, "all") if total else (group,):
            counts[name][verdict] += 1
    rows = []
    for name in sorted(counts, key=lambda c: (total and c == "all", c)):
        n = counts[name]
        decided = n["valid"] + n["invalid"] + n["misplaced"] + n["unresolved"]
        interval = wilson(n["valid"], decided)
        rows.append(
            {
                "category": name,
                **{k: n[k] for k in ("valid", *REASONS, "unresolved", "unreviewed")},
                "share": n["valid"] / decided if decided else None,
                "low": interval[0] if interval else None,
                "high": interval[1] if interval else None,
            }
        )
    return rows


def _agreement(applied: Sequence[Decision]) -> dict[str, Any]:
    """Return each reviewer's vote counts and the agreement among reviewers, without skips.

    Kappa and alpha have 95% jackknife intervals. Cohen's kappa is given for two reviewers, Fleiss' kappa otherwise.
    """
    votes: dict[str, dict[str, str]] = defaultdict(dict)
    for d in applied:
        if d.decision != "skip":
            votes[d.sample_id][d.reviewer] = d.decision
    reviewers = sorted({r for v in votes.values() for r in v})
    shared = [v for v in votes.values() if len(v) > 1]
    common = [v for v in votes.values() if len(v) == len(reviewers)] if len(reviewers) > 1 else []
    lists = [[v[r] for r in reviewers] for v in common]
    two = len(reviewers) == 2
    of_several = [list(v.values()) for v in shared]
    decided: Counter[tuple[str, str]] = Counter((r, d) for v in votes.values() for r, d in v.items())
    return {
        "reviewers": [{"reviewer": r, **{k: decided[r, k] for k in ("valid", *REASONS)}} for r in reviewers],
        "shared": len(shared),
        "by_all": len(common),
        "raw": raw_agreement(of_several),
        "cohen_kappa": _cohen(lists) if two else None,
        "cohen_kappa_interval": jackknife(_cohen, lists) if two else None,
        "fleiss_kappa": fleiss_kappa(lists) if not two else None,
        "fleiss_kappa_interval": jackknife(fleiss_kappa, lists) if not two else None,
        "krippendorff_alpha": krippendorff_alpha(of_several),
        "krippendorff_alpha_interval": jackknife(krippendorff_alpha, of_several),
    }


def _cohen(votes: Sequence[Sequence[str]]) -> float | None:
    return cohen_kappa([vote[0] for vote in votes], [vote[1] for vote in votes])
