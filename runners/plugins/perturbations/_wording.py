"""Edits of a question's words: its ending, and edits that changed nothing."""

QUESTION_MARKS = "?？؟;՞"
_ENDINGS = ".!,:…。！，、"


def as_question(text: str) -> str:
    """Return a text with a question mark at its end, in place of other end marks.

    >>> as_question("How many are there "), as_question("Count them.")
    ('How many are there?', 'Count them?')
    """
    words = text.rstrip()
    if words.endswith(tuple(QUESTION_MARKS)):
        return words
    return words.rstrip(_ENDINGS + " ") + "?"


def finish_edit(question: str, edited_text: str) -> str:
    """Return the edited text, ended by a question mark; the question as it is if unchanged."""
    return question if edited_text == question else as_question(edited_text)
