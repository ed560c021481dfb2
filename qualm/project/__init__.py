"""The project's own plugins as modules: its `runners/plugins/metrics/NAME.py` is `qualm.project.metrics.NAME`."""

from qualm.registry.places import project_folder

__path__ = [str(folder) for folder in map(project_folder, ("runners/plugins", "registry")) if folder is not None]
