"""A whole endpoint for a push subscription, standard library only.

Start it with the secret that creating the subscription answered (during a rotation both, separated by a comma):
    MILLRACE_SIGNING_SECRETS=whsec_... PORT=8080 python3 receiver.py
"""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from verify import verify

SECRETS = os.environ.get("MILLRACE_SIGNING_SECRETS", "").split(",")
MOST_BYTES = 16 * 1024 * 1024


def handle(message):
    """Your work goes here. Raise, and the message is delivered again; use messageId to recognize what you have done already."""
    if message.get("body") == "fail":
        raise RuntimeError("told to fail")
    print("handled " + message["messageId"] + "\n", end="", flush=True)


class Deliveries(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        length = int(self.headers.get("Content-Length", 0))
        if length > MOST_BYTES:
            self.close_connection = True
            return self.answer(413, b"")
        body = self.rfile.read(length)
        if not verify(self.headers.get("EZGH-Signature"), body, SECRETS):
            return self.answer(401, b"")
        failed = []
        for message in json.loads(body)["messages"]:
            try:
                handle(message)
            except Exception:
                failed.append(message["messageId"])
        self.answer(200, json.dumps({"failed": failed}).encode())

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("", int(os.environ.get("PORT", "8080"))), Deliveries)
    print("listening on %d" % server.server_address[1], flush=True)
    server.serve_forever()
