"""What Sphinx and its bibliography look up again for every reference is looked up once.

A numbered reference unpickles the whole page that it leads to, and a citation goes through all
packages that are installed to find how it is printed: together a quarter of a build.
"""

from functools import cache

import pybtex.plugin
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment


class PagesReadOnce:
    """The environment for who only looks: asked for a page again, it gives the same one."""

    def __init__(self, env: BuildEnvironment):
        self._env, self.get_doctree = env, cache(env.get_doctree)

    def __getattr__(self, name: str) -> object:
        return getattr(self._env, name)


def number_from_pages_read_once(app: Sphinx, env: BuildEnvironment) -> None:
    """From here on, where all pages are read, none changes any more."""
    domain, pages = env.get_domain("std"), PagesReadOnce(env)
    resolve = type(domain)._resolve_numref_xref
    domain._resolve_numref_xref = lambda env, *asked: resolve(domain, pages, *asked)


def setup(app: Sphinx) -> dict:
    load = pybtex.plugin._load_entry_point
    if not hasattr(load, "cache_info"):
        pybtex.plugin._load_entry_point = cache(load)
    app.connect("env-updated", number_from_pages_read_once)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
