import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from qualm.runners.contracts.models import ModelError, Request
from qualm.runners.inference.hf.layout import PicturePrefix, common_prefix_length, first_of_same_image, lay_out, tokens_on_images, unpadded

PICTURE = object()
MARK, SPREAD = 1000, (7, 7, 7)
"""A picture's mark in a written prompt, and what a processor turns it into."""


class Words:
    """A model whose tokens are the characters of a prompt; `#` is the mark of a picture, which is read as three tokens of 7."""

    label = "words"

    def written(self, prompt):
        return tuple(MARK if c == "#" else ord(c) for c in prompt)

    def all_written(self, prompts):
        return [self.written(prompt) for prompt in prompts]

    plain_texts = all_written

    def read(self, prompt):
        return tuple(t for token in self.written(prompt) for t in (SPREAD if token == MARK else (token,)))

    def marks(self, tokens):
        return any(t in (MARK, 7) for t in tokens)

    def render(self, turns):
        return "".join("#" if part["type"] == "image" else part["text"] for turn in turns for part in turn["content"])


def request(prompt, pixels="", **more):
    return Request(prompt, PICTURE if "#" in prompt else None, pixels=pixels, **more)


def laid_out(*requests, shares=True):
    model = Words()
    chiefs = first_of_same_image(requests, shares)
    rows = [model.read(requests[c].prompt) for c in sorted(set(chiefs))]
    width = max(map(len, rows))
    ids = torch.tensor([[0] * (width - len(row)) + list(row) for row in rows])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
    return lay_out(model, requests, {"input_ids": ids, "attention_mask": mask, "pixel_values": torch.ones(3, 2)}, chiefs, False)


@given(st.text("ab", max_size=6), st.text("ab", max_size=6))
def test_common_beginnings(a, b):
    n = common_prefix_length(a, b)
    assert a[:n] == b[:n] and (n == len(a) or n == len(b) or a[n] != b[n])


def test_requests_with_one_picture_follow_the_first():
    requests = [request("#a", "x"), request("#b", "x"), request("c"), request("#d", "y"), request("#e"), request("#f", "x")]
    assert first_of_same_image(requests, True) == [0, 0, 2, 3, 4, 0] and first_of_same_image(requests, False) == [0, 1, 2, 3, 4, 5]


def test_a_prompt_is_read_as_the_processor_would_whoever_led():
    prompts = ["<#> what?", "<#> where is it?", "<#> what?", "<#>"]
    requests = [request(p, "x") for p in prompts]
    tensors, layout = laid_out(*requests)
    assert layout.prompts == tuple(Words().read(p) for p in prompts) and layout.first == (0, 0, 0, 0)
    assert layout.starts == (4, 4, 4, 4), "one token at least is left to read of every prompt"
    assert unpadded(tensors) == [Words().read("<#>")[:4]] and tensors["pixel_values"].shape == (3, 2)


def test_where_no_picture_is_shared_every_row_is_a_whole_prompt():
    tensors, layout = laid_out(request("<#> a", "x"), request("plain"), request("<#> bc", "y"))
    assert layout.starts is None and unpadded(tensors) == list(layout.prompts) and layout.pictures[1] is None


def test_options_alone_need_no_prompt_as_text(monkeypatch):
    """Nothing goes on from them, unless prompts share a picture: they are read as they came."""
    alone = [request("<#> a", "x", parts=("options",)), request("<#> bc", "y", parts=("options",))]
    shared = [alone[0], request("<#> d", "x", parts=("options",))]
    assert laid_out(*shared)[1].starts is not None
    monkeypatch.setattr(Words, "all_written", lambda *_: pytest.fail("made into tokens again"))
    tensors, layout = laid_out(*alone)
    assert layout.starts is None and unpadded(tensors) == list(layout.prompts) == [Words().read(r.prompt) for r in alone]
    assert layout.first == (0, 1)


def test_rows_of_other_lengths_keep_their_own_beginnings():
    tensors, layout = laid_out(request("<#> ab", "x"), request("<#> ac", "x"), request("hello#", "y"), request("hello#!", "y"))
    assert layout.starts == (7, 7, 7, 7) and unpadded(tensors) == [Words().read("<#> a"), Words().read("hello#")[:7]]


def test_a_mark_in_the_text_of_a_question_is_refused():
    with pytest.raises(ModelError, match="contains what this model's template marks an image with, such as <image>; remove it"):
        laid_out(request("<#> a", "x"), request("<#> a#", "x"))


def test_another_prompt_must_go_on_behind_the_picture():
    model = Words()
    known = PicturePrefix("<#> ab", model.written("<#> ab"), model.read("<#> ab"))
    assert known.follow(model, "<#> cd") == (model.read("<#> cd"), 6)
    assert known.follow(model, "[#> ab") is None and known.follow(model, "<") is None
    with pytest.raises(ModelError, match="does not begin with the image as"):
        tokens_on_images(model, [known], ["[#]"])
    moved = PicturePrefix("<#> ab", model.written("<#> ab"), (*model.read("<#> a"), ord("B")))
    assert moved.follow(model, "<#> ac") is None, "a processor that changes the end of the text cannot be followed"


def test_prompts_without_what_they_leave_out():
    parts = ("without_image", "without_both", "without_question")
    requests = [request("#is it?", "x", question="is it?", parts=parts), request("#why?", "x", question="why?", parts=parts)]
    _, layout = laid_out(*requests)
    priors = {name: ["".join(map(chr, tokens)) for tokens in values] for name, values in layout.priors.items()}
    assert all(
        "is it?" in priors["without_image"][0] and "#" not in text and MARK not in map(ord, text) for text in priors["without_image"]
    )
    assert len(set(priors["without_both"])) == 1 and "is it?" not in priors["without_both"][0]
    assert all(SPREAD[0] in tokens and ord("?") not in tokens[-2:] for tokens in layout.priors["without_question"])
