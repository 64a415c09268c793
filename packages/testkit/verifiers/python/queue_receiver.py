"""A whole consumer of a push queue, standard library only.

Start it with the signing secret of the environment:
    GIGADRIVE_QUEUE_SIGNING_SECRET=whsec_... PORT=8080 python3 queue_receiver.py
"""

import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from verify_queue import PREFIX, verify_queue_delivery

SECRET = os.environ["GIGADRIVE_QUEUE_SIGNING_SECRET"]
MOST_BYTES = 2 * 1024 * 1024


class Refuse(Exception):
    """Raised for a message that will never work: it goes to the dead letters, with this text."""


def handle(body, message_id, attempt):
    """Your work goes here. Raise, and the message comes again later; use the message id to recognize what you have done already."""
    if body == b"fail" and attempt == 1:
        raise RuntimeError("told to fail")
    if body == b"refuse":
        raise Refuse("told to refuse")
    print("handled " + message_id + "\n", end="", flush=True)


class Deliveries(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        length = int(self.headers.get("Content-Length", 0))
        if length > MOST_BYTES:
            self.close_connection = True
            return self.answer(413)
        body = self.rfile.read(length)
        headers = {name.lower(): value for name, value in self.headers.items()}
        if not verify_queue_delivery(headers, body, SECRET):
            return self.answer(401)
        try:
            handle(body, headers[PREFIX + "message-id"], int(headers[PREFIX + "attempt"]))
        except Refuse as reason:
            return self.answer(200, {PREFIX + "action": "dead-letter", PREFIX + "error": str(reason)})
        except Exception as error:
            return self.answer(500, body=str(error).encode())
        self.answer(204)

    def answer(self, status, headers=None, body=b""):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("", int(os.environ.get("PORT", "8080"))), Deliveries)
    print("listening on %d" % server.server_address[1], flush=True)
    server.serve_forever()
