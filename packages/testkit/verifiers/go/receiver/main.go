// A whole endpoint for a push subscription. Start it with the secret that creating the subscription answered
// (during a rotation both, separated by a comma):
//
//	MILLRACE_SIGNING_SECRETS=whsec_… PORT=8080 go run ./receiver
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"millrace.example/verifier/verify"
)

const mostBytes = 16 << 20

type message struct {
	MessageID  string            `json:"messageId"`
	Body       string            `json:"body"`
	Attributes map[string]string `json:"attributes"`
}

// Your work goes here. Return an error, and the message is delivered again; use MessageID to recognize what you have done already.
func handle(m message) error {
	if m.Body == "fail" {
		return errors.New("told to fail")
	}
	fmt.Println("handled", m.MessageID)
	return nil
}

func deliveries(secrets []string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBytes))
		if err != nil {
			http.Error(w, "unreadable body", http.StatusRequestEntityTooLarge)
			return
		}
		if !verify.Signature(r.Header.Get("EZGH-Signature"), body, secrets, time.Now()) {
			http.Error(w, "not genuine", http.StatusUnauthorized)
			return
		}
		var delivery struct {
			Messages []message `json:"messages"`
		}
		if err := json.Unmarshal(body, &delivery); err != nil {
			http.Error(w, "not JSON", http.StatusBadRequest)
			return
		}
		failed := []string{}
		for _, m := range delivery.Messages {
			if handle(m) != nil {
				failed = append(failed, m.MessageID)
			}
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string][]string{"failed": failed})
	}
}

func main() {
	port := os.Getenv("PORT")
	if port == "" {
		port = "8080"
	}
	listener, err := net.Listen("tcp", ":"+port)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening on", listener.Addr().(*net.TCPAddr).Port)
	log.Fatal(http.Serve(listener, deliveries(strings.Split(os.Getenv("MILLRACE_SIGNING_SECRETS"), ","))))
}
