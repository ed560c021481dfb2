"""Training data of the small model: images with many answerable questions each.

Beside the questions of the benchmark there are some that teach it to tell objects apart (places, relations, descriptions), without which
it learns colours but not their objects, and some that teach it to judge an answer, with both prompts for that. Questions are drawn
again each time an image occurs. All of them can be answered from the image.
"""

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from qualm.registry import LETTERS
from qualm.registry.scenes.contrast import CATEGORIES, FORMS, REFUSALS, draw_answerable
from qualm.registry.scenes.questions import BESIDES, KINDS, NEITHER, OPTION_KINDS, QUADRANTS, SIDES, ask, ask_quadrant, count, noun_phrase
from qualm.registry.scenes.world import LEVELS, VALUES, Scene
from qualm.runners.prompts.question import INSTRUCTION, VERIFY, p_true_prompt, render_question

GRID = 4
"""Rows and columns of the grid in which places are named."""
DESCRIBE = "Describe the picture."

QuestionAnswer = tuple[str, str, tuple[tuple[int, ...], ...]]
"""Question, answer, and the objects that each noun phrase means."""


def vocabulary() -> list[str]:
    """Return texts that together hold every word of the small model's vocabulary."""
    values = [v for vs in VALUES.values() for v in vs]
    return [
        *values,
        *(f"{shape}s" for shape in VALUES["shape"]),
        *VALUES,
        *SIDES.values(),
        *QUADRANTS.values(),
        *NEITHER,
        "cone glass wood a object objects yes no nothing , 0 1 2 3 4 5 6 7 8 9",
        "What is the of? What number of are there? Is there a? Are there any? How many are there? The is what?",
        "Which of these is in the picture? Where is the seen from the? Where is it? What is at row column?",
        DESCRIBE,
        INSTRUCTION,
        " ".join(f"{letter}." for letter in LETTERS[:6]),
        *(template for _, _, template in FORMS),
        *(text for texts in REFUSALS.values() for text in texts),
        VERIFY,
        p_true_prompt("", ""),
        "True False",
        OTHER_WORDS,
    ]


OTHER_WORDS = """
I you he she it we they this that these those who whose which what where when why how am are is was were be been being do does did done
can could will would shall should may might must not no yes nor or and but if then else because so than as at by for from in into of off
on onto out over to under up with without about after again before both each few more most much many other another some such only own
same too very just now here there today tomorrow yesterday soon later never always ever sure certain unsure maybe perhaps probably
likely possible impossible unknown unclear unanswerable answer question image picture photo scene thing things object objects item
items one ones two three four five six seven eight nine ten none any all every near next far beside between close first last biggest
smallest bigger smaller largest taller shorter higher lower front back side top bottom middle center corner edge table ground floor
shadow light dark bright color colour shape size material number count name tell say see seen look looks know known think guess seem
seems mean means told give given make made take taken put find found show shown ask asked sorry please cannot don didn isn aren doesn
visible hidden missing enough information detail left right red green blue
"""
"""Words of other benchmarks, which do not occur in training."""


def open_question(rng: np.random.Generator, scene: Scene) -> QuestionAnswer:
    """Draw an open question of a random kind about a scene, with answer and objects."""
    question = ask(rng, scene, KINDS[int(rng.integers(len(KINDS)))]) or ask(rng, scene, "counting")
    assert question is not None
    return question.text, question.answer, question.about


def category_question(rng: np.random.Generator, scene: Scene) -> QuestionAnswer | None:
    """Draw an answerable question of a contrastive category; None if the scene offers none."""
    drawn = [c for c in CATEGORIES if c not in ("extraneous", "ambiguity")]  # these two ask what `open_question` asks
    question = draw_answerable(rng, scene, drawn[int(rng.integers(len(drawn)))])
    return None if question is None or question.answer is None else (question.text, question.answer, question.about)


def judging_question(rng: np.random.Generator, example: QuestionAnswer, as_turn: bool) -> QuestionAnswer:
    """Return an example that asks if an answer is right, with its verdict and its objects.

    Half of the answers are wrong. It is a second turn (yes/no) if `as_turn`, else the P(True) prompt (True/False).
    """
    question, answer, about = example
    right = bool(rng.random() < 0.5)
    claim = answer if right else _wrong_answer(rng, answer)
    if as_turn:
        return f"{question}{ASSISTANT}{claim}{END}{USER}{VERIFY}", "yes" if right else "no", about
    return p_true_prompt(question, claim), "True" if right else "False", about


def _wrong_answer(rng: np.random.Generator, answer: str) -> str:
    """Return a wrong answer of the same kind, or sometimes an abstention."""
    if rng.random() < 0.1:
        return NEITHER[0]
    if answer.isdigit():
        near = [n for n in range(max(0, int(answer) - 2), int(answer) + 3) if n != int(answer)]
        return str(near[int(rng.integers(len(near)))])
    kinds = [("yes", "no"), tuple(QUADRANTS.values()), *((*values, *BESIDES.get(a, ())) for a, values in VALUES.items())]
    others = [v for values in kinds if answer in values for v in values if v != answer]
    return others[int(rng.integers(len(others)))]


def where_question(rng: np.random.Generator, scene: Scene) -> QuestionAnswer | None:
    """Draw where one object is from another, such as left and behind; None if no pair fits."""
    pair = ask_quadrant(rng, scene)
    return None if pair is None else pair[0]


def option_question(rng: np.random.Generator, scene: Scene) -> QuestionAnswer:
    """Draw a multiple-choice question with six options; its answer is the right letter."""
    question = ask(rng, scene, OPTION_KINDS[int(rng.integers(len(OPTION_KINDS)))], True) or ask(rng, scene, "counting", True)
    assert question is not None and question.answer_index is not None
    return render_question(question.text, question.choices), LETTERS[question.answer_index], question.about


def place_question(rng: np.random.Generator, scene: Scene) -> QuestionAnswer:
    """Draw a question: where an object is, what is at a place, or to describe the scene."""
    things = scene["objects"]
    i = int(rng.integers(len(things)))
    thing = things[i]
    row, column = _cell(scene, thing)
    name = {"color": thing["color"], "shape": thing["shape"]}
    here = [t for t in things if _cell(scene, t) == (row, column)]
    if rng.random() < 0.5 and count(scene, name) == 1:
        return f"Where is the {noun_phrase(name)}?", f"row {row} column {column}", ((i,),)
    if len(here) > 1:
        return description_question(scene)
    return f"What is at row {row} column {column}?", _full(thing), ((i,),)


def description_question(scene: Scene) -> QuestionAnswer:
    """Return the question to describe a scene, with all objects from left to right as answer."""
    return DESCRIBE, ", ".join(_full(t) for t in sorted(scene["objects"], key=lambda t: float(t["pixel_coords"][0]))), ()


def _cell(scene: Scene, thing: dict[str, Any]) -> tuple[int, int]:
    pixels = LEVELS[scene["level"]].pixels
    x, y, _ = thing["pixel_coords"]
    return min(int(y * GRID / pixels), GRID - 1) + 1, min(int(x * GRID / pixels), GRID - 1) + 1


def _full(thing: dict[str, Any]) -> str:
    return noun_phrase({a: thing[a] for a in VALUES})


IMAGE, USER, ASSISTANT, END, PAD, UNKNOWN = "<image>", "<user>", "<assistant>", "</s>", "<pad>", "<unk>"
SPECIAL = (PAD, UNKNOWN, END, USER, ASSISTANT, IMAGE)

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{- '<assistant>' if message['role'] == 'assistant' else '<user>' -}}"
    "{%- if message['content'] is string -%}{{- message['content'] -}}{%- else -%}"
    "{%- for part in message['content'] -%}"
    "{{- '<image>' if part['type'] == 'image' else part['text'] -}}"
    "{%- endfor -%}{%- endif -%}"
    "{{- '</s>' if message['role'] == 'assistant' else '' -}}"
    "{%- endfor -%}"
    "{{- '<assistant>' if add_generation_prompt else '' -}}"
)

_WORD = re.compile(r"[^\W\d_]+|\d|[^\w\s]|_")


def split_words(text: str) -> list[str]:
    """Split a text as the tokenizer does: runs of letters, single digits, single marks."""
    return _WORD.findall(text)


def build_tokenizer(texts: Iterable[str]) -> Any:
    """Create a word-level tokenizer that knows the words of `texts`."""
    from tokenizers import Regex, Tokenizer, decoders
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Split
    from transformers import PreTrainedTokenizerFast

    words = sorted({word for text in texts for word in split_words(text)})
    inner = Tokenizer(WordLevel({word: i for i, word in enumerate((*SPECIAL, *words))}, unk_token=UNKNOWN))
    inner.pre_tokenizer = Split(Regex(_WORD.pattern), "removed", invert=True)
    joined = [decoders.WordPiece(prefix="\0", cleanup=False), decoders.Fuse()]  # words with a space between them
    marks = [decoders.Replace(f" {mark}", mark) for mark in ".,?!:"]
    inner.decoder = decoders.Sequence([*joined, *marks, decoders.Replace(" ' ", "'")])
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        unk_token=UNKNOWN,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=[USER, ASSISTANT, IMAGE],
        padding_side="left",
        clean_up_tokenization_spaces=False,
        chat_template=CHAT_TEMPLATE,
    )
