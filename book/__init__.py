"""The book: its pages, and the tools and extensions that build them."""

import sys

# jsonschema, behind nbformat, compiles a grammar of web addresses where it finds one installed:
# two seconds of every process, for a format that no schema of a notebook names.
sys.modules.setdefault("rfc3987_syntax", None)
