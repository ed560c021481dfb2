"""Edits of a question's words: its ending, and edits that changed nothing."""

QUESTION_MARKS = "?？؟;՞"
_ENDINGS = ".!,:…。！，、"


def as_question(text: str) -> str:
    """End a text with a question mark, as VLM-UQBench does with every edited question.

    >>> as_question("How many are there "), as_question("Count them.")
    ('How many are there?', 'Count them?')
    """
    words = text.rstrip()
    if words.endswith(tuple(QUESTION_MARKS)):
        return words
    return words.rstrip(_ENDINGS + " ") + "?"


def edited(question: str, text: str) -> str:
    """Return the edited text as a question, or the original if the edit changed nothing."""
    return question if text == question else as_question(text)
