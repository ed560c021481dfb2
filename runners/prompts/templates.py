"""Prompt files: Markdown under specs/prompts/, with placeholders in braces.

They shape results, so a stage depends on those it uses: a plugin names its own in `ASSETS`, and a user's by a parameter of type
`Prompt`.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from qualm.registry.plugins.registry import PROMPTS, ROOT
from qualm.registry.system import textfiles
from qualm.runners.prompts.question import PLACEHOLDER, TEMPLATE, Prompt

_PLACE = re.compile(r"\{([a-z_]+)\}")
_HEADING = re.compile(r"^## +(.+?) *$", re.MULTILINE)
_COMMENT = re.compile(r"<!--.*?-->\s*", re.DOTALL)


class PromptError(Exception):
    """A prompt file is missing or lacks a placeholder; the message says which and what to do."""


def read_prompt(name: str, user_path: str | None = None) -> str:
    """Return a prompt, specs/prompts/NAME.md or a file, without comments; else PromptError.

    Raises:
        PromptError: there is no such file.
    """
    path = Path(user_path) if user_path else ROOT / PROMPTS / f"{name}.md"
    try:
        return _COMMENT.sub("", textfiles.read_text(path, 1 << 20)).strip()
    except textfiles.TextFileError as error:
        raise PromptError(f"{path}: expected a prompt as a text file: {error}") from error


def fill_placeholders(prompt: str, values: Mapping[str, str], where: str) -> str:
    """Replace every placeholder (`{caption}`) by its value; PromptError if names do not match.

    Raises:
        PromptError: a placeholder without a value, or a value without a placeholder.
    """
    there = set(_PLACE.findall(prompt))
    for name in sorted(there - set(values)):
        raise PromptError(f"{where}: {{{name}}}: no such placeholder; there are: {', '.join(sorted(values))}")
    for name in sorted(set(values) - there):
        raise PromptError(f"{where}: expected the placeholder {{{name}}} in it, found none")
    return _PLACE.sub(lambda match: values[match[1]], prompt)


def replace_sections(prompt: str, sections: Mapping[str, str]) -> str:
    """Replace the text under `## ` headings, by title; insert missing ones before the first."""
    for title, body in sections.items():
        headings = list(_HEADING.finditer(prompt))
        place = next((i for i, m in enumerate(headings) if m[1].casefold() == title.casefold()), None)
        if place is None:
            start = end = headings[0].start() if headings else 0
        else:
            start, end = headings[place].start(), headings[place + 1].start() if place + 1 < len(headings) else len(prompt)
        prompt = f"{prompt[:start]}## {title}\n\n{body}\n\n{prompt[end:]}".rstrip()
    return prompt


class Questions(Protocol):
    """Samples and hints of a dataset, as `find_misfit` reads them."""

    @property
    def samples(self) -> Sequence[Mapping[str, Any]]: ...

    @property
    def hints(self) -> Sequence[str]: ...


def check_fit(prompt: Prompt, dataset: str, questions: Questions, judge_reads_words: bool) -> None:
    """Raise PromptError if a prompt does not fit a dataset's questions.

    Raises:
        PromptError: it does not; see `find_misfit`.
    """
    if why := find_misfit(prompt, questions, judge_reads_words):
        raise PromptError(f"dataset {dataset}: prompt: {why}")


def find_misfit(prompt: Prompt, questions: Questions, judge_reads_words: bool) -> str:
    """Return why a prompt does not fit a dataset's questions; "" if it fits.

    Args:
        judge_reads_words: a judge reads answers in words to questions with options.
    """
    names, choices = set(PLACEHOLDER.findall(prompt.template)), [bool(sample["choices"]) for sample in questions.samples]
    way = "set another `prompt:` for this dataset"
    if not choices:
        return ""
    needs_options = prompt.answer_format == "letter" or (prompt.template != TEMPLATE and names & {"options", "letters"})
    if needs_options and not any(choices):
        what = "`answer_format: letter`" if prompt.answer_format == "letter" else "{options}"
        return f"{what} needs questions with options, and all of this dataset are open; {way}"
    if "options" not in names and any(choices):
        return "expected {options} in the template, as the dataset has questions with options"
    if "hint" in names and not any(questions.hints):
        return f"the template has {{hint}}, and no sample has a hint (`meta.hint`); {way}"
    if prompt.confidence_target is not None and "instruction" not in names:
        return "expected {instruction} in the template, which states the `confidence_target`"
    if prompt.confidence_target is not None and any(choices) and prompt.answer_format not in ("free", "short", "json"):
        return '`confidence_target` needs answers in words, as a letter cannot say "I don\'t know"; add `answer_format: free`'
    if any(choices) and prompt.answer_format in ("free", "short", "json") and not judge_reads_words:
        return (
            f"`answer_format: {prompt.answer_format}` answers questions with options in words, which a judge reads: "
            "add `judges: [option_match]`, or `answer_format: letter`"
        )
    return ""
