"""Reports of unexpected errors: versions of the libraries, and a log of the traceback."""
