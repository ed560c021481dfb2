"""Play the everyday tasks of an evaluator in an empty folder with the `qualm` of PATH, and check what comes out.

`python .ci/everyday.py`. Each task is an edit of a spec and at most two commands; commits of one's own work are not counted. `make release`
plays it with the wheel. The first unexpected result ends the script with a message and status 1.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MAX_COMMANDS = 2
SPEC = """\
qualm: 1
name: mine
datasets:
  scenes: {card: synthetic_scenes, test: 24, train: 12}
models:
  base: {hf_vlm: {artifact: scene-vlm-base}}
inference: {max_new_tokens: 4}
judges: [rules]
estimators: [max_sequence_probability]
metrics: [accuracy, ece, auroc]
slices: [category]
compare: {interval: {bootstrap: 50}}
"""


class Player:
    """A project, and the commands that are typed in it."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.root, self._environment, self._typed = folder, dict(environment), 0

    @contextmanager
    def task(self, name: str) -> Iterator[None]:
        """Count the commands of a task, and print its duration."""
        start, self._typed = time.monotonic(), 0
        yield
        expect(self._typed <= MAX_COMMANDS, f"{name}: at most {MAX_COMMANDS} commands, typed {self._typed}")
        print(f"{name}: {self._typed} commands, {time.monotonic() - start:.0f} s", flush=True)

    def edit(self, old: str, new: str) -> None:
        path = self.root / "specs/mine.yaml"
        text = path.read_text(encoding="utf-8")
        expect(old in text, f"specs/mine.yaml has {old!r}")
        path.write_text(text.replace(old, new), encoding="utf-8")

    def type(self, *command: str, code: int = 0) -> str:
        """Run a command of a task and return what it prints."""
        self._typed += 1
        done = subprocess.run(command, cwd=self.root, env=self._environment, capture_output=True, text=True, check=False)
        expect(done.returncode == code, f"{' '.join(command)} ends with {code}, got {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done.stdout + done.stderr

    def interrupt(self, *command: str, after: str) -> str:
        """Run a command, press Ctrl-C once it has printed a text, and return what it prints."""
        self._typed += 1
        process = subprocess.Popen(
            command, cwd=self.root, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        said = ""
        for line in process.stdout or ():
            said += line
            if after in line:
                process.send_signal(signal.SIGINT)
                after = "\0"
        expect(process.wait() == 130, f"{' '.join(command)} is interrupted (130), got {process.returncode}:\n{said}")
        return said

    def commit(self, message: str) -> None:
        who = ("-c", "user.name=someone", "-c", "user.email=someone@example.org")
        for command in (("git", "add", "-A"), ("git", *who, "commit", "-q", "-m", message)):
            subprocess.run(command, cwd=self.root, check=True, capture_output=True)

    def scores(self, spec: str = "mine") -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = json.loads(
            subprocess.run(
                ["qualm", "show", spec, "--json"], cwd=self.root, env=self._environment, capture_output=True, text=True, check=True
            ).stdout
        )
        return rows


def expect(is_true: bool, what: str) -> None:
    if not is_true:
        sys.exit(f"expected: {what}")


def questions(scores: list[dict[str, Any]]) -> set[int]:
    """Return the numbers of questions that the accuracies of all questions are of."""
    return {row["n"] + row["n_unscored"] for row in scores if (row["metric"], row["slice"]) == ("accuracy", "all")}


def play(folder: Path, environment: Mapping[str, str]) -> None:
    """Play all tasks in a new project below a folder."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # started in the background, where commands would ignore Ctrl-C
        signal.signal(signal.SIGINT, signal.default_int_handler)
    subprocess.run(["qualm", "init", "bench"], cwd=folder, env=dict(environment), check=True, capture_output=True)
    player = Player(folder / "bench", environment)
    (player.root / "specs/mine.yaml").write_text(SPEC, encoding="utf-8")
    ask(player)
    look(player)
    change(player)


def ask(player: Player) -> None:
    """Limit, prompt, system message, few-shot examples, answer format."""
    with player.task("limit"):
        player.type("qualm", "run", "mine", "--limit", "8")
        expect(0 < max(questions(player.scores("mine-limit-8"))) <= 8, "at most 8 questions, those of the training split among them")
        expect("limit" not in (player.root / "specs/mine.yaml").read_text(encoding="utf-8"), "the spec as it was")
    with player.task("prompt"):
        player.edit("judges:", 'prompt: {template: "Look closely. {question}"}\njudges:')
        said = player.type("qualm", "run", "mine")
        expect("infer-base-scenes: 24 answers computed" in said, f"24 new answers, got {said}")
        expect("Look closely. What" in player.type("qualm", "prompt", "mine"), "the template in what is sent")
    with player.task("system message"):
        player.edit("prompt: {", "prompt: {system: You see drawn scenes., ")
        expect("You see drawn scenes." in player.type("qualm", "prompt", "mine"), "the system message in what is sent")
    with player.task("few-shot examples"):
        player.edit("prompt: {", "prompt: {examples: {split: train, shots: 2}, ")
        sent = player.type("qualm", "prompt", "mine")
        expect(
            len(re.findall("<image: example", sent)) == 2 and sent.count("Look closely.") == 3,
            f"two examples before the question, got {sent}",
        )
    with player.task("answer format"):
        text = (player.root / "specs/mine.yaml").read_text(encoding="utf-8")
        player.edit(
            next(line for line in text.splitlines() if line.startswith("prompt:")),
            "prompt: [{as: bare}, {as: short, answer_format: short}]",
        )
        player.type("qualm", "run", "mine")
        expect({row["model"] for row in player.scores()} == {"base@prompt=bare", "base@prompt=short"}, "a row of results for each format")


def look(player: Player) -> None:
    """Category, comparison, failures, LaTeX, figure."""
    with player.task("category"):
        shown = json.loads(player.type("qualm", "show", "mine", "--slice", "category=counting", "--metric", "accuracy", "--json"))
        expect(len(shown) == 2 and {row["slice"] for row in shown} == {"category=counting"}, f"a row for each prompt, got {shown}")
        expect(0 < shown[0]["n"] + shown[0]["n_unscored"] < 24, "some of the questions")
    with player.task("comparison"):
        rows = json.loads(
            player.type("qualm", "compare", "mine", "base@prompt=bare", "base@prompt=short", "--metric", "accuracy", "--json")
        )
        found = [row for row in rows["differences"] if row["metric"] == "accuracy"]
        expect(len(found) >= 1 and all("low" in row and "p_adjusted" in row for row in found), f"difference and test, got {rows}")
    with player.task("failures"):
        failures = json.loads(player.type("qualm", "show", "mine", "--failures", "3", "--json"))
        expect(0 < len(failures) <= 3 and all(f["question"] and f["expected"] for f in failures), f"at most 3 failures, got {failures}")
    with player.task("rerun a question"):
        said = player.type("qualm", "run", "mine", "--again", "--sample", failures[0]["sample_id"])
        expect("2 answers computed again: 2 the same, 0 changed" in said, f"the same answers to both prompts, got {said}")
    with player.task("LaTeX"):
        player.type("qualm", "export", "mine", "paper", "--to", "latex")
        table = (player.root / "paper/scenes.tex").read_text(encoding="utf-8")
        expect(r"ECE $\downarrow$" in table and r"\caption{scenes: models by metric." in table, f"the table, got {table}")
    with player.task("figure"):
        player.type("qualm", "export", "mine", "figures", "--to", "pdf", "--only", "leaderboard")
        files = [file for file in (player.root / "figures").iterdir() if file.suffix == ".pdf"]
        expect(len(files) == 1 and files[0].read_bytes().startswith(b"%PDF"), "a figure in PDF")


def change(player: Player) -> None:
    """Filter, two runs, sharing, Ctrl-C, deletion."""
    player.commit("first run")
    with player.task("filter"):
        player.edit("test: 24", "test: 24, where: \"category != 'counting'\"")
        said = player.type("qualm", "run", "mine")
        expect("0 answers computed" in said, f"stored answers are reused, got {said}")
        expect(max(questions(player.scores())) < 24, "fewer questions")
    with player.task("two runs"):
        said = player.type("qualm", "diff", "mine")
        expect("where" in said and "accuracy" in said, f"the edit and what it did to the results, got {said}")
    with player.task("Ctrl-C"):
        player.edit("max_new_tokens: 4", "max_new_tokens: 5")
        said = player.interrupt("qualm", "run", "mine", after="mine: ")
        expect("interrupted" in said, f"that the run was interrupted, got {said}")
        expect("mine is up to date" in player.type("qualm", "run", "mine"), "a finished run")
    with player.task("sharing"):
        player.type("dvc", "remote", "add", "-d", "lab", str(player.root.parent / "lab"))
        player.commit("results and remote")
        player.type("qualm", "share", "mine")
        clone = player.root.parent / "clone"
        subprocess.run(["git", "clone", "-q", str(player.root), str(clone)], check=True, capture_output=True)
        said = Player(clone, player._environment).type("qualm", "run", "mine")
        expect("computed" not in said and (clone / "results/mine/report.html").is_file(), f"a clone that computes nothing, got {said}")
    with player.task("deletion"):
        (player.root / "specs/mine-limit-8.yaml").unlink()
        player.type("qualm", "clean", "mine-limit-8", "--yes")
        expect(not (player.root / "results/mine-limit-8").exists() and (player.root / "results/mine").exists(), "one spec's results gone")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="qualm-everyday-") as folder:
        play(Path(folder), {**os.environ, "DVC_NO_ANALYTICS": "true", "QUALM_PROGRESS": "false"})


if __name__ == "__main__":
    main()
