package gateway

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/gateway/openai"
)

// keys are the API keys that clients have, by their hashes. The file is read again when it has
// changed.
type keys struct {
	file string // empty: there are none, and everybody is the default tenant
	log  *slog.Logger

	mu     sync.Mutex
	flows  map[[sha256.Size]byte]schemas.Flow
	looked time.Time
	stamp  string // of the file that was read
}

// keysEvery is how often the file is looked at.
const keysEvery = 2 * time.Second

// load reads the file, if there is one.
func (k *keys) load() error {
	if k.file == "" {
		return nil
	}
	stamp := stampOf(k.file)
	data, err := os.ReadFile(k.file)
	if err != nil {
		return fmt.Errorf("reading --http-keys: %w", err)
	}
	flows, err := readKeys(data)
	if err != nil {
		return fmt.Errorf("reading --http-keys %s: %w", k.file, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.flows, k.stamp, k.looked = flows, stamp, time.Now()
	return nil
}

// stampOf tells a file from what it is after a change.
func stampOf(file string) string {
	info, err := os.Stat(file)
	if err != nil {
		return ""
	}
	return fmt.Sprint(info.ModTime(), info.Size())
}

// readKeys reads lines of a hash, a tenant and a class; what stands behind a # is for people.
func readKeys(data []byte) (map[[sha256.Size]byte]schemas.Flow, error) {
	flows := map[[sha256.Size]byte]schemas.Flow{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		hash, err := hex.DecodeString(words[0])
		if err != nil || len(hash) != sha256.Size || len(words) > 3 {
			return nil, fmt.Errorf("line %d is not a SHA-256 in hex, a tenant and a class", n)
		}
		words = append(words, "", "")
		flow := schemas.Flow{Tenant: words[1], Class: schemas.Class(words[2])}.OrDefault()
		if err := flow.Check(); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		flows[[sha256.Size]byte(hash)] = flow
	}
	return flows, lines.Err()
}

// keyOf is a request's key. OpenAI's clients send it as a bearer, Anthropic's and Azure's by itself.
func keyOf(h http.Header) string {
	scheme, key, _ := strings.Cut(strings.TrimSpace(h.Get("Authorization")), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		key = cmp.Or(h.Get("X-Api-Key"), h.Get("Api-Key"))
	}
	return strings.TrimSpace(key)
}

// of is the tenant and class of a request's key.
func (k *keys) of(r *http.Request) (schemas.Flow, *openai.Error) {
	if k.file == "" {
		return schemas.DefaultFlow(), nil
	}
	key := keyOf(r.Header)
	k.refresh()
	k.mu.Lock()
	defer k.mu.Unlock()
	// What is compared are hashes, of which the time tells nothing.
	flow, known := k.flows[sha256.Sum256([]byte(key))]
	if !known || key == "" {
		return flow, &openai.Error{Status: http.StatusUnauthorized, Type: openai.Authentication, Code: "invalid_api_key", Message: "Incorrect API key provided: send a known one as Authorization: Bearer KEY"}
	}
	return flow, nil
}

// refresh reads a file that has changed. One that cannot be read leaves the keys as they were.
func (k *keys) refresh() {
	k.mu.Lock()
	due := time.Since(k.looked) > keysEvery
	if due {
		k.looked = time.Now()
	}
	before := k.stamp
	k.mu.Unlock()
	if !due || stampOf(k.file) == before {
		return
	}
	if err := k.load(); err != nil {
		k.log.Error("the API keys stay as they were", "error", err)
	}
}
