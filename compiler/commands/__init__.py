"""The commands of `qualm`, by subject. `qualm.compiler.commands.main` lists them; heavy imports stay inside each."""
