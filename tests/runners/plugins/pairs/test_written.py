"""Replies of many styles: what was paid for is read wherever it can be told, and what cannot is refused with a reason."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qualm.runners.contracts.generators import NoPairError
from qualm.runners.plugins.pairs._two_pictures import read_new_question
from qualm.runners.plugins.pairs._written import WrittenPair, clean_part, gives_away, prompt_sections, questions_of, read_pair

PAIR = {"Q1": "What is the cat's name?", "A1": "I don't know.", "Q2": "What color is the cat?", "A2": "black"}
EXPECTED = WrittenPair(*PAIR.values())
Q1, A1, Q2, A2 = PAIR.values()


def reply(**changes):
    return "\n".join(f"{label}: {text}" for label, text in {**PAIR, **changes}.items())


def styled(style):
    return style.replace("{q1}", Q1).replace("{a1}", A1).replace("{q2}", Q2).replace("{a2}", A2)


LINES = [
    reply(),
    reply().replace("\n", "\r\n"),
    reply().replace("\n", "\n\n") + "\n\n",
    "\ufeff" + reply(),
    reply().lower().replace(Q1.lower(), Q1).replace(A1.lower(), A1).replace(Q2.lower(), Q2),
    "Sure! Here is a pair:\n\n" + reply(),
    "Certainly. Let me think about the cat first.\nIt has no name tag.\n" + reply(),
    "<think>A name cannot be seen.\nQ1: draft?</think>\n" + reply(),
    f"```\n{reply()}\n```",
    f"```text\n{reply()}\n```",
    f"Here you go:\n```markdown\n{reply()}\n```\nLet me know if you need more!",
    reply() + "\n\nNote: the first question cannot be answered.",
    reply() + "\n(The name is not shown.)",
    reply() + "\nI hope this helps!",
    reply() + "\n---\nWould you like another one?",
    f"{reply()}\nExplanation: a name cannot be seen.",
    styled("- Q1: {q1}\n- A1: {a1}\n- Q2: {q2}\n- A2: {a2}"),
    styled("* **Q1:** {q1}\n* **A1:** {a1}\n* **Q2:** {q2}\n* **A2:** {a2}"),
    styled("1. Q1: {q1}\n2. A1: {a1}\n3. Q2: {q2}\n4. A2: {a2}"),
    styled("1) Q1 - {q1}\n2) A1 - {a1}\n3) Q2 - {q2}\n4) A2 - {a2}"),
    styled("**Q1:** {q1}\n**A1:** {a1}\n\n**Q2:** {q2}\n**A2:** {a2}"),
    styled("**Q1**: {q1}\n**A1**: {a1}\n**Q2**: {q2}\n**A2**: {a2}"),
    styled("__Q1__: {q1}\n__A1__: {a1}\n__Q2__: {q2}\n__A2__: {a2}"),
    styled("**Q1:**{q1}\n**A1:**{a1}\n**Q2:**{q2}\n**A2:**{a2}"),
    styled("**Q1: {q1}**\nA1: {a1}\n**Q2: {q2}**\nA2: {a2}"),
    styled("Q1. {q1}\nA1. {a1}\nQ2. {q2}\nA2. {a2}"),
    styled("Q1) {q1}\nA1) {a1}\nQ2) {q2}\nA2) {a2}"),
    styled("(Q1) {q1}\n(A1) {a1}").replace("(Q1)", "(Q1):").replace("(A1)", "(A1):") + styled("\n[Q2]: {q2}\n[A2]: {a2}"),
    styled("Q 1: {q1}\nA 1: {a1}\nQ 2: {q2}\nA 2: {a2}"),
    styled("Q1：{q1}\nA1：{a1}\nQ2：{q2}\nA2：{a2}"),
    styled("Question 1: {q1}\nAnswer 1: {a1}\nQuestion 2: {q2}\nAnswer 2: {a2}"),
    styled("Question 1 (unanswerable): {q1}\nAnswer 1: {a1}\nQuestion 2 (answerable): {q2}\nAnswer 2: {a2}"),
    styled("Q1 (unanswerable): {q1}\nA1: {a1}\nQ2 (answerable): {q2}\nA2: {a2}"),
    styled("Unanswerable Question: {q1}\nAnswer: {a1}\nAnswerable Question: {q2}\nAnswer: {a2}"),
    styled("Unanswerable Q: {q1}\nAnswer: {a1}\nAnswerable Q: {q2}\nAnswer: {a2}"),
    styled("Q: {q1}\nA: {a1}\nQ: {q2}\nA: {a2}"),
    styled("Question: {q1}\nAnswer: {a1}\n\nQuestion: {q2}\nAnswer: {a2}"),
    styled("### Unanswerable\nQuestion: {q1}\nAnswer: {a1}\n\n### Answerable\nQuestion: {q2}\nAnswer: {a2}"),
    styled("**Pair 1 (unanswerable)**\nQ: {q1}\nA: {a1}\n**Pair 2 (answerable)**\nQ: {q2}\nA: {a2}"),
    styled("## Q1\n{q1}\n## A1\n{a1}\n## Q2\n{q2}\n## A2\n{a2}"),
    styled("Q1:\n{q1}\nA1:\n{a1}\nQ2:\n{q2}\nA2:\n{a2}"),
    styled("Q1: {q1} A1: {a1} Q2: {q2} A2: {a2}"),
    styled("Q1: {q1} A1: {a1}\nQ2: {q2} A2: {a2}"),
    styled("| Q1 | {q1} |\n|---|---|\n| A1 | {a1} |\n| Q2 | {q2} |\n| A2 | {a2} |"),
    styled("> Q1: {q1}\n> A1: {a1}\n> Q2: {q2}\n> A2: {a2}"),
    styled('Q1: "{q1}"\nA1: “{a1}”\nQ2: „{q2}“\nA2: «{a2}»'),
    styled("Q1: »{q1}«\nA1: ›{a1}‹\nQ2: 「{q2}」\nA2: 『{a2}』"),
    styled("Q1: `{q1}`\nA1: *{a1}*\nQ2: __{q2}__\nA2: **{a2}**"),
    styled("Q1: {q1}\nA1: {a1}\nExplanation: names are not shown.\nQ2: {q2}\nA2: {a2}"),
    styled("Q2: {q2}\nA2: {a2}\nQ1: {q1}\nA1: {a1}"),
    styled("Q1: {q1} (unanswerable)\nA1: {a1}\nQ2: {q2} [answerable]\nA2: {a2}"),
    reply() + "\n\n" + reply(),
    styled("{q1}\n{a1}\n{q2}\n{a2}"),
    styled("1. {q1}\n2. {a1}\n3. {q2}\n4. {a2}"),
    styled("1. {q1}\n   {a1}\n2. {q2}\n   {a2}"),
    styled("<Q1>{q1}</Q1>\n<A1>{a1}</A1>\n<Q2>{q2}</Q2>\n<A2>{a2}</A2>"),
    styled("<q1>{q1}</q1><a1>{a1}</a1><q2>{q2}</q2><a2>{a2}</a2>"),
    styled("<Q1>\n{q1}\n</Q1>\n<A1>\n{a1}\n</A1>\n<Q2>\n{q2}\n</Q2>\n<A2>\n{a2}\n</A2>"),
    styled("<Q1>: {q1}\n<A1>: {a1}\n<Q2>: {q2}\n<A2>: {a2}"),
    styled("Q1: <{q1}>\nA1: <{a1}>\nQ2: <{q2}>\nA2: <{a2}>"),
    f"<answer>\n{reply()}\n</answer>",
    styled("[Q1] {q1}\n[A1] {a1}\n[Q2] {q2}\n[A2] {a2}"),
    styled("| Q1 | A1 | Q2 | A2 |\n|---|---|---|---|\n| {q1} | {a1} | {q2} | {a2} |"),
    styled("| | Question | Answer |\n|---|---|---|\n| Unanswerable | {q1} | {a1} |\n| Answerable | {q2} | {a2} |"),
    styled(
        "Here:\n\n| Type | **Question** | Answer |\n|:--|:--|--:|\n| Answerable | {q2} | {a2} |\n| Unanswerable | {q1} | {a1} |\n\nDone."
    ),
    styled("| Question | Answer |\n|---|---|\n| {q1} | {a1} |\n| {q2} | {a2} |"),
    styled("| Label | Text |\n|---|---|\n| Q1 | {q1} |\n| A1 | {a1} |\n| Q2 | {q2} |\n| A2 | {a2} |"),
    styled("Q1\t{q1}\nA1\t{a1}\nQ2\t{q2}\nA2\t{a2}"),
    styled("Q1 → {q1}\nA1 → {a1}\nQ2 → {q2}\nA2 → {a2}"),
    styled("Q1: {q1}; A1: {a1}; Q2: {q2}; A2: {a2}"),
    styled("`Q1:` {q1}\n`A1:` {a1}\n`Q2:` {q2}\n`A2:` {a2}"),
    styled("**Unanswerable Question (Q1):** {q1}\n**Answer (A1):** {a1}\n\n**Answerable Question (Q2):** {q2}\n**Answer (A2):** {a2}"),
    styled("Answerable question (Q2): {q2}\nAnswer (A2): {a2}\nUnanswerable question (Q1): {q1}\nAnswer (A1): {a1}"),
    styled("Q1 (Knowledge): {q1}\nA1: {a1}\nQ2 (Answerable counterpart): {q2}\nA2: {a2}"),
    styled("Question #1: {q1}\nAnswer #1: {a1}\nQuestion #2: {q2}\nAnswer #2: {a2}"),
    styled("Question one: {q1}\nAnswer one: {a1}\nQuestion two: {q2}\nAnswer two: {a2}"),
    styled("Ｑ１：{q1}\nＡ１：{a1}\nＱ２：{q2}\nＡ２：{a2}"),
    styled("Q1 : « {q1} »\nA1 : «\u00a0{a1}\u00a0»\nQ2 : «\u202f{q2}\u202f»\nA2 : 【{a2}】"),
    styled("Q1: ”{q1}”\nA1: „{a1}”\nQ2: ''{q2}''\nA2: ``{a2}''"),
    f"<|im_start|>assistant\n{reply()}<|im_end|>",
    f"{reply()}</s>",
    f"Assistant: {reply()}",
    reply().replace("\n", "\\n"),
    json.dumps(reply()),
    f'"{reply()}"',
    styled("[Q1: {q1}\nA1: {a1}\nQ2: {q2}\nA2: {a2}]"),
    styled("(Q1: {q1}, A1: {a1}), (Q2: {q2}, A2: {a2})"),
    styled("Q1: {q1} / A1: {a1} / Q2: {q2} / A2: {a2}"),
    styled("Q1: {q1}, A1: {a1}, Q2: {q2}, A2: {a2}"),
    styled("Q1: {q1} — A1: {a1}\nQ2: {q2} -> A2: {a2}"),
    styled("Q1:{q1}A1:{a1}Q2:{q2}A2:{a2}"),
    styled("Q1) {q1}  A1) {a1}  Q2) {q2}  A2) {a2}"),
    styled("Q1: {q1} \\\nA1: {a1} \\\nQ2: {q2} \\\nA2: {a2}"),
    styled("a. Q1: {q1}\nb. A1: {a1}\nc. Q2: {q2}\nd. A2: {a2}"),
    styled("1.\nQ1: {q1}\nA1: {a1}\n2.\nQ2: {q2}\nA2: {a2}"),
    styled("Q.1: {q1}\nA.1: {a1}\nQ2.: {q2}\nA2.: {a2}"),
    styled("Q1—{q1}\nA1—{a1}\nQ2∶ {q2}\nA2∶ {a2}"),
    styled("1st question: {q1}\n1st answer: {a1}\n2nd question: {q2}\n2nd answer: {a2}"),
    styled("Ques 1: {q1}\nAns 1: {a1}\nQues 2: {q2}\nAns 2: {a2}"),
    styled("Question A (unanswerable): {q1}\nAnswer: {a1}\nQuestion B (answerable): {q2}\nAnswer: {a2}"),
    styled("Question that cannot be answered: {q1}\nAnswer: {a1}\nQuestion that can be answered: {q2}\nAnswer: {a2}"),
    styled("Question: {q1}\nResponse: {a1}\nQuestion: {q2}\nResponse: {a2}"),
    styled("**Unanswerable:** {q1}\n**Response:** {a1}\n**Answerable:** {q2}\n**Response:** {a2}"),
    styled("### Response:\nQ: {q1}\nA: {a1}\nQ: {q2}\nA: {a2}"),
    styled("[Unanswerable]\nQ: {q1}\nA: {a1}\n[Answerable]\nQ: {q2}\nA: {a2}"),
    styled("**Unanswerable (Q1):** {q1}\n**A1:** {a1}\n\n**Answerable (Q2):** {q2}\n**A2:** {a2}"),
    styled("<b>Q1:</b> {q1}<br><b>A1:</b> {a1}<br/><b>Q2:</b> {q2}<br><b>A2:</b> {a2}<br>"),
    styled("<ul><li>Q1: {q1}</li><li>A1: {a1}</li><li>Q2: {q2}</li><li>A2: {a2}</li></ul>"),
    styled(r"\textbf{Q1:} {q1}\n\textbf{A1:} {a1}\n\textbf{Q2:} {q2}\n\textbf{A2:} {a2}").replace(r"\n", "\n"),
    f"<reasoning>Names are hidden.</reasoning><output>{reply()}</output>",
    f"◁think▷Q1: a name?◁/think▷{reply()}",
    reply() + "\n\n### Explanation\n- Q1: the name is not shown.\n- Q2: the color is.",
    styled("| Question | Answer | Answerable |\n|---|---|---|\n| {q2} | {a2} | Yes |\n| {q1} | {a1} | No |"),
    reply(A2="black 😊"),
    reply(A2="black (as stated in the caption)."),
    # Marks that an unknown style left in the questions of a dataset, where nobody looks for them.
    styled("Q#1: {q1}\nA#1: {a1}\nQ#2: {q2}\nA#2: {a2}"),
    styled("$Q_1$: {q1}\n$A_1$: {a1}\n$Q_{2}$: {q2}\n$A_{2}$: {a2}"),
    styled("**Q1** {q1}\n**A1** {a1}\n**Q2** {q2}\n**A2** {a2}"),
    styled("**Q1** {q1}\n**A1** {a1}\n**Q2** {q2}\n**A2** {a2}\n\n**A1** declines since no name is shown."),
    styled("Q1:: {q1}\nA1:: {a1}\nQ2:: {q2}\nA2:: {a2}"),
    styled("Q1\n==\n{q1}\n\nA1\n==\n{a1}\n\nQ2\n--\n{q2}\n\nA2\n--\n{a2}"),
    styled('Q1: "{q1}"\nA1: |\n  {a1}\nQ2: >\n  {q2}\nA2: |-\n  {a2}'),
    styled("1️⃣ Q1: {q1}\n1️⃣ A1: {a1}\n2️⃣ Q2: {q2}\n2️⃣ A2: {a2}"),
    styled("❓ Q1: {q1}\n✅ A1: {a1}\n❓ Q2: {q2}\n✅ A2: {a2}"),
    styled("- [ ] Q1: {q1}\n- [x] A1: {a1}\n- [ ] Q2: {q2}\n- [x] A2: {a2}"),
    styled("– Q1: {q1}\n· A1: {a1}\n+ Q2: {q2}\n▪ A2: {a2}"),
    styled("Q₁: {q1}\nA₁: {a1}\nQ₂: {q2}\nA₂: {a2}"),
    styled("Question I: {q1}\nAnswer I: {a1}\nQuestion II: {q2}\nAnswer II: {a2}"),
    styled("Frage 1: {q1}\nAntwort 1: {a1}\nFrage 2: {q2}\nAntwort 2: {a2}"),
    styled("Question 1 : {q1}\nRéponse 1 : {a1}\nQuestion 2 : {q2}\nRéponse 2 : {a2}"),
    styled("Pregunta: {q1}\nRespuesta: {a1}\nPregunta: {q2}\nRespuesta: {a2}"),
    styled("问题1：{q1}\n答案1：{a1}\n问题2：{q2}\n答案2：{a2}"),
    styled("IDK question: {q1}\nIDK answer: {a1}\nAnswerable question: {q2}\nAnswer: {a2}"),
    styled("Not answerable question: {q1}\nAnswer: {a1}\nAnswerable question: {q2}\nAnswer: {a2}"),
    styled("Q1: {q1}\nExpected A1: {a1}\nQ2: {q2}\nExpected A2: {a2}"),
    styled("### Q1 — Unanswerable\n{q1}\n### A1\n{a1}\n### Q2 — Answerable\n{q2}\n### A2\n{a2}"),
    styled("### Answerable\nQuestion: {q2}\nAnswer: {a2}\n\n### Unanswerable\nQuestion: {q1}\nAnswer: {a1}"),
    styled("- question: {q1}\n  answer: {a1}\n  answerable: no\n- question: {q2}\n  answer: {a2}\n  answerable: yes"),
    styled(
        '<q id="1"><question n="1">{q1}</question><answer n="1">{a1}</answer><question n="2">{q2}</question><answer n="2">{a2}</answer></q>'
    ),
    styled(
        "<answerable><question>{q2}</question><answer>{a2}</answer></answerable>"
        "<unanswerable><question>{q1}</question><answer>{a1}</answer></unanswerable>"
    ),
    styled("<dl><dt>Q1</dt><dd>{q1}</dd><dt>A1</dt><dd>{a1}</dd><dt>Q2</dt><dd>{q2}</dd><dt>A2</dt><dd>{a2}</dd></dl>"),
    styled("<table><tr><th>Q1</th><td>{q1}</td></tr><tr><th>A1</th><td>{a1}</td></tr><tr><th>Q2</th><td>{q2}</td></tr>")
    + styled("<tr><th>A2</th><td>{a2}</td></tr></table>"),
    styled("┌────┬────┐\n│ Q1 │ {q1} │\n│ A1 │ {a1} │\n├────┼────┤\n│ Q2 │ {q2} │\n│ A2 │ {a2} │\n└────┴────┘"),
    styled("+----+----+\n| Q1 | {q1} |\n+----+----+\n| A1 | {a1} |\n+----+----+\n| Q2 | {q2} |\n+----+----+\n| A2 | {a2} |\n+----+----+"),
    styled("| Question | Answerable | Answer |\n|---|---|---|\n| {q2} | ✅ | {a2} |\n| {q1} | ❌ | {a1} |"),
    reply().replace("'", "&#39;"),
    reply().replace("'", "&apos;"),
    "The name cannot be known.\nQ1: its age?\n</think>\n\n" + reply(),
    f"~~~\n{reply()}\n~~~",
    "\u200e" + reply(),
    styled('{\n  Q1: "{q1}", // a name\n  A1: "{a1}", /* declines */\n  Q2: "{q2}",\n  A2: "{a2}",\n}'),
]
OBJECTS = [
    [{"question": Q2, "answer": A2, "unanswerable": False}, {"question": Q1, "answer": A1, "unanswerable": True}],
    PAIR,
    {"q1": Q1, "a1": A1, "q2": Q2, "a2": A2},
    {"analysis": "a cat {without} a name", **PAIR},
    {"pair": PAIR},
    {"pairs": [PAIR]},
    [PAIR],
    [{"Q1": Q1}, {"A1": A1}, {"Q2": Q2}, {"A2": A2}],
    [{"question": Q1, "answer": A1}, {"question": Q2, "answer": A2}],
    [{"Q": Q1, "A": A1}, {"Q": Q2, "A": A2}],
    [{"question": Q2, "answer": A2, "answerable": True}, {"question": Q1, "answer": A1, "answerable": False}],
    [{"type": "answerable", "question": Q2, "answer": A2}, {"type": "unanswerable", "question": Q1, "answer": A1}],
    {"unanswerable": {"question": Q1, "answer": A1}, "answerable": {"question": Q2, "answer": A2}},
    {"Q1": {"question": Q1, "answer": A1}, "Q2": {"question": Q2, "answer": A2}},
    {"unanswerable_question": Q1, "unanswerable_answer": A1, "answerable_question": Q2, "answerable_answer": A2},
    {"unanswerableQuestion": Q1, "unanswerableAnswer": A1, "answerableQuestion": Q2, "answerableAnswer": A2},
    {"question_1": Q1, "answer_1": A1, "question_2": Q2, "answer_2": A2},
    {"questions": [Q1, Q2], "answers": [A1, A2]},
    {"unanswerable_qa": {"question": Q1, "answer": A1}, "answerable_qa": {"question": Q2, "answer": A2}},
    {"pair_1": {"question": Q1, "answer": A1}, "pair_2": {"question": Q2, "answer": A2}},
    {label: {"text": text} for label, text in PAIR.items()},
    {label: [text] for label, text in PAIR.items()},
    [{"question": Q2, "answer": A2, "answerable": "yes"}, {"question": Q1, "answer": A1, "answerable": "no"}],
    {"Q1": {"q": Q1, "a": A1}, "Q2": {"q": Q2, "a": A2}},
    {"items": [{"label": label, "text": text} for label, text in PAIR.items()]},
    {"questions": [{"id": "Q1", "text": Q1}, {"id": "Q2", "text": Q2}], "answers": [{"id": "A1", "text": A1}, {"id": "A2", "text": A2}]},
    {"name": "write", "arguments": json.dumps(PAIR)},
    [{"question_type": "Answerable", "question": Q2, "answer": A2}, {"question_type": "Unanswerable", "question": Q1, "answer": A1}],
]
AROUND = ["{}", "```json\n{}\n```", "```{}```", "Here is the JSON:\n\n{}\n\nNote that [1] is not shown.", "{}\nDone."]
ALMOST_JSON = [
    '{"Q1": "%s", "A1": "%s", "Q2": "%s", "A2": "%s",}' % (Q1, A1, Q2, A2),  # noqa: UP031 - braces
    '{\n  "Q1": "%s",\n  "A1": "%s",\n  "Q2": "%s",\n  "A2": "%s"' % (Q1, A1, Q2, A2),  # noqa: UP031 - never closed
    '"Q1": "%s",\n"A1": "%s",\n"Q2": "%s",\n"A2": "%s"' % (Q1, A1, Q2, A2),  # noqa: UP031
    str(PAIR),
    json.dumps(json.dumps(PAIR)),
    json.dumps(PAIR).replace('"', '\\"'),
    "{" + json.dumps(PAIR) + "}",
    '{"Q1": "%s", // no name\n"A1": "%s", "Q2": "%s", "A2": "%s"}' % (Q1, A1, Q2, A2),  # noqa: UP031
    '{Q1: "%s", A1: "%s", Q2: "%s", A2: "%s"}' % (Q1, A1, Q2, A2),  # noqa: UP031
    '{"Q1": "%s"\n"A1": "%s"\n"Q2": "%s"\n"A2": "%s"}' % (Q1, A1, Q2, A2),  # noqa: UP031 - no commas
    "{“Q1”: “%s”, “A1”: “%s”, “Q2”: “%s”, “A2”: “%s”}" % (Q1, A1, Q2, A2),  # noqa: UP031
    json.dumps([Q1, A1, Q2, A2]),
    json.dumps([[Q1, A1], [Q2, A2]]),
    "\n".join(json.dumps({"question": q, "answer": a}) for q, a in ((Q1, A1), (Q2, A2))),
    "\n".join(json.dumps({label: PAIR[label] for label in labels}) for labels in (("Q1", "A1"), ("Q2", "A2"))),
]


@pytest.mark.parametrize("text", [*LINES, *ALMOST_JSON])
def test_a_pair_in_any_style(text):
    assert read_pair(text) == EXPECTED


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("value_", OBJECTS)
def test_a_pair_as_json(value_, around):
    assert read_pair(around.replace("{}", json.dumps(value_))) == EXPECTED
    assert read_pair(around.replace("{}", json.dumps(value_, indent=2))) == EXPECTED


@pytest.mark.parametrize(
    ("question", "refusal"),
    [
        ("What is the giraffe doing?", "There are multiple giraffes. Unanswerable"),  # the paper's own three, appendix F
        ("Is the bird's eye view from a tree or from a drone?", "All options are possible. Unanswerable"),
        ("How many calories in this meal?", "Unanswerable"),
        ("Is the bird's eye view from a tree or from a drone?", "All options are possible."),
        ("Who will win the race?", "It depends."),
        ("Who will win the race?", "That really depends."),
        *(
            (Q1, text)
            for text in (
                "Unanswerable from the image.",
                "Unanswerable given the caption.",
                "It is unanswerable.",
                "Unanswerable (no name tag)",
                "Unanswerable, as the name is not shown.",
                "Not answerable.",
                "No information is given about the name.",
                "There is no information about the name.",
                "The description does not specify the name.",
                "There are several cats, so the question is ambiguous.",
                "It could be either one.",
                "Both are possible.",
                "That's subjective.",
                "Information not provided.",
                "Which cat? There are two.",
            )
        ),
    ],
)
def test_refusals_as_models_word_them(question, refusal):
    pair = read_pair(reply(Q1=question, A1=refusal))
    assert (pair.unanswerable, pair.refusal) == (question, refusal)


def test_the_paper_s_own_example_on_one_line():
    text = (
        "Unanswerable Question: What is the giraffe doing? Answer: There are multiple giraffes. Unanswerable "
        "Answerable Question: Where are the people sitting? Answer: All people are sitting on elephants' backs."
    )
    assert read_pair(text) == WrittenPair(
        "What is the giraffe doing?", "There are multiple giraffes. Unanswerable", "Where are the people sitting?",
        "All people are sitting on elephants' backs.",
    )  # fmt: skip


def test_questions_in_other_scripts():
    pair = read_pair(reply(Q1="这只猫叫什么名字？", Q2="这只猫是什么颜色的？", A2="黑色"))
    assert (pair.unanswerable, pair.answer) == ("这只猫叫什么名字？", "黑色")


def test_a_verdict_alone_is_a_refusal():
    assert read_pair(reply(A1="(Unanswerable)")).refusal == "Unanswerable"
    assert read_pair(reply(A1="[Unanswerable]")).refusal == "Unanswerable"


def test_a_question_that_quotes_one_is_one_question():
    assert read_pair(reply(Q2='What does the cat with the sign "Why?" hold?')).answerable.endswith("hold?")


def test_numbers_are_answers():
    assert read_pair(json.dumps({**PAIR, "Q2": "How many cats are there?", "A2": 4})).answer == "4"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "no reply"),
        ("", "no part found"),
        ("I'm sorry, I can't help with that.", "no part found"),
        ("{}", "no part found"),
        ("[[[[", "no part found"),
        ("The cat is black.\nWhat is its name?", "no part found"),
        ("This is Not a good question.", "not a good question"),
        ("Q1: What?\nA1: Not a good question", "not a good question"),
        ("\n".join(reply().splitlines()[:3]), "part missing"),
        (json.dumps({"Q1": Q1, "A1": A1, "Q2": Q2}), "part missing"),
        (json.dumps({**PAIR, "A2": ["black", "white"]}), "part missing"),
        (json.dumps({**PAIR, "A2": True}), "part missing"),
        (json.dumps({**PAIR, "A2": None}), "part missing"),
        ("| Q1 | A1 | Q2 | A2 |\n| What? | I don't know. | Who? | he |", "part missing"),
        (reply(A2=""), "part missing"),
        (reply(A2="''"), "empty part"),
        (reply(A2="?!"), "empty part"),
        (reply(A2="****"), "empty part"),
        (reply() + "\n\n" + reply(Q1="Who owns the cat?"), "several sets of parts"),
        (json.dumps([PAIR, {**PAIR, "A2": "white"}]), "several sets of parts"),
        (reply() + "\nQ1: again?", "several sets of parts"),
        (styled("Q1: {q1}\nA1: {a1}\nThe cat is lovely.\nQ2: {q2}\nA2: {a2}"), "text between the parts"),
        (styled("Q1: {q1}\nIt may be Tom.\nA1: {a1}\nQ2: {q2}\nA2: {a2}"), "text between the parts"),
        (reply(A2="black and white on the\nleft side"), "part goes on in the next line"),
        (reply(A2="these:\nBlack"), "part goes on in the next line"),
        (reply(A2='"bla'), "two things in one part"),
        (reply(Q1="Is it? Rewritten: what is it?"), "two things in one part"),
        (reply(Q1="The cat's name."), "not a question"),
        (reply(Q2="The cat's color"), "not a question"),
        (reply(Q2="what is the cats NAME ?"), "same question twice"),
        (reply(A1="Tom"), "unanswerable one is answered"),
        (reply(A1="There are multiple cats."), "unanswerable one is answered"),
        (reply(A1="Perhaps Tom. Unanswerable"), "unanswerable one is answered"),
        (styled("Q1: {q2}\nA1: {a2}\nQ2: {q1}\nA2: {a1}"), "unanswerable one is answered"),
        (reply(A1="Unanswerable? No: Tom."), "unanswerable one is answered"),
        (reply(A1="Unanswerable, but probably Tom."), "unanswerable one is answered"),
        (reply(A2="I don't know"), "answerable one is declined"),
        (reply(A2="(Unanswerable)"), "answerable one is declined"),
        (reply(A2="Not answerable."), "answerable one is declined"),
        (reply(A2="<answer>"), "empty part"),
        (reply(A2="[answer to Q2]"), "empty part"),
        (reply(Q1="<unanswerable question>?"), "empty part"),
        (reply(Q1=f"{Q1} How old is it?"), "two things in one part"),
        (reply(A2="black A2: white"), "two things in one part"),
        (reply(Q2="Q-2/ What color is the cat?"), "two things in one part"),
        (reply(A2="<span>black"), "two things in one part"),
        (reply(A2="black | 0.9"), "two things in one part"),
        (reply(A1="Either Tom or Tim"), "unanswerable one is answered"),
        (styled("Q1 {q1}\nA1 {a1}\nQ2 {q2}\nA2 {a2}"), "no part found"),  # names that are not taken off are not kept either
        (styled("Ask 1: {q1}\nDecline: {a1}\nAsk 2: {q2}\nTell: {a2}"), "no part found"),
        (styled("{q2}\n{a2}\n{q1}\n{a1}"), "no part found"),
        (styled("{q1}\n{a1}\n{q2}\nI hope this helps!"), "no part found"),
        (styled("| Q1 | A1 | Q2 | A2 |\n|---|---|---|---|\n| {q1} | {a1} | {q2} | one | two |"), "no part found"),
        (styled("Unanswerable: {q1} / {a1}\nAnswerable: {q2} / {a2}"), "no part found"),
        (reply(Q2="What color is the black cat?"), "answer in the question"),
    ],
)
def test_why_a_reply_is_no_pair(text, reason):
    with pytest.raises(NoPairError) as error:
        read_pair(text)
    assert str(error.value) == reason


@pytest.mark.parametrize("question", sorted(questions_of(EXPECTED)))
def test_a_question_that_was_asked_before(question):
    with pytest.raises(NoPairError, match="asked before"):
        read_pair(reply(), {question})


PIECES = st.sampled_from(
    [*PAIR, *PAIR.values(), ":", "\n", " ", "**", "- ", "1. ", '"', "{", "}", "[", "]", ",", "```", "Question", "Answer", "unanswerable",
     "|", "\r\n", "»", "(", ")", "Note: x", '\\"', "?", "<think>", "</think>", "\ud83d", "0", "\x00", "２"]
)  # fmt: skip


@settings(max_examples=120, deadline=None)
@given(st.lists(PIECES, max_size=40).map("".join) | st.text(max_size=200))
def test_any_text_is_a_pair_in_its_own_words_or_refused(text):
    """No word of a pair is ours: each part stands in the reply as it is."""
    for read in (read_pair, read_new_question):
        try:
            parts = vars(read(text)).values()
        except NoPairError as reason:
            assert str(reason)
            continue
        squeezed = " ".join(text.replace('\\"', '"').split())
        assert all(part and " ".join(part.split()) in squeezed for part in parts)


WORDS = st.from_regex(r"[a-zé][a-h xyzé']{2,20}", fullmatch=True).map(lambda text: " ".join(text.split()))


@settings(max_examples=60, deadline=None)
@given(q1=WORDS, q2=WORDS, a2=WORDS, style=st.sampled_from(["{}", "- {}", "**{}**", "> {}", "1. {}"]))
def test_what_was_written_is_what_is_read(q1, q2, a2, style):
    parts = {"Q1": f"{q1} one?", "A1": "It cannot be known.", "Q2": f"{q2} two?", "A2": a2}
    text = "\n".join(style.format(f"{label}: {part}") for label, part in parts.items())
    try:
        pair = read_pair(text)
    except NoPairError as reason:
        assert str(reason) in ("answer in the question", "answerable one is declined", "same question twice", "two things in one part")
    else:
        assert tuple(vars(pair).values()) == tuple(parts.values())


@pytest.mark.slow
@pytest.mark.parametrize("nested", ["[" * 100_000, '{"a":' * 100_000, "[" * 900 + "1" + "]" * 900, "Q1" * 50_000, "Q1: " * 20_000])
def test_hostile_replies_end_soon(nested):
    with pytest.raises(NoPairError):
        read_pair(nested)


@pytest.mark.parametrize(
    "question, answer, does",
    [("Is the red ball big?", "Red", True), ("Is it red or blue?", "red", False), ("Is it reddish?", "red", False), ("Q?", "", False)],
)
def test_answers_that_stand_in_their_question(question, answer, does):
    assert gives_away(question, answer) is does


def test_a_value_is_one_thing():
    assert clean_part('"red"') == "red" and clean_part("(answerable) »red«") == "red"
    with pytest.raises(NoPairError):
        clean_part("  ")


def test_what_a_taxonomy_says_becomes_sections():
    assert prompt_sections({}) == {}
    assert prompt_sections({"examples": [" Who? "], "answer": " decline ", "definition": "d"}) == {
        "Questions of this kind": "- Who?", "What a right answer to the first question is": "decline", "Definition": "d",
    }  # fmt: skip
    assert prompt_sections({"examples": [reply(), reply()]}) == {"Examples": f"{reply()}\n\n{reply()}"}
    assert "Examples" not in prompt_sections({"examples": [reply(), "Who?"]})
