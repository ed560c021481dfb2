"""The commands of `qualm`, by subject. `compiler.cli` lists them; heavy imports stay inside each."""
