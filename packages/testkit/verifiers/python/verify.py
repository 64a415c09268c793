"""Checks the signature of a push delivery. Works on the raw bytes of the body: parse them only when this answered True."""

import base64
import binascii
import hashlib
import hmac
import re
import time

TOLERANCE_SECONDS = 300
MOST_SIGNATURES = 16


def verify(header, body, secrets, now=None):
    """Whether one of the `secrets` (`whsec_...`; during a rotation the new and the previous one) signed `body`.

    `header` is `EZGH-Signature`, `body` the raw bytes, `now` the time in seconds. Never raises, whatever the header holds.
    """
    times, signatures = _read(header)
    if len(times) != 1 or not re.fullmatch(r"[0-9]{1,15}", times[0]):
        return False
    if not 1 <= len(signatures) <= MOST_SIGNATURES:
        return False
    seconds = int(times[0])
    if abs(int(time.time() if now is None else now) - seconds) > TOLERANCE_SECONDS:
        return False
    genuine = False
    for secret in secrets:
        key = _key(secret)
        if key is None:
            continue
        expected = hmac.new(key, b"%d." % seconds + body, hashlib.sha256).hexdigest()
        for signature in signatures:
            genuine |= hmac.compare_digest(expected, signature)
    return genuine


def _read(header):
    """The `t` and `v1` values of `t=<seconds>,v1=<hex>[,v1=<hex>]`. What else it may hold one day is passed over."""
    times, signatures = [], []
    for part in (header or "").split(","):
        name, _, value = part.strip(" ").partition("=")
        if name == "t":
            times.append(value)
        elif name == "v1" and re.fullmatch(r"[0-9a-f]{64}", value):
            signatures.append(value)
    return times, signatures


def _key(secret):
    """The 32 bytes that the text after `whsec_` encodes; None when it does not."""
    encoded = secret[len("whsec_") :]
    if not secret.startswith("whsec_") or not re.fullmatch(r"[A-Za-z0-9_-]{43}", encoded):
        return None
    try:
        return base64.urlsafe_b64decode(encoded + "=")
    except binascii.Error:
        return None
