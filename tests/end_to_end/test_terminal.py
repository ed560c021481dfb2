"""A card, a spec and an argument full of control characters: no command lets one through, to a pipe or to a terminal."""

from __future__ import annotations

import json
import re
import shutil
import sys

import pytest
import yaml

from tests.end_to_end.clone import ROOT, Clone
from tests.support.processes.pseudo_terminal import Terminal

ARGUMENT = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eevil"
COMMANDS = [
    ["validate"], ["plan"], ["ls"], ["ls", ARGUMENT], ["data", "ls"], ["data", "show", "evil"], ["data", "show", ARGUMENT],
    ["validate", ARGUMENT],
    ["plan", ARGUMENT], [ARGUMENT], ["plan", f"--{ARGUMENT}"], ["validate", "evil"], ["plan", "evil"], ["cite", "evil"], ["diff", ARGUMENT],
]  # fmt: skip
STEERS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]")
OWN = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?25[hl]|\x1b\[[0-9]*[AK]|\r")
"""What Rich sends: colours, the cursor hidden and shown, a line gone back to and erased."""


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    made = Clone(tmp_path_factory.mktemp("evil") / "project", forked=True)
    for folder in ("specs", "registry/cards", ".dvc"):
        (made.root / folder).mkdir(parents=True)
    shutil.copy(ROOT / "specs/quickstart.yaml", made.root / "specs")
    (made.root / "params.yaml").write_text("default: quickstart\nseed: 7\n")
    (made.root / ".dvc/config").write_text("")
    made.run("git", "init", "-q")
    card = yaml.safe_load((ROOT / "registry/cards/pope.yaml").read_text())
    for key in ("title", "description", "source", "licence", "scoring", "citation"):
        card[key] = f"{card[key]} {ARGUMENT}"
    (made.root / "registry/cards/evil.yaml").write_text(yaml.safe_dump({**card, "name": "evil"}))
    spec = {
        "qualm": 1,
        "name": ARGUMENT,
        ARGUMENT: 1,
        "datasets": {ARGUMENT: {"card": "evil"}, "evil": {"card": "evil", ARGUMENT: ARGUMENT}},
    }
    (made.root / "specs/evil.yaml").write_text(yaml.safe_dump(spec))
    made.commit("evil")
    return made


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=ascii)
def test_nothing_steers_a_pipe(clone, command: list[str]) -> None:
    done = clone.qualm(*command, check=False)
    assert not STEERS.findall(done.stdout + done.stderr) and done.returncode in (0, 1, 2) and "Traceback" not in done.stderr
    assert done.stdout or done.stderr


TYPED = """
import json, sys
from qualm.compiler.commands.main import main
for command in json.loads(sys.argv[1]):
    sys.argv = ["qualm", *command]
    try:
        main()
    except SystemExit:
        pass
    print("the end", flush=True)
"""


@pytest.mark.slow
def test_nothing_steers_a_terminal(clone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(clone.root)
    commands = [["data", "show", "evil"], ["data", "show", ARGUMENT], ["validate", ARGUMENT], [ARGUMENT], ["validate", "evil"]]
    terminal = Terminal([sys.executable, "-c", TYPED, json.dumps(commands)])
    for command in commands:
        text = terminal.until("the end")
        assert not STEERS.findall(OWN.sub("", text)) and "owned" in text, command
    terminal.process.wait(30)
