"""What the uses of all clients share: where the gateway is, what they ask, and what they want."""

import contextlib
import http.server
import json
import os
import re
import sys
import threading
import time
import urllib.request

os.environ.setdefault("OPENAI_API_KEY", "none")
os.environ.setdefault("OPENAI_AGENTS_DISABLE_TRACING", "1")
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

URL, MODEL = sys.argv[1].rstrip("/"), sys.argv[2]
HI = [{"role": "user", "content": "Tell me a story about a dog."}]
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "Weather of a town.", "parameters": {
    "type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]}}}]
SMALL = [{"type": "function", "function": {"name": "weather", "description": "Weather of a town.", "parameters": {
    "type": "object", "properties": {"town": {"type": "string", "maxLength": 12}}, "required": ["town"]}}}]


def want(condition, what):
    if not condition:
        raise AssertionError(what)


def refused(call, error, **fields):
    """Wants a call to raise an error of a type, with fields."""
    try:
        call()
    except error as e:
        for name, value in fields.items():
            want(getattr(e, name) == value, f"{name} is {getattr(e, name)!r}, want {value!r}")
        return
    raise AssertionError("nothing was raised")


def idle():
    """Wants the gateway to have no answer under way soon: a client that left has ended its own."""
    for _ in range(100):
        with urllib.request.urlopen(URL + "/metrics") as page:
            if re.search(r"^switchyard_http_streams(\{[^}]*\})? 0$", page.read().decode(), re.M):
                return
        time.sleep(0.05)
    raise AssertionError("an answer goes on without its client")


@contextlib.contextmanager
def flaky(failures=1):
    """The gateway's URL behind a server that first refuses as a gateway does whose model is not ready."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            asked.append(self.path)
            status, kind, answer = 503, "application/json", b'{"error":{"message":"wait","type":"server_error","param":null,"code":"model_not_ready"}}'
            if len(asked) > failures:
                r = urllib.request.Request(URL + self.path, body, {"Content-Type": "application/json"})
                with urllib.request.urlopen(r) as got:
                    status, kind, answer = got.status, got.headers["Content-Type"], got.read()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(answer)))
            if status == 503:
                self.send_header("Retry-After", "1")
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
        want(len(asked) == failures + 1, f"asked {len(asked)} times")
    finally:
        server.shutdown()


DOG = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["name", "age"], "additionalProperties": False}


def dog(text):
    """Wants a text to be what the schema DOG says."""
    d = json.loads(text)
    want(set(d) == {"name", "age"} and len(d["name"]) <= 12 and 0 <= d["age"] <= 9, d)
