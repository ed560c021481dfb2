"""Messages that a server is really sent under a prompt: system message, few-shot examples with their images, the question."""

import base64
import io
import json

import numpy as np
import PIL.Image
import pytest

from tests.runners.plugins.models.test_openai import Served
from tests.support.projects.asking import picture, png, sample, write_samples
from tests.support.servers.batch_server import batch_serving
from tests.support.servers.small_server import completion
from tests.support.servers.toy_server import Toy

PROMPT = {"system": "Be brief.", "template": "Look. {question}", "examples": {"split": "train", "shots": 2, "seed": 1}}
ANSWERS = {"What is on the left ?": "a cube", "What is on the right ?": "a cone"}


@pytest.fixture
def project(tmp_path):
    made = Served(tmp_path, "http://127.0.0.1:9/v1")
    asked = [sample(f"s{i}", f"i{i}", f"What color is thing {i} ?") for i in range(2)]
    shown = [
        {**sample(f"t{i}", f"t{i}", question), "split": "train", "references": [answer]}
        for i, (question, answer) in enumerate(ANSWERS.items())
    ]
    made.images = {row["question"]: picture(seed, 24) for seed, row in enumerate([*asked, *shown])}
    files = {row["image_id"]: png(made.images[row["question"]]) for row in [*asked, *shown]}
    write_samples(tmp_path / "results/t/data/open", [*asked, *shown], files)
    return made


def pixels(url):
    return np.asarray(PIL.Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).convert("RGB"))


def check_messages(project, body):
    """Check the messages of one request; return the question that it asks."""
    system, *talk = body["messages"]
    assert system == {"role": "system", "content": "Be brief."}
    assert [turn["role"] for turn in talk] == ["user", "assistant", "user", "assistant", "user"]
    asked = []
    for turn in talk[::2]:
        image, text = turn["content"]
        asked.append(text["text"].removeprefix("Look. "))
        assert text["text"].startswith("Look. ")
        np.testing.assert_array_equal(pixels(image["image_url"]["url"]), np.asarray(project.images[asked[-1]]))
    assert [turn["content"] for turn in talk[1::2]] == [ANSWERS[question] for question in asked[:2]]
    return asked[2]


@pytest.mark.parametrize("batch", [False, True], ids=["live", "batch"])
def test_examples_go_to_a_server_with_their_images(project, batch):
    project.servers = {"default": {"retries": 2, "pause": 0.01, "concurrency": 1, "batch": batch}}
    with batch_serving(Toy()) as server:
        project.url = server.url
        project.stage(["open"], needs=["text"], prompt=PROMPT)
        assert project.run().counters["answers computed"] == 2
        bought = [json.loads(body) for body in server.bought]
        assert len(server.batches) == batch and len(bought) == 2 * batch
        bodies = bought if batch else server.live
    assert sorted(check_messages(project, body) for body in bodies) == ["What color is thing 0 ?", "What color is thing 1 ?"]


def test_a_schema_and_its_examples_go_to_a_batch(project):
    project.servers = {"default": {"retries": 2, "pause": 0.01, "concurrency": 1, "batch": True}}
    with batch_serving(lambda body, nth: completion('{"answer": "red"}')) as server:
        project.url = server.url
        project.stage(["open"], needs=["text"], prompt={**PROMPT, "answer_format": "json", "template": "{question}"}, logprobs=0)
        project.run()
        bodies = [json.loads(body) for body in server.bought]
    assert len(bodies) == 2 and all(body["response_format"]["type"] == "json_schema" for body in bodies)
    assert {body["messages"][2]["content"] for body in bodies} <= {'{"answer": "a cube"}', '{"answer": "a cone"}'}
    assert [row["text"] for row in project.rows("open")] == ["red", "red"]
