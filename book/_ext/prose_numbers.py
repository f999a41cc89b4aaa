"""Numbers in prose show the formula that they come from, on hover and on focus."""

from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict:
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
