"""`qualm show --how`: how results were made, with commit, machine, time and cost."""

from dataclasses import asdict
from typing import Any

from rich.text import Text

from qualm.compiler.project.checkout import Project
from qualm.compiler.project.views import console
from qualm.compiler.results.integrity import report_changed
from qualm.compiler.spec import sentences as say
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.system.tables import plain_table
from qualm.registry.text import print_json


def run_facts(project: Project, spec: str | None) -> dict[str, Any]:
    """Return how a spec's results were made, as a dict; ProjectError if it has no report.

    Raises:
        ProjectError: the spec has no report.
    """
    from qualm.runners.reporting.appendix import conformal_facts, data_row, facts_of, model_row
    from qualm.runners.reporting.sentences import DATA_COLUMNS, MODEL_COLUMNS
    from qualm.runners.runtime.run_times import run_times
    from qualm.runners.runtime.stamp import read_stamp

    plan = project.plan(spec)
    stage = next(iter(plan.writers("report")), None)
    if stage is None:
        raise ProjectError(f"spec '{plan.spec}' has no report; add a `metrics:` section")
    recorded = stage.params["made"]
    changed = report_changed(project.root, [about["path"] for about in recorded["data"]])
    conformal = conformal_facts(stage.params["settings"])
    facts = [*facts_of(recorded), *conformal, ("Seed", str(stage.seed)), ("Spec digest", stage.params["spec_sha256"])]
    models = [dict(zip(MODEL_COLUMNS, model_row(about, project.root), strict=True)) for about in recorded["models"]]
    data = [dict(zip(DATA_COLUMNS, data_row(about, project.root, about["path"]), strict=True)) for about in recorded["data"]]
    times = run_times(plan.spec, project.root)
    return {
        "spec": plan.spec,
        "facts": dict(facts),
        "models": models,
        "data": data,
        "run": read_stamp(plan.spec, project.root),
        "stages": {name: asdict(time) for name, time in times.stages.items()},
        "spent": asdict(times.spent),
        "changed_results": changed,
    }


def show_how(project: Project, spec: str | None, as_json: bool) -> None:
    from qualm.runners.runtime.run_times import run_times, times_in_words
    from qualm.runners.runtime.stamp import facts_in_words

    facts = run_facts(project, spec)
    if as_json:
        print_json(facts)
        return
    out = console()
    table = plain_table(Text(facts["spec"], style="bold"))
    table.show_header = False
    table.add_column(overflow="fold", style="dim")
    table.add_column(overflow="fold")
    run = facts_in_words(facts["run"]) if facts["run"] else [("Git commit", say.NOT_RUN_HERE)]
    for key, value in [*facts["facts"].items(), *run, *times_in_words(run_times(facts["spec"], project.root))]:
        table.add_row(Text(key), Text(value))
    for about in (*facts["models"], *facts["data"]):
        name, *details = about.items()
        table.add_row(Text(name[1]), Text("\n".join(f"{key}: {value}" for key, value in details)))
    out.print(table)
