"""Settings of model servers on this machine: their address, key, rate limits and prices.

None of it changes an answer, so it stands in the local settings and not in a spec:

    [servers.default]                                # what holds where nothing else is said
    concurrency = 16

    [servers."https://api.openai.com/v1"]            # as the spec's `base_url` says it
    key = "OPENAI_API_KEY"
    price = {input = 2.5, output = 10.0}
    max_spend = 20.0

    [servers."https://api.openai.com/v1".models."gpt-4o-mini"]
    price = {input = 0.15, output = 0.6}
"""

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, fields, replace
from typing import Annotated, Any, Literal, get_args, get_origin
from urllib.parse import urlsplit

from annotated_types import Ge, Gt, Le, Lt

from qualm.registry.plugins.registry import plain_type
from qualm.registry.plugins.validation import fits
from qualm.runners.runtime.server_presets import PRESETS
from qualm.runners.runtime.spending_limit import SpendingLimit

DEFAULT, MODELS = "default", "models"
DEFAULT_KEYS = {urlsplit(preset.base_url).hostname: preset.key for preset in PRESETS.values() if preset.key}
"""Environment variables of keys by host, if the settings name none. No other host gets a key by default."""


BATCH_SHARE = 0.5
"""Price of batches as a share of `price`, if the settings give none: so at OpenAI, Gemini, Groq and Mistral."""


class SettingValueError(ValueError):
    """A setting is unknown or has an invalid value; the message names it."""


Dollars = Annotated[float, Ge(0), Le(10_000_000)]
Seconds = Annotated[float, Gt(0), Le(604_800)]
PerMinute = Annotated[float, Ge(0), Le(10_000_000_000)]
"""Types of settings, with their bounds."""


@dataclass(frozen=True)
class Price:
    """Price of tokens, in dollars per million."""

    input: Dollars
    output: Dollars

    def dollars(self, prompt_tokens: int, answer_tokens: int) -> float:
        """Return the dollars for `prompt_tokens` read and `answer_tokens` written."""
        return (prompt_tokens * self.input + answer_tokens * self.output) / 1e6


@dataclass(frozen=True)
class Server:
    """Settings of a model on a server: address, key, rate limits, prices, spending limits."""

    address: str = ""
    """Address up to and including `/v1`, if it differs from the spec's `base_url`."""
    key: str = ""
    """Environment variable with the key; empty for a server without one."""
    concurrency: Annotated[int, Ge(1), Le(10_000)] = 8
    """Maximum number of simultaneous requests."""
    timeout: Seconds = 120.0
    """Maximum seconds of silence during a try."""
    deadline: Seconds = 600.0
    """Maximum seconds of a try in all."""
    retries: Annotated[int, Ge(0), Le(1000)] = 6
    """Retries after status 429 or 5xx, a timeout or an invalid reply."""
    pause: Seconds = 1.0
    """Seconds before the first retry; each next pause is twice as long, at most 60, and randomized by half."""
    requests_per_minute: PerMinute = 0.0
    """Rate limit; 0 = none."""
    tokens_per_minute: PerMinute = 0.0
    """Rate limit of tokens sent and received together; 0 = none."""
    price: Price | None = None
    """Price of tokens; None = unknown."""
    batch: bool = False
    """Use the server's batch API: cheaper, answers within a day."""
    batch_price: Price | None = None
    """Price of tokens in batches; None = half of `price`."""
    max_spend: Dollars = 0.0
    """Maximum dollars of a spec on this server over all its runs; 0 = no limit."""
    image_tokens: Annotated[int, Ge(0), Le(1_000_000)] = 0
    """Tokens of an image in estimates; 0 = see `qualm.compiler.project.prices`."""
    spending: SpendingLimit | None = field(default=None, compare=False)
    """Spending limits over all runs; set by `Settings.server`, not a setting."""

    @property
    def answer_price(self) -> Price | None:
        """Return the price of answers by the chosen API; None = unknown."""
        if not self.batch or self.price is None:
            return self.price
        return self.batch_price or Price(self.price.input * BATCH_SHARE, self.price.output * BATCH_SHARE)


def check_servers(raw: Any, where: str) -> dict[str, dict[str, Any]]:
    """Return {URL or "default": converted settings} of a mapping; else SettingValueError."""
    if not isinstance(raw, Mapping):
        raise SettingValueError(f'{where}: expected tables such as [servers.default] or [servers."URL"], got {raw!r}')
    servers = {}
    for name, table in raw.items():
        at = f"{where}.{name}"
        if name != DEFAULT and urlsplit(name).scheme not in ("http", "https"):
            raise SettingValueError(f"{at}: expected `default` or the base_url of a spec (http://... or https://...), got '{name}'")
        if not isinstance(table, Mapping):
            raise SettingValueError(f"{at}: expected a table, got {table!r}")
        models = table.get(MODELS, {})
        if not isinstance(models, Mapping) or not all(isinstance(m, Mapping) for m in models.values()):
            raise SettingValueError(f"{at}.{MODELS}: expected a table per model, got {models!r}")
        own = {m: convert_settings(values, _TYPES, f"{at}.{MODELS}.{m}", MODELS) for m, values in models.items()}
        servers[name] = {**convert_settings({k: v for k, v in table.items() if k != MODELS}, _TYPES, at, MODELS), MODELS: own}
    return servers


def server_settings(tables: Mapping[str, Mapping[str, Any]], base_url: str, model: str) -> Server:
    """Return a model's server settings: its own table over its server's over `default`.

    Raises:
        SettingValueError: a cap on spending without a price to count by.
    """
    own = tables.get(base_url, tables.get(base_url.rstrip("/"), {}))
    values: dict[str, Any] = {}
    for table in (tables.get(DEFAULT, {}), own, own.get(MODELS, {}).get(model, {})):
        values |= {name: value for name, value in table.items() if name != MODELS}
    values.setdefault("key", DEFAULT_KEYS.get(urlsplit(values.get("address") or base_url).hostname or "", ""))
    chosen = replace(Server(), **values)
    if chosen.batch_price is not None and chosen.price is None:
        raise SettingValueError(f"servers.{base_url}: batch_price needs `price` beside it, for what is asked in no batch")
    preset = next((p for p in PRESETS.values() if p.key and urlsplit(p.base_url).hostname == urlsplit(base_url).hostname), None)
    if chosen.batch and preset is not None and not preset.batch:
        raise SettingValueError(f"servers.{base_url}: {preset.title} has no batch API of OpenAI's kind; say `batch = false` there")
    if chosen.max_spend and chosen.price is None:
        raise SettingValueError(
            f"servers.{base_url}: max_spend needs `price = {{input = DOLLARS, output = DOLLARS}}`, per million tokens of {model}"
        )
    return chosen


_TYPES: dict[str, Any] = {f.name: f.type for f in fields(Server) if f.name != "spending"}
_WORDS: Mapping[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text in quotes",
    dict: "a table",
}
_BOUND_WORDS = {Ge: "at least", Gt: "above", Le: "at most", Lt: "below"}


def describe_type(annotation: Any) -> str:
    """Return a type's allowed values in words: `a number above 0 and at most 1`."""
    if get_origin(annotation) is Literal:
        return f"one of {', '.join(get_args(annotation))}"
    bounds = [f"{_BOUND_WORDS[type(b)]} {astuple(b)[0]:,}" for b in getattr(annotation, "__metadata__", ())]
    return " ".join([_WORDS[plain_type(annotation)], " and ".join(bounds)]).strip()


def convert_setting(value: Any, annotation: Any, at: str) -> Any:
    """Convert a TOML value to its setting's type; SettingValueError names `at` on failure."""
    if annotation == Price | None:
        return _price(value, at)
    if not fits(annotation, value):
        raise SettingValueError(f"{at}: expected {describe_type(annotation)}, got {value!r}")
    return float(value) if plain_type(annotation) is float else value


def convert_settings(table: Any, types: Mapping[str, Any], where: str, *others: str) -> dict[str, Any]:
    """Convert a table of settings to `types`, by name; SettingValueError if unknown or wrong."""
    if not isinstance(table, Mapping):
        raise SettingValueError(f"{where}: expected a table of settings, got {table!r}")
    if unknown := [name for name in table if name not in types]:
        raise SettingValueError(f"{where}.{unknown[0]}: unknown setting; there are: {', '.join((*types, *others))}")
    return {name: convert_setting(value, types[name], f"{where}.{name}") for name, value in table.items()}


def _price(raw: Any, where: str) -> Price:
    if not isinstance(raw, Mapping) or raw.keys() != {"input", "output"} or not all(fits(Dollars, n) for n in raw.values()):
        expected = f"{{input = DOLLARS, output = DOLLARS}} per million tokens, each {describe_type(Dollars)}"
        raise SettingValueError(f"{where}: expected {expected}, got {raw!r}")
    return Price(float(raw["input"]), float(raw["output"]))
