"""The project's own plugins as modules: its `runners/plugins/metrics/NAME.py` is `qualm.project.metrics.NAME`."""

from qualm.registry.places import own_folder

__path__ = [str(folder) for folder in map(own_folder, ("runners/plugins", "registry")) if folder is not None]
