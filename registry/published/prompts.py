"""Where papers print their prompts, for specs that ask as the authors did.

Qualm ships prompts in its own words. A spec can name a file for a printed one (`prompt: paper/inv`), which its user fills from the paper;
the run records its digest like that of any other prompt.
"""

from types import MappingProxyType

_UQBENCH = "VLM-UQBench (arXiv:2602.09214)"
PRINTED = MappingProxyType(
    {
        "paper/inv": f"{_UQBENCH}, appendix B.1, 'Prompt for INV'",
        "paper/sbj": f"{_UQBENCH}, appendix B.1, 'Prompt for SBJ'",
        "paper/amb_ive": f"{_UQBENCH}, appendix B.3, 'System Prompt for AMB/IVE Generation'",
    }
)
"""Name of a prompt, from specs/prompts/ without `.md` -> where its text is printed."""


def how_to_fill(name: str) -> str:
    """Say what to write into a prompt file of this name; return "" if no paper prints it."""
    place = PRINTED.get(name)
    return f"put into it the text of {place}, and {{question}} where the question goes" if place else ""
