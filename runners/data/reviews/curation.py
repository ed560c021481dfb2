"""People's decisions about questions: read, combined over reviewers, and used to filter what is scored.

A decision is about content (question, answer, picture, and the subset it was put in), not about an id: when something else lies
under the same id, what people said of the old question is counted as stale and says nothing of the new one. Lost without it: a
test set that nobody looked at, or one "verified" by decisions on questions that are no longer in it.

The rules, in one place:

- Several reviewers of one question: it is `valid` if more called it so than did not; `skip` is no vote; a tie is `unresolved`. Of
  those that are not valid, the more frequent reason stands: `invalid`, or `misplaced` (good, but of another subset); `invalid` if equal.
- A pair stays when both its members are valid. A member alone is dropped with its partner: the pair measures whether a model
  tells the two apart, and a split with lone members would reward answering, or declining, always.
- `unreviewed: drop` (as the papers do: only what a person confirmed is kept) or `keep`, for questions that nobody has decided.
  Unresolved ones are dropped under both.
- Only what is scored is filtered (of pair sets the test split); training data stays as it is.
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

from qualm.registry.formats import atomic
from qualm.registry.formats.picture_lists import all_ids, picture_ids
from qualm.registry.formats.pictures import PictureError, decoded
from qualm.registry.formats.textfiles import TextFileError, read_text
from qualm.registry.sample import IMAGES
from qualm.runners.data.reviews.agreement import cohen_kappa, fleiss_kappa, krippendorff_alpha, raw, wilson
from qualm.runners.runtime.records import iterate

FILE = "decisions.csv"
"""The one file of a reviews entry."""

COLUMNS = ("sample_id", "content", "reviewer", "decision", "note")
CHOICES = ("valid", "invalid", "misplaced", "skip")
REASONS = ("invalid", "misplaced")
"""Why a question does not stay."""
Unreviewed = Literal["drop", "keep"]


class CurationError(Exception):
    """A table of decisions that cannot be used: which line, what was expected, what came."""


@dataclass(frozen=True, order=True)
class Decision:
    """What one person said about one question with its picture and answer."""

    sample_id: str
    content: str
    """Digest of what was shown (`content_of`)."""
    reviewer: str
    decision: str
    """One of CHOICES."""
    note: str = ""


@dataclass(frozen=True)
class Curated:
    """What is left of the samples, and what to tell about it."""

    remaining: frozenset[str]
    """Ids of the samples that stay, of all splits."""
    facts: dict[str, Any]
    """Counts, valid shares and agreement, as JSON: `verification.json` of the set's folder."""


def read_decisions(path: Path) -> list[Decision]:
    """Read a table of decisions, sorted, by its path or its entry's; empty without the file.

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
    """Write a table of decisions: sorted, whole or not at all, the same bytes for the same decisions."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(d) for d in sorted(set(decisions)))
    atomic.write_text(path, text.getvalue())


def content_of(sample: Mapping[str, Any], picture: str, claims: Sequence[str] = ()) -> str:
    """Digest of what a reviewer is shown of a sample: question, answers, options, whether it can be answered, pixels and subset.

    Args:
        picture: `pixels_of` its picture; empty where it has none.
        claims: `qualm.runners.data.reviews.claims` of it, where its data set makes any.
    """
    content: list[Any] = [
        sample["question"],
        list(sample["references"] or ()),
        list(sample["choices"] or ()),
        sample["answer_index"],
        sample["answerable"] is not False,
        picture,
        *([list(claims)] if claims else []),
    ]
    return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()[:20]


def pixels_of(data: bytes | None) -> str:
    """Digest of a picture's pixels, so that writing the same picture anew leaves decisions about it in force.

    A picture that cannot be decoded is known by its bytes.
    """
    if data is None:
        return ""
    try:
        picture = decoded(data)
    except PictureError:
        return hashlib.sha256(data).hexdigest()
    return hashlib.sha256(f"{picture.width}x{picture.height}:".encode() + picture.tobytes()).hexdigest()


def pixels_together(digests: Sequence[str]) -> str:
    """What `pixels_of` a question's pictures are together: that of a single one, of several a digest of theirs; empty without one."""
    return digests[0] if len(digests) == 1 else hashlib.sha256("\n".join(digests).encode()).hexdigest() if digests else ""


def settle(decisions: Iterable[Decision]) -> dict[tuple[str, str], str]:
    """(sample, content) -> `valid`, one of REASONS or `unresolved` by majority; questions with no vote but skips are absent."""
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
    splits: Collection[str] = ("test",),
    claims: Callable[[Mapping[str, Any]], Sequence[str]] = lambda _: (),
) -> Curated:
    """Filter some splits of a data set by people's decisions. For the stages `assemble` (pair sets) and `curate` (all others).

    Args:
        samples: rows of SAMPLES of all splits, as they would lie in the set.
        folders: folders whose `images/` hold the pictures: for a pair set those of the recipes, then those of the source data sets.
            An `image_id` that is in several is taken from the first.
        reviews: the entry `registry/data/NAME`; without a decisions.csv in it nothing is reviewed yet.
        splits: which splits are filtered; rows of others are kept.
        claims: what the data set says of a row beyond its answers (`qualm.runners.data.reviews.claims`).

    Returns:
        The ids that stay, and the facts for `verification.json`. Rows without `pair_id` stand for themselves.

    Raises:
        CurationError: the table of decisions is broken.
    """
    decisions = read_decisions(reviews)
    reviewable = [s for s in samples if s["split"] in splits]
    about = {s["sample_id"]: tuple(claims(s)) for s in reviewable}
    decided = {d.sample_id for d in decisions}
    pictures = _pixels(folders, all_ids(s["image_id"] for s in reviewable if s["sample_id"] in decided))
    content = {
        s["sample_id"]: content_of(
            s, pixels_together([pictures.get(name, "") for name in picture_ids(s["image_id"])]), about[s["sample_id"]]
        )
        for s in reviewable
        if s["sample_id"] in decided
    }
    applied = [d for d in decisions if content.get(d.sample_id) == d.content]
    settled = {sample: verdict for (sample, _), verdict in settle(applied).items()}
    verdicts = {s["sample_id"]: settled.get(s["sample_id"], "unreviewed") for s in reviewable}
    pairs: dict[str, list[str]] = defaultdict(list)
    for s in reviewable:
        pairs[s["pair_id"] or s["sample_id"]].append(verdicts[s["sample_id"]])
    fates = {pair: _fate(v, unreviewed) for pair, v in pairs.items()}
    remaining = frozenset(s["sample_id"] for s in samples if s["split"] not in splits or fates[s["pair_id"] or s["sample_id"]] == "kept")
    dropped = Counter(fate for fate in fates.values() if fate != "kept")
    facts = {
        "splits": sorted(splits),
        "unreviewed": unreviewed,
        "decisions": {
            "applied": len(applied),
            "skipped": sum(d.decision == "skip" for d in applied),
            "stale": sum(d.sample_id in content and content[d.sample_id] != d.content for d in decisions),
            "gone": sum(d.sample_id not in content for d in decisions),
        },
        "unit": "pair" if any(s["pair_id"] for s in reviewable) else "question",
        "units": {"all": len(fates), "kept": len(fates) - sum(dropped.values()), "dropped": dict(sorted(dropped.items()))},
        "categories": _shares(((s["category"] or "", verdicts[s["sample_id"]]) for s in reviewable), total=True),
        "subsets": _shares(((name, verdicts[sample]) for sample, names in about.items() for name in names), total=False),
        "agreement": _agreement(applied),
    }
    return Curated(remaining, facts)


def _fate(verdicts: Collection[str], unreviewed: Unreviewed) -> str:
    for worst in (*REASONS, "unresolved"):
        if worst in verdicts:
            return worst
    return "unreviewed" if "unreviewed" in verdicts and unreviewed == "drop" else "kept"


def _pixels(folders: Sequence[Path], ids: set[str]) -> dict[str, str]:
    """Digests of the wanted pictures, from the first folder that has each."""
    digests: dict[str, str] = {}
    for folder in folders:
        if len(digests) < len(ids) and (folder / "images").is_dir():
            for row in iterate(folder / "images", IMAGES, batch_size=64):
                name = row["image_id"]
                if name in ids and name not in digests:
                    digests[name] = pixels_of(row["image"]["bytes"] if row["image"] else None)
    return digests


def _shares(groups: Iterable[tuple[str, str]], total: bool) -> list[dict[str, Any]]:
    """Per group and, where asked for, last over `all`: how many questions are valid. Ties count as not valid, since they are not kept.

    Args:
        groups: (group, verdict) of every question.
        total: whether every question is of one group, so that their sum means something.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for group, verdict in groups:
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
    """How far reviewers agree on questions that several of them decided; each coefficient None where it is not defined."""
    votes: dict[str, dict[str, str]] = defaultdict(dict)
    for d in applied:
        if d.decision != "skip":
            votes[d.sample_id][d.reviewer] = d.decision
    reviewers = sorted({r for v in votes.values() for r in v})
    shared = [v for v in votes.values() if len(v) > 1]
    common = [v for v in votes.values() if len(v) == len(reviewers)] if len(reviewers) > 1 else []
    lists = [[v[r] for r in reviewers] for v in common]
    two = len(reviewers) == 2
    decided: Counter[tuple[str, str]] = Counter((r, d) for v in votes.values() for r, d in v.items())
    return {
        "reviewers": [{"reviewer": r, **{k: decided[r, k] for k in ("valid", *REASONS)}} for r in reviewers],
        "shared": len(shared),
        "by_all": len(common),
        "raw": raw([list(v.values()) for v in shared]),
        "cohen_kappa": cohen_kappa([v[0] for v in lists], [v[1] for v in lists]) if two else None,
        "fleiss_kappa": fleiss_kappa(lists) if not two else None,
        "krippendorff_alpha": krippendorff_alpha([list(v.values()) for v in shared]),
    }
