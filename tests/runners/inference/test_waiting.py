"""What is on disk of a stage's batches, as the next process finds it."""

from qualm.runners.inference.waiting import JOURNAL, Draft, Waiting, folder_of

LINE = b'{"custom_id": "%s", "response": {"status_code": 200, "body": {"n": %d}}, "error": null}\n'


def opened(folder):
    waiting = Waiting(folder)
    assert waiting.open()
    return waiting


def written(waiting, *keys, most=0.5):
    draft = Draft(waiting.folder, 10.0)
    for key in keys:
        draft.add(key, b"{}\n", 100, most / len(keys))
    return waiting.write(*draft.finish())


def test_each_step_is_there_for_the_next_process(tmp_path):
    folder = folder_of(str(tmp_path / ".qualm/store"), "t/infer")
    assert folder == tmp_path / ".qualm/batches/t/infer"
    waiting = opened(folder)
    assert not Waiting(folder).open(), "one process at a time"
    batch = written(waiting, "a", "b")
    assert waiting.requests(batch).read_bytes() == b"{}\n{}\n"
    seen = []
    for step, id in (("", ""), ("uploaded", "file-1"), ("created", "batch_1")):
        if step:
            getattr(waiting, step)(batch, id)
        waiting.close()
        waiting = opened(folder)
        (batch,) = waiting.open_batches()
        seen.append((batch.file, batch.id, batch.keys, batch.most, waiting.awaits("a"), waiting.requests(batch).exists()))
    assert seen == [
        ("", "", ["a", "b"], 0.5, True, True),
        ("file-1", "", ["a", "b"], 0.5, True, True),
        ("file-1", "batch_1", ["a", "b"], 0.5, True, False),
    ]
    waiting.take_replies(batch, [LINE % (b"b", 7) + LINE % (b"stranger", 8), (LINE % (b"a", 9)).strip()])
    waiting.record_end(batch, "completed", 0.1)
    assert waiting.fresh == {"a", "b"}
    waiting.close()
    waiting = opened(folder)
    assert waiting.fresh == set() and not waiting.open_batches() and not waiting.awaits("a")
    assert [waiting.reply(key) and waiting.reply(key).data for key in ("a", "b", "stranger")] == [b'{"n": 9}', b'{"n": 7}', None]
    waiting.clear()
    waiting.close()
    assert [path for path in folder.iterdir() if path.suffix != ".lock"] == []


def test_the_newest_reply_counts(tmp_path):
    waiting = opened(tmp_path)
    for n in (1, 2):
        batch = written(waiting, "a")
        waiting.created(batch, f"batch_{n}")
        waiting.take_replies(batch, [LINE % (b"a", n)])
        waiting.record_end(batch, "completed", 0.0)
    assert waiting.reply("a").data == b'{"n": 2}'
    waiting.close()
    assert opened(tmp_path).reply("a").data == b'{"n": 2}'


def test_what_a_killed_process_was_writing_goes(tmp_path):
    waiting = opened(tmp_path)
    Draft(tmp_path, 1.0).add("a", b"{}", 1, 0.0)
    batch = written(waiting, "b")
    (tmp_path / "unknown.keys").write_text("c")
    waiting.close()
    waiting = opened(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {JOURNAL, f"{JOURNAL}.lock", f"{batch.name}.keys", f"{batch.name}.requests"}
    waiting.drop(waiting.open_batches()[0])
    assert not waiting.awaits("b")
    waiting.close()
    assert opened(tmp_path).batches == {}


def test_batches_on_their_way_stay_when_the_others_go(tmp_path):
    waiting = opened(tmp_path)
    first, second = written(waiting, "a"), written(waiting, "b")
    waiting.created(second, "batch_2")
    waiting.take_replies(first, [])
    waiting.record_end(first, "expired", 0.0)
    waiting.clear()
    waiting.close()
    assert [batch.id for batch in opened(tmp_path).open_batches()] == ["batch_2"]


def test_a_draft_is_full_by_bytes_replies_money_or_number(tmp_path, monkeypatch):
    from qualm.runners.inference import waiting

    monkeypatch.setattr(waiting, "MAX_BYTES", 10)
    monkeypatch.setattr(waiting, "MAX_REPLY_BYTES", 100)
    draft = Draft(tmp_path, 1.0)
    draft.add("a", b"12345", 40, 0.5)
    assert draft.holds("a") and not draft.holds("b")
    assert draft.has_room(5, 60, 0.5, 2)
    assert not any([draft.has_room(6, 1, 0, 2), draft.has_room(1, 61, 0, 2), draft.has_room(1, 1, 0.6, 2), draft.has_room(1, 1, 0, 1)])
