"""For the tests: one question per line, {"headers", "body" (base64), "secret", "now"}; answers true or false per line."""

import base64
import json
import sys

from verify_notification import verify_notification

for line in sys.stdin:
    ask = json.loads(line)
    genuine = verify_notification(ask["headers"], base64.b64decode(ask["body"]), ask["secret"], ask["now"])
    print("true" if genuine else "false", flush=True)
