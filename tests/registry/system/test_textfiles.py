"""Texts that people wrote are read in one way: whatever a file is or holds, the answer is its text or one clear line, at once."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest
import yaml

from qualm.registry.system.textfiles import (
    MAX_DEPTH,
    MAX_DIGITS,
    MAX_VALUES,
    NoFileError,
    TextFileError,
    expanded_size,
    is_file,
    parse_yaml,
    read_bytes,
    read_text,
    safe_loader,
    shorten,
    warn,
)

ROOT = Path(__file__).parents[3]


def test_text_comes_as_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffcafé\r\n".encode())
    assert read_text(path) == "café\r\n" and read_bytes(path).startswith(b"\xef\xbb\xbf")
    (tmp_path / "link").symlink_to(path)
    assert read_text(tmp_path / "link") == "café\r\n"


def odd(folder: Path) -> dict[str, Path | str]:
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "zero").symlink_to("/dev/zero")
    return {
        "a pipe": folder / "pipe",
        "a folder": folder,
        "a device": folder / "zero",
        "Too many levels of symbolic links": folder / "loop",
        "File name too long": folder / ("a" * 5000),
        "no NUL": f"{folder}/a\0b",
        "No such file": folder / "none",
    }


def test_what_is_no_file_is_one_line(tmp_path: Path) -> None:
    for expected, path in odd(tmp_path).items():
        assert not is_file(path)
        with pytest.raises(TextFileError, match=expected) as caught:
            read_text(path)
        assert "\n" not in str(caught.value)
    with pytest.raises(NoFileError):
        read_text(tmp_path / "none")


def test_too_large_and_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"ab\nc\xe9")
    with pytest.raises(TextFileError, match="expected a card of at most 4 bytes, got 5"):
        read_text(path, 4, "a card")
    assert read_bytes(path, 5) == b"ab\nc\xe9", "as many as there may be"
    with pytest.raises(TextFileError, match=r"a: expected UTF-8 text, got byte 0xe9 \(line 2, column 2; save the file as UTF-8\)"):
        read_text(path)
    path.write_bytes(b"ab\xe9")
    with pytest.raises(TextFileError, match=r"\(line 1, column 3; save"):
        read_text(path)
    with pytest.raises(TextFileError, match="expected a file of at most"):
        read_text("/proc/self/maps", 4)  # a file that says it has no bytes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 10_000, "exceeded maximum nesting depth"),
        ("- " * 10_000, "nested more than"),
        ("- x\n" * (MAX_VALUES + 1), "more than"),
        ("b0: &b0 [x, x]\n" + "".join(f"b{i}: &b{i} [*b{i - 1}, *b{i - 1}]\n" for i in range(1, 40)), "alias"),
        ("b0: &b0 {x: 1}\n" + "".join(f"b{i}: &b{i} {{<<: [*b{i - 1}, *b{i - 1}]}}\n" for i in range(1, 40)), "alias"),
        ("a: &a [*a]", "alias"),
        ("a: 2024-99-99", "Python cannot represent"),
        ("a: " + "9" * 5000, "a number of 5,000 characters"),
        ("a: 0x" + "f" * 5000, "a number of 5,002 characters"),
        ("a: !!timestamp x", "Python cannot represent"),
        ("a: !!bool x", "Python cannot represent"),
        ("a: !!python/object/apply:os.system [id]", "could not determine a constructor"),
        ("? [a]\n: 1", "unhashable"),
        ("a: [", "not YAML"),
        ("a: 1\n---\nb: 1", "not YAML"),
        ("a: \x00", "not YAML"),
    ],
)  # fmt: skip
def test_yaml_is_bounded(text: str, message: str) -> None:
    with pytest.raises(TextFileError, match=message) as caught:
        parse_yaml(text, "f.yaml")
    assert str(caught.value).startswith("f.yaml: ") and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: [1", r"not YAML: did not find expected ',' or '\]' \(line 3, column 1\)"),
        ("a: 1\n  b: 2", r"not YAML: mapping values are not allowed in this context \(line 2, column 4\)"),
        ("a:\n  - " + "[" * (MAX_DEPTH - 1), rf"nested more than {MAX_DEPTH} deep \(line 2, column {MAX_DEPTH + 3}\)"),
    ],
)
def test_yaml_that_is_wrong_says_where(text: str, message: str) -> None:
    with pytest.raises(TextFileError, match=rf"^f\.yaml: {message}$"):
        parse_yaml(text, "f.yaml")


def test_notes_stand_behind_the_reason() -> None:
    assert str(TextFileError("a", "b")) == "a: b" and str(TextFileError("a", "b", hint="c")) == "a: b (c)"
    assert str(TextFileError("a", "b", 2, 3)) == "a: b (line 2, column 3)" and str(TextFileError("a", "b", 2, 3, "c")).endswith(
        ", column 3; c)"
    )


@pytest.mark.parametrize(
    ("text", "values", "depth"),
    [("", 1, 1), ("x", 1, 1), ("[]", 1, 1), ("{a: 1}", 3, 2), ("[&a [x, y], *a]", 7, 3), ("{a: &a [x], b: {c: *a}}", 9, 4)],
)
def test_what_a_node_stands_for_with_its_aliases_written_out(text: str, values: int, depth: int) -> None:
    assert expanded_size(yaml.compose(text, Loader=safe_loader()), {}) == (values, depth)


@pytest.mark.parametrize("digits", [MAX_DIGITS, MAX_DIGITS + 1])
def test_numbers_of_as_many_digits_as_may_be(digits: int) -> None:
    text = "9" * digits
    if digits == MAX_DIGITS:
        assert parse_yaml(text, "f.yaml") == int(text)
    else:
        with pytest.raises(TextFileError, match=f"a number of {digits} characters"):
            parse_yaml(text, "f.yaml")
    assert parse_yaml(f"'{text}'", "f.yaml") == text


def test_a_warning_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    for message in ("left out: a", "left out: b", "left out: a"):
        warn(message)
    assert capsys.readouterr() == ("", "qualm: warning: left out: a\nqualm: warning: left out: b\n")


def test_yaml_as_deep_as_it_may_be_nested() -> None:
    """By itself and by aliases, which repeat what is nested already."""
    deepest = "[" * MAX_DEPTH + "x" + "]" * MAX_DEPTH
    assert str(parse_yaml(deepest, "f.yaml")) == deepest.replace("x", "'x'")
    chain = [f"b{i}: &b{i} [*b{i - 1}]" for i in range(1, MAX_DEPTH - 1)]
    found = parse_yaml("\n".join(["b0: &b0 [x]", *chain]), "f.yaml")
    assert str(found[f"b{MAX_DEPTH - 2}"]) == "[" * (MAX_DEPTH - 1) + "'x'" + "]" * (MAX_DEPTH - 1)
    with pytest.raises(TextFileError, match=f"or {MAX_DEPTH} levels"):
        parse_yaml("\n".join(["b0: &b0 [x]", *chain, f"b{MAX_DEPTH - 1}: [*b{MAX_DEPTH - 2}]"]), "f.yaml")


def test_a_value_in_a_message_is_short() -> None:
    assert shorten("a\nb") == r"'a\nb'" and len(shorten("x" * 1000)) == 60
    assert shorten("x" * 58) == f"'{'x' * 58}'" and shorten("x" * 59) == f"'{'x' * 56}..."
    assert shorten(10**5000) == "a value too large to show"


OTHERS = {
    "registry": {"textfiles.py"},
    "compiler": set[str](),
}
"""Modules that may open what users wrote in a way of their own."""
EXEMPT = {
    "registry/adapters", "registry/recordings", "registry/scenes", "registry/preparations",  # data, read by stages and held to their layout
    "registry/formats/json_stream.py", "registry/formats/text_tables.py", "registry/formats/check.py", "registry/formats/unpickle.py",
    "registry/formats/archives.py", "registry/formats/frames.py",
    "registry/entries/layout.py", "registry/entries/infer_columns.py", "registry/entries/adding.py",
    "registry/entries/new_card_dialogue.py",  # data as it comes in
    "registry/entries/references.py", "registry/entries/published_models.py", "compiler/plan/emit.py", "tests/generated_pages.py",
    "compiler/plan/sources.py",
    "compiler/spec/json_schema.py", "compiler/run/run.py", "compiler/run/dvc.py",  # files of ours
}  # fmt: skip


def test_nobody_else_reads_texts() -> None:
    for package in OTHERS:
        for file in (ROOT / package).rglob("*.py"):
            name = file.relative_to(ROOT).as_posix()
            if name == "registry/system/textfiles.py" or any(name == e or name.startswith(f"{e}/") for e in EXEMPT):
                continue
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("read_text", "read_bytes"):
                    owner = node.func.value
                    assert isinstance(owner, ast.Name) and owner.id == "textfiles", (
                        f"{name}:{node.lineno}: read it by qualm.registry.system.textfiles"
                    )
