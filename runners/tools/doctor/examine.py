"""All checks of `qualm doctor model`, in their order."""

from collections.abc import Iterator, Sequence

from qualm.runners.tools.doctor.patient import Check, CheckResult, Patient, attempt


def checks() -> dict[str, Check]:
    """All checks by name, in the order in which they are made: those of words first, then those of numbers."""
    from qualm.runners.tools.doctor import numbers, words

    return {**words.CHECKS, **numbers.CHECKS}


def examine(patient: Patient, names: Sequence[str] | None = None) -> Iterator[CheckResult]:
    """Findings one after the other, each as soon as it is made."""
    for name, check in checks().items():
        if names is None or name in names:
            yield attempt(name, check, patient)
