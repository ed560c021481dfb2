"""The pages of docs/ that are written from the code: `python -m qualm.compiler.generated`."""
