"""`python -m qualm.compiler.generated`: write the pages of docs/ that are made from the code (`pages.py`); `--check` only compares."""

import sys

from qualm.compiler.generated.pages import main

sys.exit(main("--check" in sys.argv[1:]))
