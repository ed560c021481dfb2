"""`python -m qualm` is `qualm`."""

from qualm.compiler.commands.main import main

main()
