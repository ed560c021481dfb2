"""Trace an output to its sources: stages, parameters, code and inputs."""

from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.tree import Tree

from qualm.compiler.plan.plan import marker
from qualm.compiler.project.checkout import Project
from qualm.compiler.results.integrity import report_changed
from qualm.compiler.spec import sentences as say
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.system.console import Console
from qualm.registry.system.dvc_files import find_dvc_file, read_lock
from qualm.registry.system.dvc_objects import hash_path, open_repo
from qualm.runners.runtime.stage import ANSWERS, read_record


def trace(project: Project, file: str) -> dict[str, Any]:
    """Return what made an output, as a tree {path, md5, stage, inputs...}; else ProjectError.

    Raises:
        ProjectError: no recorded stage made this file.
    """
    path = _relative(project, file)
    entries = _entries(project.root)
    nodes: dict[str, dict[str, Any]] = {}
    with open_repo(project.root) as repo:
        if _maker(path, entries) is None and find_dvc_file(project.root, path) is None:
            outputs = sorted(o["path"] for e in entries.values() for o in e.get("outs", []))
            raise ProjectError(f"{path}: no stage in dvc.lock made it; outputs are, for example: {', '.join(outputs[-5:]) or 'none yet'}")
        tree = _node(path, entries, project.root, repo, nodes)
    report_changed(project.root, nodes)
    return tree


def _relative(project: Project, file: str) -> str:
    try:
        return (Path.cwd() / file).resolve().relative_to(project.root).as_posix()
    except ValueError:
        raise ProjectError(f"{file}: expected a file of this project, which is {project.root}") from None


def _entries(root: Path) -> dict[str, Any]:
    by_stage = {}
    for lock in (root / "dvc.lock", *sorted(root.glob("specs/*/dvc.lock"))):
        for entry in read_lock(lock).values():
            by_stage[str(entry.get("cmd", "")).split()[-1]] = entry
    return by_stage


def _maker(path: str, entries: dict[str, Any]) -> str | None:
    for key, entry in entries.items():
        for out in entry.get("outs", []):
            if path == out["path"] or path.startswith(out["path"] + "/"):
                return key
    return None


def _node(path: str, entries: dict[str, Any], root: Path, repo: Any, nodes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    if path in nodes:
        return {"path": path, "md5": nodes[path].get("md5"), "see": "above"}
    node: dict[str, Any] = {"path": path}
    nodes[path] = node
    now = hash_path(root, path, repo)
    key = _maker(path, entries)
    if key is None:
        tracked = find_dvc_file(root, path)
        node.update({"md5": now, "state": "present" if now else "missing"})
        if tracked is not None:
            node.update(zip(("tracked_by", "tracked_md5"), tracked, strict=True))
        return node
    entry = entries[key]
    output = next(o for o in entry["outs"] if path == o["path"] or path.startswith(o["path"] + "/"))
    locked = output.get("md5")
    state = "missing" if now is None else "as made" if locked in (None, hash_path(root, output["path"], repo)) else "changed since"
    deps = [d for d in entry.get("deps", []) if d["path"] != marker(key.partition("/")[0])]
    code = [d for d in deps if d["path"].endswith((".py", ".html", ".css", ".js", ".j2"))]
    node.update(
        {
            "md5": (locked if output["path"] == path else None) or now,
            "state": state,
            "stage": key,
            "params": _params(entry),
            "code": [{"path": d["path"], "md5": d["md5"]} for d in code],
            **_answers(key, root, repo),
            "inputs": [_node(d["path"], entries, root, repo, nodes) for d in deps if d not in code],
        }
    )
    return node


def _answers(key: str, root: Path, repo: Any) -> dict[str, Any]:
    """Return the Qualm release, libraries and parts behind a stage's answers.

    The result is {"answers": [...]}, or {} if there is no record or a table has changed
    since.
    """
    spec, _, stage = key.partition("/")
    record = read_record(root, spec, stage).get(ANSWERS)
    tables = record.get("tables", {}) if isinstance(record, dict) else {}
    if not isinstance(record, dict) or not tables or any(hash_path(root, path, repo) != md5 for path, md5 in tables.items()):
        return {}
    return {"answers": [{name: origin[name] for name in ("qualm", "libraries", "parts")} for origin in record["from"]]}


def _params(entry: dict[str, Any]) -> dict[str, Any]:
    for content in entry.get("params", {}).values():
        params: dict[str, Any] = content.get("params", {})
        return params
    return {}


def print_lineage(node: dict[str, Any]) -> None:
    out = Console()
    if not out.is_terminal:
        out.width = 1000  # one line per entry, for `grep`
    out.print(_tree(node))


def _tree(node: dict[str, Any], parent: Tree | None = None) -> Tree:
    md5 = (node.get("md5") or "")[:8]
    note = "(see above)" if "see" in node else node.get("state", "")
    line = f"[bold]{escape(node['path'])}[/]  [dim]{md5}[/]  {note}"
    tree = Tree(line) if parent is None else parent.add(line)
    if "tracked_by" in node:
        tree.add(f"tracked by {node['tracked_by']}  [dim]{(node['tracked_md5'] or '')[:8]}[/]")
    if "stage" in node:
        parameters = f", parameters {escape(brief)}" if (brief := _brief(node["params"])) else ""
        tree.add(f"made by [yellow]{node['stage']}[/], {say.count(len(node['code']), 'code file')}{parameters}")
        if node.get("answers"):
            from qualm.runners.inference.keys import describe_origin

            tree.add(escape("; ".join(map(describe_origin, node["answers"]))))
        for child in node["inputs"]:
            _tree(child, tree)
    return tree


def _brief(params: dict[str, Any]) -> str:
    text = ", ".join(f"{k}={v}" for k, v in params.items() if not isinstance(v, dict | list))
    return text if len(text) <= 100 else text[:97] + "..."
