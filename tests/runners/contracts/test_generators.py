from qualm.runners.contracts.generators import Message, chat


def test_one_question_is_a_conversation_of_one_turn():
    assert chat("What?", b"png", b"jpeg") == [Message("user", "What?", (b"png", b"jpeg"))]
    assert chat("What?") == [Message("user", "What?", ())]
