"""The built site, served to the tests that open its pages."""

from collections.abc import Iterator
from pathlib import Path

from book._tools.layout import ROOT
from book._tools.serve import served


def served_site(folder: Path = ROOT / "_build/html") -> Iterator[str]:
    """The address at which a site is served; it stops when the iterator is continued."""
    with served(folder) as address:
        yield address
