"""Estimate requests to servers and their cost, for answers and for questions that a server rewrites.

The estimate is an upper bound: it ignores stored replies and takes every answer at its maximum length. A token is taken as four bytes
of text, too many for some scripts. Servers without the parameter `n` get the prompt again for each sampled answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qualm.compiler.plan.plan import Plan, PlannedStage
from qualm.compiler.project.pending_questions import questions, questions_of_variants
from qualm.compiler.project.rebuilds import ACTIVE, Forecast
from qualm.compiler.spec import sentences as say
from qualm.compiler.spec.plugin_ref import Ref
from qualm.compiler.spec.references_in import nested_uses
from qualm.compiler.spec.resolved import Resolved
from qualm.registry.formats.picture_lists import picture_ids
from qualm.registry.plugins.registry import SERVER, Plugin
from qualm.runners.prompts.question import CONFIDENCE, CONFIDENCE_TOKENS, INSTRUCTION, VERIFY, p_true_prompt
from qualm.runners.prompts.templates import read_prompt
from qualm.runners.prompts.thinking import thinking_budget
from qualm.runners.runtime.server_config import Price, Server
from qualm.runners.runtime.settings import Settings
from qualm.runners.servers.client import MAX_ANSWERS_PER_REQUEST

if TYPE_CHECKING:
    import pyarrow as pa

IMAGE_TOKENS, LOW_DETAIL_TOKENS = 765, 85
"""Tokens of an image if qualm.toml has no `image_tokens`, and with `detail: low`: OpenAI's rule for 1024 x 1024 pixels (85, and 170 for
each of four tiles of 512). Other servers differ: Qwen2-VL has one token for 28 x 28 pixels."""
AFTER_THE_ANSWER = frozenset(
    {"p_yes", "p_true", "said_confidence", "logprobs_without_image", "logprobs_without_question", "logprobs_without_both"}
)
"""Signals that are asked about an answer, hence in a later batch."""
TURN = 16
"""Tokens of a chat template around a turn."""
UNKNOWN_QUESTION = 60
"""Bytes assumed for a question of a dataset that is not built."""


@dataclass(frozen=True)
class Load:
    """Number of requests to a server, with tokens sent and received."""

    requests: int = 0
    sent: int = 0
    received: int = 0

    def __add__(self, other: Load) -> Load:
        return Load(self.requests + other.requests, self.sent + other.sent, self.received + other.received)

    def times(self, n: int) -> Load:
        return Load(n * self.requests, n * self.sent, n * self.received)


@dataclass(frozen=True)
class Cost:
    stage: str
    model: str
    server: str
    questions: int | None
    """Questions under all variants; None if a dataset is not built, and then the load is of one question."""
    load: Load
    dollars: float | None
    """None if qualm.toml has no price."""
    cap: float
    """Spending limit of one spec on this server, over all its runs; 0 = none."""
    arithmetic: tuple[str, ...] = field(default=())
    reads: str = ""
    """Another stage that asks the same, whose replies this stage reuses."""
    part: str = ""
    """Recipe or judge that asks, in a stage that has several."""
    each: str = "question"
    """Unit of `questions`: `question`, `image`, `answer` or `reference`."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class QuestionLoad:
    """Token counts, signals and number of sampled answers that set the load of a question."""

    needs: frozenset[str]
    draws: int
    longest: int
    image: int
    system: int
    together: bool
    """All sampled answers come in one request."""

    def open(self, text_tokens: int, n_images: int) -> Load:
        """Return the load of an open question of `text_tokens` tokens and `n_images` images."""
        image_tokens = self.image * n_images
        prompt = self.system + TURN + text_tokens + image_tokens
        total = Load(1, prompt, self.longest)
        if self.draws:
            # Rounded up. A prompt is billed once for each request, however many draws the request is for.
            requests = -(-self.draws // MAX_ANSWERS_PER_REQUEST) if self.together else self.draws
            total += Load(requests, requests * prompt, self.draws * self.longest)
        # A question about the answer is asked with the whole conversation before it: prompt, answer, and two more turns.
        after = prompt + self.longest + 2 * TURN
        for name, load in {
            "p_yes": Load(1, after + tokens(VERIFY), 1),
            "p_true": Load(1, prompt + self.longest + tokens(p_true_prompt("", "")), 1),
            "said_confidence": Load(1, after + tokens(CONFIDENCE), CONFIDENCE_TOKENS),
            "logprobs_without_image": Load(1, after - image_tokens, 1),
            "logprobs_without_question": Load(1, after - text_tokens, 1),
            "logprobs_without_both": Load(1, after - text_tokens - image_tokens, 1),
        }.items():
            if name in self.needs:
                total += load
        return total

    def choice(self, text_tokens: int, n_images: int) -> Load:
        """Return the load of a multiple-choice question; options count among `text_tokens`."""
        return Load(1, self.system + TURN + text_tokens + self.image * n_images, 1)


@dataclass(frozen=True)
class Rewriting:
    """Tokens and attempts of the request by which a server rewrites a question."""

    prompt: int
    """Tokens of the prompt without the question."""
    longest: int
    tries: int
    image: int
    """Tokens of the image; 0 if it is not shown."""

    def load(self, text: int) -> Load:
        return Load(1, TURN + self.prompt + text + self.image, self.longest).times(self.tries)


def costs(resolved: Resolved, plan: Plan, forecasts: Sequence[Forecast], root: Path, settings: Settings) -> Iterator[Cost]:
    """Yield the cost estimate of each answering or rewriting that would ask a server."""
    models = {m.ref.label: m.ref.plugin for m in resolved.models}
    active = {f.stage for f in forecasts if f.action in ACTIVE}
    readers: dict[str, str] = {}
    for stage in plan.stages:
        if stage.name not in active:
            continue
        if "generations" in stage.outputs:
            plugin = models[stage.params["model"]["label"]]
            if SERVER in plugin.declares:
                yield _answering(stage, plugin, root, settings)
        elif "perturbed" in stage.outputs:
            for ref in stage.refs:
                for plugin, args in nested_uses(ref.plugin, ref.args):
                    if SERVER in plugin.declares:
                        yield _rewriting(stage, ref, plugin, args, root, settings, readers)


def _rewriting(
    stage: PlannedStage, ref: Ref, plugin: Plugin, args: Mapping[str, Any], root: Path, settings: Settings, readers: dict[str, str]
) -> Cost:
    """Return a rewriting perturbation's server cost, 0 if in `readers` already; note it there.

    Perturbations with the same prompt and arguments share replies: `readers` is {request: name of the stage that asks first},
    to which a new request is added.
    """
    url, name = str(args[plugin.declares[SERVER]]), str(args["model"])
    server = settings.server(url, name)
    prompts = _prompts(ref, root)
    # Replies are stored by request: the second perturbation that asks the same pays nothing.
    same = json.dumps([list(map(str, prompts)), ref.args], sort_keys=True)
    where = f"{name} at {url}"
    if (before := readers.setdefault(same, stage.name)) != stage.name:
        return Cost(stage.name, ref.label, where, 0, Load(), 0.0, server.max_spend, reads=before)
    sees = ref.plugin.declares.get("MODALITY") == "cross"
    way = Rewriting(
        sum(tokens(read_prompt("", str(prompt))) for prompt in prompts if prompt.is_file()),
        int(ref.args.get("max_new_tokens", 0)),
        1 + int(ref.args.get("retries", 0)),
        (server.image_tokens or IMAGE_TOKENS) if sees else 0,
    )
    tables = questions(stage, root, ["question", "image_id"])
    if tables is None:
        count, load = None, way.load(-(-UNKNOWN_QUESTION // 4))
    else:
        rows = [row for table in tables for row in table.to_pylist() if not sees or row["image_id"] is not None]
        count, load = len(rows), sum((way.load(tokens(row["question"])) for row in rows), Load())
    dollars = server.price.dollars(load.sent, load.received) if server.price else None
    lines = (
        say.REWRITING_TRIES.format(n=way.tries),
        say.REWRITING_TOKENS.format(prompt=way.prompt, image=way.image or say.IMAGE_NOT_SHOWN, reply=way.longest),
        *price_lines(server, dollars),
    )
    return Cost(stage.name, ref.label, where, count, load, dollars, server.max_spend, lines)


def _prompts(ref: Ref, root: Path) -> list[Path]:
    if ref.args.get("prompt"):
        return [root / str(ref.args["prompt"])]
    defaults = (asset for asset in ref.plugin.declares.get("ASSETS", ()) if str(asset).endswith(".md"))
    return [(ref.plugin.path.parent / asset).resolve() for asset in defaults]


def _answering(stage: PlannedStage, plugin: Plugin, root: Path, settings: Settings) -> Cost:
    chosen = stage.params["model"]
    args: Mapping[str, Any] = chosen["args"]
    url, name = str(args[plugin.declares[SERVER]]), str(args["model"])
    server = settings.server(url, name)
    # Examples and template are counted by their own text; examples from a split are counted as questions.
    prompt = stage.params.get("prompt", {})
    examples = prompt.get("examples", {})
    written = examples.get("written") or [{"question": "x" * UNKNOWN_QUESTION}] * examples.get("shots", 0)
    around = [prompt.get("system", ""), *(text for e in written for text in (e["question"], *e.get("options", ()), e.get("answer", "")))]
    image = server.image_tokens or (LOW_DETAIL_TOKENS if args.get("detail") == "low" else IMAGE_TOKENS)
    shown = sum(len(e.get("images", ())) if "written" in examples else 1 for e in written)
    each = QuestionLoad(
        frozenset(stage.params["needs"]),
        int(stage.params.get("draws", 0)),
        int(stage.params["max_new_tokens"]) + thinking_budget(args.get("thinking")),
        image,
        sum(TURN + tokens(text) for text in around if text) + tokens(prompt.get("template", "")) + shown * image,
        bool(args.get("n", False)),
    )
    tables = questions_of_variants(stage, root, ["question", "choices", "image_id"])
    if tables is None:
        count, load = None, each.open(-(-UNKNOWN_QUESTION // 4), n_images=1)
    else:
        loads = [load for table in tables for load in _loads(table, each)]
        count, load = len(loads), sum(loads, Load())
    price = server.answer_price
    dollars = price.dollars(load.sent, load.received) if price else None
    lines = tuple(_lines(each, server, dollars))
    return Cost(stage.name, chosen["label"], f"{name} at {url}", count, load, dollars, server.max_spend, lines)


def _loads(table: pa.Table, each: QuestionLoad) -> Iterator[Load]:
    for row in table.select(["question", "choices", "image_id"]).to_pylist():
        image = len(picture_ids(row["image_id"]))
        if row["choices"]:
            text = "\n".join([row["question"], *(f"A. {choice}" for choice in row["choices"]), INSTRUCTION])
            yield each.choice(tokens(text), image)
        else:
            yield each.open(tokens(row["question"]), image)


def _lines(each: QuestionLoad, server: Server, dollars: float | None) -> Iterator[str]:
    requests = say.OPEN_REQUESTS_TOGETHER if each.together else say.OPEN_REQUESTS_APART
    yield requests.format(draws=each.draws, signals=", ".join(sorted(each.needs)) or say.NO_SIGNALS)
    yield say.ANSWER_TOKENS.format(image=each.image, answer=each.longest)
    if server.batch:
        rounds = 2 if each.needs & AFTER_THE_ANSWER else 1
        yield say.BATCHES_IN_TURN.format(n=rounds) if rounds > 1 else say.BATCHES_ONE_DAY
    yield from price_lines(server, dollars, server.answer_price, say.PRICE_IN_BATCHES if server.batch else "")


def price_lines(server: Server, dollars: float | None, price: Price | None = None, suffix: str = "") -> Iterator[str]:
    """Yield the price, if known, with `suffix`; then a warning if `dollars` exceeds the limit."""
    if price := price or server.price:
        yield say.PRICE.format(sent=price.input, received=price.output, batches=suffix)
    if dollars is not None and server.max_spend and dollars > server.max_spend:
        yield say.MORE_THAN_MAX_SPEND.format(limit=server.max_spend)


def tokens(text: str) -> int:
    """Return the estimated number of tokens of a text: one per four bytes, rounded up."""
    return -(-len(text.encode()) // 4)
