"""`qualm show --how`: what the report says at its end of how it was made, and at which commit and on what machine that was."""

from typing import Any

from rich.text import Text

from qualm.compiler.project.checkout import Project
from qualm.compiler.spec.errors import ProjectError
from qualm.compiler.terminal.views import console
from qualm.registry.terminal.tables import plain_table
from qualm.registry.text import print_json


def how(project: Project, spec: str | None) -> dict[str, Any]:
    """The facts of a spec's report, and those of its last run here (`run`, None where it did not run here).

    Raises:
        ProjectError: the spec has no report.
    """
    from qualm.runners.reporting.appendix import HEADER, facts_of, model_row
    from qualm.runners.runtime.stamp import read_stamp

    plan = project.plan(spec)
    stage = next(iter(plan.writers("report")), None)
    if stage is None:
        raise ProjectError(f"spec '{plan.spec}' has no report; add a `metrics:` section")
    recorded = stage.params["made"]
    facts = [*facts_of(recorded), ("Seed", str(stage.seed)), ("Spec digest", stage.params["spec_sha256"])]
    models = [dict(zip(HEADER, model_row(about, project.root), strict=True)) for about in recorded["models"]]
    return {"spec": plan.spec, "facts": dict(facts), "models": models, "run": read_stamp(plan.spec, project.root)}


def show_how(project: Project, spec: str | None, as_json: bool) -> None:
    """Print them."""
    from qualm.runners.runtime.stamp import facts_in_words

    facts = how(project, spec)
    if as_json:
        print_json(facts)
        return
    out = console()
    table = plain_table(Text(facts["spec"], style="bold"))
    table.show_header = False
    table.add_column(overflow="fold", style="dim")
    table.add_column(overflow="fold")
    run = facts_in_words(facts["run"]) if facts["run"] else [("Git commit", "not known: it was not run here")]
    for key, value in [*facts["facts"].items(), *run]:
        table.add_row(Text(key), Text(value))
    for model in facts["models"]:
        about = "\n".join(f"{key}: {value}" for key, value in model.items() if key != "model")
        table.add_row(Text(model["model"]), Text(about))
    out.print(table)
