"""What a maintainer needs to know about a fault: versions of the libraries, and a log of the traceback."""
