import json

import pytest

from qualm.runners.contracts.generators import ChatRequest, Message, Reply
from qualm.runners.data.replies import Replies, request_key
from qualm.runners.runtime.append_log import LineLog

PLAIN = {"messages": (Message("user", "Hi", (b"png",)),), "max_new_tokens": 8, "temperature": 0.0, "seed": 0}


def key(identity="engine", **changes):
    return request_key(identity, ChatRequest(**{**PLAIN, **changes}))


def test_a_key_holds_everything_that_a_reply_depends_on():
    others = [
        key("other"), key(max_new_tokens=9), key(temperature=0.5), key(seed=1), key(messages=()),
        *(key(messages=(message,)) for message in (
            Message("system", "Hi", (b"png",)), Message("user", "Ho", (b"png",)), Message("user", "Hi"), Message("user", "Hi", (b"gif",)),
            Message("user", "Hi", (b"png", b"png")),
        )),
    ]  # fmt: skip
    assert len({key(), *others}) == len(others) + 1
    assert key(temperature=0) == key() == key(messages=(Message("user", "Hi", (b"png",)),))


def test_replies_come_back_whole(tmp_path):
    reply = Reply("text ü\n", "length", 3, 4)
    replies = Replies(tmp_path, "engine")
    replies.put([(key(), reply)])
    for opened in (replies, Replies(tmp_path, "engine")):
        assert key() in opened and opened[key()] == reply and len(opened) == 1 and opened.damaged == 0
    assert key() not in Replies(tmp_path, "other")


@pytest.mark.parametrize(
    "changes",
    [{"text": None}, {"text": 7}, {"finish": "rejected"}, {"prompt_tokens": -1}, {"reply_tokens": 1.5}, {"more": 1}, {"key": "zz"},
     {"text": "\ud800"}],
)  # fmt: skip
def test_a_reply_that_cannot_be_is_as_good_as_absent(tmp_path, changes):
    replies = Replies(tmp_path, "engine")
    entry = {"key": key().hex(), "text": "t", "finish": "stop", "prompt_tokens": 1, "reply_tokens": None, "error": None}
    LineLog(replies.folder, "replies").append([json.dumps({**entry, **changes}).encode()])
    opened = Replies(tmp_path, "engine")
    assert len(opened) == 0 and opened.damaged == 1
    LineLog(replies.folder, "replies").append([json.dumps(entry).encode()])
    assert Replies(tmp_path, "engine")[key()] == Reply("t", "stop", 1)
