"""Make the files of the page from results, on request."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from qualm.compiler.plan.plan import PlannedStage
from qualm.compiler.results.integrity import changed_results
from qualm.compiler.viewing.answers import SAMPLE_ROWS, TEXT_ROWS, AnswerTable
from qualm.compiler.viewing.board import board
from qualm.compiler.viewing.chunks import chunk, json_chunk
from qualm.compiler.viewing.comparisons import compare_now, comparisons
from qualm.compiler.viewing.details import details
from qualm.compiler.viewing.live import LiveRun
from qualm.compiler.viewing.model_inputs import ModelInputs
from qualm.registry import baseline_model
from qualm.registry.entries import lock
from qualm.registry.entries.card import CardError, load_card
from qualm.registry.parameters import nested_paths
from qualm.registry.plugins.commits import COMMIT
from qualm.registry.sample import CLEAN
from qualm.registry.system import textfiles
from qualm.runners import reporting
from qualm.runners.reporting.load import model_orders
from qualm.runners.results.results import Results

PAGE = Path(__file__).parent / "page"
REPORT_STYLE = Path(reporting.__file__).parent / "templates" / "style.css"
SCRIPTS = ("page.js", "data.js", "boards.js", "compare.js", "table.js", "sample.js", "run.js", "main.js")
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
    )
)
"""Content security policy: the page loads files of its own origin and nothing else, and has no inline script or style."""
KINDS = {
    ".json": "application/json",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".webp": "image/webp",
    ".svg": "image/svg+xml",
}
SINGLE = ("board", "tests", "index", "ids")
"""Chunks of which a spec has one."""
Pictures = Literal["all", "clean", "none"]
"""Images on the page: of every variant, of clean questions, or none."""


class SitePart:
    """One spec's results, here or at a revision, as part of the page."""

    def __init__(self, results: Results, stages: Iterable[PlannedStage], revision: str = "") -> None:
        """Keep a spec's results; `revision` is "" for the working tree."""
        self.results, self.revision = results, revision
        self.key = results.spec + (f"@{re.sub('[^A-Za-z0-9._-]+', '-', revision)}" if revision else "")
        self._stages = tuple(stages)
        self._lock = threading.RLock()

    @property
    def files(self) -> list[str]:
        """Return the paths of all result files that the page reads for this spec."""
        paths = list(nested_paths(self.results.inputs))
        for stage in self._stages:
            if "scores" in stage.outputs:
                paths += [path for path in nested_paths(stage.outputs) if path.endswith(".parquet")]
            if "generations" in stage.outputs:
                paths += nested_paths(stage.inputs.get("perturbed", {}))
        return paths

    @cached_property
    def _report_params(self) -> dict[str, Any]:
        return next((stage.params for stage in self._stages if "report" in stage.outputs), {})

    @cached_property
    def orders(self) -> tuple[list[str], list[str]]:
        """Return the model names in the report's order, and again in the order of colours."""
        models, colours = model_orders(self.results, self._report_params)
        return [*models, *(name for name in self.results.models if name not in models)], colours

    @cached_property
    def answers(self) -> AnswerTable:
        return AnswerTable(self.results, self.orders[0])

    @cached_property
    def model_inputs(self) -> ModelInputs:
        return ModelInputs(self.results, self._stages)

    def described(self) -> dict[str, Any]:
        """Return the facts on this spec's results, as JSON values, for the page's first chunk."""
        report, (models, colours) = self._report_params, self.orders
        return {
            "key": self.key,
            "spec": self.results.spec,
            "revision": self.revision,
            "title": report.get("title") or self.results.spec,
            "description": " ".join((report.get("description") or "").split()),
            "models": models,
            "colours": colours,
            "blind": [name for name in models if baseline_model(name)],
            "datasets": self.results.datasets,
            "sources": self.sources,
            "changed": changed_results(self.results.root, self.files),
        }

    @property
    def licences(self) -> dict[str, str]:
        """Return {dataset: licence of its card, or of the datasets it was made from; "" if none}."""
        makers = {path: stage for stage in self._stages for path in nested_paths(stage.outputs)}

        def of(path: str) -> dict[str, None]:
            if (stage := makers.get(path)) is None:
                return {}
            if licence := stage.params.get("about", {}).get("licence"):
                return {str(licence): None}
            return {licence: None for source in nested_paths(stage.inputs) for licence in of(source)}

        return {name: "; ".join(of(str(path))) for name, path in self.results.inputs["datasets"].items()}

    @property
    def sources(self) -> list[dict[str, str]]:
        """Return {dataset, title, source, licence, revision} per dataset with a known source."""
        found, pins = [], lock.read(self.results.root)
        for stage in self._stages:
            about = stage.params.get("about", {})
            if "dataset" in stage.outputs and about.get("source"):
                facts = {key: str(about.get(key) or "") for key in ("title", "source", "licence")}
                found.append({"dataset": str(stage.params["dataset"]), **facts, "revision": _revision(stage, pins)})
        return found

    def index(self, pictures: Pictures) -> dict[str, Any]:
        """Return this spec's index as JSON values: answers, modalities, licences, files."""
        inputs = self.results.inputs
        changes = {name: self.model_inputs.modality(name) for name in self.answers.variants}
        return self.answers.index() | {
            "changes": changes,
            "pictures": pictures,
            "licences": self.licences,
            "files": {"datasets": dict(inputs["datasets"]), "generations": inputs["generations"]},
        }

    def content(self, kind: str, number: int, pictures: Pictures) -> Any:
        """Return the content of chunk `number` of a kind: JSON value or bytes; None if absent."""
        with self._lock:
            if kind == "board":
                return board(self.results)
            if kind == "tests":
                params = next((stage.params for stage in self._stages if "scores" in stage.outputs), None)
                return None if params is None else comparisons(self.results, params)
            if kind == "p":
                places = divmod(number, len(models := self.orders[0]))
                return compare_now(self.results, *(models[place] for place in places)) if places[0] < len(models) else None
            if kind == "index":
                return self.index(pictures)
            if kind == "ids":
                return self.answers.ids.tobytes()
            if kind == "c":
                columns = self.answers.columns
                return columns[number].data.tobytes() if number < len(columns) else None
            if kind == "s":
                return self.answers.questions(number) if number * SAMPLE_ROWS < self.answers.samples.height else None
            if kind == "t":
                return self.answers.texts(number) if number * TEXT_ROWS < self.answers.rows.height else None
            rows = self.answers.samples.slice(number * self.answers.questions_per_chunk, self.answers.questions_per_chunk)
            return details(self.answers, self.model_inputs, rows) if rows.height else None

    def chunks(self) -> Iterator[tuple[str, int]]:
        """Yield (kind, number) of each chunk except details and comparisons made on demand."""
        yield from ((name, 0) for name in SINGLE)
        yield from (("c", i) for i in range(len(self.answers.columns)))
        yield from (("s", i) for i in range(-(-self.answers.samples.height // SAMPLE_ROWS)))
        yield from (("t", i) for i in range(-(-self.answers.rows.height // TEXT_ROWS)))

    @property
    def n_details(self) -> int:
        return -(-self.answers.samples.height // self.answers.questions_per_chunk)


class Site:
    """The page of `qualm view`: returns the content of each of its files."""

    def __init__(self, parts: list[SitePart], title: str, pictures: Pictures = "all", live: LiveRun | None = None) -> None:
        """Keep the specs' results by key; `live` is the run to show, None if published."""
        self.parts = {part.key: part for part in parts}
        self.title, self.pictures, self.live = title, pictures, live

    def file(self, path: str) -> bytes | None:
        if path in ("", "index.html"):
            return self.page()
        if path == "view.css":
            return palette() + textfiles.read_bytes(PAGE / path)
        if path in ("icon.svg", *SCRIPTS):
            return textfiles.read_bytes(PAGE / path)
        if path == "data/index.js":
            return self.index()
        if path == "live.json" and self.live is not None:
            return json.dumps(self.live.state()).encode()
        if match := re.fullmatch(r"data/([^/]+)/(board|tests|index|ids|[cstdp])(?:/(\d{1,7}))?\.js", path):
            part = self.parts.get(match[1])
            return None if part is None else data_file(part, match[2], int(match[3] or 0), self.pictures)
        if match := re.fullmatch(r"pictures/([^/]+)/(\d{1,7})/(\d{1,9})(?:-(\d{1,7})-(\d{1,3}))?\.webp", path):
            return self._picture(match[1], *(None if n is None else int(n) for n in match.groups()[1:]))
        return None

    def page(self) -> bytes:
        scripts = "\n".join(f'<script src="{name}" defer></script>' for name in SCRIPTS)
        return textfiles.read_text(PAGE / "index.html").replace("POLICY", POLICY).replace("<!--scripts-->", scripts).encode()

    def index(self) -> bytes:
        """Return the page's first chunk, in bytes: title, and the facts on each spec's results."""
        parts = [part.described() for part in self.parts.values()]
        return json_chunk("index", {"title": self.title, "live": self.live is not None, "pictures": self.pictures, "results": parts})

    def _picture(self, key: str, dataset: int | None, number: int | None, variant: int | None, place: int | None) -> bytes | None:
        part = self.parts.get(key)
        if part is None or self.pictures == "none" or dataset is None or number is None:
            return None
        return _clean(part, dataset, number) if variant is None or place is None else _perturbed(part, number, variant, place)


def palette() -> bytes:
    """Return the CSS of the report's colours and fonts, in bytes."""
    return textfiles.read_text(REPORT_STYLE).partition("* {")[0].encode()


def data_file(part: SitePart, kind: str, number: int, pictures: Pictures) -> bytes | None:
    """Return the file of one data chunk, in bytes; None if there is no such chunk."""
    content = part.content(kind, number, pictures)
    name = f"{part.key}/{kind}" if kind in SINGLE else f"{part.key}/{kind}/{number}"
    return None if content is None else chunk(name, content) if isinstance(content, bytes) else json_chunk(name, content)


def _clean(part: SitePart, dataset: int, number: int) -> bytes | None:
    names = part.results.datasets
    of = part.answers.pictures.get(names[dataset], []) if dataset < len(names) else []
    return part.model_inputs.clean_picture(names[dataset], of[number]) if number < len(of) else None


def _perturbed(part: SitePart, sample: int, variant: int, place: int) -> bytes | None:
    answers = part.answers
    if sample >= answers.samples.height or variant >= len(answers.variants) or answers.variants[variant] == CLEAN:
        return None
    row = answers.samples.row(sample, named=True)
    return part.model_inputs.picture(row["dataset"], row["sample_id"], answers.variants[variant], place)


def _revision(stage: PlannedStage, pins: Mapping[str, lock.Pin]) -> str:
    """Return the commit of a dataset's files, from registry/fetch.lock or URLs; "" if unknown."""
    pin = pins.get(str(stage.inputs.get("source", "")).rpartition("/")[2])
    if pin is None:
        return ""
    try:
        fetch = None if pin.revision else load_card(str(stage.params["card"])).fetch
    except CardError:
        return ""
    words = [part.partition(".")[0] for one in (fetch.urls.values() if fetch else ()) for part in one.url.split("/")]
    return pin.revision or next((word for word in words if COMMIT.fullmatch(word)), "")
