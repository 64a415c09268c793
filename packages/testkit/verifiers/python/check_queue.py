"""For the tests: one question per line, {"headers", "body" (base64), "secret", "nowMs"}; answers true or false per line."""

import base64
import json
import sys

from verify_queue import verify_queue_delivery

for line in sys.stdin:
    ask = json.loads(line)
    genuine = verify_queue_delivery(ask["headers"], base64.b64decode(ask["body"]), ask["secret"], ask["nowMs"])
    print("true" if genuine else "false", flush=True)
