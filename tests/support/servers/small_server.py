"""A small real HTTP server that speaks as much of OpenAI's protocol as a client needs, and misbehaves on demand."""

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

IMPATIENT = {"default": {"retries": 0, "pause": 0.01, "concurrency": 2}}
"""Settings of servers for tests: whoever fails, fails at once."""

NONSENSE = [
    "<html>busy</html>",
    "",
    '{"choices": []}',
    '{"choices": [7]}',
    '{"choices": [{"message": {"content": "x"}, "finish_reason": "error"}]}',
    "[]",
]


def completion(text, finish="stop", usage=(10, 5)):
    answer = {"id": "c", "object": "chat.completion", "created": 0, "model": "m"}
    answer["choices"] = [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text}}]
    if usage:
        answer["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    return json.dumps(answer)


class Server:
    """Says what `script(body, nth)` says: a text to answer with, or (status, body, headers), or a number of seconds to be silent.

    A body is a text, bytes, or bytes to be sent one after the other until whoever asked has gone.
    """

    def __init__(self, script):
        self.script, self.bodies, self.keys, self.headers, self.most, self._now, self._lock = script, [], [], [], 0, 0, threading.Lock()
        self.closing = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else the second piece of a reply waits 40 ms

            def do_POST(self):
                outer.handle(self)

            def log_message(self, *_):
                return

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.http.handle_error = lambda *_: None  # whoever asked has gone, or what was to be said is no HTTP
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/v1"

    def handle(self, handler):
        body = json.loads(handler.rfile.read(int(handler.headers["content-length"])))
        with self._lock:
            nth = sum(b["messages"] == body["messages"] for b in self.bodies)
            self.bodies.append(body)
            self.keys.append(handler.headers.get("authorization"))
            self.headers.append({name.lower(): value for name, value in handler.headers.items()})
            self._now += 1
            self.most = max(self.most, self._now)
        said = self.script(body, nth)
        if isinstance(said, float):
            self.closing.wait(said)
            said = (200, completion("late"), {})
        time.sleep(0.005)
        with self._lock:
            self._now -= 1
        status, text, headers = said if isinstance(said, tuple) else (200, completion(said), {})
        raw = text.encode() if isinstance(text, str) else text
        length = {"content-length": str(len(raw))} if isinstance(raw, bytes) else {"connection": "close"}
        try:
            handler.send_response(status)
            for name, value in {"content-type": "application/json", **length, **headers}.items():
                handler.send_header(name, value)
            handler.end_headers()
            for piece in [raw] if isinstance(raw, bytes) else raw:
                handler.wfile.write(piece)
        except ConnectionError:  # whoever asked was killed, or has lost patience
            return


@contextmanager
def serving(script):
    server = Server(script)
    thread = threading.Thread(target=server.http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.http.shutdown()
        server.http.server_close()
        thread.join(5)
