"""A handler of http.server, served on loopback while a block runs."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def served(handler: type[BaseHTTPRequestHandler], *, wait_for_connections: bool = True) -> Iterator[int]:
    """Gives the port. wait_for_connections: at the end, until clients have closed theirs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.block_on_close = wait_for_connections
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
