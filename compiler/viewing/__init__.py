"""`qualm view`: results as pages, served on this machine or written as a static site.

The page's scripts (`page/`) show small files of data, called chunks. `site.py` makes every file; `server.py` serves them on request,
`publish.py` writes them all, so that both show the same.
"""
