"""Checks the signature of a topic's request to a webhook, a notification or a handshake. Works on the raw bytes: parse them only afterwards."""

import hashlib
import hmac
import re
import time

TOLERANCE_SECONDS = 300


def verify_notification(headers, body, secret, now=None):
    """Whether `secret` (the topic subscription's, `whsec_...` as a whole) signed this request.

    `headers` is a mapping with lower-case names, `body` the raw bytes, `now` Unix seconds. Never raises, whatever they hold.
    """
    signed_at = re.fullmatch(r"[0-9]{1,12}", headers.get("x-basaltic-timestamp") or "", re.ASCII)
    signature = re.fullmatch(r"v1=([0-9a-f]{64})", headers.get("x-basaltic-signature") or "")
    if signed_at is None or signature is None:
        return False
    if abs((time.time() if now is None else now) - int(signed_at.group())) > TOLERANCE_SECONDS:
        return False
    # The secret's own text is the key: it is not decoded.
    expected = hmac.new(secret.encode(), signed_at.group().encode() + b"." + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected, signature.group(1))
