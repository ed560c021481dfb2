"""`qualm view`: results as pages for people, served on this machine or written as a static site.

The page's scripts (`page/`) show what small files called chunks hold. `site.py` knows every file there can be and makes it from results;
`server.py` hands them out as they are asked for, `publish.py` writes them all. So the two cannot differ.
"""
