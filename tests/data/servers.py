"""Servers that tests start themselves: S3 by moto, files over HTTP, and a proxy that cuts connections."""

import socket
import threading
import urllib.request
import warnings
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@contextmanager
def s3_server():
    """Yield host and port of an S3 server."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from moto.server import ThreadedMotoServer

        server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
        server.start()
        host, port = server.get_host_and_port()
        with urllib.request.urlopen(f"http://{host}:{port}/", timeout=300) as answer:  # the first takes seconds
            answer.read()
    try:
        yield host, port
    finally:
        server.stop()


class Proxy:
    """Passes on what comes, and cuts the next `cuts` answers after `after` bytes."""

    def __init__(self, host, port, after=2000):
        self.target, self.after, self.cuts, self.done = (host, port), after, 0, 0
        self.door = socket.create_server(("127.0.0.1", 0))
        self.port = self.door.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                client, _ = self.door.accept()
            except OSError:
                return
            server = socket.create_connection(self.target)
            for source, sink, answer in ((client, server, False), (server, client, True)):
                threading.Thread(target=self._pump, args=(source, sink, answer), daemon=True).start()

    def _pump(self, source, sink, answer):
        passed = 0
        try:
            while data := source.recv(1000):
                sink.sendall(data)
                passed += len(data)
                if answer and self.cuts and passed > self.after:
                    self.cuts, self.done = self.cuts - 1, self.done + 1
                    break
        except OSError:
            pass
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def close(self):
        self.door.close()


class _Files(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self._answer(body=False)

    def do_GET(self):
        self._answer(body=True)

    def _answer(self, *, body):
        path = Path(self.server.folder) / self.path.lstrip("/")
        if not path.is_file():
            self.send_error(404)
            return
        whole = path.read_bytes()
        low, high = 0, len(whole)
        if asked := self.headers.get("Range"):
            first, last = asked.removeprefix("bytes=").split("-")
            low, high = int(first), min(int(last) + 1, len(whole)) if last else len(whole)
        self.send_response(206 if asked else 200)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(high - low))
        if asked:
            self.send_header("Content-Range", f"bytes {low}-{high - 1}/{len(whole)}")
        self.end_headers()
        if body and self.server.cuts and high - low > 500:
            self.server.cuts -= 1
            self.server.done += 1
            self.wfile.write(whole[low : (low + high) // 2])
            self.close_connection = True
        elif body:
            self.wfile.write(whole[low:high])


@contextmanager
def http_server(folder):
    """Yield a server of a folder's files; it cuts the next `cuts` answers half way."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Files)
    server.daemon_threads = True
    server.folder, server.cuts, server.done = folder, 0, 0
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
