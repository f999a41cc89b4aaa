"""The built site, served to the tests that open its pages."""

from collections.abc import Iterator
from pathlib import Path
from threading import Thread

from book._tools.layout import ROOT
from book._tools.serve import server


def served_site(folder: Path = ROOT / "_build/html") -> Iterator[str]:
    """The address at which a site is served; it stops when the iterator is continued."""
    with server(str(folder)) as site:
        Thread(target=site.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{site.server_port}/"
        site.shutdown()
