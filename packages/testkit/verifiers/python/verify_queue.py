"""Checks the signature of a push consumer's delivery (one message a request). Works on the raw bytes: parse them only afterwards."""

import hashlib
import hmac
import re
import time

TOLERANCE_MS = 300_000
PREFIX = "x-gigadrive-queue-"


def verify_queue_delivery(headers, body, secret, now_ms=None):
    """Whether `secret` (the environment's, `whsec_...` as a whole) signed this delivery.

    `headers` is a mapping with lower-case names, `body` the raw bytes, `now_ms` Unix milliseconds. Never raises, whatever they hold.
    """
    match = re.fullmatch(r"t=([0-9]{1,15}),v1=([0-9a-f]{64})", headers.get(PREFIX + "signature") or "")
    if match is None:
        return False
    signed_ms, signature = match.groups()
    now = time.time() * 1000 if now_ms is None else now_ms
    if abs(now - int(signed_ms)) > TOLERANCE_MS:
        return False
    fields = [headers.get(PREFIX + name) or "" for name in ("name", "message-id", "attempt")]
    text = ".".join([signed_ms, *fields, hashlib.sha256(body).hexdigest()])
    # The secret's own text is the key: it is not decoded.
    expected = hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected, signature)
