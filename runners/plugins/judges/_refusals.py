"""Abstention of replies, by the answer that they commit to, not by single phrases.

A reply is split into clauses. A clause abstains (not known, cannot be told, not allowed, asks back), says that something is hidden or not
there, commits to an answer of the kind that the question asks for, or says nothing on the matter. A reply abstains where a clause abstains,
or denies what the question takes for granted, and no clause commits to an answer. A doubt beside an answer is a hedge.

This is the line that CertainlyUncertain draws (Khyathi Raghavi Chandu, Linjie Li et al., 2025): "nothing" abstains, "I am not sure, but I
think the answer is blue" does not.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from qualm.runners.plugins.judges import _refusal_phrases as phrases
from qualm.runners.plugins.judges._refusal_questions import Asked, content, is_english, is_foreign, read_question, stem
from qualm.runners.prompts.plain import strip_thoughts
from qualm.runners.scoring.answer_text import NUMBERS, word_set

MAX_CHARACTERS = 8000
"""Characters that are read of a reply: the first and the last half of so many."""
MAX_CLAUSES = 120
MANY_CLAUSES = 14
"""Clauses from which on a reply reasons at length: only what it says of the question at its beginning and its end counts."""

_MARKUP = re.compile(r"\*+|`+|(?<!\w)_+|_+(?!\w)|^#+\s*|</?s>|<\|\w+\|>", re.MULTILINE)
_BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{\s*(?:\\text\s*\{)?([^{}]*)\}+")
_CONTINUED = re.compile(r"\n\s*(?:question|q|user|human|instruction|###)\s*:.*", re.DOTALL)
_QUOTED = re.compile(r'"[^"\n]*"|(?<![\w.])\'[^\'\n]{1,60}\'(?!\w)|“[^”\n]*”|«[^»\n]*»|「[^」\n]*」|『[^』\n]*』|„[^“”\n]*[“”]')
_QUOTE = " qqq "
MAX_QUOTED = 200
"""Characters of a reply that may be one quotation."""
_ALL_QUOTED = re.compile(r"""["“«„「']([^"“”«»„「」\n]+)["”“»」']\.?""")
"""A reply that is one quotation."""
_OF_WORDS = re.compile(
    r"\b(?:movie|film|song|book|album|show|play|poem|game|band|quot(?:e|ation)|phrase|saying|speech|lyrics?|bubble|answer|named?|called|titled)\b"
)
"""Questions whose answer may be a title or a saying."""
_FULL = {"m": "am", "re": "are", "s": "is", "ve": "have", "ll": "will"}
_NO_DOUBT = re.compile(
    r"\b(?:there(?:'s| is| can be)(?: \w+ly)? no (?:doubt|question)(?: about (?:it|that))?|no doubt(?: about (?:it|that))?"
    r"|without (?:a |any )?(?:shadow of a )?doubt)\b,?(?: that\b)?:? ?"
)
_ANNOUNCED = re.compile(
    r"\b(?:answer|conclusion|correct (?:choice|option)|best (?:choice|option))(?: (?:to|for|from|that) [^.:\n]{0,90}?)?\s*(?::\s*|(?:is"
    r"|would be|should be|must be|has to be)(?: likely| probably| therefore| thus| most likely)?:?\s+)(?=\S)"
    r"|(?:答案|答え|정답|답)\s*(?:是|为|は|은|는|：|:)\s*|\b(?:antwort|réponse|respuesta|resposta|risposta)\s*:\s*|ответ\s*:\s*"
)
_NOT_ANNOUNCED = re.compile(
    r"^(?:not|n't|no longer|in|based|given|to|on|that|shown|found|visible|hidden|missing|here|what|above|below|difficult|hard)\b"
)
_SENTENCE = re.compile(r"(?<=[.!?:])\s+|(?<=[.!?])(?=[a-z]{2,}'?[a-z]* [a-z])|\n+|(?<=[。！？؟।])\s*|\s[-–]\s|—")
_CLAUSE = re.compile(
    r";\s+|,?\s+(?=(?:but|however|although|though|tho|whereas|yet (?:i|it|the|he|she|they|there|we|this|that)|so (?:i|it|we|the|he|she"
    r"|they|this|there|that|yes|no|probably|you|one|its|his)|because|since (?:i|the|it|there|no)|as (?:there|it is|his|her"
    r"|their|no|i)|therefore|thus|hence|even (?:though|if)|and (?:i|it|it's|there|there's|no(?= \w)|he|she|they|we|so|my"
    r"|but|cannot|can't|couldn't|don't|do not|am not|am unable|therefore))\b)"
    r"|,\s+(?=(?:i|i'd|i'm|we|it|it's|he|he's|she|she's|they|they're|there|there's|you|this|that|that's|the|my|no|not|nor|yes|maybe|"
    r"perhaps|probably|possibly|likely|most|partially|partly|mostly|just|only|rather|so|please|(?:\w+ )?which|where|who|while|whether|if|"
    r"and (?:the|his|her|its|their)|his|her|their|its|sorry|judging|nobody|none|nothing|unfortunately|though|as|simply|merely|instead|"
    r"others?|yet|cannot|can't|unable|don't|could|do|are|is|some|what|presumably|apparently|hard|difficult|impossible|unclear|unknown|"
    r"neither|sometimes|about|around|roughly)\b)|,\s+(?=[\w ]{1,20}\?)|,\s+(?=an? [\w-]+\W*$)"
    r"|\s*\((?=[^()]{3,})|(?<=[^()]{3})\)\s+(?=\w)"
    r"|,(?=[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])|(?<=[がけ])、|(?<=지만)\s+|(?<=는데)\s+|(?<=지만),\s*|،\s*"
    r"|,?\s+(?=(?:aber|jedoch|mais|cependant|pero|aunque|mas|embora|porém|ma|però|но|хотя|لكن|ولكن|लेकिन|मगर|maar|ale|choć|ama"
    r"|ancak|nhưng|tapi|tetapi|namun|obwohl|bien que|même si|anche se|ainda que)\s)"
)
_YES_NO = re.compile(
    r"^(?!yes and no)(?:(?:well|hm+|so|then|therefore|thus|and|but|in that case|oh|i think|i believe|i'd say|i would say"
    r"|i'd lean towards?|probably|likely|most likely|maybe|perhaps|presumably),? )*"
    r"(?:yes|yeah|yep|yup|yea|nope|nah|no(?! (?:idea|clue|way|one|body|telling|knowing|information|info|evidence|indication"
    r"|\w+ (?:is|are|can|was|were)\b|doubt|details?|context|answer|comment|such))|not (?:really|that i|at all|as far|quite"
    r"|in this|from what|exactly)|correct|incorrect|true|false|definitely|absolutely|of course|certainly|indeed|never|both"
    r"|neither|affirmative|negative|i (?:think|believe|guess|suppose|hope) (?:so|not)|i (?:don't|do not) (?:think|believe) (?:so|it|he|"
    r"she|they|the|there|that)|i doubt (?:it|so|that))(?:\b|(?=[^a-z])|$)|\b(?:yes|no)\W*$"
)
_OPTION = re.compile(
    r"\(([a-j])\)|(?:^|\b(?:option|choice|answer|point|picture|box|image|choose|pick|select|with|for|toward|towards|to|is|say"
    r"|leaves|be|go|select|leaves only) )\(?([a-j])\)?(?=$|[.,:;)!?\"]|\s(?:is|are|has|fits|because|since|as|but|seems|looks"
    r"|appears|matches)\b|\W*$)|^\(?([a-j])\)?(?:[.):]| -|$)"
)
_LETTER_LIST = re.compile(r"\(?\b[a-j]\)?(?:,? (?:or |and |nor )?\(?[a-j]\)?){2,}(?=\W|$)|\b[a-j]\)? (?:or|and|nor) \(?[a-j]\b")
_REJECTED = re.compile(
    r"\b(?:not|n't|neither|nor|cannot|can't|wrong|incorrect|rule[sd]? out|eliminat\w+|exclude[sd]?|too|except|unlikely)\b"
)
_LETTERS_LEFT_OPEN = re.compile(r"\b(?:or|between|either|neither|both)\b")
_DIGITS = re.compile(
    r"\d|\b(?:"
    + "|".join(word for word in NUMBERS if word not in ("none", "one"))
    + r"|hundred|thousands?|million|dozens?|half past|quarter|noon|midnight|midday|none|free|today|yesterday|morning|evening|afternoon"
    r"|night|spring|summer|autumn|winter|january|february|april|june|july|august|september|october|november|december|monday|tuesday"
    r"|wednesday|thursday|friday|saturday|sunday|[a-z]+ties|century)\b|[一二三四五六七八九十两]|^one\b|\bone\W*$|\bonly one\b|\bjust one\b"
)
_COLORS = re.compile(
    r"\b(?:red|blue|green|yellow|black|white|brown|gr[ae]y|orange|pink|purple|violet|gold(?:en)?|silver|beige|tan|turquoise"
    r"|teal|cyan|magenta|navy|maroon|cream|ivory|blond\w*|brunette|pale|transparent|colou?rful|multi-?colou?red|striped"
    r"|spotted|bronze|copper|olive|indigo|crimson|scarlet|khaki|lavender|\w+ish|neon|pastel|rainbow|charcoal|burgundy|amber"
    r"|hazel|chestnut|ginger|tabby|calico)\b"
)
_POSSIBLES = re.compile(
    r"\b(?:could|may|might|can) (?:\w+ )?be\b.*(?:\bor\b|\btrue\b|\banything\b|\bany\b|\banyone\b|\banywhere\b|\bmany\b|\beither\b"
    r"|\bseveral\b|\bfrom\b|\bmisleading\b|\bwrong\b|\bmistaken\b|\bhidden\b|\bothers?\b|\bmore\b)|\beither\b.*\bor\b|\b(?:often"
    r"|usually|typically|generally|commonly|normally|sometimes|come in|comes in|range from|vary|varies|such as|for example"
    r"|for instance|would (?:help|be needed)|some (?:\w+ )?are)\b"
)
_STATE = re.compile(
    r"^(?:\w+ly |very |so |too |also |quite |all |just |only |partly |mostly |still |pretty )*(?:closed|shut|torn|hidden"
    r"|covered|blurr\w+|blurred|empty|dark|dim|unclear|missing|cropped|cut|faded|out|outside|off|facing|turned|taken|located"
    r"|labell?ed|not|no|too|hard|difficult|impossible|unknown|visible|present|shown|there|here|in the (?:image|picture|photo"
    r"|background|foreground|scene|frame)|in view|in focus|small|far|away|behind|partially|obscured|blank|black and white"
    r"|wearing|standing|sitting|looking|low|poor|ambiguous|able|unable|possible|that|because|why|what|whether|how|if|sure"
    r"|certain|afraid|folded|unreadable|illegible|subjective|unfamiliar|foggy|smudged|scratched|damaged|redacted|pixelated"
    r"|grainy|zoomed|cluttered|from|about|similar|important|worth|helpful|clear|common|one of|several|many|two|various"
    rf"|different|multiple|nothing|nobody|none|no one|\w+ed (?:up|off|out|down|away|shut)|(?:an? )?{phrases.PICTURE})\b"
)
_COPULA = re.compile(
    r"^(?P<subject>(?:(?!\b(?:is|are|was|were|not)\b)[\w'’-]+ ){0,7}?(?:it|this|that|he|she|they|these|those|i|we|you"
    r"|[\w-]+))(?:'s|'re| (?:is|are|was|were|will be|would be|must be|should be|means|equals?|=|became))(?: (?:\w+ly|most|also"
    r"|then|indeed|actually|just))* (?P<rest>.+)$"
)
_COMPARES = re.compile(r"\b(?:more|most|closer|closest|best|better|correct|same|similar|larger|smaller|greater|less|fewer)\b")
_EQUATION = re.compile(r"^\W*[a-z∠°]{1,4}\s*=|\bgives? (?:us )?[a-z] =")
_PRONOUN = re.compile(
    r"^(?:so |but )?the (?:\w+ )?(?:part|portion|section|rest)\b|"
    r"^(?:\w+ly )?(?:and |so |but |therefore |thus |because |since |as |though |although |in fact |instead |here |rather |however "
    r"|yet )*(?:it|it's|this|that|that's|he|he's|she|she's|they|they're|these|those|his|her|their|its|there|both|one|i|we)\b"
)
_FROM_PICTURE = re.compile(
    rf"^(?:\w+ )?(?:the |this |your |both |all (?:\w+ )?|these |each |an? )?(?:(?:provided|given|first|second|third|fourth"
    rf"|attached|whole|entire|single|actual|exact|still) )*{phrases.PICTURE}\b(?! \()"
)
_GENERIC = word_set(
    "answer information detail exact color colour reason number identity name location age meaning brand price title specific "
    "precise material type kind result content contents text writing letter word face hand"
)

_LEADS = re.compile(
    r"^(?:(?:and|so|but|because|since|as|though|although|even though|even if|while|therefore|thus|hence|however|yet|still|well"
    r"|sorry|unfortunately|honestly|sadly|oh|hmm+|ah|i'm sorry|i am sorry|i'm afraid(?: that)?|i am afraid(?: that)?|from (?:the"
    r"|this) (?:image|picture|photo|angle)|in (?:the|this) (?:image|picture|photo|photograph|scene)|based on (?:the"
    r"|this) (?:\w+ )?(?:image|picture|photo|information|graph|details))\b[,:]? ?)+(?=\S)"
)
_SEES_NO = re.compile(
    r"(?:\bnot|n't|\bcannot|\bunable to|\bhardly|\bnever|\bbarely) (?:\w+ly |even |able to )*(?:see|find|spot|notice|detect"
    r"|observe|make out|identify) (?:an?|any|anything|anyone|anybody|one|no|such|the \w+ (?:you|that|in question))\b"
)
_IS_HIDDEN_FIRST = re.compile(rf"(?:\bnot|n't) (?:\w+ly )?{phrases.SHOWN}\b")
_NEGATIVE = re.compile(r"\b(?:no|not|none|nobody|nothing|neither|cannot|never|without|empty|absent|missing|no one|bare|blank)\b|n't\b")
_NOBODY = re.compile(r"\b(?:none|nobody|no one|nothing|zero|neither)\b")
_ABSENT = re.compile(
    r"\b(?:there (?:is|are|was|were|'s)(?:n't| not)? (?:\w+ly )?(?:no|any|an?|only)?|there's no|there (?:isn't|aren't|wasn't"
    r"|weren't) (?:any|an?)|see (?:no|an?|any)|find (?:no|an?|any)|spot (?:no|an?|any)|^no) (?:\w+ ?){1,3}|^(?:the "
    r"|an? )?(?:\w+ ?){1,3} (?:is|are)(?: not|n't) (?:present|in the|here|there|included|depicted|pictured|in this)"
    r"|^this (?:is not|isn't) (?:an?|the) (?:\w+ ?){1,2}|does(?: not|n't) (?:contain|show|include|have|feature|depict) (?:any"
    r"|an?|the) (?:\w+ ?){1,3}"
)
_VERB = re.compile(
    r"\b(?:let's|is|are|was|were|be|been|am|has|have|had|does|do|did|can|cannot|could|will|would|should|may|might|must|says?"
    r"|reads?|shows?|looks?|seems?|appears?|means?|makes?|gives?|contains?|i|we|you)\b|'(?:s (?:a|an|the|not|no|in|on|\w+ing"
    r"|\w+ed|it)\b|re|m|ve|ll|d)\b|n't\b|^(?:it|he|she|that|there|what|who)'s\b"
)
_UNDECIDED = re.compile(r"^(?:maybe|perhaps|possibly|yes and no|perhaps not|maybe not)\W*$")
_OFFERS = re.compile(
    r"\bi(?:'m happy to| can| could|'d be happy to| am able to)(?: \w+)? (?:describe|comment|say that|help|offer|tell you (?:that"
    r"|about|what)|talk|mention|point out)\b"
)
_ALL = re.compile(
    r"\b(?:all (?:of )?(?:the |these |those |four|three|five|images|options|pictures|photos)|both|neither|none of|each of|they all"
    r"|any of|all of them|either)\b"
)
_NAMES_QUESTION = re.compile(
    r"\b(?:which|what|who|whether|if|how|where|answer|choose|choice|decision|judge?ment|determination|conclusion|conclude"
    r"|determined|determine|request|assist|help|question|identify|compare|decide)\b"
)
_BARE_NO = re.compile(r"^no (?:\w+ ){0,6}\w+\W*$|^none (?:\w+ ){0,2}\w+\W*$|^(?:nothing|nobody|no one)\b")
_FIRST_PERSON = re.compile(r"\b(?:i|i'd|my)\b|\b(?:probably|likely|presumably|best guess)\b")
_NEEDED = re.compile(
    r"\b(?:would|might|may|will|is|are) (?:be )?(?:\w+ly )?(?:helpful|necessary|needed|required|useful|important|worth|beneficial"
    r"|essential)\b|^(?:in order )?to \w+ (?:\w+ )?(?:an?|the|which|what|this)\b|\bshould be on\b|\b(?:can|could|would) be (?:used"
    r"|subjective)\b"
)
_CONCLUSION = re.compile(r"^(?:therefore|thus|hence|so|overall),? ")
_DENIED_NOUN = re.compile(
    r"\b(?:no|any|an?|such) ((?:(?!(?:in|on|at|of|with|from|to|for|behind|under|near|next|here|there|visible|present|that|which"
    r"|who)\b)[\w'-]+ ?){1,4})"
)
_APPOSITION = re.compile(r"\bonly\b.*, (?:an? )?[\w'-]+\W*$")
_STATES_THAT = re.compile(
    r"^((?!(?:i|we|there)\b)[^,.;:]{2,60}? (?:is|was|are|claims?|argues?|believes?|concludes?|states?|says?|thinks?|reports?"
    r"|means?)) that\b"
)
"""A clause whose object is a statement: "the drawback is that the cause cannot be determined"."""
_ONLY_SOME = re.compile(r"\b(?:only|just|merely) (?:an?|one|two|three|four|five|six|seven|eight|nine|ten|\d+)\b")
_NO_RELATION = re.compile(
    r"\bno (?:\w+ )?(?:relation\w*|correlation|association|differences?|effect|impact|trend|changes?|connection|link)\b"
)
_EXCEPT = re.compile(
    r"\bnone of\b[^,.;]{0,40}\bexcept\b"
    r"|\b(?:nothing|nobody|none|no one|no [\w-]+) (?:\w+ )?(?:but|except|besides|other than|apart from|save)\b"
)
_ASIDE = re.compile(
    r",\s[^,.;:?!]*\b(?:that|which|who|what) (?:we|i|you|one) (?:can't|cannot|can not|don't|do not)\b[^,.;:?!]*,(?=\s)"
    r"|,\s(?:where|which|who)\b[^,.;:?!]*,(?=\s(?:is|are|was|were|can|cannot|can't|does|has|isn't|aren't)\b)"
)
_MAIN_NEGATION = re.compile(
    r"^(?:(?!that\b|which\b|who\b|because\b)[\w'-]+ ){0,5}(?:is|are|was|were|does|do|did|has|have|had)(?: not|n't)\b|^(?:isn't"
    r"|aren't|doesn't|don't)\b|^none of\b"
)
_IN_A_STATE = re.compile(
    r"\b(?:is|are|looks?|seems?|appears?) (?:turned off|switched off|off|(?:\w+ )?(?:closed|shut|locked|folded|sealed|worn|torn|faded"
    r"|covered|blank|scratched|dark))\W*$"
)
"""State of a thing, which answers a yes-no question about it: "the window is closed"."""
_LEFT_OPEN = re.compile(
    rf"^(?:the |this |that )?{phrases.PICTURE}\b"
    r"|(?:\bnot|n't) (?:\w+ )?(?:clear|known|explained|apparent|evident|stated|given|specified|obvious)\b"
)
_NONE_OF = re.compile(r"none of (?:the|these|those|them)\b(?! (?:options |answers )?can)")
_NEITHER = re.compile(r"^(?:so |therefore |and |but )?neither\b(?! (?:an?|the|any|its|his|her|their)\b)")
_NOT_NEGATIVE = re.compile("不过|不仅|不同|不错|不久|不少|没错|不只|不止")
_CORRECTS_ABROAD = re.compile(
    r"^(?:sondern|sino|senão|mais (?:un|une|le|la)|ma (?:un|una|il|la)|bensì|а |maar een|lecz|而是|ではなく)\b|而是|ではなく"
)
_ALTERNATIVE = re.compile(r"\b(?:could|might|may) (?:\w+ )?be\b|^(?:maybe|perhaps|possibly)\b")
_NEGATES_ABROAD = re.compile(
    r"\b(?:no|nicht|kein\w*|nichts|ne|pas|não|non|nie|niet|geen|không|tidak|değil)\b|\bn'|(?<!\w)(?:не|нет)(?!\w)|不|没|無|ない|ません|않|"
    r"없|لا |ليس|नहीं"
)
_TOKENS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\d_]+")
_ASKING = frozenset("什么吗呢哪谁几怎样多少钱何か？ですますの무엇어디까요") | word_set(
    "was ist wer wo wie que qué quel quelle quoi qui où est es cuál quién dónde che cosa chi dove qual quale quem é o что кто где какой как"
)
_RELATIVE = re.compile(
    r"(?<=\w) (?:who|that|which|whose \w+)(?:'s|(?: is| are| was| were| do| does| did| has| have| had| can| could| cannot| can't| isn't|"
    r" aren't| doesn't| don't| didn't| wasn't| weren't| would))\b.*"
)
_LEXICAL_VERB = re.compile(
    r"^(?:it|he|she|they|i|we|you|there|this|that) \w|^(?:an?|the|his|her|its|their|my|this|that) (?:[\w'-]+ ){1,3}?\w+(?:s"
    r"|ed) (?:the|an?|his|her|its|it|them|him|my|to|in|from|around|out|over|rather)\b"
)
_CONNECTS = re.compile(
    r"^(?:so|but|although|though|because|as|since|however|even|and|which|whose|i (?:think|guess|believe|suppose|assume|would|can)"
    r"|not|unless|partially|partly)\b"
)
_REASON = re.compile(r"^(?:because|since|as|given|due|for)\b")
_WILL_NOT_GUESS = re.compile(
    r"(?:\bnot|n't|\bcannot|\bno|\bwithout|\bnever|\bthan|\bonly) (?:\w+ ){0,3}(?:guess\w*|say|assum\w+|speculat\w*|suppose|conclude"
    r"|choose|pick|estimate|infer|imagine|think)\b"
)
_CANNOT_BE = re.compile(
    r"\b(?:cannot|can't|can not|could not|couldn't|can no longer|can never) (?:\w+ly )?be (?:\w+ly )?\w+(?:ed|en|n|t|d)\b"
)
_NOT_A = re.compile(
    r"(?:\bnot|n't|\brather than|\binstead of|(?:\bonly|just|merely)(?: [a-z]+s)?|fewer than|less than)"
    r" (?:an?|one|two|three|four|five|six|\d+) ((?:\w+ ?){1,2})"
)
_ONLY_ABROAD = re.compile(
    r"^(?:只有|只是|仅|だけ|nur|seulement|sólo|solo|apenas|somente|soltanto|только|فقط|केवल|सिर्फ|alleen|tylko|sadece|chỉ|hanya)|만 있"
    r"|だけ(?:が|です)"
)
_SAYS = re.compile(
    r"\b(?:says|reads|states|identifies|names|lists|spells out|is labell?ed|is marked|is tagged|translates to"
    r"|stands for) (?!nothing\b|no\b|that it|so\b|something|anything|different)\S"
)
_NOT_SPECIFIC = re.compile(
    r"^(?:something|someone|somebody|somewhere|somehow|some (?:sort|kind|type) of (?:thing|object|item|animal|plant|device|text|writing"
    r"|liquid|food)s?)\b"
)
_SOMETHING = re.compile(r"\b(?:something|someone|somebody|somewhere|some (?:object|thing|person|place))\b")
_YES_NO_ABROAD = re.compile(
    r"^(?:ja|nein|doch|oui|non|si|sí|sì|no|não|sim|да|нет|نعم|हाँ|हां|जी|नहीं|是的|是|不是|不|有|没有|對|对|はい|いいえ|うん"
    r"|네|예|아니[요오]|tak|nie|nee|evet|hayır|có|không|ya|tidak|لا)(?=\W*$|[,.;!،、])|^(?:是的|はい|いいえ|네|아니[요오])"
)
_ONLY = re.compile(r"^(?:only|just|but|rather|merely|simply|instead)\b")
_INTRODUCES = re.compile(
    r"^(?:in|on|at|from|with|without|based|given|by|judging|while|although|though|since|as|if|for|to|of|about|according"
    r"|considering|despite|due|looking|after|before|when|because|unlike|regarding|beyond|except|apart|other than|next|note|first"
    r"|second|third|finally|also|still|somewhere|something|overall|left|right|here|now|please)\b"
)
_REMAINDER = re.compile(
    r"^(?:and |but |though |although )?(?:the |all |some of the )?(?:rest|others?|remaining|remainder|everything else|everyone else)\b"
    r"|其他|其余|剩下|остальн|\b(?:übrige\w*|rest|reste|autres?|resto|demás|otr[oa]s|altr[ie]|outr[oa]s)\b|他の|その他|それ以外|나머지"
)
"""Remainder that the answer does not cover; only that is left open."""
_REASON_ABROAD = re.compile(
    r"^(?:由于|因为|因|da |weil |puisque|comme |ya que|como |poiché|siccome|так как|поскольку|aufgrund)"
    r"|(?:ため|ので|から|때문에|어서|므로)$"
)
_STATES_FACT = re.compile(r"^(?!.*\b(?:i|i'd|my|you|we|would|could|might|can)\b).*\b(?:is|are|was|were|has|have|says|reads|shows)\b")
_COUNT = re.compile(rf"(?:there are |i (?:see|count) |about |at least )?(?:{_DIGITS.pattern})(?: [\w-]+){{1,3}}")
_NO_OTHER = re.compile(r"\b(?:any|no) (?:other|further|additional|more)\b|\b(?:nothing|nobody|no one|anything|anyone) else\b")
_CONCEDES = re.compile(r"(?:even )?(?:though|although|if|while)\b")
_PREDICATE = re.compile(r"^(?:(?:is|are|was|were|can|could|has|have|does|do)(?:n't)?|cannot|not)\b")
_ELLIPSIS = re.compile(
    r"^(?:(?:and|so|then|in fact|well) )*(?:it|he|she|they|that|this|there|these|those|i|we|you|the \w+)(?:(?:'s|'re|'ll)"
    r"|(?: \w+ly)? (?:is|are|was|were|does|do|did|has|have|can|cannot|could|will|would|might|may|must|should|seems?|appears?|looks?|isn't"
    r"|aren't|doesn't|don't|won't|can't|hasn't|haven't|wasn't|weren't))(?: not| n't| probably| likely| indeed| definitely"
    r"| certainly| to be| like it| to| that way| so| open| closed| the case)*\W*$|^(?:looks?|seems?|appears?) (?:like it|so"
    r"|that way|to be)\W*$|^(?:in|un)?likely\W*$"
)
_NO_SUBJECT = re.compile(
    r"^(?:not|no|none|nothing|nobody|neither|too|hidden|illegible|covered|blurry|isn't|unreadable|cropped|can't|cannot|don't"
    r"|couldn't|i|we|you|he|she|they)\b"
)
_DOUBTFUL = re.compile(
    r"\b(?:maybe|perhaps|probably|possibly|likely|presumably|apparently|i think|i guess|i believe|i suppose|i assume|i'd"
    r"|i would|my guess|best guess|guess|may be|might|could be|must be|not sure|seems?|appears?|looks? like|if i|as far as i"
    r"|lean|suggests?|bet|supposedly|judging|plausible|not an? expert|no expert|seemingly|mistaken|believe so|don't quote"
    r"|\w+\?$)\b|^[\w ]{1,30}\?$"
)


_INSTEAD = re.compile(
    r"^but (?:rather |instead |in fact )?(?!(?:i|we|you|it|he|she|they|there|that|this|what|which|who|not|no|nothing|rather|instead)\b)"
    r"(?:an? |the |some )?[\w'-]+(?: (?!(?:is|are|was|were|can|may|might|could|would)\b)[\w'-]+){0,4}\W*$"
    r"|^(?:it|he|she|they|this|that)(?:'s| is|'re| are| was| were| has| have| holds| wears)(?: \w+ly)? "
    r"(?!not\b|no\b|nothing\b|un\w+|too\b|just\b|only\b|that\b|hard\b|difficult\b|\w+ing\W*$|possible\b|clear\b)(?:an? |the )?[\w'-]+"
)
"""Correction behind a denial: "not red but blue", "he has no umbrella, he has a cane"."""


class Role(Enum):
    """Function of a clause in a reply: commit, abstain, hedge..."""

    ABSTAINS = "abstains"
    DOUBTS = "doubts"
    """It abstains only from being sure."""
    HIDDEN = "hidden"
    DENIES = "denies"
    ASKS_BACK = "asks back"
    ANSWERS_NO = "answers no"
    """It denies, and that answers the question: no, or none."""
    COMMITS = "commits"
    SEEMS = "seems"
    """It commits, by the look of something."""
    FILLER = "filler"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class ReplyAbstention:
    """Result of reading a reply for abstention: does it abstain, and does it hedge?"""

    abstains: bool
    hedges: bool
    """It answers, and says that it is not sure, or that something could not be seen."""


@dataclass(frozen=True, slots=True)
class _Clause:
    text: str
    sentence: int
    role: Role
    is_fragment: bool = False
    guesses: bool = False


def is_refusal(text: str, question: str = "", choices: Sequence[str] = ()) -> bool:
    """Return true if a reply abstains: it is not empty, but commits to no answer.

    >>> is_refusal("I don't know."), is_refusal("I am not sure, but I think blue"), is_refusal("Nothing")
    (True, False, True)
    """
    return read_abstention(text, question, choices).abstains


def read_abstention(text: str, question: str = "", choices: Sequence[str] = ()) -> ReplyAbstention:
    """Return whether a reply abstains, or answers with a hedge; neither for an empty reply.

    >>> read_abstention("I am not sure, but I think blue", "What color is it?")
    ReplyAbstention(abstains=False, hedges=True)
    >>> [read_abstention("There is no car.", question).abstains for question in ("What color is the car?", "Is there a car?")]
    [True, False]
    """
    parsed = read_question(question, tuple(choices))
    may_be_quoted = len(text) < MAX_QUOTED and not (parsed.is_text or _OF_WORDS.search(parsed.text))
    quoted = _ALL_QUOTED.fullmatch(text.strip()) if may_be_quoted else None
    plain = _plain(quoted[1] if quoted else text)
    said, announced = _announced(plain)
    clauses = _clauses(said, parsed)
    abstains = _abstains(clauses, parsed, announced)
    if abstains or not clauses:
        return ReplyAbstention(abstains, False)
    everything = clauses if said == plain else _clauses(plain, parsed)
    return ReplyAbstention(False, any(_hedges(clause) for clause in everything))


def _plain(text: str) -> str:
    """Return a reply in lower case, no markup, contractions in full, quotations as `qqq`.

    A long reply loses its middle. Thoughts, asides and invented follow-up questions are dropped.
    """
    if len(text) > MAX_CHARACTERS:
        text = f"{text[: MAX_CHARACTERS // 2]}\n{text[-MAX_CHARACTERS // 2 :]}"
    text = unicodedata.normalize("NFKC", strip_thoughts(text)).casefold().replace("’", "'").replace("‘", "'").strip()
    text = _BOXED.sub(r"\nanswer: \1\n", text)
    text = _CONTINUED.sub("", text)
    text = _QUOTED.sub(_QUOTE, _MARKUP.sub("", text))
    text = re.sub(r"[^\S\n]+", " ", _ASIDE.sub("", _NO_DOUBT.sub("", text)))
    text = re.sub(r"(?<=\w)n't\b", " not", text.replace("can't", "cannot").replace("won't", "will not").replace("ain't", "is not"))
    text = re.sub(r"\b(i|it|that|this|there|here|what|who|he|she|we|you|they)'(m|re|s|ve|ll)\b", lambda m: f"{m[1]} {_FULL[m[2]]}", text)
    text = re.sub(r"\bno\.\s?(?=\d)", "number ", text)
    return re.sub(r"\b(mr|mrs|ms|dr|st|vs|e\.g|i\.e|approx|etc)\.", r"\1", text).strip()


def _announced(plain: str) -> tuple[str, bool]:
    """Return (text after the last "answer:" or "answer is", True); (reply, False) without one.

    Other words announce too ("conclusion:", "the correct option is"). An announcement counts only if text follows.
    """
    for match in reversed(list(_ANNOUNCED.finditer(plain))):
        rest = plain[match.end() :].strip()
        if rest and (":" in match[0] or not _NOT_ANNOUNCED.match(rest)):
            return rest, True
    return plain, False


def _clauses(plain: str, parsed: Asked) -> list[_Clause]:
    clauses: list[_Clause] = []
    sentences = [part.strip() for part in _SENTENCE.split(plain) if part and part.strip(" \t-•·*.!,")]
    if len(sentences) > MAX_CLAUSES:
        sentences = sentences[: MAX_CLAUSES // 2] + sentences[-MAX_CLAUSES // 2 :]
    in_english = parsed.is_english and not is_foreign(plain) if parsed.text else is_english(plain) or plain.isascii()
    for number, sentence in enumerate(sentences):
        parts = [part.strip() for part in _CLAUSE.split(sentence) if part and part.strip(" ()-,.")]
        if not in_english:
            parts = [piece for part in parts for piece in re.split(r",\s+", part) if piece.strip(" ()-,.")]
        for i, part in enumerate(parts):
            text = part.strip(" ()-•*,")
            follows = parts[i + 1] if i + 1 < len(parts) else ""
            clauses.append(_clause(text, number, i, follows, len(sentences), parsed, in_english, clauses[-1] if clauses else None))
    return clauses


def _clause(
    text: str, sentence: int, place: int, follows: str, n_sentences: int, parsed: Asked, in_english: bool, before: _Clause | None
) -> _Clause:
    bare = _LEADS.sub("", text)
    guesses = phrases.GUESSES.search(bare) is not None and not _WILL_NOT_GUESS.search(bare)
    role = _role(text, bare, parsed, in_english, guesses)
    if role is not Role.OTHER:
        return _Clause(text, sentence, role, False, guesses)
    if before is not None and before.sentence == sentence and before.role is Role.DENIES and _INSTEAD.search(text):
        denied = content(" ".join(_NOT_A.findall(before.text)))
        if parsed.text and not denied & parsed.words and not _denies_premise(before.text, parsed):
            return _Clause(text, sentence, Role.COMMITS, False, guesses)
    declined = before is not None and before.sentence == sentence and before.role in (Role.ABSTAINS, Role.HIDDEN, Role.DENIES)
    if declined and _REASON.search(text) and not parsed.is_why:
        return _Clause(text, sentence, role, False, False)
    outer = sentence in (0, n_sentences - 1) or n_sentences <= 4
    if (
        outer
        and not (parsed.has_options and _LETTER_LIST.search(bare))
        and _is_fragment(text if follows else bare, parsed, place, follows, in_english)
    ):
        role = Role.SEEMS if re.search(r"\bor\b|\beither\b", bare) else Role.COMMITS
        return _Clause(text, sentence, role, True, guesses)
    return _Clause(text, sentence, _commitment(bare, parsed, in_english, guesses, sentence in (0, n_sentences - 1)) or role, False, guesses)


def _role(text: str, bare: str, parsed: Asked, in_english: bool, guesses: bool) -> Role:
    """Return the role that phrases give a clause (`bare`: without its lead); OTHER if none."""
    if phrases.FILLER.search(text):
        return Role.FILLER
    if _NONE_OF.match(bare) and (parsed.has_options or bare.startswith("none of the above")):
        return Role.ANSWERS_NO
    if parsed.is_feeling and re.fullmatch(
        r"(?:(?:he|she|it|they|the \w+) (?:looks?|seems?|is|are|appears?) )?(?:\w+ly |a little |a bit |very )?(?:unsure|uncertain"
        r"|confused|ambiguous)\b.*",
        bare,
    ):
        return Role.COMMITS
    if parsed.is_text and re.match(r"(?:it|the (?:sign|note|text|shirt|label|\w+)) (?:says|reads)\b(?! (?:nothing|no )\b)", bare):
        return Role.COMMITS
    if parsed.is_text and _QUOTE.strip() in bare and not _NEGATIVE.search(bare) and re.search(r"\b(?:is|are|says|reads)\b", bare):
        return Role.COMMITS
    if parsed.is_how_many and (count := _COUNT.match(bare)) and content(count[0]) & parsed.counted:
        return Role.COMMITS
    if _UNDECIDED.search(bare):
        return Role.FILLER
    if (said := _STATES_THAT.match(bare)) and content(said[1]) & parsed.words:
        return Role.COMMITS
    if _EXCEPT.search(bare):
        return Role.OTHER
    if len({words & content(bare) for words in parsed.alternatives}) > 1 and not re.search(r"\b(?:only|no|not|cannot|neither)\b", bare):
        return Role.COMMITS
    if parsed.is_yes_or_no and (_YES_NO if in_english else _YES_NO_ABROAD).search(bare):
        return Role.COMMITS
    if phrases.ASKS_BACK.search(text):
        return Role.ASKS_BACK
    if not in_english and _REASON_ABROAD.search(bare):
        return Role.FILLER
    if abstention := phrases.ABSTAINS.search(bare):
        if _REMAINDER.search(bare):
            return Role.DOUBTS
        if parsed.asks_for_unknown and content(abstention[0]) & parsed.words:
            return Role.COMMITS
        if parsed.is_visibility and len(content(bare) & parsed.words) > 1 and not re.search(r"\b(?:if|whether)\b", bare):
            return Role.COMMITS
        return Role.DOUBTS if phrases.SURE.search(bare) else Role.ABSTAINS
    is_answer_if_absent = parsed.is_visibility or (
        parsed.is_what_is_wrong and not re.search(r"\breason\b", bare) and not _denies_premise(bare, parsed)
    )
    if parsed.text.startswith(("which", "who", "what")) and _NEITHER.search(bare):
        return Role.COMMITS
    if not in_english and _CORRECTS_ABROAD.search(bare):
        return Role.COMMITS
    denies = (
        _NEGATES_ABROAD.search(_NOT_NEGATIVE.sub("", bare)) is not None
        if not in_english
        else bool(parsed.text)
        and not parsed.is_yes_or_no
        and not parsed.is_how_many
        and _MAIN_NEGATION.search(bare) is not None
        and bool(content(bare) & parsed.words)
    )
    denies = (
        denies
        or (bool(parsed.text) and any(content(noun) & parsed.words for noun in _NOT_A.findall(bare)))
        or phrases.DENIES.search(bare) is not None
        or _SEES_NO.search(bare) is not None
        or (_BARE_NO.search(bare) is not None and not (parsed.is_text or "sign" in parsed.text))
        or re.match(r"(?:nothing|nobody|no one) (?:is|are|was|were|has|have|had)\b", bare) is not None
    )
    if not in_english and guesses:
        return Role.COMMITS
    if not in_english and _ONLY_ABROAD.search(bare):
        return Role.FILLER
    if parsed.is_yes_or_no and in_english and phrases.SEEMS.search(bare) and not _NEGATIVE.search(bare) and not _FROM_PICTURE.search(bare):
        return Role.COMMITS
    bare = _RELATIVE.sub("", bare)
    found = phrases.HIDDEN.search(bare)
    hidden = found is not None and not content(found[0].split()[-1]) & parsed.words
    if parsed.is_yes_or_no and _CANNOT_BE.search(bare) and not hidden and content(_CANNOT_BE.findall(bare)[0]) & parsed.words:
        return Role.COMMITS
    hidden = hidden or (
        not parsed.is_text
        and _CANNOT_BE.search(bare) is not None
        and (_PRONOUN.search(bare) is not None or bool(content(bare) & parsed.words))
    )
    if found and _APPOSITION.search(bare):
        return Role.COMMITS
    if denies and not (hidden and not _SEES_NO.search(bare) and _IS_HIDDEN_FIRST.search(bare)):
        if is_answer_if_absent:
            return Role.COMMITS
        if _NO_OTHER.search(bare) and not _NO_OTHER.search(parsed.text):
            return Role.FILLER
        return Role.ANSWERS_NO if _denial_answers(bare, parsed, in_english) else Role.DENIES
    if hidden and parsed.is_yes_or_no and _IN_A_STATE.search(bare) and content(_subject(bare)) & parsed.subject:
        return Role.COMMITS
    if hidden and _REMAINDER.search(bare):
        return Role.DOUBTS if parsed.text else Role.OTHER
    if hidden:
        is_asked_about = parsed.is_what_is_wrong and bool(content(_subject(bare)) & parsed.words)
        return Role.COMMITS if is_answer_if_absent and (is_asked_about or not _LEFT_OPEN.search(bare)) else Role.HIDDEN
    return Role.OTHER


def _negates_verb(clause: str, parsed: Asked) -> bool:
    """Return true if a clause denies the action that the question presupposes."""
    negated = re.findall(
        r"(?:\bnot|n't) (?:\w+ly )?(?:(?:seem|appear) to be )?(\w+ing)\b(?=\W*$|[;,.]| (?:any\w*|the|at|in|on|here|there|right now)\b)",
        clause,
    )
    return any(stem(verb) in parsed.verbs for verb in negated)


def _denies_premise(clause: str, parsed: Asked) -> bool:
    """Return true if a clause denies the thing or the action that the question presupposes."""
    denied = {word for phrase in _DENIED_NOUN.findall(clause) for word in content(phrase)} - parsed.lacking
    base = {
        stem(verb)
        for verb in re.findall(
            r"\b(?:did|does|do|is|are|was|were)(?: not|n't) (?:\w+ly )?(?:(?:appear|seem|look) (?:to be )?)?(\w+)", clause
        )
    }
    return (
        bool(denied & (parsed.subject or parsed.words - parsed.verbs))
        or bool(denied & (parsed.words - parsed.verbs) and not parsed.is_why)
        or _negates_verb(clause, parsed)
        or (parsed.is_why and bool(base & parsed.words - parsed.lacking))
    )


def _denial_answers(clause: str, parsed: Asked, in_english: bool) -> bool:
    """Return true if "there is no cat" answers the question: a count of none, or a no."""
    words = content(clause)
    if _NO_RELATION.search(clause) or (
        parsed.is_how_many and _ONLY_SOME.search(clause) and (words & parsed.counted or not words & parsed.words)
    ):
        return True
    if in_english and not _NEGATIVE.search(clause):
        return False
    if in_english and parsed.is_existence and parsed.existing:
        denied = {word for phrase in _DENIED_NOUN.findall(clause) for word in content(phrase)}
        return not denied & parsed.words or bool(denied & parsed.existing)
    if parsed.is_how_many:
        return not in_english or not words & parsed.words or bool(words & parsed.counted) or bool(_NOBODY.search(clause))
    if not parsed.is_yes_or_no:
        return False
    if not in_english:
        return True
    absent = _ABSENT.search(clause)
    return not (absent and content(absent[0]) & parsed.subject)


def _is_fragment(clause: str, parsed: Asked, clause_index: int, next_clause: str, in_english: bool) -> bool:
    """Return true if a clause is a bare answer ("a red hat"), not the start of a statement."""
    words = clause.split()
    if parsed.asks_for_action and re.match(r"(?:(?:only|just|simply|merely) )*\w+ing\b", clause):
        return True
    if (
        clause.endswith(":")
        or not words
        or len(words) > 7
        or _VERB.search(clause)
        or _LEXICAL_VERB.search(clause)
        or _STATE.search(clause)
        or _POSSIBLES.search(clause)
    ):
        return False
    if not in_english and _NEGATES_ABROAD.search(clause):
        return False
    if clause_index and not (clause.endswith("?") or _ONLY.search(clause)):
        return False
    if clause_index and ((parsed.is_color and not _COLORS.search(clause)) or (parsed.is_number and not _DIGITS.search(clause))):
        return False
    if not in_english and (len(words) > 5 or (next_clause and not phrases.BUT.search(next_clause))):
        return False
    if _NOT_SPECIFIC.search(clause):
        return False
    echoes = clause.endswith("?") or (next_clause and " or " not in parsed.text)
    if echoes and parsed.text and content(clause) and content(clause) <= parsed.words:
        return False
    if (
        next_clause
        and not _CONNECTS.search(next_clause)
        and (_INTRODUCES.search(clause) or _INTRODUCES.search(_LEADS.sub("", clause)) or _CONCLUSION.search(clause))
        and not _ONLY.search(clause)
    ):
        return False
    return not (parsed.text and not parsed.is_where and not parsed.is_text and _FROM_PICTURE.search(clause))


def _commitment(clause: str, parsed: Asked, in_english: bool, guesses: bool, in_first_or_last_sentence: bool) -> Role | None:
    """Return COMMITS or SEEMS if a clause gives an answer of the requested kind, else None."""
    if _POSSIBLES.search(clause) or _is_state(clause) or _NEEDED.search(clause):
        return None
    if parsed.has_options or not parsed.text:
        if _INTRODUCES.search(clause) and not _VERB.search(clause) and not re.match(r"(?:for|to) ", clause):
            return None
        if _chooses_option(clause):
            return Role.COMMITS
    about_picture = _is_about_picture(clause, parsed)
    if guesses and not about_picture:
        if not parsed.text:
            return Role.COMMITS if _FIRST_PERSON.search(clause) and not _ALL.search(clause) else Role.SEEMS
        if in_english and ((parsed.is_color and not _COLORS.search(clause)) or (parsed.is_number and not _DIGITS.search(clause))):
            return Role.SEEMS if len(clause.split()) < 5 else None
        return Role.COMMITS
    if not in_english:
        if _NEGATES_ABROAD.search(clause):
            return None
        return Role.COMMITS if phrases.BUT.search(clause) or _echoes_question(clause, parsed) else Role.SEEMS
    seems = phrases.SEEMS.search(clause) is not None
    about_subject = _PRONOUN.search(clause) is not None or bool(content(_subject(clause)) & parsed.words)
    if _EQUATION.search(clause):
        return Role.COMMITS
    if _SAYS.search(clause) and not parsed.is_yes_or_no and not parsed.is_color:
        return Role.COMMITS if parsed.is_text else Role.SEEMS
    if parsed.is_color:
        return Role.COMMITS if _COLORS.search(clause) and not about_picture and (about_subject or seems) else None
    if parsed.is_number and _DIGITS.search(clause) and (not about_picture or parsed.is_how_many):
        return Role.COMMITS
    if parsed.is_number and not parsed.is_how_many and not seems:
        return None
    if parsed.is_how_many:
        return (
            Role.COMMITS
            if re.search(r"\b(?:one|a single|several|many|none|a few|a couple|there(?: is|'s) an?)\b", clause)
            and _PRONOUN.search(clause)
            and not about_picture
            else None
        )
    if parsed.is_yes_or_no:
        words = content(clause)
        if seems and not about_picture:
            return Role.COMMITS
        return (
            Role.COMMITS
            if _ELLIPSIS.search(clause)
            or (about_subject and not re.match(r"(?:i|we|you)\b", clause) and (words & parsed.words) - parsed.subject)
            else None
        )
    if (
        parsed.is_where
        and re.search(r"\b(?:in|at|on|near|next to|behind|under|inside|beside|between|above|below|to the|by|from|outside|over)\b", clause)
        and about_subject
        and not about_picture
        and not (clause.startswith("there") and not content(clause) & parsed.words)
    ):
        return Role.COMMITS
    if parsed.is_why and re.search(r"\b(?:because|due to|so that|in order to|wants? to|to \w+)\b", clause):
        return Role.COMMITS
    if parsed.is_text and re.search(
        rf"{_QUOTE.strip()}|\b(?:says?|reads?|spells?|states?|translates?|written|titled|called|named)\b", clause
    ):
        return Role.COMMITS
    if _QUOTE.strip() in clause and about_subject:
        return Role.SEEMS
    if parsed.asks_for_action and re.search(r"\b\w+ing\b", clause) and not about_picture and about_subject:
        return Role.COMMITS
    if parsed.verbs & {stem(word) for word in re.findall(r"\w+", clause)} and not about_picture and not _SOMETHING.search(clause):
        return Role.COMMITS
    if parsed.is_description and not clause.startswith("not "):
        return Role.COMMITS
    if not parsed.text:
        if _ALL.search(clause):
            return None
        if phrases.CONCLUDES.search(clause) and _VERB.search(clause):
            return Role.COMMITS
        return Role.SEEMS if seems or _COMPARES.search(clause) or (in_first_or_last_sentence and _says_what_it_is(clause, parsed)) else None
    if seems and not about_picture:
        return Role.COMMITS
    if _echoes(clause, parsed) and not about_picture:
        return Role.SEEMS
    return Role.SEEMS if _says_what_it_is(clause, parsed) else None


def _echoes(clause: str, parsed: Asked) -> bool:
    """Return true if a clause repeats the question and adds an answer to it."""
    words, asked_for = content(clause), parsed.words - parsed.kind
    return bool(
        asked_for - parsed.subject
        and len(asked_for - words) <= (_PRONOUN.search(clause) is not None)
        and asked_for & words - parsed.subject
        and not _FIRST_PERSON.match(_LEADS.sub("", clause))
        and words - parsed.words - _GENERIC
        and not (parsed.kind and clause.startswith("there"))
        and not _SOMETHING.search(clause)
        and not re.search(r"\btoo\b", clause)
        and not _NEGATIVE.search(clause)
    )


def _echoes_question(clause: str, parsed: Asked) -> bool:
    """Return true if a clause repeats 2/3 of the question's words and adds two or more."""
    said, words = set(_TOKENS.findall(clause)), set(_TOKENS.findall(parsed.text)) - _ASKING
    return len(words) > 2 and 3 * len(words & said) >= 2 * len(words) and len(said - words) > 1


def _is_about_picture(clause: str, parsed: Asked) -> bool:
    """Return true if a clause begins by naming the image, which is not the question's topic."""
    match = _FROM_PICTURE.search(clause)
    return match is not None and not content(match[0]) & parsed.topic and not (parsed.is_text and "text" in match[0])


def _is_state(clause: str) -> bool:
    """Return true if a guess is about a state that is no answer: "it seems to be blurry"."""
    match = re.search(
        r"\b(?:seems?|appears?|looks?|be|think|guess|believe|probably|likely|maybe|perhaps)(?: (?:to be|like|that|it is|it's"
        r"|something is|that it is|it may be))? (\w.*)$",
        clause,
    )
    return (
        match is not None
        and re.match(
            r"(?:to be )?(?:missing|unclear|blurry|blurred|closed|hidden|covered|cropped|empty|cut off|impossible|hard|difficult"
            r"|unknown|obscured|out of|too )",
            match[1],
        )
        is not None
    )


def _subject(clause: str) -> str:
    """Return the words before a clause's verb; "" without a verb."""
    return _VERB.split(clause, maxsplit=1)[0] if _VERB.search(clause) else ""


def _says_what_it_is(clause: str, parsed: Asked) -> bool:
    """Return true if a clause says what the asked thing is: "it is a beagle"."""
    match = _COPULA.match(clause)
    if match is None or _STATE.match(match["rest"]) or _SOMETHING.search(clause) or _is_about_picture(clause, parsed):
        return False
    subject, rest = match["subject"], match["rest"]
    if re.match(r"(?:\w+ )?there$", subject) or re.search(r"^(?:i|we|you)$", subject):
        return False
    first = re.match(r"(?:not )?(\w+ing)\b", rest)
    if first and parsed.text:
        return stem(first[1]) in parsed.verbs or parsed.asks_for_action
    if not parsed.text:
        return True
    return re.match(r"(?:and |so |in fact |then )*(?:it|this|that|he|she|they|these|those|its)\b", subject) is not None or bool(
        content(subject) & (parsed.subject | parsed.kind or parsed.words)
    )


def _chooses_option(clause: str) -> bool:
    """Return true if a clause chooses one option by its letter and does not reject it."""
    if _LETTER_LIST.search(clause):
        return False
    letters = {letter for groups in _OPTION.findall(clause) for letter in groups if letter}
    if not letters or (len(letters) > 1 and _LETTERS_LEFT_OPEN.search(clause)) or len(letters) > 2:
        return False
    return _REJECTED.search(clause) is None


def _abstains(clauses: Sequence[_Clause], parsed: Asked, announced: bool) -> bool:
    clauses = [clause for clause in clauses if clause.role is not Role.FILLER]
    if not clauses or (announced and clauses[0].role in (Role.COMMITS, Role.ANSWERS_NO, Role.SEEMS, Role.OTHER)):
        return False
    n_sentences = clauses[-1].sentence - clauses[0].sentence + 1
    premise = parsed.is_english and any(clause.role is Role.DENIES and _denies_premise(clause.text, parsed) for clause in clauses)
    offered = next((i for i, clause in enumerate(clauses) if _OFFERS.search(clause.text)), len(clauses))
    listed = {letter for c in clauses if (letter := _listed_letter(c))}
    knows_not = [i for i, clause in enumerate(clauses) if clause.role is Role.ABSTAINS]
    committed = [
        i
        for i, clause in enumerate(clauses)
        if (
            clause.role is Role.COMMITS
            or (
                clause.role is Role.ANSWERS_NO
                and not (premise and parsed.has_options)
                and (not knows_not or (knows_not[-1] < i and content(clause.text) & parsed.words))
            )
        )
        and not (i == offered and knows_not and not content(_OFFERS.split(clause.text)[-1]) & parsed.words and parsed.text)
        and not (
            clause.is_fragment and (i > offered or (premise and i and not (parsed.is_color or parsed.is_number or parsed.has_options)))
        )
        and not (len(listed) > 1 and _listed_letter(clause))
    ]
    if plain := [i for i in knows_not if content(clauses[i].text) & parsed.words]:
        committed = [i for i in committed if clauses[i].sentence <= clauses[plain[0]].sentence or _is_committed_despite(clauses, i)]
    unsure = [i for i, clause in enumerate(clauses) if clause.role is Role.DOUBTS]
    committed += [
        i
        for i, c in enumerate(clauses)
        if c.role is Role.OTHER
        and phrases.BUT.search(c.text)
        and not _NEGATIVE.search(c.text)
        and (i - 1 in unsure or (parsed.text and i - 1 in knows_not and i - 1 not in plain and _STATES_FACT.search(c.text)))
    ]
    alternatives = [i for i in committed if _ALTERNATIVE.search(clauses[i].text) and len(clauses[i].text.split()) < 9]
    if len(alternatives) > 1 and len(alternatives) == len(committed):
        return True
    if not parsed.text and len(clauses) > MANY_CLAUSES:
        committed = [
            i
            for i in committed
            if clauses[i].sentence >= clauses[-1].sentence - 4
            or clauses[i].sentence == clauses[0].sentence
            or _chooses_option(clauses[i].text)
        ]
    seeming = [i for i, clause in enumerate(clauses) if clause.role is Role.SEEMS and not (premise and parsed.text) and i <= offered]
    if not parsed.is_english and knows_not:
        seeming = []
    seeming = [
        i
        for i in seeming
        if not any(
            content(clauses[j].text) & parsed.words - content(clauses[i].text)
            for j in plain
            if j > i and not _CONCEDES.match(clauses[j].text)
        )
    ]
    seeming = [i for i in seeming if not plain or clauses[i].sentence <= clauses[plain[0]].sentence or _is_committed_despite(clauses, i)]
    declined = [i for i, clause in enumerate(clauses) if clause.role in (Role.ABSTAINS, Role.ASKS_BACK) or _is_open(clause)]
    if len(clauses) > MANY_CLAUSES:
        declined = [i for i in declined if _is_open(clauses[i]) and not 1 < clauses[i].sentence - clauses[0].sentence < n_sentences - 4]
    if declined and (committed or seeming) and declined[-1] > max(committed + seeming):
        last = declined[-1]
        if any(phrases.WITHDRAWS.search(clauses[i].text) for i in (last - 1, last)):
            return True
    if committed:
        return False
    if seeming:
        if (
            not parsed.text
            and any(_is_open(clauses[i]) for i in declined)
            and not (n_sentences <= 2 and phrases.SEEMS.search(clauses[seeming[-1]].text))
        ):
            return True
        if not declined or declined[-1] < seeming[-1] or not (parsed.text or _is_open(clauses[declined[-1]])):
            return False
        final = clauses[declined[-1]]
        concludes = phrases.CONCLUDES.search(final.text) is not None
        return concludes or (final.sentence > clauses[seeming[-1]].sentence and (n_sentences >= 3 or not parsed.text))
    if not declined and _is_plain_statement(clauses[0], parsed):
        return any(
            clause.role in (Role.HIDDEN, Role.DENIES)
            and bool(content(clause.text) & parsed.words or _PRONOUN.search(clause.text) or _PREDICATE.search(clause.text))
            for clause in clauses
        )
    if declined or (len(clauses) <= MANY_CLAUSES and any(clause.role is Role.DOUBTS for clause in clauses)):
        return True
    absent = [clause for clause in clauses if clause.role in (Role.HIDDEN, Role.DENIES)]
    if not absent:
        return False
    if parsed.text and n_sentences <= 3 and any(clause.role is Role.HIDDEN for clause in clauses):
        return True
    if any(_is_relevant(clause.text, parsed, n_sentences) for clause in absent):
        return True
    return n_sentences <= 3 and all(clause.role is not Role.OTHER for clause in clauses)


def _is_plain_statement(clause: _Clause, parsed: Asked) -> bool:
    """Return true if a clause without a role affirms something about the asked thing."""
    return (
        clause.role is Role.OTHER
        and bool(parsed.text)
        and _VERB.search(clause.text) is not None
        and not re.search(r"\b(?:only|i|we|you)\b", clause.text)
        and not _POSSIBLES.search(clause.text)
        and not _SOMETHING.search(clause.text)
        and not _NEGATIVE.search(clause.text)
        and not _is_about_picture(clause.text, parsed)
        and bool(_PRONOUN.search(clause.text) or content(clause.text) & parsed.words or not parsed.words)
    )


def _is_committed_despite(clauses: Sequence[_Clause], i: int) -> bool:
    """Return true if a clause of the sentence, up to `i`, contrasts, concludes or guesses.

    "But", a conclusion or a guess makes the clause count although an earlier clause abstains.
    """
    begun = [c for c in clauses[: i + 1] if c.sentence == clauses[i].sentence]
    return any(c.guesses or phrases.BUT.search(c.text) or phrases.CONCLUDES.search(c.text) for c in begun)


def _listed_letter(clause: _Clause) -> str | None:
    """Return the option letter that a clause describes ("(A) shows a cat"); None if none."""
    match = re.match(r"(?:image |picture |option |point |box )?\(?([a-j])(?:\W|$)", clause.text)
    return match[1] if match and (len(clause.text) <= 2 or clause.text[match.end(1) :][:1] in ").:") else None


def _is_open(clause: _Clause) -> bool:
    """Return true if a clause abstains or doubts, and mentions the question or a choice."""
    return clause.role in (Role.ABSTAINS, Role.DOUBTS) and _NAMES_QUESTION.search(clause.text) is not None


def _is_relevant(clause: str, parsed: Asked, n_sentences: int) -> bool:
    """Return true if what a clause calls hidden or absent may be what the question is about.

    A pronoun, a general noun, the image or a missing subject counts too. Without a question, every clause of a reply of at most two
    sentences does.

    Args:
        n_sentences: number of sentences of the reply.
    """
    if not parsed.text:
        return n_sentences <= 2
    if _FROM_PICTURE.search(clause):
        return True
    words = content(clause)
    return (
        bool(words & parsed.words)
        or bool(words & _GENERIC)
        or _PRONOUN.search(clause) is not None
        or _NO_SUBJECT.search(clause) is not None
    )


def _hedges(clause: _Clause) -> bool:
    if clause.role in (Role.ABSTAINS, Role.DOUBTS, Role.HIDDEN):
        return True
    return _DOUBTFUL.search(clause.text) is not None
