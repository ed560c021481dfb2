"""`python -m compiler` is `qualm`."""

from compiler.commands.main import main

main()
