"""`python -m qualm.compiler SPEC`: the stage `spec` of a compiled pipeline (`qualm.compiler.project.spec_stage`)."""

import sys

from qualm.compiler.commands.main import run_guarded
from qualm.compiler.project.checkout import Project
from qualm.compiler.project.spec_stage import run_spec_stage
from qualm.runners.runtime.die_with_parent import die_with_parent

if __name__ == "__main__":
    die_with_parent()
    sys.exit(run_guarded(lambda: run_spec_stage(Project(), sys.argv[1])))
