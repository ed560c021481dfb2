"""One small benchmark with results, and its page."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from qualm.compiler.project.checkout import Project
from qualm.compiler.results.scores import read_spec_results
from qualm.compiler.viewing.answers import AnswerTable
from qualm.compiler.viewing.site import Site, SitePart
from qualm.runners.results.results import Results
from tests.support.processes.chromium import Chromium


@pytest.fixture(scope="session")
def viewed(copy_viewed: Callable[[Path], Project], tmp_path_factory: pytest.TempPathFactory) -> Project:
    return copy_viewed(tmp_path_factory.mktemp("viewed"))


@pytest.fixture(scope="session")
def results(viewed: Project) -> Results:
    return read_spec_results(viewed, "small")


@pytest.fixture(scope="session")
def site(viewed: Project, results: Results) -> Site:
    return Site([SitePart(results, viewed.plan("small").stages)], "Small results", "all")


@pytest.fixture(scope="session")
def answers(site: Site) -> AnswerTable:
    return site.parts["small"].answers


@pytest.fixture(scope="session")
def published(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from qualm.compiler.viewing.publish import publish

    folder = tmp_path_factory.mktemp("published") / "site"
    publish(site, folder)
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with Chromium(tmp_path_factory.mktemp("browser")) as one:
        yield one
        assert one.complaints == []
