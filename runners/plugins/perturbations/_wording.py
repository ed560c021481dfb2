"""Shared by edits of a question's words: its ending, and the result of an edit that changed nothing."""

QUESTION_MARKS = "?？؟;՞"
_ENDINGS = ".!,:…。！，、"


def as_question(text: str) -> str:
    """Words that end with a question mark, as VLM-UQBench has every edited question end.

    >>> as_question("How many are there "), as_question("Count them.")
    ('How many are there?', 'Count them?')
    """
    words = text.rstrip()
    if words.endswith(tuple(QUESTION_MARKS)):
        return words
    return words.rstrip(_ENDINGS + " ") + "?"


def edited(question: str, text: str) -> str:
    """The edited question, as a question; the very one that went in where the edit changed nothing, so that it is known for a no-op."""
    return question if text == question else as_question(text)
