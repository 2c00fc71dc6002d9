package bus

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testusers"
	"github.com/switchyard/switchyard/pkg/transport/credentials"
)

func logIn(t *testing.T, cfg Config) (*Conn, error) {
	t.Helper()
	return logInWith(t, cfg, Settings{})
}

func logInWith(t *testing.T, cfg Config, s Settings) (*Conn, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	s.Logger = slog.New(slog.DiscardHandler)
	return Connect(ctx, cfg, s)
}

// A credentials file is enough: inboxes are the user's own.
func TestCredentials(t *testing.T) {
	f := testusers.Make(t, testusers.Demo())
	s := testusers.Serve(t, testusers.Guarded(t, f))
	for _, settings := range []Settings{{}, {MaxHeaders: 8}} {
		conn, err := logInWith(t, Config{URL: s.URL(), Creds: f.Creds("gate"), TLSCA: f.CA()}, settings)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if inbox := conn.NATS().NewInbox(); !strings.HasPrefix(inbox, "_INBOX_gate.") {
			t.Errorf("inbox %s", inbox)
		}
	}
	inside, err := Connect(t.Context(), Config{Creds: f.Creds("producer")}, Settings{InProcess: s})
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	if inbox := inside.NATS().NewInbox(); !strings.HasPrefix(inbox, "_INBOX.producer.") {
		t.Errorf("inbox %s", inbox)
	}
}

// A connection that has no URL is not said to be back at one.
func TestBackInProcess(t *testing.T) {
	f := testusers.Make(t, testusers.Demo())
	s := testusers.Serve(t, testusers.Guarded(t, f))
	for _, tc := range []struct {
		name string
		cfg  Config
		s    Settings
		want string
	}{
		{"inside", Config{Creds: f.Creds("gate")}, Settings{InProcess: s}, `server="in this process"`},
		{"outside", Config{URL: s.URL(), Creds: f.Creds("gate"), TLSCA: f.CA()}, Settings{}, "url=" + s.URL()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var said bytes.Buffer
			tc.s.Logger = slog.New(slog.NewTextHandler(&said, nil))
			conn, err := Connect(t.Context(), tc.cfg, tc.s)
			if err != nil {
				t.Fatal(err)
			}
			back := conn.Reconnection()
			if err := conn.NATS().ForceReconnect(); err != nil {
				t.Fatal(err)
			}
			<-back
			conn.Close()
			if text := said.String(); !strings.Contains(text, `msg="NATS connection is back" `+tc.want) || strings.Count(text, "://") != strings.Count(tc.want, "://") {
				t.Errorf("it said %s", text)
			}
		})
	}
}

// What cannot work is told at once, and which file is to be looked at.
func TestCredentialsRefused(t *testing.T) {
	short := testusers.Demo()
	short.Expires = time.Nanosecond
	f, others, expired := testusers.Make(t, testusers.Demo()), testusers.Make(t, testusers.Demo()), testusers.Make(t, short)
	s := testusers.Serve(t, testusers.Guarded(t, f))
	garbage := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, creds, ca string
		is              error
		want            string
	}{
		{"none", "", f.CA(), ErrNoConnection, "--creds"},
		{"another operator's", others.Creds("gate"), f.CA(), ErrNoConnection, "user gate of " + others.Creds("gate")},
		{"expired", expired.Creds("gate"), f.CA(), ErrCredentials, expired.Creds("gate") + " (user gate) expired at"},
		{"no file", garbage + "x", f.CA(), ErrCredentials, garbage + "x"},
		{"garbage", garbage, f.CA(), ErrCredentials, garbage + " has no user's"},
		{"another authority", f.Creds("gate"), others.CA(), ErrNoConnection, "authority in " + others.CA()},
		{"no authority", f.Creds("gate"), "", ErrNoConnection, "--tls-ca"},
		{"no authority's file", f.Creds("gate"), garbage, ErrCredentials, garbage + " has no certificate"},
	} {
		for _, maxHeaders := range []int{0, 8} {
			conn, err := logInWith(t, Config{URL: s.URL(), Creds: tc.creds, TLSCA: tc.ca}, Settings{MaxHeaders: maxHeaders})
			if err == nil {
				conn.Close()
			}
			if !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.want) || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
			}
		}
	}
}

// Whose key is revoked is disconnected, and comes back with the file's new key.
func TestRotate(t *testing.T) {
	f := testusers.Make(t, testusers.Demo())
	s := testusers.Serve(t, testusers.Guarded(t, f))
	old := filepath.Join(t.TempDir(), "old.creds")
	data, err := os.ReadFile(f.Creds("gate"))
	if err == nil {
		err = os.WriteFile(old, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	follows, err := logInWith(t, Config{URL: s.URL(), Creds: f.Creds("gate"), TLSCA: f.CA()}, Settings{MaxHeaders: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer follows.Close()
	back := follows.Reconnection()
	if users, err := f.Rotate(credentials.Renewal{Users: []string{"gate"}}); err != nil || len(users) != 1 {
		t.Fatalf("%v, %v", users, err)
	}
	trust, err := f.Trust()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Believe(trust); err != nil {
		t.Fatal(err)
	}
	select {
	case <-back:
	case <-time.After(testkit.Patience):
		t.Fatal("the client did not come back with its new key")
	}
	if conn, err := logIn(t, Config{URL: s.URL(), Creds: old, TLSCA: f.CA()}); !errors.Is(err, ErrNoConnection) || !strings.Contains(err.Error(), old) {
		if err == nil {
			conn.Close()
		}
		t.Errorf("the old key: %v", err)
	}
	if err := follows.NATS().FlushTimeout(testkit.Patience); err != nil || follows.NATS().Status() != nats.CONNECTED {
		t.Errorf("the new key: %v, %v", follows.NATS().Status(), err)
	}
}

func FuzzCreds(f *testing.F) {
	folder := testusers.Make(f, testusers.Demo())
	data, err := os.ReadFile(folder.Creds("gate"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(data[:len(data)/2])
	f.Add([]byte("-----BEGIN NATS USER JWT-----\ne30.e30.e30\n------END NATS USER JWT------\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if u, err := parseCreds(data, time.Now()); err == nil && strings.ContainsAny(u.inbox, "*> ") {
			t.Errorf("inbox %q", u.inbox)
		}
	})
}
