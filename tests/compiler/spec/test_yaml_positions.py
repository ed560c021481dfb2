"""Reading YAML: every mistake is one clear line with its place; nothing explodes, nothing is silently changed."""

import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from qualm.compiler.spec import yaml_positions
from qualm.compiler.spec.errors import SpecError
from qualm.compiler.spec.yaml_positions import MAX_BYTES, MAX_DEPTH, MAX_PARENTS, MAX_PATH, load, parse


def problems(text: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        parse(text, "s.yaml")
    return [str(p) for p in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\nb: 2\na: 3\n", "s.yaml:3:1: a: the key 'a' stands here a second time; the first is in line 1"),
        (
            "name: no\n",
            "s.yaml:1:7: name: 'no' is a boolean to some YAML readers and text to others "
            '(write "no" in quotes for the text, true or false for the boolean)',
        ),
        (
            "x:\n  - yes\n",
            "s.yaml:2:5: x[0]: 'yes' is a boolean to some YAML readers and text to others "
            '(write "yes" in quotes for the text, true or false for the boolean)',
        ),
        (
            "on: 1\n",
            "s.yaml:1:1: 'on' is a boolean to some YAML readers and text to others "
            '(write "on" in quotes for the text, true or false for the boolean)',
        ),
        ("lr: 1e-4\n", "s.yaml:1:5: lr: YAML reads 1e-4 as text, not as a number (write 1.0e-4, or quote it)"),
        ("n: 010\n", "s.yaml:1:4: n: '010' is not a plain decimal number (write it in decimals, or quoted as text)"),
        ("t: 1:30\n", "s.yaml:1:4: t: '1:30' is not a plain decimal number (write it in decimals, or quoted as text)"),
        ("x: .nan\n", "s.yaml:1:4: x: expected a finite decimal number, got .nan"),
        ("a:\n\t- b\n", "s.yaml:2:1: expected spaces, got a tab (YAML indents by spaces only)"),
        ("", "s.yaml:1:1: expected a spec, got an empty file (`qualm new NAME` writes one to start from)"),
        ("# only a comment\n", "s.yaml:1:1: expected a spec, got an empty file (`qualm new NAME` writes one to start from)"),
        ("a: 1\n---\nb: 2\n", "s.yaml:2:1: expected one document, got a second ('---')"),
        (
            "x: !!python/object/apply:os.system [id]\n",
            "s.yaml:1:4: x: the tag !!python/object/apply:os.system is not allowed in a spec (remove it)",
        ),
        ("1: a\n", 's.yaml:1:1: expected a name as key, got 1 (write "1" in quotes if that name was meant)'),
        ("? [a, b]\n: 1\n", "s.yaml:1:3: expected a name as key, got a list or mapping"),
        ("a:\n  <<: {[b, c]: 1}\n", "s.yaml:2:8: a: expected a name as key, got a list or mapping"),
        ("a:\n  <<: 3\n", "s.yaml:2:7: a: expected << to name a mapping"),
        ("a: &a {<<: *a, x: 1}\n", "s.yaml:1:4: a: expected << to name a mapping"),
        ("a: {<<: [{y: 2}, 3]}\n", "s.yaml:1:9: a: expected << to name a mapping"),
        ("a:\n\t- b", "s.yaml:2:1: expected spaces, got a tab (YAML indents by spaces only)"),
        ("a: [1\n", "s.yaml:2:1: not YAML: did not find expected ',' or ']' while parsing a flow sequence"),
        ("a: b: c\n", "s.yaml:1:5: not YAML: mapping values are not allowed in this context"),
        ("a: !x {b: 1}\n", "s.yaml:1:4: a: the tag !x is not allowed in a spec (remove it)"),
        (
            "n: 12345678901234567890\n",
            "s.yaml:1:4: n: '12345678901234567890' is not a plain decimal number (write it in decimals, or quoted as text)",
        ),
        ("[" * 100, "s.yaml:1:41: nested more than 40 deep (use fewer levels)"),
        ("a: &a\n  b: *a\n", "s.yaml:1:4: expands to more than 40 levels (an alias (*name) that repeats aliases?)"),
    ],
)
def test_each_mistake_is_one_clear_line(text: str, expected: str) -> None:
    found = problems(text)
    assert len(found) == 1
    assert found[0] == expected


def test_what_is_just_within_the_limits_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse("[" * MAX_DEPTH + "x" + "]" * MAX_DEPTH, "s").data and parse("n: 1234567890123456789\n", "s").data == {
        "n": 1234567890123456789
    }
    monkeypatch.setattr(yaml_positions, "MAX_VALUES", 3)
    assert parse("[a, b]", "s").data == ["a", "b"] and problems("[a, b, c]")[0].startswith("s.yaml:1:8: expands to more than 3 values")
    for length, message in ((MAX_PATH, "found nothing at"), (MAX_PATH + 1, "expected the file name of another spec")):
        (tmp_path / "s.yaml").write_text(f"extends: {'x' * length}\n")
        with pytest.raises(SpecError, match=message):
            load(tmp_path / "s.yaml", tmp_path)


@pytest.mark.parametrize(("first", "next_"), [("[x]", "[*b{}]"), ("{k: x}", "{k: *b{}}")])
def test_aliases_lead_as_deep_as_brackets_do(first: str, next_: str) -> None:
    """The document, the list or mapping of each alias, and what stands in the innermost."""
    chain = [f"b0: &b0 {first}", *(f"b{i}: &b{i} " + next_.replace("{}", str(i - 1)) for i in range(1, MAX_DEPTH))]
    assert len(parse("\n".join(chain[:-1]), "s").data) == MAX_DEPTH - 1
    assert "expands to more than 40 levels" in problems("\n".join(chain))[0]


def test_so_many_specs_may_extend_one_another_and_no_more(tmp_path: Path) -> None:
    for i in range(MAX_PARENTS + 1):
        (tmp_path / f"s{i}.yaml").write_text(f"n{i}: 1\n" + (f"extends: s{i - 1}\n" if i else ""))
    assert len(load(tmp_path / f"s{MAX_PARENTS}.yaml", tmp_path).data) == MAX_PARENTS + 1
    (tmp_path / "more.yaml").write_text(f"extends: s{MAX_PARENTS}\n")
    with pytest.raises(
        SpecError, match=r"s1.yaml:2:10: extends: expected at most 20 specs that extend one another, got one more \(write what"
    ):
        load(tmp_path / "more.yaml", tmp_path)


def test_all_mistakes_at_once() -> None:
    assert len(problems("a: no\nb: 1e-4\nc: 010\nc: 2\n")) == 4


def test_numbers_and_text_stay_what_they_look_like() -> None:
    data = parse("i: 15\nf: 0.5\ns: '1e-4'\nd: 2024-01-01\nb: true\nn: null\nneg: -3\ne: 1.5e-3\nt: TRUE\nw: False\n", "s").data
    assert data == {"i": 15, "f": 0.5, "s": "1e-4", "d": "2024-01-01", "b": True, "n": None, "neg": -3, "e": 0.0015, "t": True, "w": False}


def test_anchors_and_merge_keys_work() -> None:
    data = parse("base: &b {x: 1, y: 2}\nother:\n  <<: *b\n  y: 3\nsame: *b\n", "s").data
    assert data["other"] == {"y": 3, "x": 1}
    assert data["same"] == {"x": 1, "y": 2}


def test_merge_keys_bring_what_their_mappings_merge() -> None:
    data = parse("a: &a {x: 1, y: 1}\nb: &b {<<: *a, y: 2}\nc: {<<: *b, z: 3}\n", "s").data
    assert data["c"] == {"x": 1, "y": 2, "z": 3}
    assert parse("a: &a {x: 1, <<: &b {y: 2, <<: *a}}\n", "s").data == {"a": {"x": 1, "y": 2}}, "that merge each other"


def test_merges_of_merges_are_read_at_once() -> None:
    text = "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}\n" for i in range(1, 12))
    started = time.perf_counter()
    assert parse(text, "s").data["a11"] == {"x": 1}
    assert time.perf_counter() - started < 30


def test_marks_point_at_values_and_keys() -> None:
    document = parse("a:\n  bc: [1, 2]\n", "s")
    assert (document.mark(("a", "bc", 1)).line, document.mark(("a", "bc", 1)).col) == (2, 11)
    assert document.mark(("a", "bc"), key=True).col == 3
    assert document.mark(("a", "missing")).line == 2  # the nearest parent


BOMB = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 11))


@pytest.mark.slow
def test_an_alias_bomb_is_refused_before_it_grows(tmp_path: Path) -> None:
    (tmp_path / "bomb.yaml").write_text(BOMB)
    script = (
        "import sys, time\nfrom pathlib import Path\nfrom qualm.compiler.spec.yaml_positions import load\n"
        "from qualm.compiler.spec.errors import SpecError\n"
        "t = time.process_time()\n"
        "try: load(Path(sys.argv[1]))\n"
        "except SpecError as e: print(e)\n"
        "peak = [line for line in open('/proc/self/status') if line.startswith('VmHWM')][0].split()[1]\n"
        "print(time.process_time() - t, int(peak) / 1024)"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "bomb.yaml")], capture_output=True, text=True, cwd=root, check=True)
    message, figures = done.stdout.strip().splitlines()
    assert "expands to more than 200,000 values" in message
    seconds, mib = map(float, figures.split())
    assert seconds < 20  # of the processor, for less than one where nothing else runs; unrefused it would not end
    assert mib < 200


def test_a_50_megabyte_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    with path.open("wb") as handle:
        handle.truncate(50 * 2**20)
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    with pytest.raises(SpecError, match=f"expected a spec of at most {MAX_BYTES:,} bytes, got 52,428,800"):
        load(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20 * 1024
    assert time.monotonic() - start < 30


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes(b"name: x\ntitle: caf\xe9\n")
    with pytest.raises(SpecError, match=r"latin.yaml:2:11: expected UTF-8 text, got byte 0xe9 \(save the file as UTF-8\)"):
        load(path, tmp_path)


def test_extends_merges_mappings_replaces_the_rest_and_null_removes(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("name: base\na: {x: 1, y: 2}\nl: [1, 2]\nz: 5\n")
    (tmp_path / "child.yaml").write_text("extends: base\nname: child\na: {y: 3, w: 4}\nl: [9]\nz: null\n")
    document = load(tmp_path / "child.yaml", tmp_path)
    assert document.data == {"name": "child", "a": {"x": 1, "y": 3, "w": 4}, "l": [9]}
    assert str(document.mark(("a", "x")).file) == "base.yaml"
    assert (document.mark(("a", "y")).file, document.mark(("a", "y")).line) == ("child.yaml", 3)
    assert [p.name for p in document.files] == ["child.yaml", "base.yaml"]


@pytest.mark.parametrize(
    ("extends", "message"),
    [
        ("gone", "expected a spec file, found nothing at gone.yaml"),
        ("self", "extends this file in turn: a circle"),
        ("[a]", "expected the file name"),
    ],
)
def test_extends_that_leads_nowhere(tmp_path: Path, extends: str, message: str) -> None:
    (tmp_path / "self.yaml").write_text(f"extends: {extends}\nname: self\n")
    with pytest.raises(SpecError, match=message):
        load(tmp_path / "self.yaml", tmp_path)


def test_the_source_line_is_shown_with_a_caret() -> None:
    with pytest.raises(SpecError) as caught:
        parse("ok: 1\nlr: 1e-4\n", "s.yaml")
    assert caught.value.render().splitlines()[1:] == ["    lr: 1e-4", "        ^"]
