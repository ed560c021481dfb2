"""The cache of replies, and what every generator plugin declares."""

import errno
import json
import os
import resource
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from qualm.registry.plugins import registry
from qualm.runners.contracts.generators import ChatRequest, GeneratorError, Message, Reply, chat
from qualm.runners.data.replies import Replies, request_key
from qualm.runners.inference.generator import CachedGenerator
from qualm.runners.runtime.append_log import LineLog
from qualm.runners.runtime.settings import Settings
from tests.support.processes.waiting import TIMEOUT

ROOT = Path(__file__).resolve().parents[4]
SETTINGS = Settings(progress=False)


class Echo:
    """A real engine of the simplest kind: it says the prompt back, and rejects what is empty."""

    name = "echo"

    def __init__(self, identity="echo", fail_after=None):
        self.identity, self.fail_after, self.asked = identity, fail_after, []

    def answer(self, requests):
        for place, request in enumerate(requests):
            if self.fail_after is not None and place >= self.fail_after:
                raise GeneratorError("echo: the line is dead")
            self.asked.append(request)
            text = request.messages[-1].text
            yield [(place, Reply(f"{text} {request.seed}") if text else Reply(None, "rejected", error="empty"))]


def test_signatures():
    for name in registry.names("generators"):
        plugin = registry.get("generators", name)
        assert plugin.reads == ("context",)
        assert plugin.summary


def test_equal_requests_are_asked_once_and_never_again(tmp_path):
    engine = Echo()
    generator = CachedGenerator(engine, SETTINGS, tmp_path)
    prompts = [chat("a"), chat("b"), chat("a"), chat("a")]
    replies = generator.complete(prompts, max_new_tokens=4, seeds=[0, 0, 0, 1])
    assert [r.text for r in replies] == ["a 0", "b 0", "a 0", "a 1"]
    assert len(engine.asked) == 3
    again = CachedGenerator(Echo(), SETTINGS, tmp_path)
    assert again.complete(prompts, max_new_tokens=4, seeds=[0, 0, 0, 1]) == replies
    assert again.counters == {"replies stored": 3}
    assert CachedGenerator(Echo("other"), SETTINGS, tmp_path).complete(prompts[:1], max_new_tokens=4)[0].text == "a 0"
    assert len(list(tmp_path.iterdir())) == 2


def test_the_key_holds_everything():
    base = ChatRequest((Message("user", "q", (b"picture",)),), 8, 0.5, 1)
    others = [
        ChatRequest((Message("user", "q", (b"pictur",)),), 8, 0.5, 1),
        ChatRequest((Message("user", "q"),), 8, 0.5, 1),
        ChatRequest((Message("user", "Q", (b"picture",)),), 8, 0.5, 1),
        ChatRequest((Message("system", "q", (b"picture",)),), 8, 0.5, 1),
        ChatRequest((Message("user", "q", (b"picture",)), Message("assistant", "")), 8, 0.5, 1),
        ChatRequest(base.messages, 9, 0.5, 1),
        ChatRequest(base.messages, 8, 0.6, 1),
        ChatRequest(base.messages, 8, 0.5, 2),
        ChatRequest(base.messages, 8, 0.5, 1, '{"type": "object"}'),
    ]
    keys = {request_key("g", r) for r in [base, *others]} | {request_key("h", base)}
    assert len(keys) == len(others) + 2
    assert request_key("g", ChatRequest(base.messages, 8, 1, 1)) == request_key("g", ChatRequest(base.messages, 8, 1.0, 1))


def test_a_failure_keeps_what_was_answered(tmp_path):
    prompts = [chat(str(i)) for i in range(6)]
    with pytest.raises(GeneratorError, match="the line is dead"):
        CachedGenerator(Echo(fail_after=4), SETTINGS, tmp_path).complete(prompts, max_new_tokens=4)
    engine = Echo()
    assert [r.text for r in CachedGenerator(engine, SETTINGS, tmp_path).complete(prompts, max_new_tokens=4)] == [f"{i} 0" for i in range(6)]
    assert len(engine.asked) == 2


def test_a_rejected_request_is_a_value_and_is_not_kept(tmp_path):
    generator = CachedGenerator(Echo(), SETTINGS, tmp_path)
    fine, rejected = generator.complete([chat("a"), chat("")], max_new_tokens=4)
    assert (fine.text, rejected.text, rejected.error) == ("a 0", None, "empty")
    assert len(generator.replies) == 1
    (again,) = CachedGenerator(Echo(), SETTINGS, tmp_path).complete([chat("")], max_new_tokens=4)
    assert again == rejected
    with pytest.raises(GeneratorError, match=r"every request was rejected \(1\); the first: empty"):
        CachedGenerator(Echo("new"), SETTINGS, tmp_path).complete([chat("")], max_new_tokens=4)
    with pytest.raises(ValueError, match="zip"):
        generator.complete([chat("a")], max_new_tokens=4, seeds=[1, 2])


def key(i):
    return bytes([i]) * 32


def test_damage_costs_the_damaged_line(tmp_path, capsys):
    replies = Replies(tmp_path, "g")
    replies.put([(key(i), Reply(f"text {i} ü\n\u2028")) for i in range(5)])
    (path,) = replies.folder.iterdir()
    raw = path.read_bytes()
    lines = raw.split(b"\n")
    lines[1] = lines[1].replace(b"text 1", b"text 9")
    path.write_bytes(b"\n".join(lines)[:-20])
    found = Replies(tmp_path, "g")
    assert [key(i) in found for i in range(5)] == [True, False, True, True, False]
    assert found[key(0)].text == "text 0 ü\n\u2028"
    assert found.damaged == 2
    assert "2 damaged lines" in capsys.readouterr().err
    found.put([(key(1), Reply("again"))])
    assert Replies(tmp_path, "g")[key(1)].text == "again"


BAD = [
    {"text": 7}, {"text": None}, {"text": "\ud800"}, {"finish": "abort"}, {"prompt_tokens": -1}, {"reply_tokens": 10**400}, {"key": "xyz"},
    {"reply_tokens": True}, {"more": 1},
]  # fmt: skip


@pytest.mark.parametrize("changes", [*BAD, "[]", "[" * 100_000])
def test_a_line_with_its_checksum_that_holds_no_reply_is_ignored(tmp_path, capsys, changes):
    replies = Replies(tmp_path, "e")
    replies.put([(bytes(32), Reply("fine"))])
    entry = {"key": "11" * 32, **asdict(Reply("x")), **changes} if isinstance(changes, dict) else changes
    LineLog(replies.folder, "replies").append([(entry if isinstance(entry, str) else json.dumps(entry)).encode()])
    again = Replies(tmp_path, "e")
    assert len(again) == 1 and again[bytes(32)].text == "fine"
    assert "1 damaged line ignored; what was stored there is computed again" in capsys.readouterr().err


def test_a_full_disk_leaves_the_cache_readable(tmp_path):
    """The kernel refuses to let a file grow: the write stops in the middle of a line."""
    replies = Replies(tmp_path, "g")
    replies.put([(key(1), Reply("one"))])
    (path,) = replies.folder.iterdir()
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    import signal

    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 40, old[1]))
    try:
        with pytest.raises(OSError) as caught:
            replies.put([(key(2), Reply("two"))])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, before)
    assert caught.value.errno == errno.EFBIG
    assert key(2) not in replies
    assert [key(1) in (again := Replies(tmp_path, "g")), again.damaged] == [True, 1]
    replies.put([(key(2), Reply("two"))])
    again = Replies(tmp_path, "g")
    assert (again[key(1)].text, again[key(2)].text) == ("one", "two")


def test_a_full_disk_is_a_clear_error(tmp_path):
    """Another way for a disk to refuse: the folder cannot be written to at all."""
    generator = CachedGenerator(Echo(), SETTINGS, tmp_path)
    tmp_path.joinpath(generator.replies.folder.name).write_text("a file where the folder should be")
    with pytest.raises(GeneratorError, match=r"echo: 1 replies cannot be kept in .* all before them are. Make room and run again"):
        generator.complete([chat("a")], max_new_tokens=4)


WRITER = """
import sys
from dataclasses import asdict
from pathlib import Path
from qualm.runners.data.replies import Replies, Reply
replies = Replies(Path(sys.argv[1]), "g")
start = int(sys.argv[2])
for i in range(start, start + 60):
    replies.put([(i.to_bytes(32), Reply(f"text {i}" * 50))])
"""


def test_two_processes_write_at_once(tmp_path):
    run = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), str(start)], env={**os.environ, "PYTHONPATH": str(ROOT)})
        for start in (0, 60)
    ]
    assert [p.wait(TIMEOUT) for p in run] == [0, 0]
    found = Replies(tmp_path, "g")
    assert (len(found), found.damaged) == (120, 0)
    assert all(found[i.to_bytes(32)].text == f"text {i}" * 50 for i in range(120))
