"""Kind of answer that a question asks for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from qualm.runners.scoring.answer_text import word_set

_STOP = word_set(
    "a an the this that these those is are was were be been being am do does did can could will would shall should may might must has have "
    "had what which who whom whose where when why how many much of in on at to for from with by and or not no it its he she his her him "
    "they them their there here you your i me my we our as than into about if does any some one image picture photo photograph scene shown "
    "show shows visible see seen tell please given following first second third left right side what's who's where's how's that's it's "
    "there's doesn't don't didn't isn't aren't wasn't weren't"
)
_IRREGULAR = {"people": "person", "men": "man", "women": "woman", "children": "child", "feet": "foot", "teeth": "tooth", "mice": "mouse"}
_AUXILIARY = r"(?:is|are|was|were|do|does|did|can|could|has|have|had|will|would|should|am|may|might|must|isn't|aren't|doesn't|don't)"
_YES_OR_NO = re.compile(rf"^{_AUXILIARY}\b(?!.*\bor\b)")
_ENGLISH = re.compile(
    r"\b(?:the|is|are|what|what's|who's|where's|of|it|there|i|a|an|this|that|which|how|who|does|do|not|were|can|to|why|where"
    r"|name|describe|find|when|on|in|any|select|translate|has|have|had|did|with|from|by|and|his|her|their|whose|will|would)\b"
)
_FOREIGN = re.compile(
    r"\b(?:el|la|le|les|los|las|der|die|das|den|dem|ein|eine|il|lo|un|una|une|de|du|des|en|est|es|y|o|os|do|da|em|no|na|het|een"
    r"|jest|w|ist|hat|que|qui|qual|che|di|del|della|al|kein|keine|nicht|ne|pas|non|ha|van|bir|cái|itu|apa|ini|araba)\b"
)
_WORD_QUESTION = re.compile(
    r"何|誰|どこ|どの|どんな|どれ|どう|いくつ|いつ|なぜ|무엇|뭐|무슨|누구|누가|어디|몇|어느|어떤|왜|언제|얼마|什么|怎么|谁|哪"
    r"|几|多少|为什么|何时|多大|多高|ماذا|أين|كم|لماذا|متى|كيف"
    r"|(?<!\w)(?:ما|من|أي)(?!\w)|कौन|कहाँ|कहां|कितन|क्यों|कब|कैस|किस|क्या (?:है|हैं|लिखा|कर|पहन|पकड़|खा)"
    r"|(?<!\w)(?:что|кто|где|как|как[оа]\w*|каки\w*|сколько|почему|зачем|когда|чей|чья|чем|кого|кому|чего|куда|откуда)(?!\w)"
    r"|\b(?:wie|wer|wen|wem|wo|wohin|woher|was|warum|wann|welche[rsnm]?|woraus|worauf|quell?e?s?|combien|qui|où|pourquoi|quand|comment|"
    r"que|quoi|qu'\w+|qué|cuál(?:es)?|cuánt\w+|quién(?:es)?|dónde|cuándo|cómo|qual|quais|quant[oaie]s?|quem|onde|quando|como|chi|che|cosa|"
    r"dove|perché|come|quale|quali|welke|hoeveel|waar|waarom|wanneer|hoe|wat|co|kto|gdzie|ile|jaki\w*|dlaczego|kiedy|jak|ne|kim|nerede|"
    r"kaç|hangi|neden|nasıl|gì|ai|đâu|nào|bao nhiêu|tại sao|mấy|apa|siapa|mana|berapa|mengapa|kapan)\b"
)
_EXISTENCE = re.compile(
    rf"^(?:{_AUXILIARY} there\b|{_AUXILIARY} (?:\w+ ){{1,5}}?(?:have|contain|include|show|depict|feature|see|visible|present"
    rf"|in|on|any)\b)|\b(?:see|seen|visible|readable|legible|clear|hidden|known|possible)\b"
    r"|有|いますか|ありますか|있습니까|있나요|있어요|\b(?:gibt es|y a-t-il|hay|há|existe|c'è|ci sono|er zijn|is er|zijn er|var mı|có|"
    r"ada)\b|есть|هل (?:يوجد|توجد|هناك)|कोई"
)
_EXISTS = re.compile(
    rf"^{_AUXILIARY} there (?:(?:any|an?|some|the|one|more|other|only|at least|\d+|two|three) )*((?:(?!(?:in|on|at|of|behind|under"
    rf"|near|next|beside|between|with|to|above|around|inside|outside|visible|from)\b)[\w'-]+ ?){{1,4}})"
)
_ASKS_WHETHER_SEEN = re.compile(r"\b(?:see|seen|visible|readable|legible|shown|clear|hidden|known|possible|tell|blurry|covered|obscured)\b")
_HOW_MANY = re.compile(
    r"\b(?:how many|what number of|number of|count the|count of)\b|几[个人只张条辆位]|多少|いくつ|何(?:人|個|匹|台|本|枚|つ"
    r"|頭)|몇|\b(?:wie ?viele|combien|cuánt[oa]s|quant(?:[oa]s|[ie])|hoeveel|ile|kaç|bao nhiêu|berapa)\b|сколько|كم|कितने|कितनी"
)
_NUMBER = re.compile(
    r"\bhow (?:much|old|tall|long|far|fast|big|heavy|high|deep|wide|large|hot|cold)\b|\bwhat (?:time|year|age|price|date"
    r"|percentage|percent|score|temperature|day|page)\b|\bwhen\b|\bwhat(?:'s| is| was) (?:the )?(?:[\w'-]+ ){0,4}"
    r"(?:number|value|total|amount|price|cost|year|age|time|temperature|speed|score|height|weight|length|distance|date"
    r"|percentage|population|sum|area|perimeter|difference|ratio|size|limit|average|mean|median|capacity|rate|volume"
    r"|probability|width|depth|angle|result|measure)\b|\b(?:calculate|compute|estimate|find|solve)\b|\bvalue of\b"
)
_COLOR = re.compile(r"\bcolou?rs?\b")
_COLOR_AS_MARK = re.compile(
    r"\b(?:same|similar|matching|red|blue|green|yellow|black|white|brown|gr[ae]y|orange|pink|purple) colou?rs?\b"
    r"|\bcolou?r (?:photo|picture|image|film)"
)
_WHERE = re.compile(
    r"^(?:\w+ )?where\b|\bwhat (?:city|country|place|location|room|street)\b|\bwhich (?:city|country|place|location|room|street"
    r"|side)\b|\blocation\b|哪里|どこ|어디|\b(?:wo|où|dónde|onde|dove|waar|gdzie|nerede)\b|где"
)
_WHY = re.compile(r"\bwhy\b|\breason\b|\bwhat (?:caused|makes|made)\b")
_TEXT = re.compile(
    r"\b(?:say|says|said|written|write|writing|reads?|title|word|words|text|message|caption|inscription|label|sticker|slogan|language)\b"
)
_WHAT_IS_WRONG = re.compile(
    r"^(?:why|(?:which|what|who)\b.*\b(?:no|without|cannot)\b|what(?:'s| is) (?:wrong|missing|different|special|unusual|strange|odd|"
    r"absent|lacking|funny|weird|unique|peculiar|not)|what (?:can|could|does|do|did|is|are)(?: \w+){1,4} not)\b|n't\b|\b(?:not|unable|"
    r"missing|problem|unusual|wrong|lacks?|lacking|forbid|prohibit\w*|different|difference|special)\b"
)
_UNKNOWN = re.compile(r"\b(?:no|not|cannot|unable|unknown|unclear|impossible|without|lacks?|lacking)\b|n't\b")
_ABILITY = re.compile(r"^(?:can|could) (?!you\b)|^is (?:it|this|that) (?:even )?(?:possible|feasible)\b|\benough\b")
_DOING = re.compile(
    r"\bwhat (?:is|are|was|were) (?:\w+ ){1,6}doing\b|\bwhat (?:\w+ ){1,5}(?:do|doing|happening|going on)\b|\baction\b|\bactivity\b"
)
_FEELING = re.compile(r"\b(?:mood|expression|feel|feels|feeling|look|looks|emotions?|emotional|attitude|sentiment|tone)\b")
_DESCRIBE = re.compile(
    r"^(?:please )?(?:describe|explain|summari[sz]e|write|list|tell me about)\b"
    r"|^what (?:can|do) you see|^how would you describe\b|^(?:what|who)(?:'s| is| are) (?:in|on|shown|depicted|there|"
    r"visible) ?(?:in )?(?:the |this )?(?:image|picture|photo|photograph)?\W*$"
)
_CAN_YOU = re.compile(
    r"^(?:can|could|would|will) you (?:please )?(?:tell|say|identify|describe|explain|name|give|read|help|list|count|find"
    r"|determine|guess)\b|^do you know\b"
)
_LISTS_OPTIONS = re.compile(r"^\s*\(?[a-h][.):]", re.MULTILINE)
_OPTION = re.compile(r"\bwhich (?:option|choice|answer|statement)|选项|choose|select (?:the|one)")
_COUNTED = re.compile(
    r"\bhow many (?:(?:more|other|different|total|of the|of these) )*((?:(?!(?:are|is|were|was|do|does|did|can|could|have|has|will"
    r"|would|in|on|at|than|live|there)\b)[\w-]+ ?){1,4})"
)
_KIND = re.compile(rf"^(?:\w+ )?(?:what|which|whose)((?: \w+){{1,3}}?) {_AUXILIARY}\b")
_SUBJECT = re.compile(
    rf"^(?:{_AUXILIARY}|wh\w+'s|what(?:'s| \w+)*? (?:is|are|was|were|does|do|did)|how (?:\w+ )?(?:is|are|was|were|does|do)"
    rf"|wh\w+ (?:\w+ )?(?:is|are|was|were|does|do|did)) (?:the|this|that|these|those|his|her|its|their|both|two|a"
    rf"|an) ((?:(?!\w+ing\b|an?\b|the\b|in\b|on\b|at\b|of\b|with\b|from\b|to\b"
    rf"|(?:show|have|contain|depict|include|look|seem|appear)\b)[\w-]+ ?){{1,3}})"
)

# The lookbehind keeps the search linear: a match can only begin where a word does.
_ALTERNATIVES = re.compile(r"(?<![\w-])([\w-]+),? or (?:is it |is he |is she |an? |the )?([\w-]+)\W*$")


def is_english(text: str) -> bool:
    """Return true if a lower-case text is English, by its letters and function words."""
    return text.isascii() and len(_ENGLISH.findall(text)) > len(_FOREIGN.findall(text))


def is_foreign(text: str) -> bool:
    """Return true if a lower-case text has >= 2 foreign function words and fewer English ones."""
    foreign = len(_FOREIGN.findall(text))
    return foreign > 1 and foreign > len(_ENGLISH.findall(text))


def stem(word: str) -> str:
    """Return an English word without plural and verb endings, possessive "'s" and final "e".

    Irregular plurals become singular. Words of up to three letters lose only a possessive.

    >>> [stem(word) for word in ("holding", "cats", "wears", "glasses", "hold", "movies", "movie", "pies")]
    ['hold', 'cat', 'wear', 'glass', 'hold', 'movy', 'movy', 'pie']
    """
    word = _IRREGULAR.get(word, word.removesuffix("'s"))
    if len(word) > 4 and word.endswith(("ies", "ie")):
        return word.removesuffix("s").removesuffix("ie") + "y"
    if len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        word = word.removesuffix("s")
    for ending in ("ing", "ed"):
        if len(word) - len(ending) >= 3 and word.endswith(ending) and not word.endswith("eed"):
            word = word.removesuffix(ending)
            return word[:-1] if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz" else word.removesuffix("e")
    return word.removesuffix("e") if len(word) > 3 else word


_HUES = frozenset(map(stem, ("color", "colour", "shade", "hue", "tone", "type", "kind")))
"""Kinds of answers, as stems, that a question for a color names."""


def content(text: str) -> frozenset[str]:
    """Return the stems of a text's words that are not function words."""
    return frozenset(stem(word) for word in re.findall(r"[^\W\d_]+(?:'[^\W\d_]+)?", text) if word not in _STOP)


@dataclass(frozen=True)
class Asked:
    """A question as refusal rules see it: its words, and the kind of answer it asks for."""

    text: str
    """In lower case, without spaces at either end."""
    has_options: bool

    @cached_property
    def words(self) -> frozenset[str]:
        """Return the stems of the words that the question mentions."""
        return content(self.text)

    @cached_property
    def is_yes_or_no(self) -> bool:
        """Return true if the question asks for yes or no."""
        if not self.is_english:
            return bool(self.text) and not _WORD_QUESTION.search(self.text)
        return _YES_OR_NO.search(self.text) is not None and not _CAN_YOU.search(self.text)

    @cached_property
    def is_english(self) -> bool:
        """Return true if the question is in English or empty."""
        return not self.text or is_english(self.text)

    @cached_property
    def is_existence(self) -> bool:
        """Return true if the question asks whether something is there or can be seen."""
        return self.is_yes_or_no and _EXISTENCE.search(self.text) is not None

    @cached_property
    def existing(self) -> frozenset[str]:
        """Return the stems of the thing after "is there ..."; empty for other questions."""
        match = _EXISTS.match(self.text)
        return content(match[1]) if match else frozenset()

    @cached_property
    def is_visibility(self) -> bool:
        """Return true if the question asks whether something can be seen or read."""
        return self.is_yes_or_no and _ASKS_WHETHER_SEEN.search(self.text) is not None

    @cached_property
    def is_how_many(self) -> bool:
        """Return true if the question asks for a count."""
        return _HOW_MANY.search(self.text) is not None

    @cached_property
    def is_number(self) -> bool:
        """Return true if a number answers the question."""
        return self.is_how_many or _NUMBER.search(self.text) is not None

    @cached_property
    def is_color(self) -> bool:
        """Return true if a color answers the question, unlike that of "how many colors"."""
        asks_for_other = self.is_how_many or (self.kind and not self.kind & _HUES)
        return not asks_for_other and _COLOR.search(_COLOR_AS_MARK.sub("", self.text)) is not None

    @cached_property
    def is_where(self) -> bool:
        """Return true if a place answers the question."""
        return _WHERE.search(self.text) is not None

    @cached_property
    def is_why(self) -> bool:
        """Return true if a reason answers the question."""
        return _WHY.search(self.text) is not None

    @cached_property
    def is_text(self) -> bool:
        """Return true if written words answer the question."""
        return _TEXT.search(self.text) is not None

    @cached_property
    def asks_for_action(self) -> bool:
        """Return true if an action answers the question."""
        return _DOING.search(self.text) is not None

    @cached_property
    def is_feeling(self) -> bool:
        """Return true if a mood answers the question."""
        return _FEELING.search(self.text) is not None

    @cached_property
    def is_description(self) -> bool:
        """Return true if any statement about the image answers the question."""
        return _DESCRIBE.search(self.text) is not None

    @cached_property
    def is_what_is_wrong(self) -> bool:
        """Return true if something missing, hidden or untrue may be the answer."""
        return _WHAT_IS_WRONG.search(self.text) is not None

    @cached_property
    def asks_for_unknown(self) -> bool:
        """Return true if a yes/no question is on ability, or another has "not", "unknown" etc."""
        return (_ABILITY if self.is_yes_or_no else _UNKNOWN).search(self.text) is not None

    @cached_property
    def lacking(self) -> frozenset[str]:
        """Return the stems of words after no, not, without: the corners of "has no corners?"."""
        return content(" ".join(re.findall(r"(?:\bno|\bnot|n't|\bwithout) (?:an? |the )?(\w+)", self.text)))

    @cached_property
    def counted(self) -> frozenset[str]:
        """Return the stems of what a "how many" question counts; empty for other questions."""
        match = _COUNTED.search(self.text)
        return content(match[1]) if match else frozenset()

    @cached_property
    def alternatives(self) -> tuple[frozenset[str], ...]:
        """Return two alternatives' stems ("full or empty?"); () if none, or if options are listed."""
        found = None if self.has_options else _ALTERNATIVES.search(self.text)
        pair = tuple(content(word) for word in found.groups()) if found else ()
        return pair if all(pair) else ()

    @cached_property
    def topic(self) -> frozenset[str]:
        """Return the stems of the question's topic, without the source ("in the chart")."""
        return content(re.sub(r"\b(?:in|from|by|using|to|of) (?:the|this|that) \w+", "", self.text))

    @cached_property
    def kind(self) -> frozenset[str]:
        """Return the stems of the requested kind: shape of "what shape is it?"; else empty."""
        match = _KIND.match(self.text)
        return content(match[1]) if match else frozenset()

    @cached_property
    def subject(self) -> frozenset[str]:
        """Return the stems of what the question presupposes first ("the red car"), else empty."""
        match = _SUBJECT.match(self.text)
        return content(match[1]) if match else frozenset()

    @cached_property
    def verbs(self) -> frozenset[str]:
        """Return the stems of the question's words in -ing, and of its last word after "does".

        One to three words lie between, as in "what does the man hold?"; "do" and "did" count too. Some nouns in -ing are left out.
        """
        found = re.findall(r"\b(\w{2,}ing)\b", self.text) + re.findall(r"\b(?:does|do|did) (?:\w+ ){1,3}?(\w+)\W*$", self.text)
        return frozenset(
            stem(verb)
            for verb in found
            if verb not in ("building", "ceiling", "clothing", "string", "doing", "during", "painting", "thing", "king", "ring")
        )


@lru_cache(maxsize=4096)
def read_question(question: str, choices: Sequence[str] = ()) -> Asked:
    """Return a question as Asked; of `choices` only their presence counts."""
    plain = " ".join(question.split(" ")).strip().casefold().replace("’", "'")
    return Asked(plain, bool(choices) or bool(_LISTS_OPTIONS.search(plain)) or _OPTION.search(plain) is not None)
