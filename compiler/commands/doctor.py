"""`qualm doctor model`: find a model and images, run the checks, show the results."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qualm.compiler.commands import completion
from qualm.compiler.commands.options import JsonOption
from qualm.compiler.project.checkout import Project
from qualm.compiler.results.integrity import report_changed
from qualm.compiler.spec import sentences as say
from qualm.compiler.spec.errors import ProjectError
from qualm.compiler.spec.plugin_ref import DATA, artifact_path, slug
from qualm.registry.entries.lock import FetchError
from qualm.registry.system import textfiles
from qualm.registry.system.versions import describe_versions

if TYPE_CHECKING:
    from qualm.runners.inference.check_cases import Case
    from qualm.runners.inference.check_model import DoctorOptions
    from qualm.runners.inference.model_under_test import CheckResult

app = typer.Typer(no_args_is_help=True, help="Check a model before a run.")

_SIGNS = {
    "ok": "[green]ok[/]",
    "warn": "[bold yellow]warn[/]",
    "fail": "[bold red]fail[/]",
    "error": "[bold red]error[/]",
    "skip": "[dim]skip[/]",
}


@app.callback()
def _group() -> None:
    """Keep `qualm doctor model` two words: Typer drops the name of a lone subcommand."""


@app.command()
def model(
    name: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="A folder, an entry of registry/data/, SPEC:MODEL, or a hub name.", autocompletion=completion.doctored
        ),
    ],
    revision: Annotated[str | None, typer.Option("--revision", help="Branch, tag or commit of a hub model; `main` unless given.")] = None,
    dtype: Annotated[str, typer.Option("--dtype", help="float32, bfloat16 or float16; faults show best in float32.")] = "float32",
    quantization: Annotated[str | None, typer.Option("--quantization", help="int8, int4 or nf4, as the parameter of hf_vlm.")] = None,
    spec: Annotated[
        str | None,
        typer.Option("--spec", help="Ask the questions of this spec's datasets instead of drawn scenes.", autocompletion=completion.specs),
    ] = None,
    template: Annotated[Path | None, typer.Option("--template", help="A file with a Jinja chat template, for a model without one.")] = None,
    adapter: Annotated[str | None, typer.Option("--adapter", help="A peft adapter to merge into it.")] = None,
    trust_remote_code: Annotated[bool, typer.Option("--trust-remote-code", help="Run code that comes with a hub model.")] = False,
    samples: Annotated[int, typer.Option("--samples", min=3, max=100, help="How many questions are asked.")] = 5,
    against: Annotated[
        str, typer.Option("--against", help="Another backend that reads the same weights (vllm): compare its log-probabilities.")
    ] = "",
    drift: Annotated[bool, typer.Option("--drift", help="Also load it as bfloat16 and count answers that change with the batch.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Check a model's prompts and signals against its own plain forward pass.

    Exit code 1 if a check fails, or ends in an error of Qualm. What each check means is in docs/how-to/models.md.

    [bold]Examples[/]

      qualm doctor model scene-vlm-base
      qualm doctor model quickstart:base --spec quickstart
      qualm doctor model ~/models/Qwen2-VL-2B-Instruct --drift
      qualm doctor model ~/models/Qwen2-VL-2B-Instruct --against vllm
      qualm doctor model Qwen/Qwen2-VL-2B-Instruct
    """
    from dataclasses import replace

    if adapter is not None:
        adapter = str(Path(adapter).resolve()) if Path(adapter).is_dir() else artifact_path(adapter)
    parameters: dict[str, Any] = {
        "dtype": dtype,
        "quantization": quantization,
        "adapter": adapter,
        "trust_remote_code": trust_remote_code or None,
    }
    if template is not None:
        parameters["template"] = _read(template)
    project = Project()
    wish = replace(find(project, name, revision, {k: v for k, v in parameters.items() if v is not None}, drift), against=against)
    if not as_json:
        typer.echo("\n".join(describe_versions()))
    findings = []
    for finding in _examined(wish, project, spec, samples):
        findings.append(finding)
        if not as_json:
            _show(finding)
    verdict = next((v for v in ("fail", "error", "warn") if any(f.verdict == v for f in findings)), "ok")
    if as_json:
        from qualm.registry.text import print_json

        report = {"model": name, "dtype": dtype, "versions": describe_versions(), "verdict": verdict}
        print_json({**report, "findings": [f.as_json() for f in findings]})
    else:
        from qualm.compiler.project.views import console

        counts = ", ".join(f"{sum(f.verdict == v for f in findings)} {v}" for v in ("ok", "warn", "fail", "error"))
        console().print(say.DOCTOR_VERDICT.format(model=name, dtype=dtype, verdict=_SIGNS[verdict], counts=counts))
    if verdict in ("fail", "error"):
        raise typer.Exit(1)


def find(project: Project, name: str, revision: str | None, parameters: dict[str, Any], drift: bool = False) -> DoctorOptions:
    """Return the options for checking the model that `name` means; ProjectError if none.

    Args:
        name: a folder, an entry of registry/data/, `SPEC:MODEL`, or a hub name.
        drift: as in `DoctorOptions`.
    """
    from qualm.runners.inference.check_model import DoctorOptions
    from qualm.runners.runtime.settings import read_settings

    device = read_settings().device
    before, _, after = name.partition(":")
    folder = next((f for f in (Path(name).expanduser().resolve(), project.root / DATA / name) if f.is_dir()), None)
    is_entry = (project.root / DATA / f"{name}.dvc").is_file()
    is_of_spec = bool(after) and before in project.specs()
    if revision is not None and (folder or is_entry or is_of_spec):
        raise ProjectError(f"{name} is not a model of the hub, so it has no revisions; leave out --revision")
    if folder is not None:
        return DoctorOptions(name, "hf_vlm", parameters, folder, device, drift)
    if is_entry:
        raise ProjectError(f"{DATA}/{name} is not here yet; `dvc pull {DATA}/{name}.dvc` brings it")
    if is_of_spec:
        return _of_spec(project, before, after, DoctorOptions(name, "hf_vlm", parameters, None, device, drift))
    if revision is not None or re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        from qualm.registry.entries import hub

        try:
            commit = hub.model_commit(project.root, name, revision)
        except FetchError as error:
            raise ProjectError(f"{name}: there is no such folder, and of the hub: {error}") from None
        return DoctorOptions(name, "hf_vlm", {"hub": name, "revision": commit, **parameters}, None, device, drift)
    raise ProjectError(f"{name}: expected a folder, an entry of {DATA}/, SPEC:MODEL, or OWNER/NAME of the hub")


def _of_spec(project: Project, spec: str, label: str, wish: DoctorOptions) -> DoctorOptions:
    from dataclasses import replace

    from qualm.compiler.spec.errors import nearest

    uses = {m.ref.label: m for m in project.resolve(spec).models}
    use = uses.get(label) or next((m for m in uses.values() if slug(m.ref.label) == label), None)
    if use is None:
        raise ProjectError(f"{spec} has no model '{label}'; {nearest(label, uses)}")
    unknown = set(wish.args) - {p.name for p in use.ref.plugin.parameters}
    if unknown:
        raise ProjectError(
            f"{spec}:{label} is a model of {use.ref.plugin.name}, which has no {', '.join(sorted(unknown))}: "
            "the doctor is for models whose weights are read here, those of hf_vlm"
        )
    folder = project.root / use.source if use.source else None
    if folder is not None and not folder.exists():
        raise ProjectError(f"{use.source} is not here yet; `dvc pull` or `qualm run {spec}` brings it")
    report_changed(project.root, [use.source] if use.source else [])
    return replace(wish, plugin=use.ref.plugin.name, args={**use.ref.args, **wish.args}, folder=folder)


def _examined(wish: DoctorOptions, project: Project, spec: str | None, samples: int) -> Iterator[CheckResult]:
    from qualm.runners.inference.check_model import check_model

    cases = _cases(project, spec, samples)
    with chdir(project.root):  # where a spec's paths begin
        yield from check_model(wish, cases)


def _cases(project: Project, spec: str | None, samples: int) -> list[Case]:
    from qualm.runners.inference.check_cases import dataset_cases, scene_cases
    from qualm.runners.runtime.stage import StageError

    if spec is None:
        return scene_cases(samples)
    folders = [project.root / f"results/{spec}/data" / slug(d.label) for d in project.resolve(spec).evaluated]
    built = [folder for folder in folders if (folder / "samples.parquet").is_file()]
    if not built:
        raise ProjectError(f"{spec}: none of its datasets is built; `qualm run {spec}` or `dvc pull` brings them")
    report_changed(project.root, built)
    said = []
    for folder in built:
        try:
            return dataset_cases(folder, samples)
        except StageError as error:
            said.append(str(error))
    raise ProjectError("; ".join(said))


def _read(path: Path) -> str:
    try:
        return textfiles.read_text(path)
    except textfiles.TextFileError as error:
        raise ProjectError(f"{path}: expected a Jinja chat template: {error}") from error


def _show(finding: CheckResult) -> None:
    from rich.markup import escape

    from qualm.compiler.project.views import console

    out = console()
    right = f"  [dim](right: {escape(finding.tolerance)})[/]" if finding.tolerance else ""
    out.print(f"{_SIGNS[finding.verdict]:>4}  [bold]{escape(finding.check)}[/]: {escape(finding.found)}{right}")
    if finding.advice and (finding.verdict != "ok" or finding.check == "prompt"):
        out.print(f"      {escape(finding.advice)}")
