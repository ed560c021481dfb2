"""The commands of `qualm`, by subject. `compiler.commands.main` lists them; heavy imports stay inside each."""
