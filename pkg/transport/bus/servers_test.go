package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

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
		{"last port", "nats://a:65535", ""},
		{"of version 6", "nats://[::1]:4222,[::2]", ""},
		{"scheme", "nats://a,http://b:8222", `http://b:8222: its scheme must be one of nats, tls, ws, wss`},
		{"scheme and user", "secret://secret@b", `xxxxx@b: its scheme must be one of nats, tls, ws, wss`},
		{"port of letters", "nats://a:port", `nats://xxxxx: ` + errURL.Error()},
		{"port too large", "nats://a,nats://b:99999", `nats://b:99999: its port must be a number from 1 to 65535`},
		{"port too large for a user", "nats://u:secret@b:65536", `nats://xxxxx@b:65536: its port must be a number from 1 to 65535`},
		{"port 0", "a:0", `a:0: its port must be a number from 1 to 65535`},
		{"percent in a password", "nats://u:secret%@a", `nats://xxxxx@a: ` + errURL.Error()},
		{"slash in a password", "nats://u:1/secret@a", `nats://xxxxx@a: ` + errURL.Error()},
		{"comma in a password", "nats://u:1,secret@a", `nats://xxxxx@a: ` + errComma.Error()},
		{"comma in a password, written right", "nats://u:1%2Csecret@a", ""},
		{"host forgotten", "nats://u:secret", `nats://xxxxx: ` + errURL.Error()},
		{"a comma too many", "nats://a,", ""},
		{"port alone", ":4222", ":4222: it names no host; write nats://HOST:PORT"},
		{"no host", "nats://", "nats://: it names no host; write nats://HOST:PORT"},
		{"no host for a user", "nats://u:secret@:4222", "nats://xxxxx@:4222: it names no host; write nats://HOST:PORT"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := Config{URL: tc.url, Insecure: true}.resolve()
			if (err != nil) != (tc.wrong != "") || err != nil && err.Error() != "reading the NATS URL "+tc.wrong {
				t.Errorf("error %v, want %q", err, tc.wrong)
			}
		})
	}
}

// A NATS context may have no server either.
func TestNoServers(t *testing.T) {
	if _, err := parseServers(", ,"); !errors.Is(err, errNoneSet) {
		t.Error(err)
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
		"nats://u:p:4222/no-host-behind": "nats://xxxxx",
		"nats://a:99999":                 "nats://a:99999",
		"nats://a, tls://b:1 ,c":         "nats://a,tls://b:1,c",
		"wss://a:443/path":               "wss://a:443",
		"nats://[::1]:4222":              "nats://[::1]:4222",
		"natss://a":                      "natss://a",
		"nats://u:p,q@a:4222":            "nats://xxxxx@a:4222",
		"nats://u:1,2@a:4222":            "nats://xxxxx@a:4222",
		"nats://u:p,q":                   "nats://xxxxx",
		"nats://u:1,q:p,nats://a":        "nats://xxxxx,nats://a",
		"nats://b,u:p@a:4222":            "nats://xxxxx@a:4222",
		"nats://t,o,k@a,b:1":             "nats://xxxxx@a,b:1",
		"u://p@a":                        "xxxxx@a",
		"nats://u:p/q@a":                 "nats://xxxxx@a",
		"nats://u:p@":                    "nats://xxxxx@",
		"nats://u:p@q:r":                 "nats://xxxxx@xxxxx",
		"@":                              "xxxxx@",
	} {
		if got := Redact(text); got != want {
			t.Errorf("%s became %s, want %s", text, got, want)
		}
	}
}

// Whatever a user, password or token is: what is printed is the same, so that no byte of it
// is. Only a comma with a scheme behind it begins a further server, as it does for clients.
func FuzzRedact(f *testing.F) {
	for _, secret := range []string{"secret", "a,b", "a@b", "12,34", "1/2", "a%zz", "a://b", "a,natss://b", "[::1]:1", "\x00", "ä", "?", "#", "@#", "@q/", "@q:1?", ",", ":", ""} {
		f.Add(secret)
	}
	known := []error{nil, errURL, errComma, errScheme}
	f.Fuzz(func(t *testing.T, secret string) {
		if next.MatchString(","+secret) || next.MatchString(secret) {
			t.Skip("it is a server of its own")
		}
		for _, form := range []string{"nats://u:*@host:4222", "nats://*@host", "*@host:1", "c,a:1, tls://u:*@b:2", "nats://*:p@host:4222,wss://*@b"} {
			text, want := strings.ReplaceAll(form, "*", secret), Redact(strings.ReplaceAll(form, "*", "x"))
			if got := Redact(text); got != want {
				t.Errorf("%q became %q, want %q", text, got, want)
			}
			_, err := parseServers(text)
			if !slices.ContainsFunc(known, func(k error) bool { return errors.Is(err, k) }) {
				t.Errorf("%q: %v", text, err)
			}
			if err != nil && !slices.ContainsFunc(groups(want), func(part string) bool {
				return strings.HasPrefix(err.Error(), "reading the NATS URL "+part+": it")
			}) {
				t.Errorf("%q: %v", text, err)
			}
		}
	})
}

// A password in a URL is neither logged nor in the error.
func TestConnectHidesPasswords(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	logged := &firstLine{then: cancel}
	_, err := Connect(ctx, Config{URL: "nats://u:secret@127.0.0.1:1"}, Settings{Logger: slog.New(slog.NewTextHandler(logged, nil))})
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
