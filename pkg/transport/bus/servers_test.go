package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Servers that nobody can connect to are refused before anything is dialled, also where
// encryption is no question.
func TestServers(t *testing.T) {
	for _, tc := range []struct{ name, url, wrong string }{
		{"one", "nats://127.0.0.1:4222", ""},
		{"several", "nats://a:4222, tls://b:4222,c,ws://d:80,wss://e", ""},
		{"address", "127.0.0.1:4222", ""},
		{"user", "nats://u:p@a", ""},
		{"scheme", "nats://a,http://b:8222", `http://b:8222: its scheme is "http"; it must be one of nats, tls, ws, wss`},
		{"port", "nats://a:port", `nats://a:port: invalid port ":port" after host`},
		{"password", "nats://u:secret%@a", `nats://xxxxx@a: invalid URL escape "%"`},
		{"port alone", ":4222", ""},
		{"a comma too many", "nats://a,", ""},
		{"no host", "nats://", "nats://: it names no host"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := Config{URL: tc.url, Insecure: true}.resolve()
			if (err != nil) != (tc.wrong != "") || err != nil && !strings.HasSuffix(err.Error(), tc.wrong) {
				t.Errorf("error %v, want %q", err, tc.wrong)
			}
		})
	}
}

func TestRedact(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "",
		"yard":                           "yard",
		"nats://a:4222":                  "nats://a:4222",
		"nats://u:p@a:4222,tls://t@b":    "nats://xxxxx@a:4222,tls://xxxxx@b",
		"u:p@a":                          "xxxxx@a",
		"nats://u:p@ss@a":                "nats://xxxxx@a",
		"nats://u:p:4222/no-host-behind": "nats://u:p:4222/no-host-behind",
	} {
		if got := Redact(text); got != want {
			t.Errorf("%s became %s, want %s", text, got, want)
		}
	}
}

// A password in a URL is neither logged nor in the error.
func TestConnectHidesPasswords(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var logged bytes.Buffer
	_, err := Connect(ctx, Config{URL: "nats://u:secret@127.0.0.1:1"}, Settings{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	if !errors.Is(err, ErrNoConnection) || strings.Contains(err.Error()+logged.String(), "secret") || !strings.Contains(logged.String(), "xxxxx@127.0.0.1:1") {
		t.Errorf("error %v, log %s", err, logged.String())
	}
}

// A server without JetStream is told of as such.
func TestWithCure(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		has  bool
	}{
		{"nobody answers", fmt.Errorf("creating a stream: %w", nats.ErrNoResponders), true},
		{"switched off", jetstream.ErrJetStreamNotEnabled, true},
		{"another", ErrStopped, false},
		{"none", nil, false},
	} {
		got := WithCure(tc.err)
		if cured := got != nil && strings.Contains(got.Error(), "nats-server -js"); cured != tc.has || !errors.Is(got, tc.err) {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}
