"""The built site, served to the tests that open its pages."""

from collections.abc import Iterator
from threading import Thread

from book._tools.layout import ROOT
from book._tools.serve import server


def served_site() -> Iterator[str]:
    """The address at which the site is served; it stops when the iterator is continued."""
    with server(str(ROOT / "_build/html")) as site:
        Thread(target=site.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{site.server_port}/"
        site.shutdown()
