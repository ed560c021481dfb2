"""Inspect's logs, sample by sample, and archives that mean harm."""

import json
import struct
import zipfile

import pytest

from qualm.registry.formats.faults import Fault
from qualm.registry.recordings.inspect import Archive, LogArchiveError, names, read
from qualm.registry.recordings.parts import find_parts
from qualm.registry.recordings.record import ReadOptions, RecordingError
from tests.support.data.recordings import b64, inspect_eval, inspect_json, inspect_sample, png

SAMPLES = [
    inspect_sample("peru", "Capital of Peru?", "Lima", "Lima", logprobs=[-0.5, -0.25]),
    inspect_sample("peru", "Capital of Peru?", "Lima", "Cusco", epoch=2, scores={"match": {"value": "I", "answer": "Cusco"}}),
    inspect_sample(7, "Which?", "B", "ANSWER: B", choices=["a cat", "a dog"]),
]


@pytest.mark.parametrize("write", [inspect_eval, inspect_json])
def test_epochs_are_draws(tmp_path, write):
    path = write(tmp_path / f"x.{write.__name__.rpartition('_')[2]}", *SAMPLES)
    assert names(path) >= {("mockllm/model", "capitals"), ("E1", "capitals"), ("2026-03-01T10:11:12+00:00", "capitals")}
    first, second, choice = read(path, ReadOptions())
    assert (first.id, first.question, first.references, first.category) == ("peru", "Capital of Peru?", ("Lima",), "geography")
    assert (first.draw, first.draws) == (0, [{"text": "Lima", "token_logprobs": [-0.5, -0.25], "verdict": 1.0}])
    assert (second.draw, second.draws) == (1, [{"text": "Cusco", "verdict": 0.0}])
    assert (choice.id, choice.choices, choice.answer_index) == ("7", ("a cat", "a dog"), 1)
    assert choice.draws == [{"text": "ANSWER: B", "verdict": 1.0}]


@pytest.mark.parametrize(("target", "index"), [("Z", 25), ("1", 26), ("4", 29), ("5", None), ("0", None), ("thing 3", 3)])
def test_after_z_its_labels_are_numbers_from_1(tmp_path, target, index):
    row = inspect_sample("a", "Which?", target, "?", choices=[f"thing {i}" for i in range(30)])
    assert next(read(inspect_json(tmp_path / "x.json", row), ReadOptions())).answer_index == index


def test_a_picture_in_an_attachment_and_parts_of_a_message(tmp_path):
    url = f"data:image/png;base64,{b64(png())}"
    sample = inspect_sample(
        "a", "What?", "x", [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "x"}], image="attachment://k"
    )
    (found,) = read(inspect_json(tmp_path / "x.json", {**sample, "attachments": {"k": url}}), ReadOptions())
    assert found.images == (png(),) and found.question == "What?"
    assert found.draws == [{"text": "x", "thinking": "hm", "verdict": 1.0}]
    for broken in (url[:40] + "*" + url[40:], url.removeprefix("data:"), url.replace(";base64", "")):
        (found,) = read(inspect_json(tmp_path / "x.json", {**sample, "attachments": {"k": broken}}), ReadOptions())
        assert found.images == () and "an image of it is not in the log" in found.lacking


@pytest.mark.parametrize(
    ("stop", "reason"),
    [("max_tokens", "cut short by the budget"), ("model_length", "cut short by the budget"), ("stop", "ended while thinking")],
)
def test_a_reply_of_thinking_alone_is_no_answer(tmp_path, stop, reason):
    sample = inspect_sample("a", "What?", "x", [{"type": "reasoning", "reasoning": "hm"}], logprobs=[-1.0])
    sample["output"]["choices"][0]["stop_reason"] = stop
    (found,) = read(inspect_json(tmp_path / "x.json", sample), ReadOptions())
    assert found.draws == [{"text": None, "thinking": "hm", "no_answer": reason, "verdict": 1.0}]


def asked(tmp_path, *turns):
    """The record of a question whose user's turns hold these texts and, for each number, an image of so many pixels."""

    def part(one):
        data = None if isinstance(one, str) else f"data:image/png;base64,{b64(png(side=one))}"
        return {"type": "text", "text": one} if data is None else {"type": "image", "image": data}

    sample = inspect_sample("a", "?", "x", "x")
    sample["input"] = [{"role": "user", "content": [part(one) for one in turn]} for turn in turns]
    (found,) = read(inspect_json(tmp_path / "x.json", sample), ReadOptions())
    return found


@pytest.mark.parametrize(
    ("turn", "prompt"),
    [
        (["What?", 1, 2], "What?<image><image>"),
        ([1, "Is", 2, "alike?"], "<image>Is<image>alike?"),
        ([1, 2, "Alike?"], "Alike?"),
        ([1, "What?"], "What?"),
        (["What?", 1], "What?"),
        ([1, "Is <image>", 2, "a mark?"], "Is <image>\na mark?"),
    ],
)
def test_where_pictures_stand_between_texts(tmp_path, turn, prompt):
    found = asked(tmp_path, turn)
    assert found.prompt == prompt and found.images == tuple(png(side=one) for one in turn if isinstance(one, int))


def test_pictures_of_one_turn_are_taken_and_of_several_are_not(tmp_path):
    found = asked(tmp_path, ["Look."], [1, "What?"])
    assert (found.prompt, found.n_pictures, found.images, found.lacking) == ("Look.\nWhat?", 1, (png(side=1),), "")
    found = asked(tmp_path, [1], [2, "What?"])
    assert (found.n_pictures, found.images) == (None, ()) and "images in several turns" in found.lacking


@pytest.mark.parametrize(("n", "lacking"), [(64, ""), (65, "it has 65 images; more than 64 cannot be read")])
def test_more_pictures_than_are_taken(tmp_path, n, lacking):
    found = asked(tmp_path, [*[1] * n, "What?"])
    assert (found.n_pictures, len(found.images), found.lacking) == (n, 0 if lacking else n, lacking)


@pytest.mark.parametrize(("target", "index"), [("a dog", 1), ("B", 1), ("a hen", None), (["A", "B"], None)])
def test_the_right_option_by_letter_or_text(tmp_path, target, index):
    (found,) = read(inspect_json(tmp_path / "x.json", inspect_sample("a", "?", target, "x", choices=["a cat", "a dog"])), ReadOptions())
    assert found.answer_index == index and bool(found.references) == (index is None)


def test_several_choices_of_one_call(tmp_path):
    sample = inspect_sample("a", "?", "x", "one", epoch=2)
    sample["output"]["choices"] += [{"message": {"content": "two", "role": "assistant"}}]
    (found,) = read(inspect_json(tmp_path / "x.json", sample), ReadOptions())
    assert found.draw == 2 and [d["text"] for d in found.draws] == ["one", "two"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"error": {"message": "boom", "traceback": "", "traceback_ansi": ""}}, "ended in an error"),
        ({"output": {"choices": [], "error": "refused"}}, "no output"),
        ({"epoch": 0}, "no epoch"),
        ({"id": None}, "no id"),
        ({"output": {"choices": [{}]}}, "not a sample of EvalLog 2"),
        ({"output": 3}, "not a sample of EvalLog 2"),
    ],
)
def test_samples_that_are_not_as_the_format_has_them(tmp_path, change, reason):
    good, found = read(inspect_json(tmp_path / "x.json", SAMPLES[1], {**SAMPLES[0], **change}), ReadOptions())
    assert good.id == "peru" and isinstance(found, Fault) and found.reason == reason and found.where == "x.json samples[1]"


def test_zstandard_members_are_read(tmp_path):
    import pyarrow as pa

    body = json.dumps(SAMPLES[0]).encode()
    packed = pa.compress(body, codec="zstd", asbytes=True)
    path = inspect_eval(tmp_path / "x.eval")
    with zipfile.ZipFile(path, "a") as archive:  # zipfile cannot write Zstandard before 3.14: stored bytes, relabelled
        archive.writestr("samples/peru_epoch_1.json", packed)
        crc, size = struct.pack("<I", zipfile.crc32(body)), struct.pack("<I", len(body))
    raw = bytearray(path.read_bytes())
    local, central = raw.rindex(b"PK\x03\x04"), raw.rindex(b"PK\x01\x02")
    for at, offset in ((local, 8), (central, 10)):
        raw[at + offset : at + offset + 2] = struct.pack("<H", 93)
    raw[central + 16 : central + 20], raw[central + 24 : central + 28] = crc, size
    path.write_bytes(raw)
    (found,) = read(path, ReadOptions())
    assert found.draws[0]["text"] == "Lima"


def test_a_bomb_is_refused_and_the_rest_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("qualm.registry.recordings.inspect.Archive.read.__defaults__", (10_000,))
    path = inspect_eval(tmp_path / "x.eval", SAMPLES[0])
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("samples/bomb_epoch_1.json", b" " * 10**6)
        archive.writestr("../../escape.json", b"{}")
        archive.writestr("samples/bad_epoch_1.json", b"{not json")
    good, bomb, stranger, bad = read(path, ReadOptions())
    assert stranger.reason == "a member that no log has" and stranger.harmless
    assert good.id == "peru" and bomb.reason == bad.reason == "a damaged member"
    assert "unpacks to 1,000,000 bytes" in bomb.what and bomb.where == "x.eval samples/bomb_epoch_1.json"
    assert not (tmp_path.parent.parent / "escape.json").exists()


def test_a_directory_that_lies_about_sizes(tmp_path):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", b"x" * 5000)
    raw = bytearray(path.read_bytes())
    central = raw.rindex(b"PK\x01\x02")
    raw[central + 24 : central + 28] = struct.pack("<I", 10)
    path.write_bytes(raw)
    with Archive(path) as archive, pytest.raises(LogArchiveError, match="length or checksum"):
        archive.read("a")
    with Archive(path) as archive, pytest.raises(LogArchiveError, match="unpacks to more than 20 bytes"):
        archive.read("a", 20)
    raw[central + 20 : central + 24] = struct.pack("<I", 10**6)
    path.write_bytes(raw)
    with pytest.raises(LogArchiveError, match="overlap"):
        Archive(path)


def test_files_that_are_no_logs(tmp_path):
    (tmp_path / "x.eval").write_bytes(b"no zip")
    assert names(tmp_path / "x.eval") is None
    (tmp_path / "results.json").write_text('{"results": {"a": 1}, "eval": 3}')
    assert names(tmp_path / "results.json") is None
    path = inspect_json(tmp_path / "cut.json", *SAMPLES)
    path.write_text(path.read_text()[:-400])
    assert names(path)
    with pytest.raises(RecordingError, match=r"^[^:]*cut\.json: line \d+: expected a whole JSON object"):
        list(read(path, ReadOptions()))


@pytest.mark.parametrize("form", ["eval", "json"])
def test_a_log_that_inspect_wrote(tmp_path, form, monkeypatch):
    pytest.importorskip("inspect_ai", reason="Inspect is not installed; pip install inspect-ai")
    from inspect_ai import Task, eval
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ChatMessageUser, ContentImage, ContentText, ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import match

    def said(text):
        output = ModelOutput.from_content("mockllm/model", text)
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)  # else it would download a tokenizer to count
        return output

    (tmp_path / "red.png").write_bytes(png())
    picture = ChatMessageUser(content=[ContentImage(image=str(tmp_path / "red.png")), ContentText(text="What colour?")])
    samples = [
        Sample(id="peru", input="Capital of Peru?", target="Lima", metadata={"category": "geo"}),
        Sample(id=2, input=[picture], target="red"),
    ]
    model = get_model("mockllm/model", custom_outputs=[said(f"answer {i}") for i in range(6)])
    task = Task(dataset=MemoryDataset(samples), scorer=match(), epochs=3, name="own")
    monkeypatch.chdir(tmp_path)
    eval(task, model=model, log_dir=str(tmp_path / "logs"), log_format=form, display="none", max_samples=1)
    (part,) = find_parts(tmp_path / "logs")
    assert part.format == "inspect" and part.has("mockllm/model", "own")
    found = list(part.read(ReadOptions()))
    assert sorted((r.id, r.draw) for r in found) == [("2", 0), ("2", 1), ("2", 2), ("peru", 0), ("peru", 1), ("peru", 2)]
    assert sorted(r.draws[0]["text"] for r in found) == [f"answer {i}" for i in range(6)]
    by_id = {r.id: r for r in found}
    assert by_id["2"].images == (png(),) and by_id["2"].question == "What colour?" and by_id["peru"].category == "geo"
