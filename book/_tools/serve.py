"""Serve the built site on this machine, and say where.

python -m book._tools.serve FOLDER PORT
"""

import functools
import sys
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer


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


def main() -> None:
    folder, port = sys.argv[1], int(sys.argv[2])
    with server(folder, port) as book:
        print(
            f"\n  The book is at http://127.0.0.1:{book.server_port}/  (Ctrl-C ends it)", flush=True
        )
        try:
            book.serve_forever()
        except KeyboardInterrupt:
            print()


if __name__ == "__main__":
    main()
