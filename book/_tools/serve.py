"""Serve the built site on this machine, and say where."""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread


class Quiet(SimpleHTTPRequestHandler):
    """A file server that does not print every request."""

    def log_message(self, *_):
        pass


def server(folder: str, port: int = 0) -> ThreadingHTTPServer:
    """A server for a folder on 127.0.0.1; where the port is taken, or 0, on a free one."""
    handler = functools.partial(Quiet, directory=folder)
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError:
        return ThreadingHTTPServer(("127.0.0.1", 0), handler)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address at which a folder is served as long as the context is open."""
    with server(str(folder)) as site:
        Thread(target=site.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{site.server_port}/"
        site.shutdown()


def port_of(text: str) -> int:
    """The port that a text names. Raises ValueError, which says what is allowed."""
    if not (text.isascii() and text.isdigit() and int(text) < 65536):
        raise ValueError(f"PORT={text}: a port is a number from 0 (any free one) to 65535")
    return int(text)


def serve(folder: str, number: str) -> int:
    """Serve a folder at a port until Ctrl-C; raises SystemExit for a wrong one of either."""
    try:
        port = port_of(number)
    except ValueError as error:
        raise SystemExit(str(error)) from None
    if not Path(folder, "index.html").is_file():
        raise SystemExit(f"{folder}: there is no built site; build one with: make site")
    with server(folder, port) as book:
        print(
            f"\n  The book is at http://127.0.0.1:{book.server_port}/  (Ctrl-C ends it)", flush=True
        )
        try:
            book.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0
