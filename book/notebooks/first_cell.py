"""The first cell of a notebook that is taken along: it installs the library of its own edition.

It is not in the stored notebooks, which run where the library is: a notebook gets it as it leaves,
on the site or in a zip. So an address that changes changes no stored notebook.
"""

from copy import deepcopy

import nbformat
from nbformat import NotebookNode

from book._tools.layout import WHEELS, site_address
from book._tools.listings.library import Wheel
from book.notebooks.plain import RUN

HOSTS = {
    "Run it in Colab": "https://colab.research.google.com/github/{repository}/blob/{place}",
    "Run it in Kaggle": "https://kaggle.com/kernels/welcome?src={address}/blob/{place}",
}
SERVED = "http://127.0.0.1:8000/"  # by `make book`
CELL = """\
# Installs the library of this book where it is missing: from its wheel, where that lies beside
# this notebook, or else from where the book is served.
import os, subprocess, sys
from importlib import invalidate_caches, util
from pathlib import Path

if not util.find_spec("dtlib"):
    site = os.environ.get("DTLIB_SITE", "{site}")
    wheel = Path("{wheel}")
    place = wheel.resolve().as_uri() if wheel.exists() else f"{{site}}{folder}/{{wheel}}"
    wanted = f"dtlib[ranks] @ {{place}}#sha256={sha256}"
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", wanted], check=True)
    invalidate_caches()

from dtlib.editions import edition

print(edition("{sha256}"))"""
NAME = "first-cell"  # its id
INSTALLED = (
    "Run the cells from top to bottom; the first of them installs the book's library where it is "
    "missing."
)


def first_cell(wheel: Wheel, site: str = "") -> NotebookNode:
    """The cell, for a book that is served at ``site``, or as `make book` serves it."""
    source = CELL.format(wheel=wheel.name, site=site or SERVED, folder=WHEELS, sha256=wheel.sha256)
    return nbformat.v4.new_code_cell(source, id=NAME, metadata={"tags": ["nbval-ignore-output"]})


def taken_along(notebook: NotebookNode, wheel: Wheel, site: str | None = None) -> NotebookNode:
    """A notebook with its first cell, below its title; for a book at `site` if one is named."""
    made = deepcopy(notebook)
    made.cells[0].source = made.cells[0].source.replace(RUN, INSTALLED)
    made.cells.insert(1, first_cell(wheel, site_address() if site is None else site))
    return made


def hosted(address: str, place: str) -> dict[str, str]:
    """Where a notebook of a GitHub repository opens in a browser: words and addresses.

    Arguments: the repository's ``address``, and the ``place`` in it: branch and path.

    >>> hosted("https://github.com/a/book", "gh-pages/x.ipynb")["Run it in Colab"]
    'https://colab.research.google.com/github/a/book/blob/gh-pages/x.ipynb'
    """
    repository = address.removeprefix("https://github.com/")
    return {
        name: form.format(address=address, repository=repository, place=place)
        for name, form in HOSTS.items()
    }
