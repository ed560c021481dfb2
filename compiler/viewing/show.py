"""`qualm view`: select results, and serve or publish them."""

from __future__ import annotations

import webbrowser
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from rich.markup import escape

from qualm.compiler.project.checkout import Project
from qualm.compiler.results.at_revision import benchmark_at
from qualm.compiler.results.integrity import may_publish, report_changed
from qualm.compiler.results.scores import read_spec_results
from qualm.compiler.spec import sentences as say
from qualm.compiler.spec.errors import ProjectError, SpecError
from qualm.compiler.viewing.live import LiveRun
from qualm.compiler.viewing.publish import publish
from qualm.compiler.viewing.server import PageServer
from qualm.compiler.viewing.serving import stop_event
from qualm.compiler.viewing.site import Pictures, Site, SitePart
from qualm.registry.system.console import Console
from qualm.registry.text import format_size


def publish_results(
    project: Project,
    specs: Sequence[str],
    folder: Path,
    pictures: Pictures,
    title: str | None,
    revisions: Sequence[str] = (),
    pull: bool = False,
    force: bool = False,
) -> bool:
    """Write the page of specs into a folder; return False if changed results forbid it."""
    site = make_site(project, specs, title, pictures, revisions=revisions, pull=pull)
    if not may_publish(project.root, _files(project, site), force):
        return False
    out = Console(soft_wrap=True)
    size = publish(site, folder, lambda words: out.print(escape(words)))
    out.print(escape(say.PUBLISHED_PAGE.format(file=folder / "index.html", size=format_size(size))))
    return True


def serve_results(
    project: Project,
    specs: Sequence[str],
    port: int | None,
    title: str | None,
    no_open: bool,
    revisions: Sequence[str] = (),
    pull: bool = False,
) -> None:
    """Serve the page of specs on this machine until Ctrl-C or SIGTERM."""
    site = make_site(project, specs, title, live=LiveRun(project.root), revisions=revisions, pull=pull)
    report_changed(project.root, _files(project, site))
    with stop_event() as stop, PageServer(site, port) as server:
        print(say.SERVED_PAGE.format(url=server.url), flush=True)
        if not no_open:
            with suppress(webbrowser.Error):
                webbrowser.open(server.url)
        stop.wait()


def make_site(
    project: Project,
    specs: Sequence[str],
    title: str | None = None,
    pictures: Pictures = "all",
    live: LiveRun | None = None,
    revisions: Sequence[str] = (),
    pull: bool = False,
) -> Site:
    """Return the site of the named or all specs, also at `revisions`; ProjectError if empty.

    Args:
        pull: fetch what DVC's cache lacks of the revisions from the default remote.

    Raises:
        ProjectError: a named spec has no results, or none has.
    """
    parts = [SitePart(read_spec_results(project, name), project.plan(name).stages) for name in dict.fromkeys(specs)]
    for part in parts:
        part.results.scores  # noqa: B018 - says what to do where there are none
    if not specs:
        parts = [own for name in project.specs() if (own := _with_results(project, name)) is not None]
    names = specs or [part.results.spec for part in parts] or [project.plan(None).spec]
    parts += [_part_at(project, name, revision, pull) for revision in dict.fromkeys(revisions) for name in dict.fromkeys(names)]
    if not parts:
        raise ProjectError("no spec of this project has results yet; `qualm run` makes those of the default spec")
    heading = title or (str(parts[0].described()["title"]) if len(parts) == 1 else f"{project.root.name}: {len(parts)} sets of results")
    return Site(parts, heading, pictures, live)


def _files(project: Project, site: Site) -> list[str]:
    return [path for part in site.parts.values() if part.results.root == project.root for path in part.files]


def _part_at(project: Project, spec: str, revision: str, pull: bool) -> SitePart:
    then = benchmark_at(project, revision, spec, pull, tables=True)
    return SitePart(then.results, then.stages, revision)


def _with_results(project: Project, spec: str) -> SitePart | None:
    try:
        results = read_spec_results(project, spec)
        return SitePart(results, project.plan(spec).stages) if results.is_scored else None
    except (ProjectError, SpecError):
        return None
