"""Names of the columns that hold a model's hidden states and attention while it answers.

    hidden_states/LAYER/PLACE           of the greedy answer: one number for each unit of the layer
    draw_hidden_states/LAYER/PLACE      of the sampled answers
    attention/LAYERS/previous           of the greedy answer: for each layer, the largest attention that a head gives to the token before
    attention/LAYERS/image_share        of each token of that answer: the share of attention on the image when it was predicted
    attention/LAYERS/image_entropy      the same: entropy of that share over the image's tokens, in nats
    image_information/LAYERS/SHARE      the same: entropy gain when the image's most attended tokens are hidden, in nats
    gradient/LAYERS/TOKEN               of the prompt's token number TOKEN from its end (-1: the last): mean absolute gradient of the greedy
                                        answer's entropy-weighted log-likelihood with respect to its states behind these layers
    evidence/conflict                   of each token of the greedy answer: conflict of the evidence in the output head
    evidence/ignorance                  the same: ignorance
    token_ends, draw_token_ends         of each token: number of characters of the answer up to its end

LAYER counts as transformers' `hidden_states` does: 0 is the embeddings, N the last of N layers behind the final norm, -1 and `last` the
same from the end; a number between 0 and 1 is a share of the depth, `middle` half of it. PLACE is one of PLACES. LAYERS are `all`,
`middle_third`, or `FROM:TO`, both included: `5:18`, or as shares of the depth `0.25:0.75`. An estimator whose layer is a parameter writes
`NEEDS = {"states": "draw_hidden_states/{layer}/answer_last"}`.
"""

import re
from dataclasses import dataclass

HIDDEN, ATTENTION, INFORMATION, ENDS = "hidden_states", "attention", "image_information", "token_ends"
GRADIENT, EVIDENCE = "gradient", "evidence"
"""Kinds; all but INFORMATION are words of a model's GIVES."""
KINDS = (HIDDEN, ATTENTION, INFORMATION, GRADIENT, EVIDENCE, ENDS)
DRAWN_BY = "draw_"
PROMPT_LAST, IMAGE_LAST, IMAGE_MEAN, ANSWER_LAST, ANSWER_MEAN = "prompt_last", "image_last", "image_mean", "answer_last", "answer_mean"
PLACES = (PROMPT_LAST, IMAGE_LAST, IMAGE_MEAN, ANSWER_LAST, ANSWER_MEAN)
"""The prompt's last token; the image's last token, and the mean of its tokens; of the answer's tokens that the model reads while it
answers (all but the last, which is the end of sequence unless the answer was cut short) the last one, and their mean."""
OF_PROMPT = frozenset({PROMPT_LAST, IMAGE_LAST, IMAGE_MEAN})
PREVIOUS, IMAGE_SHARE, IMAGE_ENTROPY = "previous", "image_share", "image_entropy"
LOOKS = (PREVIOUS, IMAGE_SHARE, IMAGE_ENTROPY)
CONFLICT, IGNORANCE = "conflict", "ignorance"
PREFIXES = (*(f"{kind}/" for kind in KINDS if kind != ENDS), f"{DRAWN_BY}{HIDDEN}/", ENDS, f"{DRAWN_BY}{ENDS}")
_NAMED = {"middle": "0.5", "last": "-1"}
_WHOLE, _SHARE = re.compile(r"-?\d{1,4}(\.0)?"), re.compile(r"0?\.\d{1,6}")
ALL, MIDDLE_THIRD = "all", "middle_third"


@dataclass(frozen=True)
class Internal:
    """Parsed column name of internals: hidden states, attention, gradients, evidence."""

    layer: str
    """Normalised whole number or share; a range for attention and gradients; "" for evidence and token ends."""
    place: str
    """One of PLACES, LOOKS, CONFLICT or IGNORANCE; for `image_information` the share of the image's tokens that is hidden, for `gradient`
    the token of the prompt."""
    drawn: bool = False
    """True for sampled answers, false for the greedy one."""
    kind: str = HIDDEN

    @property
    def signal(self) -> str:
        """Return the key of stored values, KIND/LAYER/PLACE: the column without `draw_`."""
        return "/".join(filter(None, (self.kind, self.layer, self.place)))

    @property
    def column(self) -> str:
        return f"{DRAWN_BY if self.drawn else ''}{self.signal}"

    @property
    def of_prompt(self) -> bool:
        """Return whether the values are known before the model answers."""
        return self.place in OF_PROMPT

    @property
    def exact(self) -> bool:
        """Return whether values are stored in double precision; otherwise in float16."""
        return self.kind in (GRADIENT, EVIDENCE, ENDS)

    @property
    def of_picture(self) -> bool:
        """Return whether the values exist only for a question with an image."""
        return self.kind == INFORMATION or self.place in (IMAGE_LAST, IMAGE_MEAN, IMAGE_SHARE, IMAGE_ENTROPY)


def is_internal(column: str) -> bool:
    return column.startswith(PREFIXES)


def parse_internal(column: str) -> Internal:
    """Return the `Internal` of a column name `KIND/LAYER/PLACE`; ValueError if invalid.

    >>> parse_internal("draw_hidden_states/middle/answer_last").column, parse_internal("hidden_states/.50/prompt_last").column
    ('draw_hidden_states/0.5/answer_last', 'hidden_states/0.5/prompt_last')
    >>> parse_internal("attention/.25:.750/previous").column, parse_internal("draw_token_ends").column
    ('attention/0.25:0.75/previous', 'draw_token_ends')
    """
    drawn = column.startswith(DRAWN_BY)
    kind, _, rest = column.removeprefix(DRAWN_BY).partition("/")
    layer, _, place = rest.rpartition("/")
    if kind == ENDS and not rest:
        return Internal("", "", drawn, ENDS)
    if kind == HIDDEN:
        where = _place(column, place, drawn)
        return Internal(_layer(column, layer), where, drawn)
    if drawn or kind not in KINDS:
        raise ValueError(f"{column}: expected {HIDDEN} or {ENDS} of sampled answers, or {', '.join(KINDS)} of the greedy one")
    if kind == EVIDENCE:
        if layer or place not in (CONFLICT, IGNORANCE):
            raise ValueError(f"{column}: expected {EVIDENCE}/{CONFLICT} or {EVIDENCE}/{IGNORANCE}")
        return Internal("", place, False, EVIDENCE)
    if kind == ATTENTION and place not in LOOKS:
        raise ValueError(f"{column}: expected {', '.join(LOOKS)} at its end, got '{place}'")
    if kind == GRADIENT:
        return Internal(_layers(column, layer), _token(column, place), False, kind)
    return Internal(_layers(column, layer), place if kind == ATTENTION else _hidden_share(column, place), False, kind)


def given_by(column: str) -> str:
    """Return the word of a model's `GIVES` that a column needs, by default the column.

    >>> given_by("draw_hidden_states/0.5/answer_last"), given_by("image_information/all/0.5"), given_by("p_true")
    ('hidden_states', 'attention', 'p_true')
    """
    if not is_internal(column):
        return column
    kind = column.removeprefix(DRAWN_BY).partition("/")[0]
    return ATTENTION if kind == INFORMATION else kind


def layer_index(layer: str, n_layers: int) -> int | None:
    """Return a layer's index, 0 (the embeddings) to `n_layers`; None if out of range.

    >>> layer_index("0.5", 28), layer_index("0.5", 7), layer_index("-1", 28), layer_index("29", 28)
    (14, 4, 28, None)
    """
    if "." in layer:
        # Half up, not Python's `round`, which takes 3.5 to 4 and 2.5 to 2.
        return int(float(layer) * n_layers + 0.5)
    index = int(layer) if not layer.startswith("-") else n_layers + 1 + int(layer)
    return index if 0 <= index <= n_layers else None


def layer_range(layers: str, n_layers: int) -> list[int]:
    """Return the layer indices (1 to `n_layers`) of a range such as `0.25:0.75`, or [].

    `middle_third` is that of LM-Polygraph's RAUQ: from layers // 3 on, counted from 0, to ceil(2 layers / 3), both included.

    >>> layer_range("0.25:0.75", 8), layer_range("2:-2", 4), layer_range("middle_third", 6), layer_range("3:9", 4)
    ([3, 4, 5, 6], [2, 3], [3, 4, 5], [])
    """
    if layers == ALL:
        return list(range(1, n_layers + 1))
    if layers == MIDDLE_THIRD:
        return list(range(n_layers // 3 + 1, min(n_layers, -(-2 * n_layers // 3) + 1) + 1))
    first, _, last = layers.partition(":")
    low, high = layer_index(first, n_layers), layer_index(last, n_layers)
    if low is None or high is None:
        return []
    # A share ends a layer: the first two of 8 lie before 0.25, so a range from there on begins with the third.
    return list(range(max(1, low + ("." in first)), high + 1))


def _place(column: str, place: str, drawn: bool) -> str:
    if place not in PLACES:
        raise ValueError(f"{column}: expected one of {', '.join(PLACES)} at its end, got '{place}'")
    if drawn and place in OF_PROMPT:
        raise ValueError(f"{column}: all answers to a question have one prompt; read {column.removeprefix(DRAWN_BY)}")
    return place


def _layer(column: str, layer: str) -> str:
    layer = _NAMED.get(layer, layer)
    if _WHOLE.fullmatch(layer):
        # One spelling for each layer, since the column's name is part of the keys of stored answers.
        return str(int(float(layer)))
    if _SHARE.fullmatch(layer) and 0 < float(layer) < 1:
        return str(float(layer))
    raise ValueError(f"{column}: expected a layer as `middle`, `last`, a whole number or a share above 0 and below 1, got '{layer}'")


def _layers(column: str, layers: str) -> str:
    if layers in (ALL, MIDDLE_THIRD):
        return layers
    first, between, last = layers.partition(":")
    if not between:
        raise ValueError(f"{column}: expected layers as `{ALL}`, `{MIDDLE_THIRD}` or FROM:TO, got '{layers}'")
    first, last = _layer(column, first), _layer(column, last)
    shares = "." in first
    if shares == ("." in last) and first.startswith("-") == last.startswith("-"):
        low, high = float(first), float(last)
        if low > high or (shares and low == high):
            raise ValueError(f"{column}: expected FROM before TO in layers FROM:TO, got '{layers}'")
    return f"{first}:{last}"


def _token(column: str, token: str) -> str:
    if not re.fullmatch(r"-[1-9]\d{0,2}", token):
        raise ValueError(f"{column}: expected a token counted from the prompt's end, -1 (the last) to -999, got '{token}'")
    return token


def _hidden_share(column: str, share: str) -> str:
    try:
        number = float(share)
    except ValueError:
        number = 0.0
    if not 0 < number <= 1:
        raise ValueError(f"{column}: expected a share of the image's tokens above 0 and at most 1, got '{share}'")
    return str(number)
