"""Pairs of an answerable and an unanswerable question about a scene, in five categories, proved from the scene graph.

A `Query` is a question's meaning; it is worded by a template and read back from the words by `parse_query`. `possible_answers` lists the
answers in all worlds that look like the image: one if the image answers the question, several if it does not, none if the object that
the question speaks of is absent. A scene graph fixes all that is seen and nothing else; readable signs (`signs`) add what is
inside an object, a number of scratches, or an earlier place. `prove` checks every pair on its words alone.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from qualm.registry.scenes.questions import Phrase, matches, matching_objects, noun_phrase, pick, referents
from qualm.registry.scenes.signs import READABLE
from qualm.registry.scenes.world import VALUES, Scene, attributes_of

CATEGORIES = {
    "knowledge": "epistemic/knowledge",
    "complexity": "epistemic/complexity",
    "extraneous": "epistemic/extraneous",
    "temporal": "aleatoric/temporal",
    "ambiguity": "aleatoric/ambiguity",
}
"""The five categories of CertainlyUncertain; a pair of `extraneous` has two images, the others one."""

FACTS: dict[str, dict[str, str]] = {
    "corners": {"cube": "8", "sphere": "0", "cylinder": "0"},
    "flat sides": {"cube": "6", "sphere": "0", "cylinder": "2"},
    "roll": {"cube": "no", "sphere": "yes", "cylinder": "yes"},
}
"""Facts about a shape that everybody knows: not visible in the image, but implied by it."""

UNSEEN: dict[str, tuple[str, str]] = {
    "weight": ("2 kilos", "9 kilos"),
    "price": ("1 coin", "8 coins"),
    "maker": ("a child", "a smith"),
    "owner": ("a child", "a smith"),
    "owners": ("1", "2"),
    "age": ("1 year", "9 years"),
    "contents": ("air", "sand"),
    "scratches": ("207", "853"),
    "dust": ("3041", "9260"),
    "atoms": ("more than can be counted", "another number of them"),
    "rays": ("3041", "9260"),
    "place": ("left", "right"),
}
"""Properties that no scene graph fixes, with two values that fit every image alike."""


@dataclass(frozen=True)
class Query:
    """Meaning of a generated question: what is asked, of which object, when."""

    ask: str
    """An attribute, a fact, an unseen property, or `count`, `exists`, `neither`, `either`."""
    of: Phrase
    """The object in question; for `neither` and `either` the first of two phrases."""
    other: Phrase = field(default_factory=dict)
    when: str = "now"
    """`now` is the moment of the image, `later` and `before` are others."""


@dataclass(frozen=True)
class Worded:
    """A question in words, with its answer, None if unanswerable, and objects meant."""

    text: str
    answer: str | None
    about: tuple[tuple[int, ...], ...] = ()
    """Indices of the objects that each noun phrase may mean."""
    asks: str = ""
    subject: str = ""
    """Noun phrase of the object in question, in the plural."""


@dataclass(frozen=True)
class Contrast:
    """An answerable and an unanswerable question on one image, with the proof."""

    category: str
    answerable: Worded
    unanswerable: Worded
    proof: str


_ATTRIBUTE = ("What {a} is the {x}?", "What is the {a} of the {x}?")
_ANSWERABLE: dict[str, tuple[tuple[str, str, str], ...]] = {
    "knowledge": (
        ("corners", "now", "How many corners does the {x} have?"),
        ("flat sides", "now", "How many flat sides does the {x} have?"),
        ("roll", "now", "Can the {x} roll?"),
    ),
    "complexity": (
        ("neither", "now", "How many objects are neither {c} nor {ss}?"),
        ("either", "now", "How many objects are either {c} or {ss}?"),
    ),
    "temporal": (
        ("attribute", "now", "What {a} is the {x} now?"),
        ("count", "now", "How many {xs} are there now?"),
        ("exists", "now", "Is there a {x} now?"),
    ),
    "ambiguity": tuple(("attribute", "now", text) for text in _ATTRIBUTE),
}
_UNANSWERABLE: dict[str, tuple[tuple[str, str, str], ...]] = {
    "knowledge": (
        ("weight", "now", "How heavy is the {x}?"),
        ("price", "now", "How much does the {x} cost?"),
        ("maker", "now", "Who made the {x}?"),
        ("owner", "now", "Who owns the {x}?"),
        ("owners", "now", "How many people does the {x} belong to?"),
        ("age", "now", "How old is the {x}?"),
        ("contents", "now", "What is inside the {x}?"),
    ),
    "complexity": (
        ("scratches", "now", "How many scratches are on the {x}?"),
        ("dust", "now", "How many grains of dust lie on the {x}?"),
        ("atoms", "now", "How many atoms are in the {x}?"),
        ("rays", "now", "How many rays of light fall on the {x}?"),
    ),
    "temporal": (
        ("attribute", "later", "What {a} will the {x} be tomorrow?"),
        ("attribute", "before", "What {a} was the {x} yesterday?"),
        ("count", "later", "How many {xs} will there be tomorrow?"),
        ("count", "before", "How many {xs} were there yesterday?"),
        ("exists", "later", "Will there be a {x} tomorrow?"),
        ("place", "later", "Where will the {x} be next?"),
    ),
    "ambiguity": tuple(("attribute", "now", text) for text in _ATTRIBUTE),
}
_OF_SIGNS = (("place", "before", "Where was the {x} before?"), ("contents", "now", "What color is inside the {x}?"))
FORMS = tuple(dict.fromkeys(form for forms in (*_ANSWERABLE.values(), *_UNANSWERABLE.values(), _OF_SIGNS) for form in forms))
"""Every wording: what it asks, its time, and its template."""


def word(query: Query, template: str) -> str:
    """Return the text of a query in the wording of a template of FORMS."""
    return template.format(
        a=query.ask,
        x=noun_phrase(query.of),
        xs=noun_phrase(query.of, plural=True),
        c=query.of.get("color", ""),
        ss=f"{query.other.get('shape', '')}s",
    )


def parse_query(text: str) -> Query:
    """Return the query that a generated question expresses; ValueError for other texts."""
    for (ask, when, _), pattern in zip(FORMS, _patterns(), strict=True):
        match = pattern.fullmatch(text)
        if match:
            got = match.groupdict()
            if "c" in got:
                return Query(ask, {"color": got["c"]}, {"shape": got["ss"][:-1]}, when)
            return Query(got.get("a", ask), phrase_of(got.get("x") or got["xs"]), {}, when)
    raise ValueError(f"not a question of ours: {text!r}")


@cache
def _patterns() -> list[re.Pattern[str]]:
    nouns = (*VALUES["shape"], "object")
    adjectives = "".join(f"(?:(?:{'|'.join(VALUES[a])}) )?" for a in VALUES if a != "shape")
    parts = {
        "a": "|".join(VALUES),
        "x": f"{adjectives}(?:{'|'.join(nouns)})",
        "xs": f"{adjectives}(?:{'|'.join(n + 's' for n in nouns)})",
        "c": "|".join(VALUES["color"]),
        "ss": "|".join(f"{s}s" for s in VALUES["shape"]),
    }
    patterns = []
    for _, _, template in FORMS:
        pieces = re.split(r"\{(\w+)\}", template)
        patterns.append(re.compile("".join(f"(?P<{p}>{parts[p]})" if i % 2 else re.escape(p) for i, p in enumerate(pieces))))
    return patterns


def phrase_of(name: str) -> Phrase:
    """Return {attribute: value} of a phrase such as "small red cubes"; KeyError for others."""
    *adjectives, noun = name.split()
    attribute_of = {value: attribute for attribute, values in VALUES.items() for value in values}
    shape_of: dict[str, Phrase] = {"object": {}, "objects": {}} | {noun: {"shape": s} for s in VALUES["shape"] for noun in (s, f"{s}s")}
    return {attribute_of[value]: value for value in adjectives} | shape_of[noun]


def possible_answers(query: Query, scene: Scene) -> tuple[str, ...]:
    """Return all answers to a query that are compatible with the image, each once.

    One answer means that the image answers the question, none that the object in question is absent. "The ..." may mean any object that it
    fits; each reading is a world of its own.
    """
    if query.ask in ("count", "exists", "neither", "either"):
        return _scene_answers(query, scene)
    meant = matching_objects(scene, query.of)
    return tuple(dict.fromkeys(answer for i in meant for answer in _object_answers(query, scene["objects"][i])))


def _object_answers(query: Query, thing: dict[str, Any]) -> Iterator[str]:
    sign = thing.get("signs", {}).get(query.ask)
    if sign and (query.ask != "place" or query.when == "before"):
        yield from (sign["value"],) if sign["readable"] else UNSEEN["scratches"] if query.ask == "scratches" else READABLE[query.ask]
    elif query.ask in UNSEEN:
        yield from UNSEEN[query.ask]
    elif query.ask in FACTS:
        yield FACTS[query.ask][thing["shape"]]
    elif query.when == "now":
        yield thing[query.ask]
    else:  # a thing may be painted or changed for another: every value fits
        yield from VALUES[query.ask]


def _scene_answers(query: Query, scene: Scene) -> tuple[str, ...]:
    if query.when != "now":  # things come and go
        return ("yes", "no") if query.ask == "exists" else tuple(str(n) for n in range(10))
    if query.ask in ("count", "exists"):
        n = len(matching_objects(scene, query.of))
        return (str(n) if query.ask == "count" else "yes" if n else "no",)
    fits = [matches(thing, query.of) or matches(thing, query.other) for thing in scene["objects"]]
    return (str(sum(fits) if query.ask == "either" else len(fits) - sum(fits)),)


def prove(scene: Scene, answerable: str, answer: str, unanswerable: str, other: Scene | None = None) -> str:
    """Return why the first question is answerable and the second is not; else ValueError."""
    first = possible_answers(parse_query(answerable), scene)
    if first != (answer,):
        raise ValueError(f"{answerable!r} should have only the answer {answer!r}; the scene allows {list(first)}")
    query = parse_query(unanswerable)
    there = other if other is not None else scene
    second = possible_answers(query, there)
    if len(second) == 1:
        raise ValueError(f"{unanswerable!r} should be unanswerable, but the scene has exactly one answer: {second[0]!r}")
    if not second:
        return f"nothing here is a {noun_phrase(query.of)}"
    if query.when != "now" or query.ask in UNSEEN:
        return f"{second[0]!r} and {second[1]!r} fit the same picture"
    return f"{len(matching_objects(there, query.of))} things are meant: {' or '.join(second)}"


def contrast(rng: np.random.Generator, scene: Scene, category: str) -> Contrast | None:
    """Draw a proved pair of questions of a category; None if the scene allows none.

    Raises:
        KeyError: unknown category, or `extraneous`, which needs two images.
    """
    second = _DRAW[category](rng, scene)
    if second is None:
        return None
    first = draw_answerable(rng, scene, category)
    if first is None or first.answer is None:
        return None
    return Contrast(category, first, second, prove(scene, first.text, first.answer, second.text))


def draw_answerable(rng: np.random.Generator, scene: Scene, category: str) -> Worded | None:
    """Draw an answerable question, with its answer, of a category; None if none fits."""
    ask, when, template = pick(rng, _ANSWERABLE[category])
    if ask in ("neither", "either"):
        query = Query(ask, {"color": pick(rng, _value_pool(rng, scene, "color"))}, {"shape": pick(rng, _value_pool(rng, scene, "shape"))})
        return _worded(query, template, scene)
    if ask in ("count", "exists"):
        return _worded(Query(ask, _draw_phrase(rng, scene)), template, scene)
    return _draw_object_question(rng, scene, ask, when, template)


def _draw_object_question(rng: np.random.Generator, scene: Scene, ask: str, when: str, template: str) -> Worded | None:
    attribute = pick(rng, attributes_of(scene)) if ask == "attribute" else ""
    hidden = attribute or ("shape" if ask in FACTS and rng.random() < 0.5 else "")
    candidates = referents(scene, hidden)
    if not candidates:
        return None
    return _worded(Query(attribute or ask, pick(rng, candidates)[1], {}, when), template, scene)


def _draw_unanswerable(category: str) -> Callable[[np.random.Generator, Scene], Worded | None]:
    def draw(rng: np.random.Generator, scene: Scene) -> Worded | None:
        ask, when, template = pick(rng, _UNANSWERABLE[category])
        if ask in ("count", "exists"):
            return _worded(Query(ask, _draw_phrase(rng, scene), {}, when), template, scene)
        return _draw_object_question(rng, scene, ask, when, template)

    return draw


def _draw_ambiguous(rng: np.random.Generator, scene: Scene) -> Worded | None:
    names = attributes_of(scene)
    queries = []
    for attribute in names:
        others = [a for a in names if a != attribute]
        phrases: list[Phrase] = [{}, *({a: thing[a]} for thing in scene["objects"] for a in others)]
        for phrase in phrases:
            query = Query(attribute, phrase)
            if len(possible_answers(query, scene)) > 1 and query not in queries:
                queries.append(query)
    if not queries:
        return None
    named = [q for q in queries if q.of] or queries
    query = pick(rng, queries if rng.random() < 0.2 else named)
    return _worded(query, pick(rng, _ATTRIBUTE), scene)


def ask_about_object(rng: np.random.Generator, scene: Scene, excluded: Sequence[int] = ()) -> Worded | None:
    """Draw a question on one object not in `excluded`; None if none can be named."""
    attribute = pick(rng, attributes_of(scene))
    candidates = [(i, phrase) for i, phrase in referents(scene, attribute) if i not in excluded]
    return _worded(Query(attribute, pick(rng, candidates)[1]), pick(rng, _ATTRIBUTE), scene) if candidates else None


_DRAW = {category: _draw_unanswerable(category) for category in ("knowledge", "complexity", "temporal")} | {"ambiguity": _draw_ambiguous}


def _worded(query: Query, template: str, scene: Scene) -> Worded:
    answers = possible_answers(query, scene)
    about = tuple(matching_objects(scene, phrase) for phrase in ((query.of, query.other) if query.other else (query.of,)))
    answer = answers[0] if len(answers) == 1 else None
    return Worded(word(query, template), answer, about, query.ask, noun_phrase(query.of, plural=True))


def _value_pool(rng: np.random.Generator, scene: Scene, attribute: str) -> Sequence[str]:
    return VALUES[attribute] if rng.random() < 0.3 else [thing[attribute] for thing in scene["objects"]]


def _draw_phrase(rng: np.random.Generator, scene: Scene) -> Phrase:
    attribute = str(pick(rng, attributes_of(scene)))
    return {attribute: str(pick(rng, _value_pool(rng, scene, attribute)))}


REFUSALS: dict[str, tuple[str, ...]] = {
    "knowledge": ("I don't know.", "That can't be told from the picture."),
    "complexity": ("I don't know.", "There are too many to count."),
    "extraneous": ("I don't know.", "I don't see any {xs}.", "There is no {x} in the image.", "I can't see any {xs}."),
    "temporal": ("I don't know.", "Nobody can tell from one picture."),
    "ambiguity": ("I don't know.", "Which one do you mean?"),
}
"""Abstaining answers by category. Those of `extraneous` are the four of CertainlyUncertain's appendix F.1."""


def refusals(category: str, question: str) -> tuple[str, ...]:
    """Return a category's abstaining answers, naming the object of `question`."""
    of = parse_query(question).of
    return tuple(text.format(x=noun_phrase(of), xs=noun_phrase(of, plural=True)) for text in REFUSALS[category])
