"""Rows of reasoning models: the tokens that are read, the thinking beside them, and answers that never came."""

import pyarrow as pa
import pytest

from qualm.runners.inference.thoughts import read_thoughts
from qualm.runners.prompts.thinking import Thinking

SOURCES = [(0, 0, "answer"), (1, 2, "draw 1"), (2, 3, "draw 2"), (3, 4, "options"), (4, 5, "options"), (5, 6, "options")]
STORED = pa.table(
    {
        "text": ["red", None, None, "blue", "A", None, None],
        "tokens": [[1, 2, 3, 4], None, [1, 2, 3, 4, 5, 6], [7], [1, 2, 9], [1, 2, 3, 4, 5, 6], [1, 2]],
        "numbers": [[2.0, 0.0], [0.5], [6.0, 1.0], [0.0, 0.0], [0.1, 0.2], None, None],
        "thinking": pa.nulls(7, pa.string()),
    }
)
LOGPROBS = pa.array([[-1.0, -2.0, -3.0, -4.0], [-1.0] * 6, [-7.0], [-1.0, -2.0, -9.0], [-1.0] * 6, [-1.0] * 2])


class Model:
    def __init__(self, thinking):
        self.thinking = thinking

    def thought(self, tokens):
        return " ".join(map(str, tokens))


@pytest.mark.parametrize(
    ("of", "read"),
    [
        ("answer", [[-3.0, -4.0], None, [-7.0], [-9.0], None, None]),
        ("thinking", [[-1.0, -2.0], [-1.0] * 6, [], [-1.0, -2.0], [-1.0] * 6, [-1.0] * 2]),
        ("both", LOGPROBS.to_pylist()),
    ],
)
def test_the_tokens_that_are_declared_are_read(of, read):
    thoughts = read_thoughts(STORED, SOURCES, 6, Model(Thinking(of=of, budget=6)))
    assert thoughts.select_tokens("token_logprobs", LOGPROBS).to_pylist() == read
    assert thoughts.select_tokens("p_yes", LOGPROBS) is LOGPROBS


def test_thinking_and_what_has_no_answer_stand_in_columns_of_their_own():
    thoughts = read_thoughts(STORED, SOURCES, 6, Model(Thinking(budget=6)))
    columns = {name: column.to_pylist() for name, column in thoughts.columns().items()}
    assert columns["thinking"] == ["1 2", "1 2 3 4 5 6", "", "1 2", "1 2 3 4 5 6", "1 2"]
    cut, ended = "cut short by the budget", "ended while thinking"
    assert columns["no_answer"] == [None, cut, None, None, cut, ended] and thoughts.counts() == {cut: 2, ended: 1}


@pytest.mark.parametrize("model", [object(), Model(None), Model(Thinking(on=False))])
def test_other_models_have_none_of_it(model):
    thoughts = read_thoughts(STORED, SOURCES, 6, model)
    assert thoughts.select_tokens("token_logprobs", LOGPROBS) is LOGPROBS and not thoughts.counts()
    assert all(column.null_count == 6 for column in thoughts.columns().values())
