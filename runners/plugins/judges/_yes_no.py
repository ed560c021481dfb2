"""Shared by judges of yes-or-no questions: each reads "yes", "no" or neither in an answer, and that is held to the reference."""

import re
import unicodedata
from collections.abc import Callable
from typing import Literal

from qualm.runners.contracts.judges import Judgement
from qualm.runners.plugins.judges._refusal_questions import read_question, stem
from qualm.runners.plugins.judges._refusals import is_refusal
from qualm.runners.prompts.plain import clean_reply
from qualm.runners.scoring.answer_text import normalise, word_set

YesNo = Literal["yes", "no"] | None
MARKS = {"yes": 1.0, "no": 0.0, None: -1.0}
"""Values of the marks `said` and `truth`; only `said` can be neither."""

MAX_CHARACTERS = 20_000
"""Characters of a reply that are read, from its end."""
_ANYWHERE = {"yes": "yes yeah yep yup affirmative", "no": "no nope nah negative"}
"""Words that say it wherever they stand."""
_AT_START = {
    "yes": "y yea aye sure certainly definitely absolutely indeed correct right true exactly ok okay oui sí si ja sim да ja jawohl tak "
    "ano evet hai "
    "sì kyllä jes vâng có ya iya baleh ναι igen da 是 是的 对 對 对的 没错 有 有的 会 能 可以 はい ええ うん そうです 네 예 응 "
    "그렇습니다 نعم أجل हाँ हां जी ใช่",
    "no": "n nay false incorrect wrong never non nein não нет nie ne nee nej nei hayır não ei nem không tidak bukan όχι 不 不是 不是的 "
    "否 没有 沒有 不对 不會 不会 "
    "不能 いいえ いや いえ ちがいます 違います 아니요 아니오 아니 아닙니다 لا كلا नहीं ไม่ ไม่ใช่ ไม่มี",
}
"""Words that say it where a reply begins with them, or is nothing else."""
_ENGLISH = word_set(
    "y yea aye sure certainly definitely absolutely indeed correct right true exactly ok okay n nay false incorrect wrong never "
    "yes yeah yep yup affirmative no nope nah negative"
)
_OF = {
    **{word: word_said for word_said, row in _AT_START.items() for word in row.split()},
    **{word: word_said for word_said, row in _ANYWHERE.items() for word in row.split()},
}
_WORD = r"(?:" + "|".join(sorted(map(re.escape, _OF), key=len, reverse=True)) + r")"
_PLAIN = r"(?:yes|no|yeah|yep|yup|nope|nah|affirmative|negative)"
_EDGE = r"(?![\w'’-])"
_MAYBE = r"(?:(?:(?:it|that|this|the answer) )?(?:maybe|perhaps|possibly|probably|(?:could|might|may) be)\s+)"
_AND = r"(?:(?:or|and|but)\s+)?(?:also\s+)?"
_BOTH = re.compile(
    r"[(\[]?\s*\byes\b\s*(?:/|\||or|and|&)\s*no\b\s*[)\]]?|\bno\b\s*(?:/|\||or|and)\s*yes\b",
    re.IGNORECASE,
)
_UNDECIDED = re.compile(
    "|".join(
        rf"{_MAYBE}?\b{word}\b\W+{_AND}{_MAYBE}{opposite}\b(?! *[\w'’-])|^\W*{word}[^\w\n]+{_AND}{opposite}\W*$"
        for word, opposite in (("yes", "not?"), ("not?", "yes"))
    ),
    re.IGNORECASE,
)
_IDIOMS = re.compile(
    r"\bno (?:longer|doubts?|question|problem|need|matter|way (?:to|of|for|i)\b|more than|less than|fewer than|sooner|wonder|idea|clue|"
    r"one\b|offen[cs]e|worries|means|reason|further|additional|other|specific|such|clear|visible|information|evidence (?:to|for|"
    r"of) (?:say|decide|tell))|\bno\.? ?(?=\d)|\b(?:whether|if) (?:the answer is |it is |to (?:say|answer) )?(?:yes|no)\b|"
    r"\bsay(?:ing)? (?:yes|no)\b(?= (?:to|if|when|without))"
)
_ANSWER = r"(?:\b(?:answer|response|verdict|conclusion|réponse|antwort|respuesta|resposta|risposta|ответ)\b|答案|答え|정답)"
_ANNOUNCED = re.compile(
    rf"{_ANSWER}[^.!?;\n]{{0,60}}?(?:\bis\b|\best\b|\bist\b|\bes\b|\bé\b|\bè\b|\bwould be\b|\bmust be\b|\bbe\b|[:：=是は]|\W-+\W|->|→|^|"
    r"\s)\W*(?P<not>(?:(?:definitely|clearly|certainly) )?not (?:a )?|n't )?\W*(?:(?:a|an|clearly|definitely|therefore|thus|probably|"
    rf"simply|just|indeed|most likely|final|resounding|clear)\W+){{0,3}}(?P<said>{_WORD}){_EDGE}"
)
_CORRECTED = re.compile(
    r"(?:\b(?:actually|wait|correction|rather|sorry|scratch that|second thoughts?|hmm+|hold on|i mean|looking (?:again|closer|"
    r"more closely)|oops|no longer in doubt)\b[\s,.:;!?—–\-…]*)(?:(?:it's|it is|i mean|the answer is|make that|that's|that should be|"
    rf"it should be|so|sorry|actually|wait|i'd say|i say)\b[\s,:]*){{0,4}}(?P<said>{_PLAIN}){_EDGE}"
)
_LAST = re.compile(
    rf"(?:\b(?:so|thus|therefore|hence|then|in short|finally|overall|final|i(?:'d| would) say|in conclusion|to conclude|"
    rf"which means)\b[\s,:]*){{1,4}}(?P<said>{_PLAIN}){_EDGE}"
)
_NEGATED_START = re.compile(
    r"not (?:at all|really|that i (?:can|could) (?:see|tell|find)|as far as i can (?:see|tell)|true|correct|right|so|exactly|quite|"
    r"in (?:the|this) (?:image|picture|photo))\b|(?:definitely|certainly|absolutely|probably|of course|clearly|surely|apparently|"
    r"evidently|seemingly),? not?\b|by no means\b|nothing of the (?:sort|kind)\b|(?:(?:it|that) (?:appears|seems)|i (?:think|believe|"
    r"guess)) not\b(?=\W*$)|(?:it )?(?:does not|doesn't) (?:look|seem|appear)(?: so| like it| to be(?: so| the case)?)\b(?=\W*$)|(?:that|"
    r"it|(?:that|this|the)(?: (?:statement|claim|description|sentence))?)(?:'s| is| is definitely| seems)? ?(?:not|n't) (?:true|correct|"
    r"right|accurate|the case|so)\b|(?:that|this|it) isn't (?:true|correct|right|accurate|the case|so)\b|(?:that|it|(?:that|this|"
    r"the)(?: (?:statement|claim|description|sentence))?)(?:'s| is) (?:false|incorrect|wrong|untrue|inaccurate)\b|i(?: do not|n't|"
    r" don't) (?:think|believe) so\b|i don't (?:think|believe) so\b|i (?:can't|cannot|can not|couldn't|don't|do not) see (?:any|one|"
    r"an?)\b|there (?:is|are|was|were) no\b(?! (?:doubt|question|way|idea|reason|telling|evidence|indication|information|clear|longer)\b)|"
    r"there (?:isn't|aren't|wasn't|weren't)\b|there (?:is|are) not (?:any|an?)\b|(?:there|it|they|he|she|that|this) (?:(?:is|are|was|were|"
    r"does|do|did|has|have|can)(?: not|n't)|cannot|can't)\b(?=\W*$)|pas (?:du tout|vraiment|que je)\b|pas\b$|gar nicht\b|nicht wirklich\b|"
    r"en absoluto\b|para nada\b"
)
_AFFIRMED_START = re.compile(
    r"(?:that|it|(?:that|this|the)(?: (?:statement|claim|description|sentence))?)(?:'s| is| is indeed| seems) (?:true|correct|right|"
    r"accurate|the case|so)\b|(?:of course|for sure|sure thing|you bet|i (?:think|believe|would say|guess) so|(?:it )?(?:seems so|"
    r"appears so|(?:looks|seems) like it)\b(?=\W*$)|(?:without (?:a|any) doubt|(?:most )?(?:certainly|definitely)|surely|"
    r"apparently(?: so)?)\b(?=\W*$)|(?:(?:it|there) )?sure (?:is|does)\b(?=\W*$)|indeed,? (?:there|it|they|he|she) (?:is|are|was|were|"
    r"does|do)\b(?=\W*$)|(?:there|it|they|he|she|that|this) (?:is|are|was|were|does|do|did|has|have|can)\b(?=\W*$)|bien sûr|natürlich|"
    r"claro(?: que sí)?|por supuesto|certo|конечно)(?!\w)(?! not\b)"
)
_FRAME = word_set(
    "is are was were be do does did can could has have had will would there here you i we see seen visible present shown a an the any some "
    "this that it he she they his her its their of image picture photo photograph scene please"
)
"""Words of a question that a statement of the same need not repeat."""
_UNCERTAIN = re.compile(
    r"\b(?:if|whether|may|might|could|would|should|but|although|though|however|unless|or|almost|nearly|partly|partially|only|until"
    r"|without|than .* than|used to|neither|nor|except|toy|fake|possibl[ey]|hard|difficult|unclear|unable|sure|certain|impossible|tell|"
    r"lacks?|rather|instead|nothing|nobody|none|unlikely|false|doubt\w*)\b"
)
_EXISTS = re.compile(r"\b(?:there|shows?|see|contains?|depicts?|features?|includes?|visible|present|has|have)\b")
_OPPOSITE = {"yes": "no", "no": "yes"}


def polarity(word: str) -> YesNo:
    """Return "yes" or "no" for a word that means it, in many languages; None for others.

    >>> polarity("Yes"), polarity("否"), polarity("False."), polarity("maybe")
    ('yes', 'no', 'no', None)
    """
    return _said(_OF.get(_plain(word).strip(" .,!?;:()[]'\"。！、")))


def begins_in_another_language(text: str) -> bool:
    """Return true if a reply begins with a yes or no that is not English.

    >>> begins_in_another_language("Nein, da ist kein Hund"), begins_in_another_language("No, there is none")
    (True, False)
    """
    found = re.match(rf"{_WORD}{_EDGE}", _plain(text))
    return found is not None and found[0] not in _ENGLISH


def yes_or_no(text: str) -> YesNo:
    """Return a reply's final yes or no; None if it is neither, both or unclear.

    A correction counts before an announcement, this before a conclusion, this before the first word, and this before the only one of
    the two words. Of several announcements the last counts.

    >>> yes_or_no("Yes, it is."), yes_or_no("The answer is no."), yes_or_no("I see no reason to say yes"), yes_or_no("Final answer: **No**")
    ('yes', 'no', None, 'no')
    >>> yes_or_no("Yes. Hmm, actually: No."), yes_or_no("no longer in doubt: yes"), yes_or_no("Yes/No"), yes_or_no("いいえ、違います")
    ('no', 'yes', None, 'no')
    """
    # A word, not nothing, in place of what is undecided: "it is not, but maybe yes" must not begin to affirm.
    plain = _BOTH.sub(" ", _UNDECIDED.sub(" either ", _plain(text)))
    if (whole := polarity(plain)) is not None:
        return whole
    late = [
        (m.start("said"), _OF.get(m["said"]), m.groupdict().get("not")) for p in (_ANNOUNCED, _CORRECTED, _LAST) for m in p.finditer(plain)
    ]
    if late:
        _, word_said, negated = max(late, key=lambda found: found[0])
        return _said(_OPPOSITE[word_said] if word_said and negated else word_said)
    lines = [line for line in re.split(r"\n+|(?<=[.!?。])\s+", plain) if line.strip()]
    first = _leading_yes_or_no(plain) or _leading_yes_or_no(re.split(r"(?:^|[;.,\n])\s*(?:so|thus|hence|therefore),? ", plain)[-1])
    last = polarity(lines[-1]) if len(lines) > 1 else None
    if last is not None:
        return last
    if first is not None:
        return first
    words = {_OF[w] for w in re.findall(rf"(?<![\w'’-]){_PLAIN}{_EDGE}", _IDIOMS.sub(" ", plain))}
    if len(words) != 1:
        return None
    word_said = words.pop()
    negated = re.search(
        rf"\b(?:no reason|hard|difficult|impossible|unable|not|cannot|never|\w+n't)\b(?:\W+\w+){{0,4}}?\W+{_PLAIN}{_EDGE}", plain
    )
    return None if negated else _said(word_said)


def restated(question: str, text: str) -> YesNo:
    """Return "yes" or "no" if a reply affirms or denies a question in its words; else None.

    The first sentence has to hold every word of the question, in its order, and no condition, doubt or contrast.

    >>> restated("Is there a dog?", "There is no dog here."), restated("Is the man wearing a hat?", "The man is wearing a hat.")
    ('no', 'yes')
    >>> restated("Is Ann taller than Bob?", "Bob is taller than Ann."), restated("Is it raining?", "It might be raining.")
    (None, None)
    >>> restated("Is it raining?", "Is it raining?") is None
    True
    """
    parsed = read_question(question)
    if not (parsed.is_yes_or_no and parsed.is_english) or re.search(r"\b(?:or|no|not)\b|n't", parsed.text):
        return None
    first, end, _ = re.split(r"([.!?;\n]|$)", _plain(text), maxsplit=1)
    if end == "?" or first.split()[:2] == parsed.text.split()[:2]:  # the question itself
        return None
    plain = re.sub(r"\b(?:in|on) (?:the|this|that) (?:image|picture|photo\w*|scene)\b", "", parsed.text)
    words = [stem(word) for word in re.findall(r"[\w-]+", plain) if word not in _FRAME]
    word_said = [stem(word) for word in re.findall(r"[\w-]+", re.sub(r"n't\b", " not", first))]
    remaining = iter(word_said)
    if not words or not all(word in remaining for word in words) or _UNCERTAIN.search(first):
        return None
    if " there " in parsed.text and not _EXISTS.search(first):
        return None
    negations = [word for word in word_said if word in ("not", "no", "never", "cannot")]
    return None if len(negations) > 1 else "no" if negations else "yes"


def _leading_yes_or_no(plain: str) -> YesNo:
    """Return "yes" or "no" if a reply opens with it or its like, after fillers; else None."""
    start = re.sub(
        r"^(?:[^\w]|\b(?:well|hmm+|um+|uh|oh|ah|so|ok|okay|(?:i think|i believe|i(?: woul|')d say|i guess)(?! so| not\W*$)|probably|maybe|"
        r"based on [^,.]{0,60},|in (?:this|the) (?:image|picture|photo),?)\b(?= ?[^\s.]))+",
        "",
        plain,
    )
    if _NEGATED_START.match(start):
        return "no"
    if _AFFIRMED_START.match(start):
        return "yes"
    if _IDIOMS.match(start):
        return None
    found = re.match(rf"({_WORD})(?:{_EDGE}|(?<=[\u3040-\u9fff\uac00-\ud7af])(?=[^\w]|[图这那画照な]))", start)
    if found is None:
        return None
    word_said, behind = found[1], start[found.end() :]
    if word_said in _ANYWHERE["yes"].split() or word_said in _ANYWHERE["no"].split():
        return _said(_OF[word_said])
    return _said(_OF[word_said]) if re.match(r"\s*(?:$|[.,;:!\n—–。，、！-])", behind) else None


def _said(word: str | None) -> YesNo:
    return "yes" if word == "yes" else "no" if word == "no" else None


def _plain(text: str) -> str:
    plain = unicodedata.normalize(
        "NFKC", clean_reply(re.sub(r"\\(?:boxed|fbox)\s*\{(?:\\text\s*\{)?([^{}]*)\}+", r"\nfinal answer: \1\n", text[-MAX_CHARACTERS:]))
    )
    return re.sub(r"[*_`#\"“”]+", " ", plain.casefold().replace("’", "'")).strip()


def rate_yes_no(read: Callable[[str], YesNo], questions: list[str], references: list[list[str]], predictions: list[str]) -> list[Judgement]:
    """Return a Judgement per reply: 1 if `read` finds the reference, yes or no, else 0.

    A reply that is neither is wrong.

    A question whose references are not just one of yes and no is unscored; one without references is right where it is declined.
    """
    return [_judge(read, *row) for row in zip(questions, references, predictions, strict=True)]


def _judge(read: Callable[[str], YesNo], question: str, references: list[str], prediction: str) -> Judgement:
    declines = is_refusal(prediction, question)
    if not references:
        return Judgement(rating=float(declines), pred_is_idk=declines)
    truths = {normalise(r) for r in references} & {"yes", "no"}
    if len(truths) != 1:
        return Judgement(rating=None, pred_is_idk=declines, parse_ok=False)
    verdict, truth = read(prediction), truths.pop()
    return Judgement(float(verdict == truth), declines, marks={"said": MARKS[verdict], "truth": MARKS[truth]})
