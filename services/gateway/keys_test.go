package gateway

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/process/lifecycle"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/gateway/apikeys"
	"github.com/switchyard/switchyard/services/gateway/internal/fake"
)

// keyed is a door with these keys, by their secrets.
func keyedDoor(t *testing.T, u *fake.Upstream, changes map[string]func(*apikeys.Key)) (d *Door, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "keys")
	err := apikeys.Edit(file, func(f *apikeys.File) error {
		for secret, change := range changes {
			k := apikeys.Key{Hash: apikeys.HashOf(secret), Flow: schemas.DefaultFlow(), Right: apikeys.Ask}
			change(&k)
			if err := f.Add(k); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return newDoor(t, u, func(c *Config) { c.Keys, c.AccessLog = file, filepath.Join(filepath.Dir(file), "access") }), file
}

// A key does what its line lets it do: in time, with its models, and by its right.
func TestKeyBounds(t *testing.T) {
	u := &fake.Upstream{}
	d, _ := keyedDoor(t, u, map[string]func(*apikeys.Key){
		"all":      func(*apikeys.Key) {},
		"mine":     func(k *apikeys.Key) { k.Models = []string{"demo"} },
		"other":    func(k *apikeys.Key) { k.Models = []string{"mixtral"} },
		"reader":   func(k *apikeys.Key) { k.Right = apikeys.Read },
		"expired":  func(k *apikeys.Key) { k.Expires = time.Now().Add(-time.Second) },
		"expiring": func(k *apikeys.Key) { k.Expires = time.Now().Add(time.Hour) },
	})
	const text = `{"model":"demo","prompt":"x"}`
	asking := [][3]string{
		{"POST", "/v1/chat/completions", hi + "}"}, {"POST", "/v1/completions", text}, {"POST", "/v1/responses", `{"model":"demo","input":"x"}`},
		{"POST", "/v1/messages", `{"model":"demo","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`},
	}
	reading := [][3]string{
		{"GET", "/v1/models/demo"}, {"POST", "/tokenize", text}, {"GET", "/tokenizer_info?model=demo"},
		{"POST", "/v1/messages/count_tokens", `{"model":"demo","messages":[{"role":"user","content":"hi"}]}`},
	}
	for key, want := range map[string][2]int{"all": {200, 200}, "mine": {200, 200}, "other": {404, 404}, "reader": {403, 200}, "expired": {401, 401}, "expiring": {200, 200}} {
		for i, routes := range [][][3]string{asking, reading} {
			for _, r := range routes {
				if w := as(d, key, r[0], r[1], r[2]); w.Code != want[i] {
					t.Errorf("%s: %s %s: %d %s", key, r[0], r[1], w.Code, w.Body)
				}
			}
		}
	}
	for _, r := range [][2]string{{"GET", "/v1/responses/resp_x.demo"}, {"DELETE", "/v1/responses/resp_x.demo"}, {"POST", "/v1/responses/resp_x.demo/cancel"}} {
		if w := as(d, "reader", r[0], r[1], ""); w.Code != 403 {
			t.Errorf("a reader: %v: %d", r, w.Code)
		}
	}
	if w := as(d, "other", "GET", "/v1/models", ""); w.Code != 200 || strings.Contains(w.Body.String(), "demo") {
		t.Errorf("models of a key without them: %s", w.Body)
	}
}

// What the file says counts as soon as it is looked at, and a broken file changes nothing.
func TestKeysChange(t *testing.T) {
	u := &fake.Upstream{}
	d, file := keyedDoor(t, u, map[string]func(*apikeys.Key){"one": func(*apikeys.Key) {}, "two": func(*apikeys.Key) {}})
	w := lifecycle.NewWatch("keys", d.keys.load, file)
	var logged bytes.Buffer
	log := slog.New(slog.NewTextHandler(&logged, nil))
	check := func(when string, statuses map[string]int) {
		t.Helper()
		w.Look(log, false)
		for key, want := range statuses {
			if got := as(d, key, "GET", "/v1/models", ""); got.Code != want {
				t.Errorf("%s: %s: %d", when, key, got.Code)
			}
		}
	}
	id := apikeys.Key{Hash: apikeys.HashOf("one")}.ID()
	err := apikeys.Edit(file, func(f *apikeys.File) error { _, err := f.Rotate(id, "three", time.Now(), time.Now()); return err })
	if err != nil {
		t.Fatal(err)
	}
	check("rotated", map[string]int{"one": 401, "two": 200, "three": 200})
	for _, broken := range []string{"x\n", strings.Repeat("0", 64) + " acme right=all\n"} {
		if err := os.WriteFile(file, []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		check("broken", map[string]int{"one": 401, "two": 200, "three": 200})
	}
	if strings.Count(logged.String(), "stays as it was") != 2 {
		t.Errorf("%s", logged.String())
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	check("gone", map[string]int{"two": 200})
}

// makePair writes a certificate and its key.
func makePair(t *testing.T, dir, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: serial, DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "EC PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// A new certificate is shown to the next client; half of one leaves the old one in use.
func TestCertificateChanges(t *testing.T) {
	dir := t.TempDir()
	c := certificate{}
	c.cert, c.key = makePair(t, dir, "old")
	if err := c.load(); err != nil {
		t.Fatal(err)
	}
	shown := func() string {
		pair, err := c.config().GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return pair.Leaf.DNSNames[0]
	}
	w := lifecycle.NewWatch("certificate", c.load, c.cert, c.key)
	look := func(want string) {
		t.Helper()
		w.Look(slog.New(slog.DiscardHandler), false)
		if got := shown(); got != want {
			t.Errorf("%s is shown, want %s", got, want)
		}
	}
	old, err := os.ReadFile(c.key)
	if err != nil {
		t.Fatal(err)
	}
	makePair(t, dir, "new")
	fresh, err := os.ReadFile(c.key)
	if err != nil {
		t.Fatal(err)
	}
	for _, half := range [][]byte{old, fresh[:40], nil} {
		if err := os.WriteFile(c.key, half, 0o600); err != nil {
			t.Fatal(err)
		}
		look("old")
	}
	if err := os.WriteFile(c.key, fresh, 0o600); err != nil {
		t.Fatal(err)
	}
	look("new")
}

// Each request leaves a line without a word of it, also in a file that was moved away.
func TestAccessLog(t *testing.T) {
	u := &fake.Upstream{}
	d, file := keyedDoor(t, u, map[string]func(*apikeys.Key){"one": func(k *apikeys.Key) { k.Flow.Tenant = "acme" }})
	path := filepath.Join(filepath.Dir(file), "access")
	as(d, "one", "POST", "/v1/chat/completions", strings.ReplaceAll(hi, "hi", "private")+"}", "Idempotency-Key", "order")
	as(d, "none", "GET", "/v1/models", "")
	as(d, "one", "POST", "/v1/completions", `{"model":"none","prompt":"private"}`)
	read := func() (lines []accessLine) {
		t.Helper()
		data, err := os.ReadFile(path)
		if err != nil || bytes.Contains(data, []byte("private")) {
			t.Fatalf("%s, %v", data, err)
		}
		for _, text := range strings.Split(strings.TrimSpace(string(data)), "\n") {
			var l accessLine
			if err := json.Unmarshal([]byte(text), &l); err != nil {
				t.Fatal(err)
			}
			lines = append(lines, l)
		}
		return lines
	}
	lines := read()
	if len(lines) != 3 {
		t.Fatalf("%d lines", len(lines))
	}
	whole, stranger, unknown := lines[0], lines[1], lines[2]
	if whole.Status != 200 || whole.Tenant != "acme" || whole.Model != "demo" || whole.Finish != "stop" || whole.Prompt != 3 || whole.Completion == 0 || whole.Total <= 0 || whole.Route != "POST /v1/chat/completions" || len(whole.Key) != 12 {
		t.Errorf("%+v", whole)
	}
	if prompts, _ := u.Asked(); whole.ID != prompts[0].RequestId {
		t.Errorf("id %q of request %q", whole.ID, prompts[0].RequestId)
	}
	if stranger.Status != 401 || stranger.Code != "invalid_api_key" || stranger.Tenant != "" || unknown.Status != 404 || unknown.Code != "model_not_found" || unknown.Tenant != "acme" {
		t.Errorf("%+v, %+v", stranger, unknown)
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	d.access.looked = time.Time{}
	as(d, "one", "GET", "/v1/models", "")
	if again := read(); len(again) != 1 || again[0].Route != "GET /v1/models" {
		t.Errorf("%+v", again)
	}
	d.access.path = filepath.Join(path, "below a file")
	d.access.looked = time.Time{}
	if w := as(d, "one", "GET", "/v1/models", ""); w.Code != 200 {
		t.Errorf("without its log: %d", w.Code)
	}
	if d.access.lost != 1 {
		t.Errorf("%d lines are lost", d.access.lost)
	}
}

// Limits of the tenant are told as each API does, with refusals too, and not at all where there are none.
func TestLimitHeaders(t *testing.T) {
	u := &fake.Upstream{Allowance: schemas.Allowance{Requests: schemas.Limit{Most: 60, Left: 59, Reset: time.Second}, Tokens: schemas.Limit{Most: 6000, Left: 5900, Reset: 61500 * time.Millisecond}}}
	d := newDoor(t, u)
	for _, body := range []string{hi + "}", hi + `,"stream":true}`} {
		h := ask(d, "POST", "/v1/chat/completions", body).Header()
		for name, want := range map[string]string{
			"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "59", "x-ratelimit-reset-requests": "1s",
			"x-ratelimit-limit-tokens": "6000", "x-ratelimit-remaining-tokens": "5900", "x-ratelimit-reset-tokens": "1m1.5s",
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	}
	h := ask(d, "POST", "/v1/messages", `{"model":"demo","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`).Header()
	if _, err := time.Parse(time.RFC3339, h.Get("anthropic-ratelimit-tokens-reset")); err != nil || h.Get("anthropic-ratelimit-requests-remaining") != "59" || h.Get("x-ratelimit-limit-tokens") != "" {
		t.Errorf("%v, %v", h, err)
	}
	for name := range ask(newDoor(t, &fake.Upstream{}), "POST", "/v1/chat/completions", hi+"}").Header() {
		if strings.Contains(strings.ToLower(name), "ratelimit") {
			t.Errorf("%s without limits", name)
		}
	}
}
