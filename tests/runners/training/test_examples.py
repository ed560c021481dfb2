from dataclasses import replace

from qualm.runners.training.examples import Row, preferences


def row(name, target, pair=None, rejected=None, choices=()):
    return Row("d", 0, name, f"{name}?", choices, True, pair, True, (target,), target, rejected)


def test_what_an_answer_is_preferred_to():
    rows = [
        row("a", "red", "p"),
        row("b", "I don't know.", "p"),
        row("rated", "Two dogs.", rejected="A cat."),
        row("equal", "A cat.", rejected="A cat."),
        row("c", "yes", "q"),
        row("d", "yes", "q"),
        row("alone", "blue"),
        row("e", "three", "r", rejected="four"),
        row("f", "none", "r"),
    ]
    assert [(e.answer, e.rejected) for e in preferences(rows)] == [
        ("Two dogs.", "A cat."),
        ("three", "four"),
        ("red", "I don't know."),
        ("I don't know.", "red"),
        ("none", "three"),
    ]


def test_what_was_said_before_stands_before_the_question():
    later = replace(row("b", "Brown."), history=(("What is it?", "A dog."), ("Is it big?", "No.")))
    said = [(turn["role"], [part.get("text", part["type"]) for part in turn["content"]]) for turn in later.conversation]
    assert said == [
        ("user", ["image", "What is it?"]),
        ("assistant", ["A dog."]),
        ("user", ["Is it big?"]),
        ("assistant", ["No."]),
        ("user", ["b?"]),
    ]
    assert [turn["role"] for turn in row("a", "red").conversation] == ["user"]
