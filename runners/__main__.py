"""`python -m qualm.runners SPEC/STAGE`: run one compiled stage.

The stages of a dvc.yaml start it through the project's `specs/run.py`, which finds the environment.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

LAUNCHED = "QUALM_LAUNCHED"


def _launch(launcher: str, key: str) -> int:
    """Start this stage's processes by the settings' launcher; return its exit status."""
    import shlex

    command = [*shlex.split(launcher), sys.executable, "-P", "-m", "qualm.runners", key]
    try:
        return subprocess.run(command, env={**os.environ, LAUNCHED: "1"}, check=False).returncode
    except OSError as error:
        print(f"qualm: stage {key}: the launcher of qualm.toml cannot be started: {error}", file=sys.stderr)
        return 1


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0] in ("-h", "--help"):
        print("usage: python -m qualm.runners SPEC/STAGE   (a stage of specs/SPEC/dvc.yaml)", file=sys.stderr)
        return 0 if arguments and arguments[0] in ("-h", "--help") else 2
    from qualm.registry.system.guard import guard
    from qualm.runners.runtime.die_with_parent import die_with_parent

    guard()
    die_with_parent()
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # idle compute threads must not spin while loader threads need the cores
    from qualm.registry.plugins.extras import extra_of, install_line
    from qualm.registry.plugins.registry import PluginError
    from qualm.registry.system.disk_errors import explain_error, is_disk_error
    from qualm.registry.system.dvc_files import DvcStateError
    from qualm.registry.system.failures import log_error, print_traceback, summarize_error
    from qualm.registry.text import ProjectError
    from qualm.runners.contracts.stages import stage_kind
    from qualm.runners.inference.devices import DeviceError
    from qualm.runners.runtime import status
    from qualm.runners.runtime.intact import check_inputs
    from qualm.runners.runtime.settings import SettingsError, is_first, read_settings
    from qualm.runners.runtime.stage import PluginFailedError, only_writer, read_stage, write_record

    key = arguments[0]
    status.tell("started", stage=key)
    try:
        stage = read_stage(key, read_settings())
        kind = stage_kind(stage.kind)
        if LAUNCHED not in os.environ and is_first():
            check_inputs(stage, Path.cwd())
        if stage.settings.launcher and kind.parallel and LAUNCHED not in os.environ:
            return _launch(stage.settings.launcher, key)
        run = kind.run()
        if not is_first():  # another process of the same training: the first one holds the lock and publishes
            run(stage)
            return 0
        with only_writer(stage):
            start = time.monotonic()
            run(stage)
            seconds = time.monotonic() - start
            write_record(stage, seconds)
    except PluginFailedError as error:
        print_traceback(error)
        print(f"qualm: stage {key}: {error}; {log_error(error, key, Path.cwd())}", file=sys.stderr)
        return 1
    except (ProjectError, DeviceError, PluginError, SettingsError, DvcStateError) as error:
        print(f"qualm: stage {key}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"qualm: stage {key}: interrupted; what was done is kept, run it again to go on", file=sys.stderr)
        return 130
    except Exception as error:  # noqa: BLE001 - it is logged
        if isinstance(error, OSError) and is_disk_error(error):
            message = f"{explain_error(error)}; what was done is kept"
        elif isinstance(error, ModuleNotFoundError) and (extra := extra_of(error.name or "")) is not None:
            message = f"{error.name} is not installed: `{install_line(extra)}`"
        else:
            print_traceback(error)
            message = f"unexpected {summarize_error(error)}; {log_error(error, key, Path.cwd())}"
        print(f"qualm: stage {key}: {message}", file=sys.stderr)
        return 1
    # A name of several words may hold what a person can type, such as a signal's or a parameter's.
    counts = ", ".join(f"{n:,} {name if ' ' in name else name.replace('_', ' ')}" for name, n in stage.counters.items())
    if status.is_read():
        status.tell("done", stage=key, counts=counts, seconds=seconds)
    else:
        print(f"{key}: {counts or 'done'} ({seconds:.1f} s)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
