"""Phrases by which replies abstain, guess, deny or correct themselves, in the languages that benchmarks use most.

Each pattern reads a clause in lower case with straight apostrophes. The lists of other languages than English hold whole phrases, not
single words that mean something else elsewhere.
"""

import re

_ADVERBS = r"(?:(?:\w+ly|just|quite|even|still|yet|ever|at all|so|very|be|currently|in fact|as yet|always|all that) )*"
_WE = rf"(?:\b(?:i|we|you|one|nobody|no one|anyone|anybody|it|(?:the |an )?ai|this model)(?:'ll|'m|'re|'d)? {_ADVERBS})"
_CANNOT = (
    r"(?:cannot|can't|can not|cant|couldn't|could not|won't|will not|wouldn't|would not|may not|might not|shouldn't|should not"
    r"|(?:(?:am|is|are|was|were|'m|'re|'s|be|been) )?(?:(?:not|n't) (?:\w+ly )?(?:able|equipped|qualified|allowed|permitted|trained|"
    r"authorized|designed|programmed|supposed|in a position|capable)(?: to| of)|(?:\w+ly )?(?:unable|powerless) to)|(?:don't|do not|"
    r"lack) (?:have )?(?:the |an? )?(?:ability|capability|means|capacity|tools?|expertise|knowledge)(?: \w+)?(?: to| of)"
    r"|fail(?:s|ed)? to|struggl\w+ to|(?:am |'m )?having (?:trouble|difficulty)|have (?:trouble|difficulty|a hard time))"
)
_FIND_OUT = (
    r"(?:be (?:\w+ )?(?:able to |of (?:much )?help|certain|sure|known|told)|tell(?!ing)|say|know|answer|determine|identify"
    r"|judge|discern|discover"
    r"|decide|choose|pick|compare|distinguish|differentiate|make (?:\w+ ){0,4}out|make (?:a|an|any|assumptions|that|such|this)\b|read"
    r"|give|offer|count|guess|help|assist|view|process|access|analy[sz]e|interpret|recogni[sz]e|verify|confirm|deny|estimate|gauge|infer"
    r"|deduce|conclude|ascertain|establish|measure|predict|provide|specify|share|comment|name|describe|respond|comply|fulfill"
    r"|speculate|assess|evaluate|calculate|compute|solve|work (?:\w+ )?out|figure (?:\w+ )?out|find out|pinpoint|locate|place"
    r"|date|open|display"
    r"|perceive|look (?:\w+ )?up|hear|smell|taste|feel|translate|decipher|disclose|reveal|pin down|narrow|complete|perform|support"
    r"|come up with|see (?:that|this|it|what|who|which|where|how|when|why|whether|if|enough|clearly|well|pictures?|images?|photos?|anything"
    r"|(?:the|this|that|your|any|an?|the \w+) (?:\w+ )?(?:image|picture|photo|file|attachment))"
    r"|diagnos\w+|get (?:\w+ )?(?:clear|good|details)|grasp|understand|count on)"
)
_FOUND_OUT = (
    r"(?:told|said|known|answered|determined|identified|judged|discerned|discovered|decided|made out|read|given|counted"
    r"|guessed|recogni[sz]ed"
    r"|verified|confirmed|estimated|gauged|inferred|deduced|concluded|ascertained|chosen|selected|classified|established"
    r"|measured|predicted|provided|specified"
    r"|assessed|evaluated|calculated|computed|solved|settled|found|obtained|compared|distinguished|deciphered|named|derived"
    r"|pinpointed|worked out|figured out|ruled on|understood|resolved|clarified|stated|located)"
)
_EVIDENCE = (
    r"(?:information|info|context|details?|data|evidence|indications?|indicators?|hints?|clues?|basis|proof|knowledge|background|sign of"
    r"|reference|cues?|markers?|label|signage|material|visuals?|description|facts)"
)
SHOWN = (
    r"(?:visible|shown|given|stated|clear|known|readable|legible|specified|indicated|mentioned|provided|depicted|certain|evident|apparent"
    r"|obvious|available|labell?ed|listed|disclosed|displayed|included|identified|identifiable|discernible|recogni[sz]able|distinguishable"
    r"|part of (?:the|this)|determined|supplied|noted|printed|marked|revealed|in (?:sight|focus|view|frame|shot)|in (?:the|this) \w+"
    r"|decipherable|sharp|resolved|explained|described|attached|uploaded|loaded|seen|detectable|perceptible|determinable|credited|named"
    r"|reported|recorded|covered by)"
)
PICTURE = (
    r"(?:pictures?|pics?|images?|photos?|photographs?|scene|frame|view|snapshot|screenshot|video|clip|caption|map|diagram|figure"
    r"|chart|graph"
    r"|text|passage|context|question|prompt|document|angle|crop|sketch|drawing|painting|footage|plot|table|page|problem|description|file)"
)
_SORRY = (
    r"(?:i'?m |i am |i |we are |we're |so |very |my )*(?:sorry|apolog\w+|unfortunately|regrettably|afraid|sadly|alas|oops|hm+|um+"
    r"|uh+|well|honestly|frankly|to be honest|thanks?(?: you)?(?: for \w+(?: \w+){0,4})?|(?:(?:that is|that's|what) )?(?:an? )?(?:good|"
    r"great|interesting|tough|hard|tricky|difficult|fun) (?:question|one|call)|hello|hi|please)"
)

SURE = re.compile(
    r"\b(?:sure|certain|certainty|confident|confidence|positive|exact(?:ly)?|precise(?:ly)?|definite(?:ly)?|definitive(?:ly)?|"
    r"guarantee\w*|entirely|completely|fully|100 ?%|quote me|double-check|unclear|mistaken|wrong|accura\w+|rule out)\b"
    r"|确定|肯定|確定|はっきり|正確|확실|정확|sicher|genau|certain|sûr|segur|certez|sicur|уверен|точно|متأكد|यकीन|zeker|emin"
    r"|chắc|yakin|pewien"
)
"""A doubt, where it stands beside an answer, and not a withdrawal of it."""

ABSTAINS = re.compile(
    "|".join(
        (
            rf"{_WE}(?:do not|don't|dont|didn't|did not|wouldn't|would not) {_ADVERBS}(?:know\b|understand|follow|recogni[sz]e"
            rf"|have (?:(?:any|an?|the|enough|sufficient|access|more|much|adequate|specific"
            rf"|personal) ?)+(?:\w+ ){{0,2}}(?:idea|clue|{_EVIDENCE}|answer|way|access|to)"
            rf"|have (?:{_EVIDENCE}|access|eyes|a crystal ball|answers)|provide|identify|feel (?:comfortable|able)|see (?:what"
            rf"|who|how|where|which|whether|if|enough|images?|pictures?))",
            r"^(?:[\w' ]{0,20}\b)?(?:do not|don't|dont) know\b(?! (?:the|his|her|their|how to|each))|\bdunno\b|\bidk\b"
            r"|\bbeats me\b|\bwho knows\b|^n/?a\W*$|\bno comment\b|^\?+$|^i(?:'ll| will)? pass\W*$",
            rf"(?:{_WE}|^|\b(?:picture|image|photo|photograph|camera|photos) )(?:'m |'re |am |are |is |really |honestly "
            rf"|simply |also )*{_CANNOT}(?: to)? {_ADVERBS}{_FIND_OUT}\b",
            r"\binability to\b",
            r"\bhaving (?:trouble|difficulty|difficulties|a hard time) \w+ing\b|\bhow (?:would|should|could|can|am|do) (?:i|we"
            r"|anyone|anybody)\b[^.]*\b(?:know|tell|supposed)\b"
            r"|\bneither you nor i\b|\b(?:i|we) (?:have|see) no (?:\w+ )?(?:reason|grounds|cause) to\b|\bi (?:avoid|refrain from|"
            r"abstain from)\b|\bi (?:try|have|choose|aim|avoid|refrain)(?: not| from)?(?: to)? (?:infer|guess|assume|mak|speculat|"
            r"identify|comment)\w*|\bi (?:don't|do not|can't|cannot) (?:speak|understand|read)\b|\bi (?:wasn't|was not) there\b",
            r"\b(?:image|picture|photo|photograph|attachment|file|link|upload)s?\b.{0,40}\bmissing(?: from| in)?(?: your| the"
            r"| this)? ?(?:message|prompt|question|conversation|chat|request)?\W*$|\b(?:image|picture|photo|photograph"
            r"|attachment|file|link|upload)s?\b.{0,40}(?:(?:\bnot|n't) (?:load|come through|attach|upload|open|display"
            r"|visible to me|been|seem to have)\w*|failed to load|corrupt\w*|\bis (?:broken|unavailable|inaccessible|blank))\b"
            r"|^(?:there is |there's |i see |i don't see |i do not see )?(?:no|any|an) (?:image|picture|photo)\b(?! of| that)",
            r"\b(?:both|either|any|each|all)(?: \w+){0,4} (?:could|might|may|can) (?:\w+ )?be (?:true|right|correct|possible"
            r"|valid|the answer|it)\b",
            r"\bi(?: am|'m)? (?:\w+ly )?(?:can't|cannot|can not|couldn't|unable to|not able to|not going to|not willing to"
            r"|not about to|not comfortable) (?!believe|wait|help but|stress|emphasi[sz]e|agree|deny|see|find|spot|notice"
            r"|detect|observe|be wrong|go wrong|make out|think of|miss|rule out|count out|exclude|guarantee|view)\w+",
            rf"\b{_EVIDENCE}\b.{{0,40}}\b(?:unavailable|missing|lacking|absent|not available|not there|not part)\b",
            r"^(?:no|sorry)?,? ?i (?:really |honestly )?(?:can't|cannot|can not|couldn't|won't)\W*$|\b(?:i|we) (?:can't|cannot"
            r"|won't|will not|am not going to) (?:\w+ )?(?:that|this)\W*$|\bi(?: can| could|'ll| have to"
            r"| must) (?:only )?(?:neither|decline|refuse|abstain|pass)\b|\bi must (?:decline|refuse)",
            rf"\b(?:cannot|can't|can not|could not|couldn't|can never|may not|won't|will not|can no longer|(?:neither|none"
            rf"|nobody|nothing|no one)\b[^.]{{0,40}}? can) {_ADVERBS}be {_ADVERBS}{_FOUND_OUT}\b",
            r"\b(?:does not|doesn't|do not|don't|did not|didn't|cannot|can't) (?:\w+ly )?(?:allow|let|permit|enable"
            r"|help) (?:me|us|one|you|for|any|a|the)\b",
            rf"(?:^|\b(?:is|are|was|were|be|it's|that's|remains?|seems?|find it|makes? it|appears?|too|very|quite|bit|pretty"
            rf"|\w+ly|it) |'s )(?:hard|difficult|tricky|impossible|challenging|tough|not easy|not possible|n't possible"
            rf"|not feasible|isn't feasible|not realistic) (?:for \w+ )?to {_ADVERBS}(?:{_FIND_OUT}|see|be)\b|\b(?:not|isn't"
            rf"|n't) (?:currently |really |\w+ly )?(?:possible|feasible)(?= (?:from|with|in|on|based|given|without|because|here|since"
            rf"|using|by|as)\b|\W*$)",
            r"^(?:so |and |but |which )?(?:it is|it's|makes it) (?:\w+ly |very |quite |too |rather |a bit )?(?:hard|difficult|tricky"
            r"|impossible|challenging|tough|not easy) (?:for \w+ )?to (?!miss|reach|believe|ignore|overstate|see why)\w+",
            r"(?:not|n't) (?:\w+ly )?(?:clear|known|obvious|evident|apparent) (?:what|which|who|whose|where|when|why|how|if|whether)\b",
            r"(?:not|n't) guarantee (?:what|which|who|where|when|how|whether)\b",
            r"^not\W*$|^only (?:an?|the) (?:[\w-]+ ){1,5}?(?:can|could|would be able to) (?!confirm|verify)\w+"
            r"|^(?:but )?not (?:how|what|which|who|whose|where|when|why|whether)\b",
            r"^(?:unsuitable|unusable)\W*$",
            rf"^(?:the )?(?:blurry|blurred|unsuitable|dark|unclear|unusable|blank|bad|poor|low[- ]quality) {PICTURE}\W*$"
            rf"|^(?:the )?{PICTURE} (?:is )?(?:upside down|out of focus|unsuitable|unusable|blank)\b",
            r"\b(?:impossible|not possible|infeasible)\W*$",
            r"\bno (?:(?:\w+ )?(?:way|means|method|basis)) (?:of|to|for|i|we|one)\b|\bno (?:telling|knowing|saying)\b"
            r"|\bno way (?:i|to|you)\b|\bis no (?:\w+ )?(?:way|answer)\b",
            rf"(?:\bnot enough|n't enough|\binsufficient|\binadequate|\btoo little|\black(?:s|ing)?(?: the| of| any)?(?: \w+)?"
            rf"|\bwithout (?:any |some |more |further |additional |the )?(?:\w+ )?|\babsence of) ?(?:\w+ )?{_EVIDENCE}\b",
            r"\b(?:is|are|was|were|be|seems?|remains?) (?:\w+ly )?(?:insufficient|inadequate|not enough|not sufficient|conjectur\w+"
            r"|speculative|guesswork|not (?:supported|offered)|n't (?:supported|offered|enough|sufficient))\b",
            rf"\b(?:no|any|nor|little|without) (?:(?:\w+|\w+ly) ){{0,2}}{_EVIDENCE}(?: \w+){{0,3}} (?:is |are |was "
            rf"|were )?(?:about|on|of|for|to|as to|regarding|in|that|whether|either|available|given|provided|shown|here|from"
            rf"|present|visible)\b",
            rf"^(?:(?:there (?:is|are|'s)|i (?:have|see)|we have) )?(?:not? |n't )(?:enough |any )?(?:\w+ )?{_EVIDENCE}\b",
            rf"\b(?:give|gives|provide|provides|offer|offers|contain|contains|has|have|there is|there are|there's|there isn't"
            rf"|see) (?:not? |not any |any |not enough |insufficient )+(?:\w+ )?{_EVIDENCE}\b",
            rf"\b(?:does not|doesn't|do not|don't|did not|didn't) {_ADVERBS}(?:provide|give|offer|contain|have|include|show"
            rf"|reveal|supply|convey|come with|carry) (?:us |me )?(?:any |enough |sufficient |the |such |that |this |a "
            rf"|an )*(?:\w+ ){{0,2}}(?:{_EVIDENCE}|answer)\b",
            rf"\b(?:more|further|additional|extra|other|some) (?:\w+ )?(?:{_EVIDENCE}|images?|views?|photos?|angles?"
            rf"|measurements?)(?: \w+){{0,3}} (?:is|are|would be|will be|might be|were) (?:\w+ )?(?:needed|required"
            rf"|necessary)\b|\b(?:i|we|you|one)(?:'d| would|'ll| will) (?:really )?(?:need|require|have) (?:to \w+|more"
            rf"|further|additional|an?|another|some more|the)\b|\bi (?:really )?need (?:to (?:see|know|have)|more|further"
            rf"|additional|a (?:closer|better|clearer|higher))\b|\bwe need (?:more|further|additional)\b",
            r"\b(?:would|will) (?:be (?:needed|required|necessary)|have to be|need to be|(?:need|require)|be (?:mere "
            r"|pure )?(?:guess|speculat)\w*)\b|\brequires? (?:more|further|additional|\w+ beyond|\w+ testing)"
            r"|\bbeyond (?:the|this|what|my)\b|\b(?:lies?|falls?|is|are) outside (?!of the (?:house|building|"
            r"window))\w+ (?:\w+ )?(?:scope|reach|knowledge|remit|capabilit\w+)\b",
            r"\b(?:i|we)(?: am|'m| are|'re) (?:\w+ )?(?:not \w* ?(?:sure|certain|confident|positive|familiar|aware|convinced)"
            r"|(?:\w+ )?(?:unsure|uncertain|clueless|stumped|unaware|unfamiliar|lost|blind)|in no position|not an? [\w ]{3,30}$)",
            r"\b(?:i|we|one|you) (?:can't|cannot|can not|couldn't|could not) (?:\w+ ){0,2}(?:sure|certain|positive)\b",
            r"^(?:(?:it|this|that|which|so|and|but)(?:'s| is)? )*(?:i'm |i am |we're )?(?:just |really |honestly |quite |too "
            r"|still )*(?:not \w* ?(?:sure|certain)|n't (?:sure|certain)|unsure|uncertain|undecided) ?(?:$|[.,;:!]|about|of"
            r"|what|which|who|where|when|why|how|if|whether|here)",
            r"\b(?:no|any|slightest|faintest|foggiest|clear) (?:idea|clue)s?\b(?! (?:that|of the))|\bguess is as good\b"
            r"|\b(?:any(?:one|body)|every(?:one|body))'?s guess\b|\b(?:i|we|i'd) (?:would )?(?:just |only )?be guessing\b"
            r"|\bpure(?:ly)? (?:guess|speculat)\w*|\bspeculat(?:ion|ive|ing|e)\b|\b(?:coin|toss)[ -](?:toss|flip|up)\b"
            r"|\b50[/-]50\b|\bfifty[ -]fifty\b",
            r"\b(?:nobody|no one|none of us|we|you|i)(?:'ll| will| can| could|'d)? (?:never )?(?:knows|really knows)\b|\b(?:we"
            r"|you|i|nobody|no one)(?:'ll| will| may| can| could) (?:never|hardly|not) (?:\w+ )?(?:know|tell|say)\b"
            r"|\b(?:nobody|no one|no man|only god|god|heaven|only \w+|only the \w+) (?:knows?|can (?:tell|say|know)|could (?:tell|know|"
            r"say|count)|would know)\b|\bclueless\b|\bremains? (?:to be seen|a mystery|unknown|unclear|open|uncertain|hidden|ambiguous)\b|"
            r"\btime will tell\b|\bcrystal ball\b|\b(?:is|'s) (?:still )?a mystery\b|\bmind[- ]reader\b",
            r"\b(?:can|could|would) only (?:guess|speculate)\b|\b(?:my|our) (?:policy|policies|guidelines?) (?:is|are|do|does|don't"
            r"|prevents?)\b"
            r"|\brather not\b|\bprefer not\b|\bnot something (?:i|we|one|you|a|the|that)\b|\bagainst (?:my|our"
            r"|the) (?:\w+ )?(?:guidelines|polic\w+|rules|programming)\b|(?:\bnot|n't) (?:be )?(?:comfortable|appropriate|ethical|allowed"
            r"|permitted)\b|\b(?:inappropriate|unethical) (?:to|for)\b|\bprivacy (?:reasons|concerns|polic\w+)\b"
            r"|\bmedical advice\b|\b(?:consult|contact|please see) (?:a|an|your)\b|\bseek (?:professional|medical|legal)\b"
            r"|\bi (?:do not|don't) (?:identify|make assumptions|do that|comment|guess|speculate)\b|\b(?:text|language)[- ](?:based|"
            r"only)\b.*\bcan(?:'t|not)\b|\b(?:do not|don't) have (?:\w+ )?(?:access|vision|eyes|the image|an image)\b",
            r"^(?:(?:the |an? |and |but |well )*[\w']+ ){0,4}(?:all |really |entirely |largely |would |can |may "
            r"|might )*(?:depends?|varies|vary)\b",
            r"(?<!\bthe )\b(?:unknown|unclear|unknowable|unanswerable|indeterminate|undetermined|undeterminable|indeterminable"
            r"|unspecified|undefined|undisclosed|unreadable|illegible|ambiguous|inconclusive|unidentifiable|undecidable"
            r"|indiscernible|unverifiable|indistinguishable|unrecogni[sz]able|unresolved|unstated|unnamed|unlabell?ed)\W*$"
            r"|^(?:(?:it|that|this|[a-z' ]{1,40}) (?:is|are|was|remains?) |it's |that's )?(?:\w+ly )?(?:unknown|unclear"
            r"|unanswerable|undetermined|ambiguous|uncertain|unreadable|illegible|indeterminate|unspecified)\b(?! (?:soldier"
            r"|pleasures|man|artist|kitchen|photo|picture|person))",
            r"^(?:a |still )*(?:photo|picture|image|photograph)s?\b.*\b(?:silent|no sound|no audio)\b|\bpicture(?:s)? (?:can't"
            r"|cannot|don't) (?:talk|speak|tell)\b",
            r"^(?:all|any|both|several|many|multiple|either|none|neither)(?: of)?(?: (?:the|these|those))? (?:options|answers|"
            r"interpretations|readings|choices) (?:is|are|seem|can|could) (?:\w+ )?(?:possible|be (?:verified|confirmed|determined|right|"
            r"correct|chosen))\b|\b(?:could|might) be (?:\w+ly )?any(?!where (?:between|from|near|around))|\beither (?:way|one)\W*$|"
            r"\bone way or (?:the other|another)\b",
            r"\b(?:this|that|it|\w+) (?:\w+ )?(?:is|are|'s|isn't|aren't) (?:not|n't)? ?(?:\w+ )?(?:something|a question"
            r"|a thing|a matter)(?: that)? (?:\w+ ){0,3}(?:can't|cannot|can not|settle|answer|know|tell)",
            r"\bonly\b[^.]{0,200}\bcan be (?:seen|read|made out)\b|\b(?:nothing|n't anything"
            r"|not anything|no \w+) (?:[\w'-]+ ){0,5}(?:that |which )?(?:would |could |can |might )?(?:indicates?|suggest|tell|say|show"
            r"|says|tells|shows|to measure|to tell|to compare|to go (?:on|by)|to indicate"
            r"|indicates|suggests|identif\w+|to suggest|relates?|pertains?|refers?|hints?|reveals?)\b",
            r"\btoo many\b(?! of)|\bcountless\b|\buncountable\b|\binnumerable\b|\bmore than (?:one|anyone|i|you) c(?:an|ould)\b",
            r"\b(?:question|premise) (?:\w+ ){0,2}(?:makes no sense|does(?: not|n't) make sense|is (?:flawed|wrong|false"
            r"|invalid|unanswerable|ambiguous|unclear)|assumes|presupposes|contains? an? (?:error|false)|has no answer|can't"
            r"|cannot)|\bmakes no sense\b|\bdoes(?:n't| not) apply\b|\bnot applicable\b|\binapplicable\b|\bfalse premise\b"
            r"|\btrick question\b|\bno (?:answer|correct answer|valid answer|right answer)\b|\bno such\b",
            # other languages
            r"无法|不能(?:确|判|回|识|提供|辨|告|说|帮)|不(?:知道|清楚|确定|太确定|明确|可能(?:确|知|判))|(?:很难|难以)\w{0,8}?(?:说|判|确|看|辨|识)|看不(?:出|清|到|见)|说不(?:准"
            r"|好|清)|(?:信息|条件|线索|依据|证据)(?:不足|不够)|(?:没有|未|缺乏|没)(?:给出|提供|足够|显示|说明|标明|提到"
            r"|任何信息|相关信息|注明)|未知|不详|不明|不足以|不得而知|没法|没办法|无从"
            r"|我?不晓得|沒有足夠|無法|不確定|看不清楚?|抱歉.{0,4}(?:不能|没办法)|不敢(?:确|肯)",
            r"(?:分か|わか|判)りません|(?:分か|わか)らない|(?:わか|分か)りかね|不明|(?:判断|特定|確認|識別|回答|判別|お答え"
            r"|答え|言え|読み取|読|数え|推測|断定|把握|見え|区別)(?:が|を|する"
            r"|する事|すること|る)?(?:ことは|ことが)?(?:られ|え|れ)?(?:でき|出来|られ|れ|え)?(?:ま?せん|ない|かね|ません)"
            r"|かねます|かねる|できません|出来ません|できない|困難|難しい|情報(?:が|は)(?:不足|足り|十分|あり|ない)|知りません|存じません|"
            r"なんとも言え|言えません|見えません|読めません|不可能|はっきりし(?:ない|ません)",
            r"알 수 ?(?:가 )?없|모르(?:겠|는|지)|모릅니다|몰라요|(?:할|볼|셀|읽을|답할|알|말할|판단할|확인할|식별할|구별할"
            r"|특정할|제공할|도와드릴|추측할) 수(?:가|는)? ?없|어렵습니다|어려워"
            r"|불가능|불분명|불명|미상|정보가? (?:부족|없|충분하지)|확실하지 않|확실치 않|명확하지 않|보이지 않습니다|않아 알|정확히 알",
            r"\b(?:weiß|weiss) (?:ich )?(?:es )?(?:leider )?nicht\b|\bkeine ahnung\b|\b(?:kann|können|lässt sich|lassen sich"
            r"|könnte|konnte|ist|wird|vermag|darf)\b(?!.{0,30}(?:zu sehen)).{0,80}\bnicht\b.{0,60}\b(?:sagen|erkennen"
            r"|bestimmen|beantworten|sehen|feststellen|ermitteln|beurteilen|identifizieren|zählen|lesen|möglich|ersichtlich"
            r"|erkennbar|bekannt|lesbar|klar|entscheiden|ableiten|helfen|angeben|nennen|eindeutig|entnehmen|sicher"
            r"|ausmachen)\b|\bnicht\b.{0,25}\b(?:sagen|erkennen|bestimmen|beantworten|feststellen|ermitteln|beurteilen"
            r"|identifizieren|möglich|ersichtlich|erkennbar|bekannt|lesbar|sicher|zu (?:sagen|bestimmen|erkennen|beantworten"
            r"|lesen))\b|\b(?:man|ich|wir) (?:sieht|sehe|sehen|erkennt|erkenne)\b.{0,40}\bnicht\b|\bnicht hervor\b"
            r"|\bkeine (?:\w+ )?(?:informationen|angaben?|personen identifizieren|auskunft|antwort|aussage)\b|\bunbekannt\b"
            r"|\bunklar\b|\bschwer zu (?:sagen|erkennen)\b|\bunmöglich\b|\bkann\b.{0,40}\bkeine\b.{0,40}\b(?:identifizieren"
            r"|geben|machen|erkennen|nennen|treffen)\b|\bnicht genug\b|\bnicht genügend\b|\bnicht ausreichend",
            r"\bn(?:e|')(?: le| la)? ?(?:sais|sait|peux|peut|peuvent|pouvons|connais|permet|permettent|parviens|parvient"
            r"|saurais|suis|dispose|distingue|donne|précise|fournit|indique|montre)\b.{0,60}?\bpas\b(?!.{0,3}que seul)"
            r"|\bje ne (?:sais|saurais|peux|connais)\b|\bon ne (?:sait|peut|voit|distingue)\b|\bon ne voit pas\b"
            r"|\bje ne vois pas\b|\baucune (?:idée|information|indication|réponse)\b|\bimpossible (?:de|à)\b|\b(?:difficile|dur) (?:de|"
            r"à) (?:dire|déterminer|savoir|voir|identifier)|\bindéterminé|\binconnue?\b|\bpas (?:assez|suffisamment) d|\binsuffisant|"
            r"\bimpossible\W*$|\bpas (?:clair|possible|certain|sûr|visible|lisible)|\baucun moyen\b|\billisible",
            r"\bno (?:lo |la |me |te |se )?(?:sé|sabría|sabe|puedo|se puede|se pueden|podría|es posible|consigo|logro"
            r"|tengo (?:idea|información|suficiente|acceso|forma|certeza|manera)|estoy segur|está clar|queda clar|se (?:ve"
            r"|aprecia|distingue|indica|especifica|menciona|muestra|sabe) (?:con claridad|claramente|bien|en)"
            r"|hay (?:suficiente|información|forma|manera|datos)|proporciona|ofrece|permite|cuento con)\w*|\bni idea\b"
            r"|\bdesconocid|\bdesconozco\b|\bimposible (?:de|saber|determinar|decir)|\bdifícil (?:de )?(?:decir|saber"
            r"|determinar|contar\w*|precisar|ver)|\bilegible|\bno se sabe\b|\binsuficiente|\bindeterminad",
            r"\bnão (?:o |a |se |me )?(?:sei|posso|pode|consigo|é possível|dá para|tenho (?:certeza|ideia|informaç|como"
            r"|acesso)|há (?:informaç|como|dados)|está claro|fornece|permite|está visível|saberia|sabemos|conheço)\w*"
            r"|\bdesconhecid|\bdesconheço\b|\bimpossível\b|\bdifícil (?:de )?(?:dizer|saber|determinar)|\bsem (?:informaç"
            r"|ideia)|\binsuficiente",
            r"\bnon (?:lo |la |ne |si |mi |ti |vi )?(?:so|saprei|posso|può|possono|riesco|è possibile|è chiaro|sono (?:sicur"
            r"|cert|in grado)|ho (?:idea|informazioni|abbastanza|modo|accesso)|ci sono (?:informazioni|abbastanza|elementi)"
            r"|fornisce|permette|consente|è (?:noto|visibile|dato|specificat|indicat)|dispongo|conosco|si sa)\w*|\bsconosciut"
            r"|\bimpossibile\b|\bdifficile (?:da )?(?:dir|dire|stabil|determin|capir)\w*|\bnessuna idea\b|\bignot[oai]\b"
            r"|\binsufficient[ei]",
            r"не (?:знаю|могу|можем|удаётся|удается|уверен|видно|ясно|понятно|известно|указан|возможно|разобрать|хватает"
            r"|представляется|смогу|в состоянии|определить|знает|разглядеть|достаточно|различим)|невозможно|неизвестно|неясно"
            r"|непонятно|нельзя (?:определить|сказать|понять|установить|увидеть|узнать|ответить)|(?:трудно|сложно"
            r"|тяжело) (?:сказать|определить|понять|судить)|недостаточно (?:информации|данных)|понятия не имею|неразборчив"
            r"|затрудняюсь|(?:определить|сказать|понять|установить|судить|узнать) (?:нельзя|сложно|трудно|невозможно|не)"
            r"|нет (?:информации|данных|сведений)",
            r"لا (?:أعرف|أعلم|أستطيع|يمكن\w*|أدري|نعرف|يمكننا|تتوفر|توجد معلومات|تكفي|يتضح|نستطيع|تحتوي .{0,20}معلومات|تظهر .{0,10}بوضوح|"
            r"أملك|يظهر بوضوح)|(?:غير|ليس) (?:معروف|واضح|ممكن|مؤكد|متأكد|محدد|كاف|مرئي)\w*|لست (?:متأكد|واثق|متيقن)\w*|من (?:الصعب|"
            r"المستحيل)|يصعب|يستحيل|مجهول|لم أتمكن|غير قادر|معلومات (?:غير )?كافية|تعذر|يتعذر|ليس لدي",
            r"(?:नहीं (?:पता|मालूम|जानता|जानती|बता (?:सकत|पा)|कह सकत|कर सकत|देख सकत|पहचान सकत|किया जा सकत|बताया जा सकत|जा सकता"
            r"|दिख रहा कि|सकता|सकती|है कि)|पता नहीं|(?:संभव|स्पष्ट|ज्ञात|निश्चित|मुमकिन|यकीन|पर्याप्त|साफ) (?:जानकारी )?नहीं"
            r"|असंभव|अज्ञात|मुश्किल है|कठिन है|जानकारी (?:नहीं|पर्याप्त नहीं)|असमर्थ|अस्पष्ट)",
            r"\bweet (?:ik )?(?:het )?niet\b|\bgeen idee\b|\bniet (?:te (?:zien|zeggen|bepalen|lezen|achterhalen)|duidelijk"
            r"|bekend|zeker|mogelijk|zichtbaar|leesbaar)\b|\bkan (?:ik )?(?:dat |het |dit )?(?:\w+ )?niet\b|\bonbekend\b"
            r"|\bonmogelijk\b|\bmoeilijk te (?:zeggen|zien)",
            r"\bnie (?:wiem|wiadomo|mogę|można|jestem (?:pewien|pewna|w stanie)|da się|widać, |jest (?:jasne|możliwe|znan))\w*"
            r"|\btrudno (?:powiedzieć|określić|stwierdzić)|\bnieznan|\bniemożliwe|\bbrak (?:informacji|danych)",
            r"\bbilmiyorum\b|\bbilmiyoruz\b|\bbilinmiyor\b|\bbelirsiz\b|\bemin değil|\bbelli değil|\bmümkün değil|\b(?:söyle"
            r"|belirle|gör|cevapla|tespit|tanımla|bil|oku|yanıtla)\w*(?:emiyor|amıyor|emem|amam|emez|amaz|enemiyor|anamıyor"
            r"|inemez|anamaz|enemez)\w*|\b(?:zor|imkansız)\W*$|\bsöylemek (?:zor|güç)|\byeterli bilgi yok",
            r"\bkhông (?:biết|thể|chắc|rõ|xác định|đủ|nhìn (?:rõ|thấy rõ)|có (?:đủ )?thông tin|có cách)|\bchưa (?:biết|rõ)"
            r"|\bkhó (?:nói|xác định|biết)",
            r"\b(?:tidak|tak|belum|kurang) (?:tahu|bisa|dapat|yakin|jelas|diketahui|mungkin|cukup|pasti"
            r"|memiliki (?:cukup )?informasi|terlihat jelas|mengetahui)|\bsulit (?:untuk )?(?:dikatakan|ditentukan|mengatakan"
            r"|menentukan)|\bmaaf, saya tidak",
        )
    )
)
"""A clause that says that the answer is not known, cannot be found, or is not given."""

HIDDEN = re.compile(
    "|".join(
        (
            rf"\b(?:is|are|was|were|'s|'re|be|appears?|seems?)(?: to be)?(?: not|n't) {_ADVERBS}(?:\w+ )?{SHOWN}"
            rf"|^(?:\w+ )?not {_ADVERBS}{SHOWN}|\b(?:isn't|aren't|wasn't|weren't) {_ADVERBS}{SHOWN}",
            r"\b(?:is|are|was|were|'s|'re|been|being|remains?|stays?|gets?|\w+) (?:\w+ly |too |mostly |half |all "
            r"|just )*(?:hidden|covered|obscured|obstructed|blocked|concealed|cropped|cut off|torn(?: off)?|blurred(?: out)?"
            r"|smudged|redacted|censored|pixelated|faded|worn|scratched|masked|turned away|occluded|erased|face down|(?:turned"
            r"|switched) off"
            r"|upside down|blacked out|cut out|washed out|overexposed|underexposed)\b(?! (?!(?:by|in|from|at|behind|on|with|to|due|"
            r"because|and|or|but|under|so|out|away|for|here|as|off|too|since|that|if|up|over|partially|completely|entirely)\b)\w)",
            r"\b(?:cannot|can't|can not|could not|couldn't) (?:\w+ly )?be (?:\w+ly )?(?:seen|read|made out|heard|spotted"
            r"|viewed|observed|detected|perceived|recogni[sz]ed)\b",
            rf"\b(?:outside|out of|beyond) (?:(?:of|the|this|our|camera) )*(?:{PICTURE}|sight|focus|edge|shot|range)\b"
            rf"|\boff[ -]?(?:camera|screen|frame|shot)\b|\bnot in (?:{PICTURE}|the|this|focus|sight|shot)\b",
            r"\btoo (?:\w+ )?(?:small|blurry|blurred|dark|dim|far|unclear|little|grainy|faint|low|distant|bright|tiny"
            r"|pixelated|poor|crowded|fuzzy)\b|\b(?:is|are|looks?|too|very|so|quite) (?:\w+ )?(?:blurry|grainy|fuzzy|pixelated"
            r"|low[- ]resolution|shut|closed|locked|folded|sealed|unreadable|illegible|blank)\b",
            r"\b(?:faces?|facing|turned|looks?|looking|pointed|pointing) (?:\w+ )?away\b|\bback (?:is )?(?:turned )?(?:to"
            r"|towards?) (?:the |us|me)|\bfrom behind\b",
            rf"(?:{_WE}|^)(?:do not|don't|cannot|can't|can not|couldn't|could not|didn't|did not|(?:am |are )?not able to"
            rf"|(?:am |are )?unable to|only able to|can only|barely|hardly) (?:\w+ly |quite |even )?(?:see"
            rf"|make out|spot|find|view|detect|notice|observe|perceive)\b",
            rf"(?:^|\b(?:{PICTURE}|it|this|that|\w+) (?:alone |itself |only )?)(?:does not|doesn't|do not|don't|didn't|did not|can't"
            rf"|cannot|fails to|never) {_ADVERBS}(?:record|report|document|afford|furnish|lend|exhibit|enumerate|support|say|tell"
            r"|show|specify|mention|indicate|state|reveal|depict|display|identify|list|name|give|contain|include|feature|have|present|"
            r"explain|suggest|disclose|clarify|describe|capture|provide|allow|let|permit|load|match)\b",
            r"\bzu (?:klein|dunkel|unscharf|weit|verschwommen|undeutlich)\b|\btrop (?:petit|flou|sombre|loin)"
            r"|\bdemasiado (?:pequeñ|oscur|borros|lejos)|\b(?:muito|demasiado) (?:pequen|escur|borrad)|\btroppo (?:piccol|scur|sfocat|"
            r"lontan)|слишком|すぎ|너무|太(?:小|模糊|暗|远|黑)|\b(?:verdeckt|versteckt|unscharf|verschwommen|abgeschnitten|unleserlich|"
            r"nicht im bild|caché|cachée|flou|floue|coupé|oculto|ocultas?|borros[ao]|tapad[ao]|escondid|nascost|sfocat|copert[oaie]|"
            r"zasłoni|bulanık|mờ|buram|kabur)|скрыт|размыт|закрыт|не попал|遮|模糊|挡住|隠れ|ぼやけ|가려|흐려|흐릿|छिप|धुंधल|مخفي|محجوب",
            rf"\b{PICTURE} not (?:show|say|tell|mention|give|indicate|contain|have|write)\b",
            rf"\b{PICTURE} (?:alone |only )?(?:gives? no|shows? no|has no|lacks|offers? no|says? nothing"
            rf"|tells? (?:us )?nothing|shows? nothing|contains? no|contains? neither|shows? only|only shows?)\b",
        )
    )
)
"""A clause that says that something is hidden, unreadable or not shown."""

DENIES = re.compile(
    "|".join(
        (
            r"\bthere(?:'s|'re| is| are| was| were| has| have)?(?:n't| not| never)? ?(?:\w+ly |also |even |to |seems? "
            r"|appears? |be )*(?:no\b|not\b|nothing|nobody|none|neither|no one|only|just)|\bthere(?:'s| is| are)? (?:isn't"
            r"|aren't|wasn't|weren't)|\bthere (?:isn't|aren't|wasn't|weren't|ain't)\b",
            r"\bthere (?:does not|doesn't|don't|do not) (?:seem|appear)\b|\bthere (?:seems|appears|seem|appear) to be no",
            r"\b(?:i|we|you|one)(?: can| could)? (?:see|find|found|spot|notice|detect|observe) (?:no|none|nothing|neither|only)\b",
            r"^(?:no|none|nobody|nothing|neither|not one|not a single)\b[^,]*\b(?:visible|seen|shown|present|there|here"
            r"|exists?|appears?|depicted|found|pictured|highlighted|given|included|is \w+ing|are \w+ing|being \w+ed|in (?:the"
            r"|this|that|these) \w+|on (?:the|this) \w+)\b",
            r"\b(?:is|are|was|were|'s|'re)(?: not|n't) (?:\w+ )?(?:present|here|there|included|depicted|pictured|in it)\b"
            r"|\b(?:is|are|was|were|'s|'re|be|to be)(?: not|n't) (?:\w+ly )?\w+ing\b|\b(?:isn't|aren't|wasn't|weren't) (?:\w+ly )?\w+ing\b",
            r"\b(?:has|have|wears?|holds?|carries|contains?|bears?|shows?|had) (?:no|neither|nothing)\b|\b(?:is|are"
            r"|'s) (?:\w+ing )(?:no\b|nothing|nobody)",
            r"\b(?:does not|doesn't|do not|don't|did not|didn't) (?:\w+ly |even |actually )?(?:seem (?:to be (?:an?|any"
            r"|\w+ing)|to (?:have|wear|hold))|have|wear|hold|carry|exist|appear|contain|include|show|feature|bear)\b|\b(?:is"
            r"|are|was|were|'s) (?:\w+ly )?(?:empty|absent|missing|nonexistent|blank|bare)\b",
            r"\b(?:is|are|was|were|'s|'re)(?: not|n't) (?:an?|the|any|my|your|one|really an?|actually an?)\b|\b(?:isn't|aren't"
            r"|wasn't|weren't) (?:an?|the|any|one|really an?|actually an?)\b",
            r"\bonly (?:one|two|a|an|the)\b.*\b(?:is|are|was|were) (?:\w+ )?(?:present|shown|visible|drawn|given|provided|there)\b|"
            r"\b(?:don't|doesn't|do not|does not) exist\b",
            r"^(?:it's |it is |there's |there is |he's |she's |\w+ is |i see )?(?:\w+ing )?(?:nothing|none|nobody|no ?one"
            r"|nowhere|no such \w+)(?: at all| there| here| really| visible| is \w+ing| was \w+ing)?\W*$",
            # other languages
            r"(?:没有|沒有|并无|并没有|不存在|看不到|未见)|没(?=有|人|车)",
            r"(?:写って|映って|見当たり|存在し|含まれて|描かれて|見られ|表示されて)(?:い)?(?:ません|ない)|(?:は|が|も)(?:い"
            r"|あり)ません|(?:は|が)(?:い|)ない(?:です)?\W*$|誰も",
            r"(?:가|이|은|는|도) ?(?:보이지 않|없|존재하지 않)|없습니다|없어요",
            r"\b(?:kein|keine|keinen|keiner|keines|niemand|nichts)\b|\bnicht (?:zu sehen|vorhanden|sichtbar|abgebildet|geöffnet)",
            r"\bn'y (?:a|avait|en a) (?:pas|aucun|personne|rien|plus)|\bil y a pas\b|\baucune? \w+|\bne (?:porte|tient"
            r"|contient|montre|comporte|possède|voit)\b|\bpersonne\W*$|\bn'(?:a|ont|est|apparaît) (?:pas|aucun)",
            r"\bno (?:hay|existe|aparece|tiene|lleva|contiene|muestra|se ve|se observa|veo|sostiene)\w*|\bning[uú]n[ao]?\b"
            r"|\bnadie\b|\bnada\W*$",
            r"\bnão (?:há|existe|tem|aparece|contém|mostra|vejo|segura)\w*|\bnenhum[a]?\b|\bninguém\b|\bnada\W*$",
            r"\bnon (?:c'è|ci sono|c'e|vedo|ha|indossa|appare|contiene|mostra|si vede|esiste)\w*|\bnessun[oa]?\b|\bniente\W*$",
            r"(?<!\w)нет(?!\w)|отсутству|никого|ничего|не (?:видно|изображен|держит|носит|вижу)",
            r"لا (?:توجد|يوجد|أرى|تظهر|يظهر|تحتوي|يحتوي|يحمل|ترتدي)|ليس (?:هناك|في|لديه)|ليست هناك",
            r"(?:कोई|नहीं) .{0,30}नहीं|नहीं (?:है|हैं|दिख)",
            r"\bgeen\b|\bniemand\b|\bnie ma\b|\bnie widać\b|\b(?:yok|yoktur|bulunmuyor|görünmüyor)\b|\bkhông có\b|\btidak ada\b",
        )
    )
)
"""A clause that says that something is not there or not so."""

ASKS_BACK = re.compile(
    r"\b(?:do|did) you mean\b|^(?:you|u) tell me\b|\byou (?:mean|are (?:asking|referring|talking))\b|\bare you (?:asking|referring|talking"
    r"|speaking)\b|\bis meant\b"
    r"|^(?:sorry|and|but|but which|uh|hm+)?,? ?(?:which|what|who|whose|where)\b[^.]*\?$|^(?:is|are|was|does) (?:what|who|which)\b"
    r"|\b(?:could|can|would|will) you (?:please |kindly )?(?:tell|clarify|specify|say|be|give|explain|name|point|provide"
    r"|upload|share|send|describe|rephrase)\b"
    r"|\bplease (?:say|specify|clarify|tell|name|provide|upload|share|send|rephrase|attach|re-?upload|describe)\b|\bneed to know which\b"
    r"|请(?:提供|说明|具体|重新|上传)|どの|どちら.*(?:でしょうか|ですか)|教えて(?:ください|いただ)|어느 .*(?:까|요)\?"
    r"|알려\s?주|\bmeinen sie\b|\bmeinst du\b|\bwelche[rsn]? .*\?$|\bbitte (?:geben|laden|senden|präzis)"
    r"|\bpouvez-vous\b|\bpourriez-vous\b|\bde quel(?:le)?\b.*\?$|\bpodría(?:s)? (?:decir|aclarar|especificar|indicar"
    r"|proporcionar)|\ba (?:qué|cuál)\b.*\?$|\bpoderia (?:esclarecer|especificar|fornecer)|\bpotresti\b|\bpotrebbe\b|уточните"
    r"|какую именно|какой именно|пожалуйста, (?:предоставьте|загрузите)|هل (?:تقصد|يمكنك)|कौन[- ]स[ीाे].*\?"
)

GUESSES = re.compile(
    r"\b(?:i|i'd|we|one)(?:'d)?(?: (?:would|might|will|could|can|do|am|'m))?(?: \w+ly| still| just| also)* (?:think|guess"
    r"|believe|suppose|assume|say|bet|imagine|estimate|lean(?:ing)?|reckon|suspect|venture|go with|go for|choose|pick|opt"
    r"|wager|put my money|describe (?:it|him|her|them|this)|call (?:it|this)|hazard|infer|gather|presume|conclude"
    r"|call it)\b(?! (?:not|that's impossible|whether|if|what|who|where|how))"
    r"|\b(?:my|best|educated|wild|rough|only)(?: \w+)? (?:guess|bet|estimate|hunch|answer|choice)\b|\bmy money(?:'s| is)?\b"
    r"|\bmaybe\b|\bperhaps\b|\bprobabl[ey]\b|\bpossibly\b|\bmost likely\b|\b(?:very |quite |more )?likely\b|\bpresumably\b"
    r"|\bsupposedly\b|\bapparently\b|\bplausible\b|\bplausibly\b|\bseemingly\b"
    r"|\b(?:may|might|could|must|ought to) (?:\w+ly |well |also )?be\b|\b(?:would|should) (?:\w+ly )?be (?:an?|the|around|about|\d)\b|"
    r"\b(?:suggest(?:s|ing)?|implies|imply|points? (?:to|at|toward)|hints? at|conveys?|express(?:es)?|consistent with|indicates?|"
    r"indicating|tells? (?:us|me)|resembles?|reminds? me of|strongly)\b"
    r"|\b(?:if i (?:had|have|were) to|forced to|gun to my head|if pressed)\b|\b(?:judging|going) (?:by|from)\b"
    r"|\bin all likelihood\b|\bchances are\b|\bat a guess\b|\bguess:|^around\b|^about\b|^roughly\b|\bapproximately\b"
    r"|\bsomewhere (?:around|between|near|in)\b|\bat least\b|\ban? educated guess\b"
    r"|\b(?:by|from) the look(?:s)? of\b|\btaken in\b|\bmean(?:s|ing)? (?:it|that|this|he|she|they)\b"
    # other languages
    r"|可能(?:是|有|在|为|會|会|来自)|也许|或许|大概|大约|应该(?:是|有|在|会|为)|看起来|看上去|似乎|好像|估计|我猜|我认为|推测"
    r"|最有可能|很可能|多半|大致|我觉得|至少|應該是|看起來|大約"
    r"|おそらく|恐らく|たぶん|多分|ようです|ように(?:見え|思)|と思(?:い|わ)|みたい|かもしれ|でしょう|らしい|そうです"
    r"|推測します|可能性が(?:高い|あり)|約|少なくとも|っぽい"
    r"|것 같|아마|듯(?:합|해|하)|보입니다|보여요|추정|추측|로 보|생각(?:합|해|됩)|일 가능성|약 |적어도|최소"
    r"|\b(?:wahrscheinlich|vermutlich|vielleicht|möglicherweise|wohl|anscheinend|scheint|scheinen|sieht (?:\w+ )?(?:aus|nach)"
    r"|ich (?:glaube|denke|vermute|würde|schätze|tippe)|könnte|dürfte|etwa|ungefähr|mindestens|circa|ca\.|deutet"
    r"|schätzungsweise|eventuell)\b"
    r"|\b(?:probablement|peut-être|sans doute|semble|semblent|paraît|je (?:pense|crois|dirais|suppose|parie)|on dirait|environ"
    r"|vraisemblablement|au moins|pourrait (?:être|bien)|doit être|ressemble|suggère|à mon avis)\b"
    r"|\b(?:probablemente|quizás?|tal vez|posiblemente|parece|parecen|creo|supongo|diría|pienso|alrededor de|aproximadamente"
    r"|unos|unas|podría ser|debe (?:de )?ser|al menos|por lo menos|seguramente|sugiere)\b"
    r"|\b(?:provavelmente|talvez|possivelmente|acho|parece|parecem|creio|diria|suponho|cerca de|aproximadamente|pode ser"
    r"|deve ser|pelo menos|sugere)\b"
    r"|\b(?:probabilmente|forse|sembra|sembrano|credo|penso|direi|suppongo|circa|potrebbe essere|dovrebbe essere|almeno|pare"
    r"|suggerisce|magari)\b"
    r"|вероятно|возможно|наверное|кажется|похоже|думаю|полагаю|скорее всего|может быть|пожалуй|видимо|я бы сказал|примерно"
    r"|около |предположительно|по-видимому|судя по|не менее|должно быть"
    r"|ربما|يبدو|أظن|أعتقد|على الأرجح|من المحتمل|قد (?:يكون|تكون)|لعل|حوالي|تقريبا|من المرجح|على الأقل"
    r"|शायद|लगता है|लगभग|संभवतः|संभवत|मेरे (?:ख्याल|विचार|अनुसार)|मुझे लगता|प्रतीत|हो सकता है|करीब|सम्भवतः|कम से कम"
    r"|\b(?:waarschijnlijk|misschien|vermoedelijk|denk ik|ik denk|lijkt|ongeveer|chyba|prawdopodobnie|może|wygląda|myślę"
    r"|sanırım|galiba|muhtemelen|belki|gibi|tahminim|có lẽ|có thể là|chắc là|hình như|khoảng|tôi nghĩ|sepertinya|mungkin"
    r"|kemungkinan|tampaknya|kira-kira|barangkali|saya rasa)\b",
)
"""A clause that gives an answer with a doubt."""

SEEMS = re.compile(r"\b(?:looks?|seems?|appears?|looking)\b(?! (?:at|for|into|up|away|closely|carefully)\b)")
"""A clause that gives an answer by its look; what the picture or the image seems like is no answer."""

BUT = re.compile(
    r"^(?:but|however|though|although|still|yet|nevertheless|that said|even so|不过|但|但是|然而|しかし|ただ|でも|だが|하지만"
    r"|그러나|aber|jedoch"
    r"|allerdings|mais|cependant|toutefois|pero|sin embargo|aunque|mas|porém|contudo|embora|ma|però|tuttavia|но|однако|хотя|لكن"
    r"|ولكن|लेकिन|पर|मगर|maar|ale|jednak|ama|ancak|fakat|nhưng|tapi|tetapi|namun)(?:\b|(?<=[\u3040-\u9fff\uac00-\ud7af]))"
)
WITHDRAWS = re.compile(
    r"^(?:but |and |oh |hm+,? )?(?:actually|wait|on second thoughts?|scratch that|no wait|then again|come to think of it"
    r"|correction|on reflection|nein, doch|en fait|in realtà|на самом деле)\b"
)
CONCLUDES = re.compile(
    r"^(?:so|therefore|thus|hence|ultimately|in conclusion|in summary|overall|as a result|consequently|unfortunately|based on"
    r"|given|in short|to sum up|finally)\b"
)
FILLER = re.compile(
    rf"^(?:{_SORRY}\W*)+$|^(?:{_SORRY},? )?(?:(?:but|so|and|however),? )?(?:sure|certainly|of course|okay|ok|alright|great|"
    rf"let's get started|let me (?:see|look|think|check)|let's see|as an? (?:(?!i\b)[\w'-]+ ?){{1,6}}|i hope (?:this|that|it) helps|"
    r"(?:i(?:'d| would)? (?:\w+ly )?(?:recommend|suggest|advise|encourage|urge)|please consult|it(?:'s| is) best to)\b.*\b(?:consult\w*|"
    r"see(?:ing|k|king)?|check\w*|doctor|dermatologist|physician|professional|specialist|expert|pharmacist|vet|lawyer)\b.*|who can\b.*|"
    r"please (?:take|check|ask|refer|visit|try|be aware)\b.*|(?:please )?(?:let me know|feel free)\b.*|if you\b.*|(?:and |then )?i(?:'ll|"
    r" will|'d be| would be) (?:help|assist|happy|glad|do my best|try|analy[sz]e)\b.*|is there anything\b.*|here(?:'s| is)\b.*|however|"
    r"therefore|thus|so|hence|additionally|moreover|furthermore|in addition|for example|note|explanation|reasoning|disclaimer|lol|haha\w*|"
    r"sorry about that|thank you)\W*$"
    r"|^作为.{0,10}$|^(?:抱歉|对不起|很抱歉|不好意思|對不起|申し訳(?:ありませんが|ございませんが|ありません|ございません)?|"
    r"すみません(?:が)?|ごめんなさい|죄송하지만|죄송합니다(?:만)?|미안하지만|es tut mir (?:sehr )?leid|tut mir leid|entschuldigung|leider|"
    r"désolée?|je suis désolée?|malheureusement|lo siento|lo lamento|perdón|desafortunadamente|lamentablemente|desculpe|desculpa|"
    r"sinto muito|infelizmente|mi dispiace|scusa|scusi|purtroppo|извините|простите|к сожалению|увы|عذر[اً]+|آسف|للأسف|أنا آسف|معذرة|"
    r"माफ़? ?(?:कीजिए|करें|कीजिएगा)?|क्षमा करें|sorry|helaas|przepraszam|niestety|üzgünüm|maalesef|xin lỗi|rất tiếc|maaf)\W*$"
)
"""A clause that says nothing on the matter."""
