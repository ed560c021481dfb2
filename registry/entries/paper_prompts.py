"""Printed prompts of papers, for specs that ask as the authors did.

Qualm ships prompts in its own words. A spec can name a file for a printed one (`prompt: paper/inv`), which its user fills from the paper;
the run records its digest like that of any other prompt. Nothing is added to a printed prompt: the taxonomy's text stays out of it.
"""

from pathlib import Path
from types import MappingProxyType

FOLDER = "paper"
_UQBENCH = "VLM-UQBench (arXiv:2602.09214)"
_CU = "CertainlyUncertain (arXiv:2407.01942)"
PRINTED = MappingProxyType(
    {
        "paper/inv": (f"{_UQBENCH}, appendix B.1, 'Prompt for INV'", ("question",)),
        "paper/sbj": (f"{_UQBENCH}, appendix B.1, 'Prompt for SBJ'", ("question",)),
        "paper/amb_ive": (f"{_UQBENCH}, appendix B.3, 'System Prompt for AMB/IVE Generation'", ("question",)),
        "paper/knowledge": (f"{_CU}, appendix F.2, 'Knowledge'", ("caption",)),
        "paper/complexity": (f"{_CU}, appendix F.2, 'Complex'", ("caption",)),
        "paper/temporal": (f"{_CU}, appendix F.2, 'Temporal'", ("caption",)),
        "paper/ambiguity": (f"{_CU}, appendix F.2, 'Ambiguous'", ("caption",)),
        "paper/salient_object": (f"{_CU}, appendix F.2, 'Identification of salient objects'", ("question", "answer")),
        "paper/extraneous": (f"{_CU}, appendix F.2, 'Prompt to generate Extraneous category'", ()),
        "paper/lave_refusal": (f"{_CU}, appendix F.3, 'LAVE IDK judgement'", ("question", "answer")),
        "paper/lave_rating_first": (f"{_CU}, appendix F.3, 'LAVE accuracy'", ("question", "references", "answer")),
    }
)
"""Name of a prompt, from specs/prompts/ without `.md` -> where its text is printed, and the placeholders that it takes."""


def how_to_fill(name: str) -> str:
    """Return advice on which paper's text goes into a prompt file; "" if none does."""
    if name not in PRINTED:
        return ""
    place, fields = PRINTED[name]
    places = " and ".join(f"{{{field}}} where the {field} {'go' if field == 'references' else 'goes'}" for field in fields)
    return f"put into it the text of {place}" + (f", and {places}" if places else "")


def is_printed(path: str | None) -> bool:
    """Return whether a prompt's path is in folder `paper`, which holds the paper's prompts."""
    return path is not None and Path(path).parent.name == FOLDER
