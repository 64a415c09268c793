// Package verify checks the signature of a push delivery.
package verify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

const (
	toleranceSeconds = 300
	mostSignatures   = 16
	secretPrefix     = "whsec_"
)

// Signature says whether one of the secrets ("whsec_…"; during a rotation the new and the previous one) signed body.
// The header is EZGH-Signature; body is the raw bytes: parse them only when this answered true.
func Signature(header string, body []byte, secrets []string, now time.Time) bool {
	seconds, signatures, ok := read(header)
	if !ok {
		return false
	}
	if age := now.Unix() - seconds; age > toleranceSeconds || age < -toleranceSeconds {
		return false
	}
	genuine := false
	for _, secret := range secrets {
		if !strings.HasPrefix(secret, secretPrefix) {
			continue
		}
		key, err := base64.RawURLEncoding.DecodeString(secret[len(secretPrefix):])
		if err != nil || len(key) != 32 {
			continue
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(strconv.FormatInt(seconds, 10) + "."))
		mac.Write(body)
		expected := mac.Sum(nil)
		for _, signature := range signatures {
			if hmac.Equal(signature, expected) {
				genuine = true
			}
		}
	}
	return genuine
}

// read takes "t=<seconds>,v1=<hex>[,v1=<hex>]" apart: exactly one t, 1 to 16 v1. What else it may hold one day is passed over.
func read(header string) (seconds int64, signatures [][]byte, ok bool) {
	times := 0
	for _, part := range strings.Split(header, ",") {
		name, value, _ := strings.Cut(strings.Trim(part, " "), "=")
		switch name {
		case "t":
			n, err := strconv.ParseUint(value, 10, 50)
			if err != nil || len(value) > 15 {
				return 0, nil, false
			}
			seconds = int64(n)
			times++
		case "v1":
			b, err := hex.DecodeString(value)
			if err == nil && len(b) == sha256.Size && value == strings.ToLower(value) {
				signatures = append(signatures, b)
			}
		}
	}
	return seconds, signatures, times == 1 && len(signatures) > 0 && len(signatures) <= mostSignatures
}
