// For the tests: one question per line, {"header", "body" (base64), "secrets", "nowMs"}; answers true or false per line.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"time"

	"millrace.example/verifier/verify"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var ask struct {
			Header  string
			Body    []byte
			Secrets []string
			NowMs   int64
		}
		if err := json.Unmarshal(lines.Bytes(), &ask); err != nil {
			log.Fatal(err)
		}
		fmt.Println(verify.Signature(ask.Header, ask.Body, ask.Secrets, time.UnixMilli(ask.NowMs)))
	}
}
