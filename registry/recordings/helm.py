"""HELM and VHELM: runs/SUITE/RUN/scenario_state.json, one object with a request per question, or per option of a question.

    adapter_spec {method, model, ...}, request_states [{instance {id, input, references, split, perturbation}, reference_index,
    output_mapping, train_trial_index, request_mode, request {prompt, num_completions}, result {success, completions}}]

Text that is generated is an answer; where the options are lettered in the prompt (`output_mapping`), the question is one of multiple
choice. Where each option is scored by itself (methods multiple_choice_separate_*), the log-probabilities of the option's own tokens at
the end of the echoed prompt are summed, as HELM does, and become `option_logits`; calibration requests are passed over. Clients that
get no log-probabilities write 0 for every token: such zeros are not taken for numbers. A run is one draw per training trial and
completion. HELM keeps paths of images, not the images, and its own scores (per_instance_stats.json) are not read.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from qualm.registry.formats.faults import Fault
from qualm.registry.formats.json_stream import JsonStreamError, members
from qualm.registry.recordings.lm_eval import MalformedRowError, build_record, checked_id
from qualm.registry.recordings.record import ReadOptions, Record, RecordingError, excerpt, short_fields

FILE = "scenario_state.json"
CALIBRATION = "calibration"
_STATES = "request_states"


def names(path: Path) -> frozenset[tuple[str, str]] | None:
    if path.name != FILE:
        return None
    adapter = _adapter(path)
    if adapter is None:
        return None
    folder = path.parent.name
    model = [part for part in folder.replace(":", ",").split(",") if part.startswith(("model=", "model_deployment="))]
    scenario = folder
    for part in model:
        scenario = scenario.replace(f",{part}", "").replace(f":{part}", "")
    runs = {path.parent.parent.name, *(str(adapter[k]) for k in ("model", "model_deployment") if adapter.get(k))}
    return frozenset((run, task) for run in runs | {part.partition("=")[2] for part in model} for task in {folder, scenario})


def _adapter(path: Path) -> Mapping[str, Any] | None:
    """Return the `adapter_spec` object that begins a file; None for other files."""
    try:
        for key, value in members(path, {_STATES}):
            return value if key == "adapter_spec" and isinstance(value, Mapping) else None
    except (JsonStreamError, OSError):
        return None
    return None


def read(path: Path, how: ReadOptions) -> Iterator[Record | Fault]:
    try:
        for _, group in groupby(_states(path), _question_key):
            yield from _records(list(group), how)
    except (JsonStreamError, OSError) as error:
        raise RecordingError(str(error) if isinstance(error, JsonStreamError) else f"{path}: {error}") from error


def _states(path: Path) -> Iterator[tuple[str, Any]]:
    number = 0
    for key, value in members(path, {_STATES}, unique_keys=True):
        if key == _STATES:
            yield f"{path.parent.name}/{path.name} {_STATES}[{number}]", value
            number += 1


def _question_key(item: tuple[str, Any]) -> Any:
    """Return the same key for requests that score one question's options, else a unique one."""
    where, state = item
    try:
        if state.get("reference_index") is None:
            return where
        instance = state["instance"]
        return str((instance.get("id"), _perturbation(instance), state.get("train_trial_index")))
    except (AttributeError, LookupError, TypeError):
        return where


def _records(group: Sequence[tuple[str, Any]], how: ReadOptions) -> Iterator[Record | Fault]:
    states = []
    for where, state in group:
        if not isinstance(state, dict) or not isinstance(state.get("instance"), dict):
            yield Fault(where, "not a row of this format", excerpt(state))
        elif state.get("request_mode") == CALIBRATION:
            yield Fault(where, "a request for calibration", harmless=True)
        elif (perturbation := _perturbation(state["instance"])) != (how.filter or ""):
            yield Fault(where, "row of another perturbation", perturbation or "none", harmless=True)
        else:
            states.append((where, state))
    if states:
        where, first = states[0]
        yield build_record(_record, where, {"first": first, "states": [state for _, state in states]}, how)


def _perturbation(instance: Mapping[str, Any]) -> str:
    perturbation = instance.get("perturbation")
    return str(perturbation.get("name") or "unnamed") if isinstance(perturbation, Mapping) else ""


def _record(where: str, row: dict[str, Any], how: ReadOptions) -> Record:
    state, instance = row["first"], row["first"]["instance"]
    extra = instance.get("extra_data")
    extra = extra if isinstance(extra, Mapping) else {}
    field = how.fields.get
    name = field("id", "id")
    identifier = checked_id(extra.get(name, instance.get(name)) if field("id") else instance.get("id"), name)
    category = extra.get(field("category", "category"), instance.get("sub_split"))
    record = Record(where, identifier, category=str(category or ""), split=str(instance.get("split") or ""))
    text, question = _text(instance.get("input"), record), extra.get(field("question", ""))
    record.question = question if isinstance(question, str) else text
    record.prompt = _prompt(state.get("request")) or record.question
    record.meta = short_fields(extra, ("category", *how.fields.values()))
    options = [(str(r["output"].get("text", "")), "correct" in (r.get("tags") or ())) for r in instance.get("references") or ()]
    right = [i for i, (_, correct) in enumerate(options) if correct]
    if state.get("reference_index") is not None or state.get("output_mapping"):
        record.choices = tuple(text for text, _ in options)
        record.answer_index = right[0] if len(right) == 1 else None
        record.doubt = "" if len(right) == 1 else f"{len(right)} options are right"
    else:
        record.references = tuple(options[i][0] for i in right)
    trial = state.get("train_trial_index") or 0
    if not isinstance(trial, int) or trial < 0:
        raise MalformedRowError("no number of a training trial", excerpt(trial))
    if state.get("reference_index") is not None:
        record.draws, record.draw = [{"option_logits": list(_option_numbers(row["states"], record.choices))}], trial
    else:
        record.draws = [_answer(completion) for completion in _completions(state)]
        record.draw = trial * max(1, len(record.draws))
    return record


def _text(prompt: Any, record: Record) -> str:
    """Return an input's text; set the record's image count, and `lacking` if it has images."""
    prompt = prompt if isinstance(prompt, Mapping) else {}
    media = prompt.get("multimedia_content")
    parts = media.get("media_objects") or [] if isinstance(media, Mapping) else []
    others = [str(part.get("content_type")) for part in parts if not str(part.get("content_type", "")).startswith("text/")]
    record.n_pictures = len(others)
    if others:
        record.lacking = f"HELM keeps the paths of images and not the images ({others[0]}; `pictures: none` takes the question without)"
    text = str(prompt.get("text") or "")
    return text or "\n".join(str(part["text"]) for part in parts if part.get("text"))


def _prompt(request: Any) -> str:
    if not isinstance(request, Mapping):
        return ""
    if request.get("prompt"):
        return str(request["prompt"])
    media = request.get("multimodal_prompt")
    if isinstance(media, Mapping):
        return "".join(str(part["text"]) for part in media.get("media_objects") or () if part.get("text"))
    return "\n".join(str(message.get("content", "")) for message in request.get("messages") or ())


def _completions(state: Mapping[str, Any]) -> list[dict[str, Any]]:
    result = state.get("result")
    if not isinstance(result, Mapping):
        raise MalformedRowError("no response: the run was not executed")
    if result.get("success") is False:
        raise MalformedRowError("ended in an error", excerpt(result.get("error")))
    completions = result.get("completions")
    if not isinstance(completions, list) or not completions:
        raise MalformedRowError("no response", excerpt(completions))
    return completions


def _answer(completion: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(completion["text"], str):
        raise MalformedRowError("no response", excerpt(completion["text"]))
    thinking = completion.get("thinking")
    thought = thinking.get("text") if isinstance(thinking, Mapping) else None
    numbers = [token["logprob"] for token in completion.get("tokens") or ()]
    likelihoods = {"token_logprobs": numbers} if any(number != 0 for number in numbers) else {}
    return {"text": completion["text"], **({"thinking": thought} if isinstance(thought, str) and thought else {}), **likelihoods}


def _option_numbers(states: Iterable[Mapping[str, Any]], options: Sequence[str]) -> Iterator[float]:
    requests = {state.get("reference_index"): state for state in states}
    if sorted(requests, key=str) != sorted(range(len(options)), key=str) or len(options) < 2:
        raise MalformedRowError("not one request per option", f"{len(requests)} for {len(options)} options")
    for place, option in enumerate(options):
        (completion, *_) = _completions(requests[place])
        yield _sum_last_tokens(completion.get("tokens") or (), option)


def _sum_last_tokens(tokens: Sequence[Mapping[str, Any]], option: str) -> float:
    """Return the log-probability of `option`, the last tokens; else MalformedRowError."""
    text, total, any_number = "", 0.0, False
    for token in reversed(tokens):
        text, total = str(token["text"]) + text, total + float(token["logprob"])
        any_number |= token["logprob"] != 0
        if text.strip() == option.strip():
            if not any_number:
                raise MalformedRowError("no log-probabilities: 0 for every token of an option", excerpt(option))
            return total
        if len(text.strip()) > len(option.strip()):
            break
    raise MalformedRowError("the last tokens are not the option", f"{excerpt(text)} for {excerpt(option)}")
