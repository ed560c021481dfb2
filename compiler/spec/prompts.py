"""Read `prompt:` of a spec, dataset or model: templates and examples from files, with every mistake at its place."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from qualm.compiler.spec import validate
from qualm.compiler.spec.errors import Problem, nearest, quoted
from qualm.compiler.spec.language import Prompt, WrittenExample
from qualm.compiler.spec.plugin_ref import prompts_folder
from qualm.compiler.spec.yaml_positions import Document, Path_, dotted, paths_in
from qualm.registry.plugins.registry import NAME_PATTERN, PROMPTS
from qualm.registry.system import textfiles
from qualm.runners.prompts.question import ANSWER_FORMATS, PLACEHOLDER, PLACEHOLDERS
from qualm.runners.prompts.templates import PromptError, read_prompt

AS = "as"
"""Key that names a prompt of a list."""
IN_WORDS_FORMATS = ("free", "short", "json")
"""Answer formats whose answers are read from words."""


@dataclass
class PromptReader:
    """Reader of a spec's prompts; records problems, and the files it reads."""

    document: Document
    problems: list[Problem]
    root: Path
    files: set[Path] = field(default_factory=set)

    def read(self, value: Any, path: Path_, sweep: bool = False) -> dict[str, dict[str, Any]]:
        """Return {label: prompt keys} of a sweep, {"": keys} of one, {} of None; record faults.

        Args:
            value: of the key `prompt`: a name of a file, a mapping, or, with `sweep`, a list of these.
            path: of the value in the spec.
            sweep: lists are allowed.
        """
        if not isinstance(value, list):
            return {} if value is None else {"": self._single(value, path)}
        if not sweep:
            self._problem(path, "expected one prompt, got a list", "a sweep over prompts belongs to the spec or to a model")
            return {}
        by_label: dict[str, dict[str, Any]] = {}
        for i, entry in enumerate(value):
            name = entry.get(AS) if isinstance(entry, Mapping) else entry
            if not isinstance(name, str) or not re.fullmatch(NAME_PATTERN, name):
                self._problem((*path, i), "expected a name of this prompt in a list", f"add `{AS}: NAME`")
            elif name in by_label:
                self._problem((*path, i), f"'{name}' is named twice", f"name each once, by `{AS}: NAME`")
            else:
                rest = {k: v for k, v in entry.items() if k != AS} if isinstance(entry, Mapping) else entry
                by_label[name] = self._single(rest, (*path, i))
        if len(value) < 2:
            self._problem(path, f"expected at least two prompts in a list, got {len(value)}", "write one prompt without a list")
        return by_label

    def _single(self, value: Any, path: Path_) -> dict[str, Any]:
        if isinstance(value, str):
            template = self._template(value, path)
            return {} if template is None else {"template": template}
        given: Prompt | None = self._model(Prompt, value, path)
        if given is None:
            return {}
        resolved: dict[str, Any] = {}
        if given.template is not None:
            template = self._template(given.template, (*path, "template"))
            resolved |= {} if template is None else {"template": template}
        if given.system is not None:
            resolved["system"] = given.system
        if given.answer_format is not None:
            resolved |= self._answer_format(given.answer_format, (*path, "answer_format"))
        if given.confidence_target is not None:
            resolved["confidence_target"] = given.confidence_target
        if given.examples is not None:
            resolved["examples"] = self._examples(given, (*path, "examples"))
        return resolved

    def _template(self, text: str, path: Path_) -> str | None:
        """Return a template, given or from a file, and record its faults; None if unreadable."""
        if re.fullmatch(NAME_PATTERN, text):
            folder = prompts_folder()
            if not (folder / f"{text}.md").is_file():
                there = {file.stem for file in folder.glob("*.md")}
                self._problem(path, f"expected a text with {{question}}, or a file {PROMPTS}/NAME.md, got '{text}'", nearest(text, there))
                return None
            self.files.add(folder / f"{text}.md")
            try:
                text, where = read_prompt("", str(folder / f"{text}.md")), f"{PROMPTS}/{text}.md: "
            except PromptError as error:
                self._problem(path, str(error))
                return None
        else:
            text, where = text.rstrip("\n"), ""
        for name in PLACEHOLDER.findall(text):
            if name not in PLACEHOLDERS:
                known = ", ".join(f"{{{p}}}" for p in PLACEHOLDERS)
                self._problem(path, f"{where}unknown placeholder {{{name}}}", nearest(name, PLACEHOLDERS) or f"there are: {known}")
        if (count := text.count("{question}")) != 1:
            self._problem(path, f"{where}expected {{question}} once in the template, found it {count or 'no'} times")
        return text

    def _answer_format(self, value: str | dict[str, Any], path: Path_) -> dict[str, Any]:
        name, schema = (value, None) if isinstance(value, str) else next(iter(value.items()), ("", None))
        if name not in ANSWER_FORMATS or (isinstance(value, dict) and (len(value) != 1 or name != "json")):
            expected = "expected free, letter, short, json or {json: SCHEMA}"
            self._problem(path, f"{expected}, got {quoted(value)}", nearest(str(name), ANSWER_FORMATS))
            return {}
        if schema is None:
            return {"answer_format": name}
        properties = schema.get("properties") if isinstance(schema, dict) else None
        if not isinstance(properties, dict) or "answer" not in properties or "answer" not in (schema.get("required") or ()):
            self._problem(
                path,
                "expected a JSON schema of an object with the required property `answer`, which is read as the answer",
                "{type: object, properties: {answer: {type: string}}, required: [answer]}",
            )
            return {}
        return {"answer_format": name, "schema": schema}

    def _examples(self, given: Prompt, path: Path_) -> dict[str, Any]:
        examples = given.examples
        if isinstance(examples, list):
            return {"written": self._written(examples, path)}
        assert examples is not None
        how: dict[str, Any] = examples.model_dump(exclude_none=True)
        if (examples.split is None) == (examples.file is None):
            self._problem(path, "expected `split` or `file`, one of them")
            return {}
        if examples.file is None:
            if examples.shots is None:
                self._problem(path, "expected `shots`, the number of examples that are drawn from the split")
            return how
        if "seed" in how:
            self._problem((*path, "seed"), "expected no seed beside `file`, whose first examples are taken", "leave it out", key=True)
        written = self._written(self._lines(examples.file, (*path, "file")), (*path, "file"), inside=True)
        if examples.shots is not None and examples.shots > len(written):
            self._problem((*path, "shots"), f"expected at most the {len(written)} examples of {examples.file}, got {examples.shots}")
        return {"written": written[: examples.shots]}

    def _lines(self, name: str, path: Path_) -> list[Any]:
        file = prompts_folder() / name
        self.files.add(file)
        try:
            lines = [line for line in textfiles.read_text(file, 1 << 24).splitlines() if line.strip()]
            return [json.loads(line) for line in lines]
        except textfiles.TextFileError as error:
            self._problem(path, f"expected a file {PROMPTS}/NAME.jsonl with an example per line: {error}")
        except ValueError as error:
            self._problem(path, f"{PROMPTS}/{name}: expected JSON Lines, one example per line: {error}")
        return []

    def _written(self, entries: Sequence[Any], path: Path_, inside: bool = False) -> list[dict[str, Any]]:
        """Return well-formed examples (even without their images) as dicts; record all faults.

        Args:
            entries: examples as mappings or checked.
            path: of the list, or of the file's name.
            inside: the entries are lines of a file.
        """
        examples = []
        for i, entry in enumerate(entries):
            at = path if inside else (*path, i)
            example = entry if isinstance(entry, WrittenExample) else self._model(WrittenExample, entry, at)
            if example is None:
                continue
            for image in example.images:
                if Path(image).is_absolute() or ".." in Path(image).parts or not (self.root / image).is_file():
                    self._problem(at, f"example {i + 1}: no image '{image}' in the project", "give its path from the project's root")
            examples.append(example.model_dump(exclude_defaults=True))
        return examples

    def _model(self, kind: type[Any], value: Any, path: Path_) -> Any:
        marks = {place: self.document.mark((*path, *place)) for place in paths_in(value)}
        faults: list[Problem] = []
        found = validate.model(kind, Document(value, marks, {}, {}), faults)
        self.problems += [replace(fault, path=dotted((*path, *fault.at)), at=(*path, *fault.at)) for fault in faults]
        return found

    def _problem(self, path: Path_, message: str, hint: str = "", key: bool = False) -> None:
        self.problems.append(self.document.problem(path, message, hint, key))
