r"""Read which option a reply in words names, for every judge that receives options.

The kinds of evidence are tried in this order; the first that is there decides:

1. The reply is an option: its letter, its text, or both.
2. A statement: `Answer: B`, "the answer is (B)", `\boxed{B}`, "I choose B", "B is correct", "is it B? Yes", a last line that is an
   option. Of several the last counts, so that "wait, I mean C" corrects what stands before it.
3. A percentage for each option, or a ranking.
4. The beginning: "B. a dog, because ...", unless the reply goes through the options.
5. A conclusion: "therefore ... B", "B is the most similar"; a verdict on each option.
6. The only option that is mentioned: by letter, else by text.

Mentions that are denied ("not B", "B does not fit", "rather than B"), supposed ("if B were...") or asked do not count. Where a kind of
evidence names several options the reply cannot be read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from qualm.registry import LETTERS, option_label
from qualm.runners.contracts.judges import Judgement
from qualm.runners.plugins.judges._option_mentions import MENTION, Marked, Options, clean, first_turn, mark
from qualm.runners.plugins.judges._quantities import equal, read_quantity
from qualm.runners.plugins.judges._refusals import is_refusal
from qualm.runners.plugins.judges._yes_no import polarity, restated, yes_or_no
from qualm.runners.scoring.answer_text import word_set, words_of

SEVERAL = -1
"""In the place of an option: several are named in one breath."""

MAX_MENTIONS = 400
"""Mentions of options that are read, from the end of a reply."""
CONTEXT = 240
"""Characters before and behind a mention that say what is said of it."""
MAX_ABBREVIATED = 8
"""Words of a reply that may be an option in other, fewer words."""
_LITTLE_WORDS = word_set("is are was were it he she they his her its their there this that in on of and to i think answer")
OUTSIDE = -2
"""In the place of an option: a letter beyond those of the options."""


@dataclass(frozen=True, slots=True)
class OptionReading:
    """Reading of a reply to a multiple-choice question: an option's index, or an abstention.

    Neither if the reply cannot be read.
    """

    place: int | None = None
    declines: bool = False


_X = MENTION
_NOT_X = r"[^\ue000-\uf8ff.!?;\n]"

# --- what is said of an option in its clause ---
_CLAUSE = re.compile(
    r"[,;:()—–]| - |\b(?:(?<!anything )(?<!everything )(?<!nothing )(?<!all )but|while|whereas|because|since|so(?! that)|however|"
    r"although|though|therefore|thus|hence|as it|as they|whilst)\b"
)
_DENIED_BEFORE = re.compile(
    r"(?:\b(?:not(?! (?:only|just|sure|certain|\w+ sure)\b)|never|neither|nor|cannot|\w+n't|without|unlike|except|excluding|excludes?|"
    r"excluded|eliminat\w+|rul(?:e|es|ed|ing) out|reject\w*|discard\w*|dismiss\w*|rather than|instead of|other than|than|opposed to|"
    r"away from|anything but|incorrect|wrong(?:ly)?|contrary to|against|ignore|over|no|différent de|nicht|kein\w*|ne|"
    rf"pas)\b(?:\W+\w+){{0,6}}?\W*|(?:不是|不选|不可能是|并非|排除|而非|而不是){_NOT_X}{{0,4}})$"
)
_DOUBTLESS = re.compile(
    r"\b(?:no,? (?:wait|sorry|actually|i mean)|(?:wait|oh|actually),? no|no doubt|no question|without (?:a |any )?doubt|not only"
    r"|not just|none other than|nothing but|no other than|more than likely)\b"
)
_BAD = (
    r"(?:wrong|incorrect\w*|false|invalid|impossible|unlikely|eliminat\w+|excluded|rul\w+ out|rejected|out|irrelevant|inaccurate|mistaken|"
    r"less|least|too|neither|implausible|untenable|dismissed|discarded|discounted|disregarded|inconsistent|unrelated|dissimilar"
    r"|mismatched|further|farther|different|worse|a (?:common |plausible |tempting )?(?:distractor|trap|mistake)|"
    r"the (?:common )?distractor)"
)
_DENIED_BEHIND = re.compile(
    rf"{_NOT_X}{{0,70}}?\b(?:(?:is|are|was|were|does|do|did|can|could|would|should|has|have|had|may|might|must|"
    rf"will)(?: \w+)? (?:not(?! only)|never|neither)\b|\w+n't\b|cannot\b|(?:is|are|was|were|seems?|looks?|appears?|be|as|being|"
    rf"to be)(?: \w+){{0,2}}? {_BAD}\b|fails\b|lacks\b|contradicts\b)"
    rf"|[\s\"')]*(?:[-–—:=?|(]+\s*(?:no\b(?! doubt)|too\b|nope\b|wrong\b|incorrect\b|false\b|not\b(?! only)(?!\W*(?:\w+\W+){{0,2}}{_X})|"
    rf"inconsistent\b|implausible\b|impossible\b|unlikely\b|rejected\b|excluded\b|eliminated\b|ruled out\b|invalid\b)|not\b(?! only)|"
    r"[✗✘❌❎×]|不对|错误|不正确|不符|是错)"
)
_UNLESS_FORCED = r"(?! (?:i|we|you|one)(?: had to| have to|'d| must| were| was| am| are forced)| forced| pressed| anything)"
_WHICH_IS_NOT = re.compile(rf"{_NOT_X}{{0,80}}?, which (?:is|does|do|are|was|has|can) not\b")
_CONTRASTED_BEFORE = re.compile(r"\b(?:whereas|while|whilst|compared (?:to|with)|in contrast to)\b\W*(?:\w+\W+){0,2}$")
_CONTRASTED_BEHIND = re.compile(r"\W*(?:on the other hand|in contrast|by contrast|conversely|meanwhile)\b")
_SUPPOSED = re.compile(
    rf"\b(?:if{_UNLESS_FORCED}|suppos\w+|assum\w+|whether|unless|"
    r"tempt\w*|alternative\w*|otherwise|second(?:ary|[- ]best| choice)|runner-up|would have been|would be if"
    r"|similarly to|just like|example|e\.g|such as|which of|(?:determine|decide|tell|identify|know|judge|say) (?:\w+ )?(?:which|what)|"
    r"at first|initial(?:ly)?|originally|first (?:thought|believed|guess\w*|impression|glance|assumed|instinct)|possible answers?|"
    r"options? (?:are|include)|choose between|choosing between|choice between|decide between|select (?:either|one)|choices are)\b"
)

_AT_FIRST = re.compile(rf"{_NOT_X}{{0,20}}?\b(?:at first|initially)\b")
_CONCEDED = re.compile(r"^\W*(?:although|though|even though|while|despite)\b[^,]*$")
_IN_ANOTHER_CASE = re.compile(rf"\bif{_UNLESS_FORCED}\b[^,]*,[^,]*(?:\bwould|'d) (?:then |instead )?be\b")

# --- statements ---
_FILLER = (
    r"(?:[\s\"'“(*:,\-]|\b(?:is|be|are|was|would|will|must|should|the|a|an|that|this|to|it|it's|on|with|for|in|of|most|likely|probably|"
    r"definitely|clearly|therefore|thus|option|choice|letter|correct|right|best|final|answer|indeed|actually|simply|either|clearly|"
    r"certainly|surely|towards?|as follows|following|image|picture|point|box|figure|statement|first|second|third|fourth|fifth|last|latter|"
    r"former|one|labeled|labelled|number|my|i|say|said|think|believe|as|given|by|i'd|point|marked|circle|being|still|now|again|here|have|"
    r"has|go|going|option's)\b)*"
)
_ANNOUNCED = re.compile(
    r"(?:\b(?:answer|answers|ans|solution|verdict|conclusion|prediction|guess|response|final|correct (?:one|option|choice|letter|match|"
    r"image|picture|statement|point|figure)|(?:right|remaining) (?:one|option|choice|letter|answer)|best (?:one|option|choice|match|fit|"
    r"guess|answer)|my (?:choice|pick|selection|option)|(?:chosen|selected|final|predicted) (?:option|choice|letter)|(?:option|choice|"
    rf"letter|selection|decision|label)(?=\W*[:：=]|\W+is\b))\b(?:{_NOT_X}{{0,120}}?(?:\b(?:is|be|are|was)\b|'s\b)|"
    rf"{_NOT_X}{{0,25}}?(?:[:：=→]|->|=>)|){_FILLER}"
    r"|\b(?:choose|chose|choosing|chosen|select|selected|selecting|pick|picked|picking|opt|opted|opting|vote|voting|go|going|settle|lean|"
    r"leaning|say|guess|conclude|answer|answering|preference|favou?r|mean|meant|identify|determined?|recommend|prefer|suggest|leaves?|"
    rf"leaving|left with|make (?:it|that)|(?:change|revise|correct|update) (?:my|the|that|it|this)(?: \w+)?(?: to)?)\b{_FILLER}"
    rf"|(?:答案|正确选项|正确的是|选择|应选|应该选|故选|所以选|选|答え|正解|答|정답|답)[^\ue000-\uf8ff。\n]{{0,14}}"
    r"|\b(?:respuesta|réponse|antwort|resposta|risposta|ответ|cevap|jawaban|odpowiedź|antwoord|svar|đáp án|उत्तर|الإجابة|الجواب|opción|"
    rf"opção|option correcte)\b[^\ue000-\uf8ff.!?\n]{{0,30}})$"
)
_CORRECTED = re.compile(
    r"(?:\b(?:wait|actually|no|sorry|rather|correction|oops|hmm|scratch that|second thought|i mean|instead|hold on|"
    r"mistake)\b[\s,.:;!—–\-…]*(?:(?:it's|it is|it must be|it should be|that's|that is|this is|i mean|i meant|make (?:it|that)|"
    r"the answer is|so|sorry|no|it has to be|option|choice|the|an?)\b[\s,:]*){0,4})$"
)
_CALLED_RIGHT = re.compile(
    rf"(?:[\s\"')]*(?:[,(]{_NOT_X}{{0,60}}?[,)]\s*)?(?:(?:which|that) )?(?:\w+ ){{0,3}}?(?:(?:is|are|was|would be|must be|has to be|"
    r"should be|seems|looks|sounds|appears|be|remains)\b(?: to be)?(?: (?:indeed|clearly|therefore|thus|definitely|probably|likely|"
    rf"most likely|also|the|a|an|my|our|your|only|single|most|more|very|in fact|actually|likely)){{0,3}} (?:correct|right(?! (?:of|side|"
    r"next|above|below|at|in|on|behind|there|hand))|answer|true|best (?:answer|choice|option|match|fit|candidate|guess|one)|"
    r"one that (?:is|matches|fits)|appropriate (?:answer|choice|option)|likely (?:answer|choice|option)|accurate (?:answer|choice|option|"
    r"one)|suitable (?:answer|choice|option)|valid (?:answer|choice|option)|(?:only|final) (?:answer|choice|option|one left)|what i|"
    rf"(?:answer|choice|option|one)|correct(?:ly)?)\b|as (?:the|my|our) (?:\w+ ){{0,2}}(?:answer|choice|option)\b|it is\b|"
    r"(?:alone )?(?:remains|is left)\b(?=\W*$)|是正确|正确|是对的))"
    rf"|{_NOT_X}{{0,60}}?\b(?:so|hence|therefore),? yes\b|\W{{0,4}}(?:[✓✔✅☑]|(?:yes|correct|right|true)\b(?=\W*(?:$|[.,;!(\u2014-]|"
    rf"because|since)))"
)
_ALL_BUT = re.compile(
    r"\b(?:all|every\w*|each|none|no)\b[^.;:]{0,40}\b(?:except|but|other than|apart from|besides)\b(?: for)?\W*(?:the |option |choice )*$"
)
_HEADING = re.compile(r"[\s\-*•#\d.)(]*(?:(?:the )?(?:option|choice|point|image|picture|box|photo|figure)\s+)?")
_ONLY = re.compile(r"(?<!not )\b(?:only|solely)\W+(?:the |a |an )?(?:(?:option|choice|point|image|picture|box|answer|photo) )?\W*$")
_LESS_THAN = re.compile(r"\bless \w+(?: \w+){0,3} than\W*(?:\w+\W+){0,2}$")
_LAST_LINE = re.compile(
    rf"[\s\-*•>(]*(?:(?:so|thus|therefore|hence|final|then|ok|okay|finally|i'd say|it's|it is|option|choice|final answer|"
    rf"answer)\b[\s,:]*)*{_X}[\s.!)\"'*\]}}]*"
)
_CONCLUDES = re.compile(
    r"^\W*(?:so|therefore|thus|hence|consequently|accordingly|in conclusion|to conclude|conclusion|in summary|finally|as a result|"
    r"overall|based on (?:this|these|the above|my|the given|the analysis|that)"
    r"|considering (?:all|these|this)|given (?:this|these|that|all))\b|\b(?:therefore|thus|hence|so|which leaves|leaving)\b"
)
_SUPERLATIVE = re.compile(
    r"[^\ue000-\uf8ff.,!?;\n]{0,40}?(?:\b(?:is|are|was|seems?|appears?|looks?|would be|must be|being|"
    r"to be)\b(?: \w+){0,4}? (?:most(?! of)|best|better|closest|closer|nearest|more (?:\w+ly )?(?:similar|likely|alike|appropriate|"
    r"suitable|fitting|consistent|accurate|plausible|probable|realistic|real|natural|aligned|closely|visually|compatible|relevant|"
    r"comparable|authentic|reflective|distant|prominent))\b"
    r"|\b(?:has|have|with|is|are|seems?|appears?|looks?)(?: \w+){0,2} (?:dark|light|bright|larg|small|long|short|high|low|tall|clos|"
    r"strong|near)e(?:r|st)\b"
    r"|\b(?:most|best|better|more) (?:\w+ly|match\w*|fit\w*|suit\w*|correspond\w*|align\w*|represent\w*|describ\w*)\b"
    r"|\b(?:match|fit|suit|correspond|align)(?:s|es)?(?: \w+){0,4}? (?:best|better|most|more|exactly|perfectly|closest|closely)\b)"
)
_COMPLEMENT = re.compile(
    r"(?:\b(?:is|are|be|was|would be|corresponds? to|match(?:es)?|fits?|(?:consistent|in line) with|(?:indicative|diagnostic"
    r"|characteristic|typical) of|points? to|indicates?|closest to(?: that of)?|"
    r"suggests?|gets?|gives?(?: us)?|yields?|equals?|obtain|makes?|total of)\b|[:：])[\s\"'(*:]*(?:\b(?:the|a|an|point|option|image|picture"
    r"|box|figure|labeled|labelled|first|second|third|fourth|most likely|likely|probably)\b\W*)*(?:[a-z]\s*=\s*)?$"
)
_RESULT = re.compile(rf"\w\)?\s*=\s*({_X})[\s.!)]*\Z")
"""A calculation at the end of the reply."""
_ENDS = re.compile(r"[\s\"')*°%]*(?:$|[.,;!]|-\s|[–—]|\b(?:because|since|as|on|in|which|at|for)\b)")
_IN_ONE_BREATH = re.compile(r"(?! ?,)(?!.*\b(?:not?|but|wait|actually|rather|instead|sorry|then)\b)[^.;:\n]{0,60}\band\b[^.;:\n]{0,60}")
_OF_PERCENT = re.compile(rf"(\d+(?:\.\d+)?)\s*%\s*(?:\w+ ){{0,3}}({_X})")
_PERCENT = re.compile(rf"({_X})[^\ue000-\uf8ff%\n]{{0,30}}?(\d+(?:\.\d+)?)\s*%")
_PROBABILITY = re.compile(rf"({_X})[\"'\s)]*(?:[:=,|(]|->|→|—|–|-)[\"'\s]*((?:0?\.\d+)|1\.0+|[01])(?![\d.])")
_MEASURES = re.compile(r"\b(?:confiden|probab|likel|chance|certain|sure|score|belie|percent)")
_RANKS = re.compile(r"\b(?:rank\w*|in order|order of \w+|(?:most|best|least|worst)(?: \w+)? to (?:most|least|worst|best)(?: \w+)?)\b")
_BACKWARDS = re.compile(r"\b(?:least(?: \w+)? to most|worst(?: \w+)? to best|ascending|increasing)\b")
_ROW = re.compile(rf"(?:^|\s)\W*\d+(?:[.):]|st|nd|rd|th)\W*(?:(?:choice|place|option)\W+)?({_X})", re.MULTILINE)
_BEHIND_COLON = re.compile(rf":[ \t]*\n\s*\W{{0,3}}({_X})")
_SENTENCE = re.compile(r"(?<=[.!?。！？])(?<!\n\d\.)(?<!\n\d\d\.)[\"')*]*\s+|(?<=[。！？])|\n+")
_DOUBT = re.compile(
    r"\b(?:difficult|challenging|hard|tricky|impossible|not possible|cannot|can't|unable|not (?:entirely |completely |fully )?(?:sure|"
    r"certain|clear))\b[^.!?\n]{0,300}(?:[.!?]\s+|,\s*)(?:but|however|nevertheless|nonetheless|still|that said|"
    r"even so)\b(?!.*\b(?:difficult|challenging|impossible|cannot|unable)\b)",
    re.DOTALL,
)
_UNABLE = re.compile(
    r"\b(?:not possible|impossible|unable|cannot|can't|not able|insufficient)\b(?: \w+){0,4}? (?:determine|tell|say|identify|answer|"
    r"decide|choose|select|conclude)\b"
)
_NO_OPTION = re.compile(
    r"\W*(?:(?:the )?(?:final )?answer\W+(?:is\W+)?)?(?:none|neither|all|both|any|either)(?: of (?:the|these|them|those)(?: \w+)?)?\W*"
)


@dataclass(frozen=True)
class _Named:
    """A mention of one or several options in a sentence."""

    place: int
    """The option, or SEVERAL."""
    left: str
    """The sentence before it."""
    right: str
    """The sentence behind it."""
    is_marked: bool
    by_letter: bool
    is_list: bool
    """All options in a row: the reply says again what there is to choose from."""
    places: tuple[int, ...] = ()
    """The options, if several are named."""

    @cached_property
    def _near_left(self) -> str:
        label = re.search(rf"(?:^|[.;\n]|{_X})\W*((?:[\w-]+ ){{0,2}}[\w-]+): ?$", self.left[-60:])  # "Eliminated: A"
        return label[1] if label else _CLAUSE.split(self.left[-160:])[-1]

    @cached_property
    def _near_right(self) -> str:
        right = self.right[:160]
        opened = re.match(r"\s*[(,][^(),]{0,80}[),]", right)  # "B (the left one) is not", "B, on the other hand, is not"
        if opened:
            right = right[opened.end() :]
        return _CLAUSE.split(right.lstrip(" :-–—"))[0] if not right.startswith(",") else ""

    @cached_property
    def is_denied(self) -> bool:
        left = _DOUBTLESS.sub(" ", self._near_left)
        if _DENIED_BEFORE.search(left) and not _LESS_THAN.search(left):
            return True
        return (
            _DENIED_BEHIND.match(self._near_right) is not None
            or _WHICH_IS_NOT.match(self.right) is not None
            or _DENIED_BEHIND.match(self.right[:40]) is not None
        )

    @cached_property
    def is_supposed(self) -> bool:
        if _CONCEDED.search(self.left) or _IN_ANOTHER_CASE.search(self.left) or _AT_FIRST.match(self.right):
            return True
        near = re.split(r"[,;:]", self.left)
        return (
            _SUPPOSED.search(near[-1]) is not None
            or (len(near) > 1 and not near[-1].strip() and _SUPPOSED.search(near[-2]) is not None)
            or (re.search(r"\balternative|\botherwise|\bsecond[- ]best|\bdepend(?:s|ing)\b", self.left[-60:]) is not None)
        )

    @cached_property
    def is_contrasted(self) -> bool:
        return _CONTRASTED_BEFORE.search(self.left) is not None or _CONTRASTED_BEHIND.match(self.right) is not None

    @property
    def is_heading(self) -> bool:
        """Return true if the option is only described: "Image B: a bus"."""
        return _HEADING.fullmatch(self.left) is not None and self.right.lstrip(" )*").startswith(":") and len(self.right) > 8

    @property
    def counts(self) -> bool:
        return not self.is_denied and not self.is_supposed

    @cached_property
    def is_stated(self) -> bool:
        """Return true if the sentence says that this option is the answer."""
        if self.is_supposed:
            return False
        if _ALL_BUT.search(self.left[-80:]) and _DENIED_BEHIND.match(self._near_right):
            return True
        if _CALLED_RIGHT.match(self.right) and not _DENIED_BEFORE.search(_DOUBTLESS.sub(" ", self._near_left)):
            return True
        return not self.is_denied and bool(_ANNOUNCED.search(self.left[-200:]) or _CORRECTED.search(self.left[-120:]))

    @cached_property
    def weight(self) -> int:
        """Return how firmly the sentence concludes: 3 most, 2 "is B.", 1 "so B", 0 not at all."""
        if not self.counts:
            return 0
        if _SUPERLATIVE.match(self.right) or _LESS_THAN.search(self._near_left) or _ONLY.search(self.left[-30:]):
            return 3
        if _COMPLEMENT.search(self.left[-60:]) and _ENDS.match(self.right):
            return 2
        return int(_CONCLUDES.search(self.left) is not None)


class _Reply:
    """A reply cut into sentences, in which the mentions of options are marked."""

    def __init__(self, marked: Marked, choices: Sequence[str]) -> None:
        self.marked, self.n = marked, len(choices)
        self.empty = {place for place, choice in enumerate(choices) if not choice.strip()}
        text = marked.text.lower()
        mentions = [m.start() for m in re.finditer(_X, text)]
        self.text = text[mentions[-MAX_MENTIONS] :] if len(mentions) > MAX_MENTIONS else text
        self.sentences = [s for s in _SENTENCE.split("\n" + _BEHIND_COLON.sub(self._join, self.text)) if s.strip()]

    def _join(self, colon: re.Match[str]) -> str:
        """Return ": X" for a colon with option X on the next line; the match as it is for a list."""
        following = re.search(rf"\n\W{{0,4}}({_X})", self.text[colon.end() : colon.end() + 600])
        is_list = following is not None and self.place(following[1]) != self.place(colon[1])
        return colon[0] if is_list else f": {colon[1]}"

    def place(self, character: str) -> int:
        option = self.marked.option(character)
        return SEVERAL if option is None else OUTSIDE if option >= self.n else option

    @cached_property
    def mentions(self) -> list[list[_Named]]:
        """Return the option mentions of each sentence, in order; [] for one without."""
        rows = []
        for sentence in self.sentences:
            rows.append(
                [
                    _Named(
                        self.place(m[0]),
                        sentence[max(m.start() - CONTEXT, 0) : m.start()],
                        sentence[m.end() : m.end() + CONTEXT],
                        m[0] in self.marked.marked,
                        m[0] in self.marked.letters,
                        len(set(self.marked.options[m[0]])) == max(self.n, 3),
                        tuple(self.marked.options[m[0]]),
                    )
                    for m in re.finditer(_X, sentence)
                ]
            )
        return rows

    def is_option(self, k: int) -> bool:
        """Return true if sentence `k` is an option alone, or after words like "final answer"."""
        return (
            k >= 0
            and len(self.mentions[k]) == 1
            and self.mentions[k][0].place != SEVERAL
            and _LAST_LINE.fullmatch(self.sentences[k]) is not None
        )

    def is_question(self, k: int) -> bool:
        """Return true if sentence `k` is a question, and not a cautious last answer such as "B?"."""
        if k == len(self.sentences) - 1 and _LAST_LINE.fullmatch(re.sub("[?？]", "", self.sentences[k])):
            return False
        return self.sentences[k].rstrip(" \"')*").endswith(("?", "？"))

    def answer_to(self, k: int) -> str:
        """Return how the next sentence answers the question in sentence `k`: "yes", "no" or ""."""
        behind = self.sentences[k + 1] if k + 1 < len(self.sentences) else ""
        found = re.match(r"\W*(yes|correct|right|yep|indeed|that'?s it|that (?:is it|fits|matches|works)|no|nope|wrong|not)\b", behind)
        return "" if found is None else "no" if found[1] in ("no", "nope", "wrong", "not") else "yes"

    @cached_property
    def goes_through_options(self) -> bool:
        """Return true if sentences begin with at least two different options."""
        begun = {self.place(m[1]) for s in self.sentences if (m := re.match(rf"[\s\-*•|\d.)(]*(?:option |choice )?({_X})", s))}
        return len(begun - {SEVERAL}) > 1

    def flat(self) -> Iterator[_Named]:
        for k, row in enumerate(self.mentions):
            if not self.is_question(k):
                yield from row


def read(reply: str, choices: Sequence[str], question: str = "") -> OptionReading:
    """Return the OptionReading of a reply: the option it names, an abstention, or neither.

    >>> options = ["a red cube", "a blue ball", "two cats"]
    >>> [read(r, options).place for r in ("B", "(B) a red cube", "A cat? I think it is C", "It is a Blue ball.", "A or B", "2 cats")]
    [1, 1, 2, 1, None, 2]
    """
    options = Options(choices)
    text = clean(first_turn(reply, question))
    alone = text.strip().strip(".,:;!?()[]{}'\"*` \n")
    if len(alone) == 1 and alone.upper() in LETTERS[: options.n]:
        return OptionReading(LETTERS.index(alone.upper()))
    if (place := options.find_equal(text)) is not None:
        return OptionReading(place)
    polar = _yes_no_options(choices)
    by_letter_only = [place for place in polar.values() if choices[place].isascii()]
    analysis = _Reply(mark(text, options, by_letter_only), choices)
    declines = not _NO_OPTION.fullmatch(text.lower()) and is_refusal(text, question)
    for evidence in (_last_statement, _measured, _opening):
        if (place := evidence(analysis)) is not None:
            return OptionReading(place if place >= 0 else None)
    if polar and (not declines or not question) and (verdict := yes_or_no(text)) is not None:
        return OptionReading(polar[verdict])
    for evidence in (_concluded, _after_all, _judged_one_by_one):
        if (place := evidence(analysis)) is not None:
            return OptionReading(place if place >= 0 else None)
    place = _declining(analysis, choices) if declines else _mentioned(analysis)
    if place is None and polar and not declines and (verdict := restated(question, text)) is not None:
        place = polar[verdict]
    if place is None and not declines and not any(analysis.mentions):
        place = _abbreviated(text, choices)
    if place is None and not declines and alone in (numbers := [option_label(i) for i in range(len(LETTERS), options.n)]):
        place = len(LETTERS) + numbers.index(alone)
    return OptionReading(place, declines and place is None)


def _yes_no_options(choices: Sequence[str]) -> dict[str, int]:
    """Return {"yes": i, "no": j}; {} unless at most three options hold one yes and one no."""
    found = [polarity(choice) for choice in choices]
    return (
        {"yes": found.index("yes"), "no": found.index("no")} if len(choices) <= 3 and found.count("yes") == found.count("no") == 1 else {}
    )


def _last_statement(reply: _Reply) -> int | None:
    """Return the index of the option stated last; SEVERAL if more than one is, None if none."""
    last: int | None = None
    for k, row in enumerate(reply.mentions):
        if reply.is_question(k):
            affirmed = {n.place for n in row if n.counts}
            if reply.answer_to(k) == "yes" and len(affirmed) == 1:
                last = affirmed.pop()
            continue
        for i, n in enumerate(row):
            if n.is_stated:
                beside = [m.place for m in row[:i] if m.is_stated and _IN_ONE_BREATH.fullmatch(m.right[: len(m.right) - len(n.right) - 1])]
                last = SEVERAL if _offers_another(n, row[i + 1 :]) or set(beside) - {n.place} else n.place
        if reply.is_option(k) and not row[0].is_denied:
            said_before = any(n.place == row[0].place for earlier in reply.mentions[: max(k - 1, 0)] for n in earlier)
            begins = k == 0 and not reply.goes_through_options
            ends = k == len(reply.mentions) - 1 and (said_before or not reply.is_option(k - 1))
            last = row[0].place if begins or ends or len(reply.mentions) == 1 else last
    return last


def _offers_another(n: _Named, behind: Sequence[_Named]) -> bool:
    """Return true if "or C", of another option C, follows mention `n` in the same clause."""
    return (
        bool(behind)
        and behind[0].place != n.place
        and behind[0].counts
        and (re.fullmatch(r"[^,.;:]{0,60}?\b(?:or|and/or)\b[^,.;:]{0,30}", n.right[: len(n.right) - len(behind[0].right) - 1]) is not None)
    )


def _opening(reply: _Reply) -> int | None:
    """Return the index of the option that a reply opens with as its answer; None otherwise."""
    found = re.match(
        rf"[\s\"'*(]*(?:(?:option|choice|letter|a|an|the)\s+)?({_X})(\s*(?:[.,:;)\n—–]|-\s|because\b|since\b|as\b|$))?", reply.text
    )
    if found is None or reply.place(found[1]) == SEVERAL or found[1] not in reply.marked.marked or reply.goes_through_options:
        return None
    if found[2] is None and found[1] not in reply.marked.letters:
        return None
    if found[2] is None and _concluded(reply) not in (None, reply.place(found[1])):
        return None  # "B is a bus. ... Therefore C"
    first = next(iter(reply.mentions[0]), None) if reply.mentions else None
    return reply.place(found[1]) if first is not None and first.counts and not reply.is_question(0) else None


def _concluded(reply: _Reply) -> int | None:
    """Return the index of the option concluded last; SEVERAL if not one, None if none is."""
    if result := _RESULT.search(reply.text):
        return reply.place(result[1])
    for k in range(len(reply.mentions) - 1, -1, -1):
        weight = max((n.weight for n in reply.mentions[k] if n.place != OUTSIDE), default=0)
        if weight and not reply.is_question(k):
            return _only({n.place for n in reply.mentions[k] if n.weight == weight})
    return None


def _only(places: set[int]) -> int:
    return places.pop() if len(places) == 1 else SEVERAL


def _measured(reply: _Reply) -> int | None:
    """Return the index of the option rated or ranked best; SEVERAL if tied, None if unrated."""
    for pattern, total, option, number in ((_OF_PERCENT, 100.0, 2, 1), (_PERCENT, 100.0, 1, 2), (_PROBABILITY, 1.0, 1, 2)):
        shares = {reply.place(m[option]): float(m[number]) for m in pattern.finditer(reply.text)}
        shares = {place: share for place, share in shares.items() if place >= 0}
        if len(shares) > 1 and (abs(sum(shares.values()) / total - 1) < 0.03 or _MEASURES.search(reply.text)):
            best = [place for place, share in shares.items() if share == max(shares.values())]
            return best[0] if len(best) == 1 else SEVERAL
    if ranks := _RANKS.search(reply.text):
        rows = [reply.place(m[1]) for m in _ROW.finditer(reply.text, ranks.end())]
        if len(set(rows)) < 2 and (run := re.match(rf"[^:.\n]{{0,40}}:\s*({_X})", reply.text[ranks.end() :])):
            rows = list(reply.marked.options[run[1]])
        if len(set(rows)) > 1:
            rows = [place for place in rows if place >= 0] or [SEVERAL]
            return rows[-1] if _BACKWARDS.search(reply.text) else rows[0]
    if chain := re.search(rf"{_X}(?:\s*[>≻]+\s*{_X})+", reply.text):
        return reply.place(chain[0][0])
    return None


def _judged_one_by_one(reply: _Reply) -> int | None:
    """Return the index of the option remaining or alone affirmed, others denied; or None.

    An option that remains but is not affirmed counts from three options on.
    """
    denied = {place for n in reply.flat() if n.is_denied for place in n.places}
    affirmed = {n.place for n in reply.flat() if n.counts} - denied - {SEVERAL, OUTSIDE}
    remaining = set(range(reply.n)) - denied - reply.empty
    if reply.n > 2 and len(remaining) == 1 and affirmed <= remaining:
        return remaining.pop()
    return affirmed.pop() if denied and len(affirmed) == 1 else None


def _mentioned(reply: _Reply) -> int | None:
    """Return the index of the only option mentioned, by letter, else by text; None if not one."""
    everything = [n for n in reply.flat() if not n.is_list and not n.is_heading and n.place != OUTSIDE]
    denied = {n.place for n in everything if n.is_denied}
    if "on the one hand" not in reply.text:
        denied |= {n.place for n in everything if n.is_contrasted}
    counted = [n for n in everything if n.counts and n.place not in denied]
    letters, texts = {n.place for n in counted if n.by_letter}, {n.place for n in counted if not n.by_letter}
    if _UNABLE.search(reply.text):
        return None
    if reply.sentences and not reply.mentions[-1] and _CONCLUDES.search(reply.sentences[-1]) and re.search(r"\d", reply.sentences[-1]):
        return None  # it comes to a number that is no option
    places = letters or texts
    return places.pop() if len(places) == 1 and SEVERAL not in places else None


def _abbreviated(text: str, choices: Sequence[str]) -> int | None:
    """Return the index of the only option with all words of a short reply; None if not one.

    An option with the same value in another form counts too.

    >>> [_abbreviated(text, ["riding a bicycle", "walking a dog", "1/2"]) for text in ("He is walking his dog.", "a man", "0.5")]
    [1, None, 2]
    """
    said = read_quantity(text)
    equals = [
        k for k, choice in enumerate(choices) if said is not None and (of := read_quantity(choice)) is not None and equal(of, said, 0.0)
    ]
    words = set(words_of(text)) - _LITTLE_WORDS
    is_text = len(words) <= MAX_ABBREVIATED and any(word.isalpha() for word in words)
    holders = [k for k, choice in enumerate(choices) if words <= set(words_of(choice))] if is_text else []
    found = equals or holders
    return found[0] if len(found) == 1 else None


def _after_all(reply: _Reply) -> int | None:
    """Return the only option affirmed after "hard to tell, but", as an index; else None."""
    doubt = _DOUBT.search(reply.text)
    if doubt is None:
        return None
    behind = re.findall(_X, reply.text[doubt.end() :])
    counted = [n for n in reply.flat() if n.place != OUTSIDE][-len(behind) :] if behind else []
    places = {n.place for n in counted if n.counts}
    return places.pop() if len(places) == 1 and SEVERAL not in places else None


def _declining(reply: _Reply, choices: Sequence[str]) -> int | None:
    """Return the index of the abstention option a reply mentions; None if none or several."""
    places = {n.place for row in reply.mentions for n in row if n.place >= 0 and is_refusal(choices[n.place])}
    return places.pop() if len(places) == 1 else None


OnFailure = Literal["unscored", "wrong"]
Reader = Callable[[str, Sequence[str], str], OptionReading]
"""Answer, options and question -> what the answer says."""


def rate_option_reply(
    question: str, references: Sequence[str], prediction: str, choices: Sequence[str], read: Reader, on_failure: OnFailure = "unscored"
) -> Judgement:
    """Return the Judgement of a multiple-choice reply: 1 right, 0 wrong, None if unreadable.

    An answer that declines is wrong, and right where there are no references. `on_failure` says what an unreadable answer is.
    """
    reading = read(prediction, choices, question) if choices else OptionReading()
    if choices and not references:
        return Judgement(rating=float(reading.declines), pred_is_idk=reading.declines)
    if reading.place is not None:
        return Judgement(rating=float(option_label(reading.place) == references[1]), pred_is_idk=reading.declines)
    if reading.declines:
        return Judgement(rating=0.0, pred_is_idk=True)
    return Judgement(rating=0.0 if on_failure == "wrong" and choices else None, pred_is_idk=False if choices else None, parse_ok=False)
