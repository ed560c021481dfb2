"""Estimate what pair recipes and judges ask of servers, by the arithmetic of `qualm.compiler.project.prices`.

A plugin that asks a generator declares in `ASKS`: `each` what it asks about (`question`, `image`, `answer`), `times` the parameter with
the number of repetitions, `requests` per item, `pictures` shown in each, `text` what it sends beside the question (`answer`, `caption`),
`attempts` the default of that parameter, `prompts` if they are not its own ASSETS, `only` the parameter values under which it asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qualm.compiler.plan.plan import Plan, PlannedStage
from qualm.compiler.project.pending_questions import questions
from qualm.compiler.project.prices import IMAGE_TOKENS, TURN, UNKNOWN_QUESTION, Cost, Load, price_lines, tokens
from qualm.compiler.spec import sentences as say
from qualm.compiler.spec.plugin_ref import ANSWERABLE_BY, Ref
from qualm.compiler.spec.references_in import chosen_kind
from qualm.registry.plugins import registry
from qualm.registry.plugins.registry import SERVER, Plugin
from qualm.runners.prompts.templates import read_prompt
from qualm.runners.runtime.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa

UNKNOWN_CAPTION = 600
"""Bytes assumed for a caption that is not written yet."""
Args = Mapping[str, Any]


@dataclass(frozen=True)
class _Asker:
    plugin: Plugin
    args: Args
    server: Args
    """Arguments of the generator: `model`, `base_url`."""
    instead: Args = field(default_factory=dict)
    """Entries of `ASKS` that are otherwise here."""

    @property
    def asks(self) -> Args:
        return {**dict(self.plugin.declares.get("ASKS", {})), **self.instead}

    @property
    def attempts(self) -> int:
        return int(self.args.get("attempts") or self.asks.get("attempts", 1))

    def prompt_tokens(self, root: Path) -> int:
        """Return tokens of one item's unfilled prompt templates, the longest if not known which."""
        given = self.args.get("prompt")
        files = (
            [root / str(given)] if given else [(self.plugin.path.parent / str(a)).resolve() for a in self.plugin.declares.get("ASSETS", ())]
        )
        if not given and "prompts" in self.asks:
            return sum(tokens(read_prompt(str(name))) for name in self.asks["prompts"])
        category = str(self.args.get("category", "")).rpartition("/")[2]
        files = [f for f in files if f.suffix == ".md" and f.is_file()]
        lengths = sorted((tokens(read_prompt("", str(f))) for f in [f for f in files if f.stem == category] or files), reverse=True)
        # The longest prompts: which of them an item gets is not known before, and the estimate must not be too low.
        return sum(lengths[: self.asks.get("requests", 1)])

    def load(self, root: Path, text_tokens: int, tokens_per_image: int, task_tokens: int = 0) -> Load:
        """Return one item's load over all attempts: requests, tokens sent, most tokens received.

        Each request sends `task_tokens`, `text_tokens` and its images, beside the prompt templates.
        """
        requests = int(self.asks.get("requests", 1))
        sent = self.prompt_tokens(root) + requests * (
            TURN + task_tokens + text_tokens + int(self.asks.get("pictures", 0)) * tokens_per_image
        )
        return Load(requests, sent, requests * int(self.args.get("max_new_tokens", 0))).times(self.attempts)


def text_costs(plan: Plan, stages: Sequence[PlannedStage], root: Path, settings: Settings) -> Iterator[Cost]:
    """Yield the cost estimate of each pair recipe and judge that asks a server."""
    for stage in stages:
        for ref in stage.refs if {"pairs", "judgements"} & stage.outputs.keys() else ():
            for asker in _askers(ref):
                loads = _pairing(stage, asker, root) if "pairs" in stage.outputs else _judging(plan, stage, ref, root)
                yield _cost(stage, ref, asker, loads, root, settings)
        for ref in stage.refs if ANSWERABLE_BY.name in stage.params else ():
            for asker in _askers(ref) if ref.plugin.kind == "judges" else ():
                once = replace(asker, instead={"each": "reference", "requests": 1})
                yield _cost(stage, ref, once, _Items((-(-UNKNOWN_QUESTION // 4),), False), root, settings)


def sum_by_stage(costs: Sequence[Cost]) -> dict[str, Cost]:
    """Return {stage: cost}, the costs of each stage added up; {} without costs."""
    by_stage: dict[str, Cost] = {}
    for c in costs:
        before = by_stage.get(c.stage)
        if before is None:
            by_stage[c.stage] = c
            continue
        counted = before.questions is not None and c.questions is not None
        by_stage[c.stage] = replace(
            before,
            model=f"{before.model}, {c.model}",
            server=before.server if before.server == c.server else f"{before.server}, {c.server}",
            questions=(before.questions or 0) + (c.questions or 0) if counted else None,
            load=before.load + c.load,
            dollars=None if before.dollars is None or c.dollars is None else before.dollars + c.dollars,
            arithmetic=(*before.arithmetic, *c.arithmetic),
        )
    return by_stage


def _askers(ref: Ref) -> Iterator[_Asker]:
    for plugin, args in ref.uses:
        for parameter in plugin.parameters:
            value = args.get(parameter.name)
            if value is not None and chosen_kind(parameter.annotation) == "generators":
                generator = registry.get("generators", value["plugin"])
                only = dict(plugin.declares.get("ASKS", {})).get("only", {})
                if SERVER in generator.declares and all(args.get(name) == expected for name, expected in only.items()):
                    where = {"base_url": value["args"][generator.declares[SERVER]], "model": value["args"]["model"]}
                    yield _Asker(plugin, args, where)


@dataclass(frozen=True)
class _Items:
    """Token counts of the texts that a server is asked about; a typical count if not built."""

    texts: tuple[int, ...]
    built: bool
    about: int = 0


def _cost(stage: PlannedStage, ref: Ref, asker: _Asker, items: _Items, root: Path, settings: Settings) -> Cost:
    url, name = str(asker.server["base_url"]), str(asker.server["model"])
    server = settings.server(url, name)
    image = server.image_tokens or IMAGE_TOKENS
    one = asker.load(root, 0, image, items.about)
    text_tokens = sum(items.texts) * one.requests
    load = replace(one.times(len(items.texts)), sent=one.sent * len(items.texts) + text_tokens)
    dollars = server.price.dollars(load.sent, load.received) if server.price else None
    requests = int(asker.asks.get("requests", 1))
    lines = (
        say.TEXT_REQUESTS.format(
            requests=requests,
            attempts=asker.attempts,
            prompts=asker.prompt_tokens(root),
            reply=asker.args.get("max_new_tokens", 0),
            image=image if asker.asks.get("pictures") else say.IMAGE_NOT_SHOWN,
        ),
        *price_lines(server, dollars),
    )
    part = ref.label if asker.plugin is ref.plugin else f"{ref.label}: {asker.plugin.name}"
    count = len(items.texts) if items.built else None
    each = str(asker.asks.get("each", "answer"))
    return Cost(stage.name, part, f"{name} at {url}", count, load, dollars, server.max_spend, lines, part=part, each=each)


def _pairing(stage: PlannedStage, asker: _Asker, root: Path) -> _Items:
    texts_about = [text for part in stage.params.get("about", {}).values() for text in ([part] if isinstance(part, str) else part)]
    about = tokens(" ".join(map(str, texts_about)))
    times = int(asker.args.get(str(asker.asks.get("times", "")), 1))
    unknown = -(-(UNKNOWN_CAPTION if asker.asks.get("text") == "caption" else UNKNOWN_QUESTION) // 4)
    tables = _tables(stage, root)
    if tables is None:
        return _Items((unknown,), False, about)
    rows = [row for table in tables for row in table.to_pylist() if row["image_id"] is not None]
    if asker.asks.get("each") == "image":
        # Reversed, so that of several rows of an image the first one wins.
        rows = list({row["image_id"]: row for row in reversed(rows)}.values())
    return _Items(tuple(_item_tokens(row, asker, unknown) for row in rows for _ in range(times)), True, about)


def _item_tokens(row: Args, asker: _Asker, unknown: int) -> int:
    text = asker.asks.get("text")
    if text == "caption":
        caption = dict(row["meta"] or ()).get("caption", "")
        return tokens(caption) if caption else unknown
    longest = max((tokens(r) for r in row["references"] or ()), default=0)
    return tokens(row["question"]) + (longest if text == "answer" else 0)


def _judging(plan: Plan, stage: PlannedStage, ref: Ref, root: Path) -> _Items:
    only: Mapping[str, Sequence[str]] = stage.params.get("only", {})
    texts: list[int] = []
    unread: list[int] = []
    for writer in plan.writers("generations"):
        names = [name for name in writer.inputs["datasets"] if ref.label in only.get(name, [ref.label])]
        longest = int(writer.params["max_new_tokens"])
        # Of each variant the greedy answer, and the sampled answers if they are judged too; equal ones are judged once.
        answers = len(writer.params["variants"]) * (1 + (writer.params.get("draws", 0) if stage.params.get("draws") else 0))
        tables = questions(writer, root, ["question", "choices", "references", "meta"])
        if tables is None:
            unread.append(-(-UNKNOWN_QUESTION // 4) + longest)
            continue
        for name, table in zip(writer.inputs["datasets"], tables, strict=True):
            rows = table.to_pylist() if name in names else []
            texts += [_rated(row, "evidence" in ref.plugin.reads) + longest for row in rows if not row["choices"] for _ in range(answers)]
    return _Items((max(unread),), False) if unread else _Items(tuple(texts), True)


def _rated(row: Args, evidence: bool) -> int:
    evidence_text = " ".join(str(value) for value in dict(row["meta"] or ()).values()) if evidence else ""
    return tokens(row["question"]) + sum(tokens(r) for r in set(row["references"] or ())) + tokens(evidence_text)


def _tables(stage: PlannedStage, root: Path) -> list[pa.Table] | None:
    paths = [root / folder / "samples.parquet" for folder in stage.inputs["datasets"].values()]
    if not all(path.is_file() for path in paths):
        return None
    import pyarrow.parquet as pq

    return [pq.read_table(path, columns=["question", "image_id", "references", "meta"]) for path in paths]
