"""`qualm cite`: the BibTeX of data, models, methods and software behind a benchmark."""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from qualm.compiler.project.checkout import Project
from qualm.compiler.spec import sentences as say
from qualm.compiler.spec.errors import ProjectError
from qualm.compiler.spec.plugin_ref import DATA, HUB, Ref
from qualm.compiler.spec.references_in import nested_uses
from qualm.compiler.spec.resolved import Resolved
from qualm.registry.entries.entries import EntryError, find
from qualm.registry.entries.published_models import Published, published
from qualm.registry.entries.references import CitationError, cited_entries, keys_of_entries, parse_bibtex
from qualm.registry.plugins.registry import Plugin
from qualm.registry.system.git import output

SOFTWARE = "qualm"
TITLE = "{Qualm}: benchmarks of what vision-language models know that they do not know"


@dataclass
class Bibliography:
    entries: dict[str, str] = field(default_factory=dict)
    """Key -> BibTeX."""
    cited_for: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    """Key -> section of the spec -> names in it."""
    without: list[str] = field(default_factory=list)

    def add(self, citations: Mapping[str, str], section: str, name: str, words: str = "") -> None:
        """Record citations {key: BibTeX} of `name`; if empty, note that it has none, and `words`."""
        for key, text in citations.items():
            self.entries.setdefault(key, text)
            self.cited_for.setdefault(key, {}).setdefault(section, []).append(name)
        if not citations:
            caveat = " ".join(words.split())
            self.without.append(f"{section}: {name}" + (say.CARD_SAYS.format(words=caveat) if caveat else ""))

    def text(self) -> str:
        """Return the text of a .bib file; comments say what each entry is cited for."""
        purposes = {
            key: "; ".join(f"{section}: {', '.join(names)}" for section, names in names_of.items())
            for key, names_of in self.cited_for.items()
        }
        parts = [f"% {purposes[key]}\n{text}\n" for key, text in self.entries.items()]
        return "\n".join([*parts, *(say.NOTHING_TO_CITE.format(what=what) for what in self.without)])

    def as_json(self) -> dict[str, Any]:
        entries = [{"key": k, "for": self.cited_for[k], "bibtex": text} for k, text in self.entries.items()]
        return {"entries": entries, "without": self.without}


def bibliography(project: Project, spec: str | None) -> Bibliography:
    """Return the BibTeX entries of a spec's data, models, plugins and software, in this order.

    Raises:
        ProjectError: a plugin cites an unknown key, or BibTeX cannot be parsed.
    """
    resolved = project.resolve(spec)
    result = Bibliography()
    names = [path.removeprefix(f"{DATA}/") for ref in _refs(resolved) for path in ref.artifacts if path.startswith(f"{DATA}/")]
    names += [args[HUB] for ref in _refs(resolved) for _, args in ref.uses if args.get(HUB)]
    try:
        for d in resolved.datasets:
            citation = d.card.citation
            result.add(parse_bibtex(citation, f"card '{d.card.name}': citation"), "datasets", d.label, citation)
        for name in dict.fromkeys([*names, *(text for ref in _refs(resolved) for text in _texts(ref.args) if _published(text))]):
            _model(result, project, name)
        for plugin in {(p.kind, p.name): p for p in _plugins(resolved)}.values():
            if "CITES" in plugin.declares:
                result.add(cited_entries(plugin.declares["CITES"], str(plugin.path)), plugin.kind, plugin.name)
    except CitationError as error:
        raise ProjectError(str(error)) from None
    result.add(
        {SOFTWARE: _software(project)},
        "software",
        say.CITED_SOFTWARE_FOR.format(spec=resolved.spec.name),
    )
    return result


def _model(bibliography: Bibliography, project: Project, name: str) -> None:
    published_model = _published(name)
    keys = keys_of_entries().get(name.rpartition("/")[2].lower(), ())
    citations = cited_entries([*(published_model.cites if published_model else ()), *keys], name)
    try:
        details = find(project.root, name).details
    except EntryError:
        details = None
    citation = "" if details is None else details.citation
    citations |= parse_bibtex(citation, f"card '{name}': citation")
    bibliography.add(citations, "models", name, citation)


def _published(name: str) -> Published | None:
    """Return the published model of this name, with or without owner; else None."""
    return next((m for m in published().values() if name.lower() in (m.name.lower(), m.name.lower().partition("/")[2])), None)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)


def _refs(value: Any) -> Iterator[Ref]:
    if isinstance(value, Ref):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _refs(item)
    elif dataclasses.is_dataclass(value):
        for part in dataclasses.fields(value):
            yield from _refs(getattr(value, part.name))


def _plugins(resolved: Resolved) -> Iterator[Plugin]:
    for d in resolved.datasets:
        if d.adapter is not None:
            yield d.adapter
    for ref in _refs(resolved):
        yield from ref.plugins
    for a in resolved.abstentions:
        yield a.plugin
        yield from (plugin for plugin, _ in nested_uses(a.plugin, a.args))


def _software(project: Project) -> str:
    commit = output(project.root, "rev-parse", "HEAD")
    note = f",\n  note={{commit {commit.strip()[:12]}}}" if commit else ""
    return f"@software{{{SOFTWARE},\n  title={{{TITLE}}}{note}\n}}"
