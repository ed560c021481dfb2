"""Shorten names so that they stay different."""

from collections.abc import Callable, Sequence


def shorten_names(names: Sequence[str], max_characters: int, shorten: Callable[[str], str]) -> list[str]:
    """Return the names by `shorten`, in order; those that become equal keep where they differ.

    Args:
        max_characters: of the other short forms, which begin with the names' beginning and end with where they differ.

    >>> shorten_names(["entropy@level=0.5,nli=a", "entropy@level=0.9,nli=a", "accuracy"], 14, lambda name: name[:14])
    ['en…0.5,nli=a', 'en…0.9,nli=a', 'accuracy']
    """
    alike: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        alike.setdefault(shorten(name), []).append(name)
    short = {same[0]: text for text, same in alike.items() if len(same) == 1}
    for same in (same for same in alike.values() if len(same) > 1):
        short |= _shorten_equal(same, max_characters, set(short.values()))
    return [short[name] for name in names]


def _shorten_equal(names: Sequence[str], max_characters: int, taken: set[str]) -> dict[str, str]:
    """Return name -> short form, different from each other and from the forms in `taken`."""
    head = max(1, max_characters // 6)
    room = max_characters - head - 1
    differs = (place for place, letters in enumerate(zip(*names, strict=False)) if len(set(letters)) > 1)
    start = max(head, _word_start(names[0], next(differs, min(map(len, names)))))
    short: dict[str, str] = {}
    for name in names:
        rest = name[start:]
        text = f"{name[:head]}…{rest if len(rest) <= room else rest[: room - 1] + '…'}"
        number = 1
        while text in taken or text in short.values():
            number += 1
            mark = f"…{number}"
            text = f"{text[: max_characters - len(mark)]}{mark}"
        short[name] = text
    return short


def _word_start(name: str, index: int) -> int:
    """Return the start index of the word or number that contains `index`."""
    while index and (name[index - 1].isalnum() or name[index - 1] == "."):
        index -= 1
    return index
