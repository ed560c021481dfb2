"""Names of commits, by which a parameter pins a revision of a hub model."""

import re

COMMIT = re.compile("[0-9a-f]{40}")
"""The full name of a commit: 40 lower-case hexadecimal digits."""
