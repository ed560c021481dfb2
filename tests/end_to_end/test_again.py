"""`qualm run --again`: answers of some samples are computed anew, all others stay, and results follow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.end_to_end.clone import Clone, make_clone
from tests.support.servers.small_server import serving
from tests.support.servers.toy_server import Toy

pytestmark = pytest.mark.slow

SPEC = """\
qualm: 1
name: mini
datasets:
  scenes: {card: synthetic_scenes, level: easy, format: open, test: 6}
models:
  gpt: {openai: {model: toy, base_url: "http://lab/v1", logprobs: 18}}
  base: {hf_vlm: {artifact: scene-vlm-base}}
perturbations: [blur: {radius: 2}]
inference: {max_new_tokens: 4, draws: 2}
judges: [rules]
estimators: [lexical_similarity]
metrics: [accuracy]
compare: {interval: {bootstrap: 20}}
"""


class Fickle(Toy):
    """A server that answers otherwise from some moment on."""

    mood = ""

    def __call__(self, body: dict[str, Any], nth: int) -> tuple[int, str, dict[str, str]]:
        body["messages"] = [*body["messages"], {"role": "system", "content": self.mood}]
        answer: tuple[int, str, dict[str, str]] = super().__call__(body, nth)
        return answer


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clone]:
    with serving(Fickle()) as server:
        clone = make_clone(tmp_path_factory.mktemp("again") / "clone", text=SPEC, forked=True)
        (clone.root / "qualm.toml").write_text(f'[servers."http://lab/v1"]\naddress = "{server.url}"\n')
        clone.qualm("run")
        yield clone


def answers(clone: Clone, model: str) -> dict[tuple[str, str, int], str]:
    rows = pq.read_table(clone.root / f"results/mini/generations/{model}/scenes.parquet").to_pylist()
    return {(row["sample_id"], row["variant"], row["draw"]): row["text"] for row in rows}


def test_only_the_chosen_answers_are_asked_for_and_results_follow(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    before, judged = answers(clone, "gpt"), (clone.root / "results/mini/judgements.parquet").read_bytes()
    sample = sorted(before)[0][0]
    monkeypatch.setattr(Fickle, "mood", "sulking")
    done = clone.qualm("run", "--again", "--sample", sample, "--variant", "clean", "--model", "gpt").stdout
    assert "computed again: 1 answers, 2 sampled answers (infer-gpt-scenes); all other answers stay, and results follow" in done
    assert "a server may answer differently each time" in done and "1 answer computed again: 0 the same, 1 changed" in done
    after = answers(clone, "gpt")
    assert {place for place in after if after[place] != before[place]} <= {(sample, "clean", draw) for draw in range(3)}
    assert f"  gpt · scenes · {sample} · clean: {before[sample, 'clean', 0]!r} -> {after[sample, 'clean', 0]!r}" in done
    assert clone.counters("infer-gpt-scenes")["answers computed"] == 1
    assert (clone.root / "results/mini/judgements.parquet").read_bytes() != judged
    assert "5 up to date" not in done and "0 to run, 0 perhaps, 0 to restore" in clone.qualm("run").stdout


def test_a_local_model_gives_the_same_answers_and_results_stay(clone: Clone) -> None:
    before = {name: (clone.root / "results/mini" / name).read_bytes() for name in ("generations/base/scenes.parquet", "report.html")}
    done = clone.qualm("run", "--again", "--model", "base").stdout
    assert "computed again: 12 answers, 24 sampled answers (infer-base-scenes)" in done
    assert "expect the same answers; another `seed:` samples others" in done
    assert "12 answers computed again: 12 the same, 0 changed" in done
    assert before == {name: (clone.root / "results/mini" / name).read_bytes() for name in before}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sample", "easy7-test-000000-0"], "--sample, --variant and --model choose answers to recompute: add --again"),
        (["--again", "--sample", "zzz"], "no sample of 'mini' is 'zzz'; `qualm show mini --failures 20` prints some"),
        (["--again", "--sample", "easy7-test-999999-0"], "no sample of 'mini' is 'easy7-test-999999-0'; did you mean 'easy7-test-0"),
        (["--again", "--variant", "blur@radius=3"], "no variant of 'mini' is 'blur@radius=3'; did you mean 'blur@radius=2'?"),
        (["--again", "--model", "bse"], "no model of 'mini' that answers questions is 'bse'; did you mean 'base'?"),
    ],
)
def test_unknown_names_are_refused_with_similar_ones(clone: Clone, arguments: list[str], message: str) -> None:
    done = clone.qualm("run", *arguments, check=False)
    assert done.returncode == 2 and message in done.stderr


def test_answers_that_are_out_of_date_are_computed_first(clone: Clone) -> None:
    text = clone.spec.read_text()
    clone.spec.write_text(text.replace("max_new_tokens: 4", "max_new_tokens: 3"))
    done = clone.qualm("run", "--again", check=False)
    clone.spec.write_text(text)
    assert done.returncode == 2 and "mini: infer-base-scenes is not up to date; run `qualm run mini` first, then --again" in done.stderr
