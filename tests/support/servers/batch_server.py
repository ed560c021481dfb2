"""A real HTTP server that speaks OpenAI's batch API over any script of `small_server`, and forgets nothing when its client is killed.

    POST /v1/files                  multipart: purpose=batch, file
    POST /v1/batches                {"input_file_id", "endpoint", "completion_window", "metadata"}
    GET  /v1/batches?limit&after    newest first
    GET  /v1/batches/ID
    GET  /v1/files/ID/content

A batch is worked through at the `looks`-th look at it. `bought` counts the answered requests by their body.
"""

import email
import email.policy
import json
import socket
import threading
import time
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


class BatchServer:
    """`script(body, nth)` as in `small_server`; `fate(batch, number)` may name another end: expired, cancelled, or why it failed."""

    def __init__(self, script, looks=1, fate=None, trouble=None, discard=None):
        self.script, self.looks, self.fate, self.trouble, self.discard = script, looks, fate, trouble, discard
        self.files, self.batches, self.names = {}, {}, {}
        self.bought, self.bodies, self.live, self.calls = Counter(), [], [], []
        self._lock = threading.RLock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else the second piece of a reply waits 40 ms

            def do_POST(self):
                outer.handle(
                    self, "POST", self.rfile.read(int(self.headers["content-length"])) if "content-length" in self.headers else b""
                )

            def do_GET(self):
                outer.handle(self, "GET", b"")

            def log_message(self, *_):
                return

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.http.handle_error = lambda *_: None
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/v1"

    def handle(self, handler, method, data):
        path = urlsplit(handler.path)
        with self._lock:
            self.calls.append(f"{method} {path.path.removeprefix('/v1')}")
            status, reply = (self.trouble and self.trouble(self.calls[-1], len(self.calls))) or (0, b"")
            if not status or status == "lost":
                fits = self._reply(method, path, handler.headers.get("content-type", ""), data)
                if status == "lost":  # done, and nobody hears of it
                    handler.close_connection = True
                    handler.connection.shutdown(socket.SHUT_RDWR)
                    return
                status, reply = fits
        raw = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
        handler.send_response(status)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", str(len(raw)))
        handler.end_headers()
        handler.wfile.write(raw)

    def _reply(self, method, path, kind, data):
        parts = path.path.removeprefix("/v1/").split("/")
        match (method, parts):
            case ("POST", ["chat", "completions"]):
                body = json.loads(data)
                self.live.append(body)
                status, text, _ = self._said(body)
                return status, text.encode()
            case ("POST", ["files"]):
                return 200, self._upload(kind, data)
            case ("POST", ["batches"]):
                return self._make(json.loads(data))
            case ("GET", ["batches"]):
                query = {name: values[0] for name, values in parse_qs(path.query).items()}
                newest = list(self.batches.values())[::-1]
                start = next((i + 1 for i, b in enumerate(newest) if b["id"] == query.get("after")), 0)
                page = newest[start : start + int(query.get("limit", 20))]
                return 200, {"object": "list", "data": page, "has_more": start + len(page) < len(newest)}
            case ("GET", ["batches", id]) if id in self.batches:
                return 200, self._look(self.batches[id])
            case ("GET", ["files", id, "content"]) if id in self.files:
                return 200, self.files[id]
        return 404, {"error": {"message": f"no {path.path}"}}

    def _upload(self, kind, data):
        message = email.message_from_bytes(b"content-type: " + kind.encode() + b"\r\n\r\n" + data, policy=email.policy.HTTP)
        fields = {part.get_param("name", header="content-disposition"): part for part in message.iter_parts()}
        assert fields["purpose"].get_content().strip() == "batch"
        return self._file(fields["file"].get_payload(decode=True), "batch")

    def _file(self, data, purpose):
        id = f"file-{len(self.files)}"
        self.files[id] = data
        return {"id": id, "object": "file", "bytes": len(data), "created_at": int(time.time()), "filename": id, "purpose": purpose}

    def _make(self, asked):
        if asked["endpoint"] != "/v1/chat/completions" or asked["completion_window"] != "24h" or asked["input_file_id"] not in self.files:
            return 400, {"error": {"message": "not so"}}
        id = f"batch_{len(self.batches)}"
        lines = [json.loads(line) for line in self.files[asked["input_file_id"]].splitlines()]
        assert len({line["custom_id"] for line in lines}) == len(lines) and all(len(line["custom_id"]) <= 64 for line in lines)
        counts = {"total": len(lines), "completed": 0, "failed": 0}
        self.batches[id] = {
            "id": id, "object": "batch", "endpoint": asked["endpoint"], "input_file_id": asked["input_file_id"], "errors": None,
            "completion_window": "24h", "status": "validating", "created_at": int(time.time()), "output_file_id": None,
            "error_file_id": None, "request_counts": counts, "metadata": asked.get("metadata"), "looks": 0,
        }  # fmt: skip
        return 200, self.batches[id]

    def _look(self, batch):
        batch["looks"] += 1
        if batch["looks"] >= self.looks and batch["status"] in ("validating", "in_progress"):
            self._work(batch)
        elif batch["status"] == "validating":
            batch["status"] = "in_progress"
        return batch

    def _work(self, batch):
        fate = self.fate(batch, int(batch["id"].removeprefix("batch_"))) if self.fate else None
        if isinstance(fate, dict):
            batch |= {"status": "failed", "errors": {"object": "list", "data": [fate]}}
            return
        lines = [json.loads(line) for line in self.files[batch["input_file_id"]].splitlines()]
        done = lines if fate is None else lines[: len(lines) // 2]
        output, errors = [], []
        for line in reversed(done):  # in no order that anybody may rely on
            assert line["method"] == "POST" and line["url"] == batch["endpoint"]
            if self.discard and self.discard(line, batch):
                continue
            status, text, _ = self._said(line["body"])
            entry = {"id": f"batch_req_{line['custom_id'][:6]}", "custom_id": line["custom_id"], "error": None}
            entry["response"] = {"status_code": status, "request_id": "r", "body": json.loads(text)}
            (output if status == 200 else errors).append(entry)
            if status == 200:
                self.bought[json.dumps(line["body"], sort_keys=True)] += 1
        if fate == "expired":
            gone = {"code": "batch_expired", "message": "This request could not be executed before the completion window expired."}
            errors += [{"id": "e", "custom_id": line["custom_id"], "response": None, "error": gone} for line in lines[len(done) :]]
        batch["status"] = fate or "completed"
        batch["request_counts"] |= {"completed": len(output), "failed": len(lines) - len(output)}
        for name, entries in (("output_file_id", output), ("error_file_id", errors)):
            if entries:
                batch[name] = self._file("".join(json.dumps(entry) + "\n" for entry in entries).encode(), "batch_output")["id"]

    def _said(self, body):
        nth = sum(before == body for before in self.bodies)
        self.bodies.append(body)
        said = self.script(body, nth)
        return said if isinstance(said, tuple) else (200, said, {})


@contextmanager
def batch_serving(script, **how):
    server = BatchServer(script, **how)
    thread = threading.Thread(target=server.http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.http.shutdown()
        server.http.server_close()
        thread.join(5)
