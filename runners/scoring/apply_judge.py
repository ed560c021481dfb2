"""Give answers to a judge: equal ones once, whatever model and variant they are from."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from qualm.registry import EVIDENCE
from qualm.registry.plugins import registry
from qualm.registry.plugins.column_names import CHOICES
from qualm.registry.plugins.columns import reads_choices, reads_open
from qualm.runners.contracts.judges import JudgeContext, JudgeError, Judgement
from qualm.runners.contracts.returned import call_plugin, check_list
from qualm.runners.runtime.settings import Settings

OTHERWISE = "otherwise"
"""The parameter of a judge that names the judge of what it cannot read."""
CENTRAL = ("f1_idk", "lave_idk_accuracy", "confidence_weighted_accuracy")
"""CertainlyUncertain's metrics, which count an abstention as right where a question has no answer."""


@dataclass(frozen=True, slots=True)
class Answered:
    """One answer to be judged, with its question, reference answers and evidence."""

    question: str
    references: tuple[str, ...]
    """Empty where an abstention is right."""
    prediction: str
    people: tuple[str, ...] = ()
    """The question's references where an abstention is right: what people answered, or wordings of an abstention."""
    evidence: str = ""
    """Facts on the image, for judges that read them."""
    choices: tuple[str, ...] = ()
    """Options of a multiple-choice question, for judges that take them."""


def takes_choices(ref: Mapping[str, Any]) -> bool:
    """Return whether the judge `ref` reads multiple-choice questions answered in words."""
    return reads_choices(registry.get("judges", ref["plugin"]))


def takes_open(ref: Mapping[str, Any]) -> bool:
    """Return whether the judge `ref` reads open questions."""
    return reads_open(registry.get("judges", ref["plugin"]))


def describe_abstention_judges(params: Mapping[str, Any], refs: Iterable[Mapping[str, Any]]) -> str:
    """Return a sentence naming the judges that decide whether answers abstain; "" if none.

    Args:
        params: `judge`, `judge_of` and `judge_of_choices` of a stage: labels of the judges whose verdicts are scored.
        refs: `label` and `plugin` of the spec's judges.
    """
    labels = dict.fromkeys([params.get("judge"), *params.get("judge_of", {}).values(), *params.get("judge_of_choices", {}).values()])
    plugins = {ref["label"]: ref["plugin"] for ref in refs}
    by = {label: registry.get("judges", plugins[label]).declares.get("DECIDES_ABSTENTIONS", False) for label in labels if label in plugins}
    words = [f"{'the language model' if has_model else 'the detector of rules'} (judge {label})" for label, has_model in by.items()]
    return f"Whether an answer abstains is decided by {' and '.join(words)}" if words else ""


def depends_on_abstentions(metric: str) -> bool:
    """Return whether the values of metric plugin `metric` depend on which answers abstain."""
    return metric in CENTRAL or "pred_is_idk" in registry.get("metrics", metric).reads


def judge_ref(chosen: registry.Chosen, label: str = "") -> dict[str, Any]:
    """Return a judge's `label`, `plugin` and `args`, from a plugin parameter's value."""
    ref = {"plugin": chosen, "args": {}} if isinstance(chosen, str) else dict(chosen)
    return {"label": label or ref["plugin"], **ref}


def judge(ref: Mapping[str, Any], answers: Sequence[Answered], settings: Settings, counters: Counter[str]) -> list[Judgement]:
    """Judge answers with one judge of the spec; return one judgement per answer, in order.

    What a judge cannot read goes to the judge that its parameter `otherwise` names, if it has one.

    Raises:
        JudgeError: the judge cannot be opened, or fails as judges may.
        StageError: it fails otherwise, or does not return one judgement for each answer.
    """
    plugin = registry.get("judges", ref["plugin"])
    function = registry.load("judges", plugin.name)
    needs_evidence, enough = EVIDENCE in plugin.reads, plugin.declares.get("PEOPLE")
    keys = [_for_judge(answer, needs_evidence, enough) for answer in answers]
    unique = list(dict.fromkeys(keys))
    columns = [[a.question for a in unique], [list(a.references or a.people) for a in unique], [a.prediction for a in unique]]
    columns += [[a.evidence for a in unique]] if needs_evidence else []
    columns += [[list(a.choices) for a in unique]] if CHOICES in plugin.reads else []
    context = [JudgeContext(settings, counters)] if plugin.reads[0] == "context" else []
    where = f"judge '{ref['label']}'"
    args = {name: value for name, value in ref["args"].items() if name != OTHERWISE}
    returned = call_plugin(plugin, where, lambda: function(*context, *columns, **args), JudgeError)
    judged = list(check_list(plugin, where, returned, len(unique), Judgement))
    unread = [i for i, one in enumerate(judged) if not one.parse_ok]
    if unread and (chosen := ref["args"].get(OTHERWISE)) is not None:
        counters["left to another judge"] += len(unread)
        others = judge(judge_ref(chosen, ref["label"]), [unique[i] for i in unread], settings, counters)
        for i, one in zip(unread, others, strict=True):
            judged[i] = one
    judgement_of = dict(zip(unique, judged, strict=True))
    if len(unique) < len(answers):
        counters["same as another"] += len(answers) - len(unique)
    return [judgement_of[key] for key in keys]


def _for_judge(answer: Answered, needs_evidence: bool, min_people: int | None) -> Answered:
    """Drop `evidence` unless needed, and `people` if fewer than `min_people` or if it is None."""
    people = answer.people if min_people is not None and len(answer.people) >= min_people else ()
    evidence = answer.evidence if needs_evidence else ""
    return answer if (people, evidence) == (answer.people, answer.evidence) else replace(answer, people=people, evidence=evidence)
