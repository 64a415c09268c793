"""For the tests: one question per line, {"header", "body" (base64), "secrets", "nowMs"}; answers true or false per line."""

import base64
import json
import sys

from verify import verify

for line in sys.stdin:
    ask = json.loads(line)
    genuine = verify(ask.get("header"), base64.b64decode(ask["body"]), ask["secrets"], ask["nowMs"] / 1000)
    print("true" if genuine else "false", flush=True)
