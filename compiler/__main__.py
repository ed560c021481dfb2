"""`python -m compiler` is `qualm`."""

from compiler.cli import main

main()
