"""`qualm fetch`: what a spec needs from outside, where it is, and bringing it here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from qualm.compiler.plan.plan import Plan, PlannedStage, hub_models
from qualm.compiler.project.needs import how_to_add
from qualm.compiler.project.new_spec import largest_take
from qualm.compiler.spec import sentences as say
from qualm.compiler.spec.errors import ProjectError
from qualm.compiler.spec.plugin_ref import DATA
from qualm.registry.adapters import AdapterError
from qualm.registry.entries import fetch as fetching
from qualm.registry.entries import hub, lock
from qualm.registry.entries.adding import Progress
from qualm.registry.entries.card import Card, card_names, load_card
from qualm.registry.entries.download import RemoteFile, need_room
from qualm.registry.entries.entries import Entry, entries
from qualm.registry.entries.lock import FetchError
from qualm.registry.parameters import nested_paths
from qualm.registry.plugins.commits import COMMIT
from qualm.registry.plugins.registry import PluginError
from qualm.runners.data.selection import is_early, missing_images
from qualm.runners.runtime.stage import StageError

MAX_SINGLE = 5_000
"""Questions for whose images single requests are made; above it, archives are fetched whole."""
HERE, TO_FETCH, BY_HAND, FAILED, BY_RUN = "here", "to fetch", "by hand", "no answer", "by a run"


@dataclass
class FetchItem:
    """One row of `qualm fetch`: a dataset, model or spec, its state, and its download."""

    what: str
    kind: str
    """dataset, model, reviews, spec or entry."""
    source: str
    state: str
    """HERE, TO_FETCH, BY_HAND, FAILED or BY_RUN."""
    licence: str = ""
    revision: str = ""
    files: Sequence[RemoteFile] = ()
    notes: list[str] = field(default_factory=list)
    terms: str = ""
    """Licence that must be accepted before the download."""
    is_tried: bool = True
    """True if the addresses were tried when the card was written."""
    bring: Callable[[Progress, bool], str] | None = None
    """Fetch it and return what was done; the second argument shows the hub's progress bars."""

    @property
    def size(self) -> int | None:
        return None if not self.files or any(f.size is None for f in self.files) else sum(f.size or 0 for f in self.files)

    @property
    def checksums(self) -> str:
        n_known, total = sum(bool(file.sha256) or file.blob is not None for file in self.files), len(self.files)
        if n_known in (0, total):
            return ("known" if n_known else "not known") if total else ""
        return f"{n_known} of {total}"

    def as_json(self) -> dict[str, Any]:
        files = {file.name: {"url": file.url, "bytes": file.size, "sha256": dict(file.sha256)} for file in self.files}
        return {
            "what": self.what, "kind": self.kind, "from": self.source, "state": self.state, "licence": self.licence,
            "revision": self.revision or None, "bytes": self.size, "checksums": self.checksums, "notes": self.notes,
            "terms": self.terms or None, "addresses_tried": self.is_tried, "files": files,
        }  # fmt: skip


def items_of(plan: Plan, root: Path, limit: int | None, upgrade: bool, before: Sequence[Plan] = ()) -> list[FetchItem]:
    """Return an item per earlier spec, entry and hub model that a run needs, in this order.

    Args:
        before: specs that a run of this one runs first, for their models.
        limit: fetch what so many questions of each dataset need, where their images have addresses of their own.
        upgrade: resolve branches and tags anew.
    """
    tracked = {entry.name: entry for entry in entries(root)}
    readers: dict[str, list[PlannedStage]] = {}
    for stage in (stage for each in [*before, plan] for stage in each.stages):
        for path in nested_paths(stage.inputs):
            if path.startswith(f"{DATA}/"):
                readers.setdefault(path.split("/")[2], []).append(stage)
    found = [_entry(root, name, stages, tracked.get(name), limit, upgrade) for name, stages in sorted(readers.items())]
    repos = dict.fromkeys(repo for each in [*before, plan] for repo in hub_models(each.stages))
    made_here = [
        FetchItem(each.spec, "spec", f"specs/{each.spec}.yaml", BY_RUN, "-", notes=[_describe_models(each, plan)]) for each in before
    ]
    return made_here + found + [_model(root, repo, revision, upgrade) for repo, revision in repos]


def _describe_models(other: Plan, plan: Plan) -> str:
    """Return a note that spec `other` makes models the plan reads and is run before it."""
    start = f"results/{other.spec}/models/"
    models = {path.removeprefix(start) for stage in plan.stages for path in nested_paths(stage.inputs) if path.startswith(start)}
    if models:
        return say.SPEC_TRAINS_MODELS.format(models=", ".join(sorted(models)), spec=plan.spec)
    return say.SPEC_TRAINS_OTHER_MODELS.format(spec=plan.spec)


def item_of_card(root: Path, name: str, upgrade: bool) -> FetchItem:
    """Return the item of a card's own entry; ProjectError if the data are generated.

    Args:
        upgrade: resolve branches and tags anew.

    Raises:
        CardError: there is no such card.
        ProjectError: its data are generated, so there are no files to fetch.
    """
    card = load_card(name)
    if not card.layout:
        raise ProjectError(f"{name}: is generated, there is nothing to fetch; name its card in a spec")
    entry = next((entry for entry in entries(root) if entry.name == name), None)
    return _of_card(root, name, card, [], entry, None, upgrade)


def _entry(root: Path, name: str, stages: Sequence[PlannedStage], entry: Entry | None, limit: int | None, upgrade: bool) -> FetchItem:
    sources = [stage for stage in stages if stage.inputs.get("source") == f"{DATA}/{name}"]
    card_name = name if name in card_names() or not sources else sources[0].params["card"]
    if card_name not in card_names() or "reviews" in stages[0].inputs:
        state = HERE if entry is not None and entry.where in ("here", "cache", "remote") else BY_HAND
        return FetchItem(name, "entry", "", state, notes=[] if state == HERE else [how_to_add(stages[0], name, entry)])
    return _of_card(root, name, load_card(card_name), sources, entry, limit, upgrade)


def _of_card(
    root: Path, name: str, card: Card, sources: Sequence[PlannedStage], entry: Entry | None, limit: int | None, upgrade: bool
) -> FetchItem:
    item = FetchItem(name, card.kind, _host(card), HERE, card.licence)
    missing = _missing_files(card, sources, limit)
    added = entry if entry is not None and entry.where in ("here", "cache", "remote") else None
    movable = upgrade and card.fetch is not None and card.fetch.repo is not None
    uses = [stage.params["args"] for stage in sources]
    is_partial = added is not None and bool(added.skipped)
    grows = added is not None and added.path.is_dir() and (missing is not None if is_partial else not movable)
    unfetched = fetching.unfetched_files(root, name, card.fetch, uses, missing) if grows and card.fetch is not None else []
    if unfetched:
        item.notes.append(say.MORE_FILES_NEEDED.format(files=", ".join(unfetched)))
    elif grows and is_partial and missing is not None and added is not None:
        missing_files = missing(added.path)
        if not missing_files:
            return item
        item.notes.append(say.MORE_IMAGES_NEEDED.format(n=len(missing_files)))
    elif added is not None and not movable and not (is_partial and sources):
        return item
    if card.fetch is None:
        item.state = BY_HAND
        item.notes.append(say.FETCH_BY_HAND.format(source=card.source, name=name, card=card.name))
        return item
    item.terms = card.fetch.terms
    item.is_tried = card.fetch.verified
    if card.fetch.also:
        item.notes.append(say.FETCH_LEAVES_OUT.format(what=card.fetch.also))
    if missing is None and limit is not None:
        item.notes.append(say.FETCHED_WHOLE_FOR_LIMIT.format(n=MAX_SINGLE) if card.fetch.single else say.FETCHED_WHOLE_FOR_SOURCE)
    try:
        plan = fetching.plan(root, name, card, uses, missing, upgrade)
    except FetchError as error:
        item.state, item.notes = FAILED, [*item.notes, str(error)]
        return item
    if added is not None and movable and not is_partial and plan.revision == _pin(root, name):
        return item
    if grows:
        plan = replace(plan, files=[file for file in plan.files if file.name in unfetched])
    plan = fetching.with_sizes(plan)
    item.state, item.revision, item.files = TO_FETCH, plan.revision, plan.files
    if missing is not None:
        item.notes.append(say.FETCHED_CHOSEN_IMAGES)
    item.bring = lambda progress, bars: _bring(root, plan, grows, progress)
    return item


def _bring(root: Path, plan: fetching.FetchPlan, grows: bool, progress: Progress) -> str:
    """Fetch a plan's files, into the entry that is there if it `grows`; return what was done."""
    from qualm.registry.text import format_size

    try:
        done = (fetching.fetch_missing_files if grows else fetching.fetch)(root, plan, progress)
    except fetching.IncompleteError as error:
        also = f" Not fetched: {error.also}." if error.also else ""
        raise FetchError(
            f"{error}\n{plan.name}: nothing was added.{also} What came is in {error.folder}; complete it there, then "
            f"`qualm data add {plan.name} --from {error.folder} --card {plan.card.name}`"
        ) from error
    except (AdapterError, StageError, PluginError) as error:
        raise FetchError(str(error)) from error
    inspection = done.added.inspection
    part = say.FETCHED_IN_PART.format(problems="; ".join(inspection.skipped[:3])) if inspection.skipped else ""
    outcome, version, size = done.added.outcome, done.added.entry.version, format_size(inspection.size)
    return say.FETCHED_ENTRY.format(outcome=outcome, version=version, files=say.count(len(inspection.files), "file"), size=size, part=part)


def _missing_files(card: Card, sources: Sequence[PlannedStage], limit: int | None) -> fetching.MissingFiles | None:
    """Return a function (folder -> images to fetch one by one); None to fetch whole files."""
    params = [(limited(stage.params, limit) if limit else stage.params, stage.seed) for stage in sources]
    if card.fetch is None or not card.fetch.single or not params:
        return None
    if not all(is_early(one, True) and _max_questions(one) <= MAX_SINGLE for one, _ in params):
        return None

    def missing(folder: Path) -> list[Sequence[str]]:
        return list(dict.fromkeys(tuple(places) for one, seed in params for places in missing_images(one, seed, folder)))

    return missing


def limited(params: Mapping[str, Any], limit: int) -> dict[str, Any]:
    """Return a data stage's parameters with `limit` (per split) or `balance` lowered."""
    if "balance" in params:
        return {**params, "balance": {**params["balance"], "take": min(params["balance"]["take"], largest_take(limit))}}
    before = params["limit"]
    if isinstance(before, Mapping):
        return {**params, "limit": {**before, "of": {split: min(n, limit) for split, n in before["of"].items()}}}
    return {**params, "limit": limit if before is None else min(before, limit)}


def _max_questions(params: Mapping[str, Any]) -> int:
    """Return the most questions of a data stage, by its `balance` or `limit`."""
    if "balance" in params:
        return 2 * int(params["balance"]["take"])
    limit = params["limit"]
    return limit if isinstance(limit, int) else sum(limit["of"].values())


def _pin(root: Path, name: str) -> str:
    pin = lock.read(root).get(name)
    return pin.revision if pin else ""


def _host(card: Card) -> str:
    """Return "hub:OWNER/NAME", the first host (and how many more), or the host of the source."""
    if card.fetch is None:
        return card.source.split("/")[2] if "//" in card.source else card.source
    if card.fetch.repo:
        return f"hub:{card.fetch.repo}"
    return say.list_some(dict.fromkeys(one.url.split("/")[2] for one in card.fetch.urls.values()), 1)


def _model(root: Path, repo: str, revision: str | None, upgrade: bool) -> FetchItem:
    branch = revision or lock.BRANCH
    pins = lock.read(root)
    if COMMIT.fullmatch(branch):
        branch = next((key.partition("@")[2] for key, pin in pins.items() if key.startswith(f"{repo}@") and pin.revision == branch), branch)
    key = lock.model_key(repo, branch)
    commit = pins[key].revision if key in pins and not upgrade else branch
    item = FetchItem(repo, "model", f"hub:{repo}@{branch}", FAILED)
    try:
        found = hub.model_listing(repo, commit)
    except FetchError as error:
        item.notes = [str(error)]
        return item
    item.licence, item.revision, item.files = found.licence, found.commit, found.files
    if found.gated:
        item.notes.append(say.HUB_ASKS_TERMS.format(page=hub.page(repo, "model"), tokens=hub.TOKENS))
    missing = [file for file in found.files if hub.cached(repo, found.commit, file) is None]
    pinned = COMMIT.fullmatch(branch) or (key in pins and pins[key].revision == found.commit)
    item.state = TO_FETCH if missing or not pinned else HERE

    def bring(progress: Progress, bars: bool) -> str:
        if not COMMIT.fullmatch(branch):
            lock.write(root, {key: lock.Pin(f"hub:{repo}", found.commit)})
        hub.cache_folder().mkdir(parents=True, exist_ok=True)
        need_room(hub.cache_folder(), sum(file.size or 0 for file in missing))
        hub.download_model(repo, found.commit, found.files, bars, lambda file, size: progress("fetching", file, size, item.size or 0))
        return say.FETCHED_MODEL.format(files=say.count(len(found.files), "file"), commit=found.commit[:12], folder=hub.cache_folder())

    item.bring = bring if item.state == TO_FETCH else None
    return item
