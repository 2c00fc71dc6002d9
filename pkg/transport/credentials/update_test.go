package credentials_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testusers"
	"github.com/switchyard/switchyard/pkg/transport/credentials"
	"github.com/switchyard/switchyard/pkg/transport/rights"
)

// may reports whether a user may publish.
func may(t *testing.T, nc *nats.Conn, subject string) bool {
	t.Helper()
	return !refusals(t, nc, "Publish", []string{subject}, func(s string) error { return nc.Publish(s, nil) })[subject]
}

// Users keep their credentials and get the rights of the new scope; producers of new
// tenants are made, those of others are no more.
func TestUpdate(t *testing.T) {
	f := folder(t)
	scope, err := f.ReadScope()
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(f.Creds("gate"))
	if err != nil {
		t.Fatal(err)
	}
	scope.Models = append(scope.Models, rights.Model{Name: "other", MoELayers: []int{3}})
	scope.Tenants = []string{"acme", "initech"}
	if err := f.Check(scope); !errors.Is(err, credentials.ErrNoRights) {
		t.Errorf("before: %v", err)
	}
	c, err := f.Update(credentials.Changes{Scope: scope})
	if err != nil || !slices.Equal(c.Made, []string{"producer-initech"}) || !slices.Equal(c.Removed, []string{"producer-globex"}) {
		t.Fatalf("%+v, %v", c, err)
	}
	if err := f.Check(scope); err != nil {
		t.Errorf("after: %v", err)
	}
	if after, err := os.ReadFile(f.Creds("gate")); err != nil || string(before) != string(after) {
		t.Errorf("credentials have changed (%v)", err)
	}
	if _, err := os.Stat(f.Creds("producer-globex")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a removed user's credentials: %v", err)
	}
	context, err := os.ReadFile(filepath.Join(f.Contexts(), "nats", "context", "producer-initech.json"))
	if err != nil || !strings.Contains(string(context), `"tls://127.0.0.1:4222"`) || !strings.Contains(string(context), `"_INBOX.producer-initech"`) {
		t.Errorf("%s, %v", context, err)
	}
	s := testusers.Serve(t, testusers.Guarded(t, f))
	for _, tc := range []struct {
		user, subject string
		want          bool
	}{
		{"gate", "switchyard.expert.other.3.f", true},
		{"gate", "switchyard.expert.more.3.f", false},
		{"producer-initech", "switchyard.ask.demo.initech.high", true},
		{"producer-initech", "switchyard.ask.demo.acme.high", false},
	} {
		if got := may(t, login(t, f, s, tc.user), tc.subject); got != tc.want {
			t.Errorf("%s on %s: %v", tc.user, tc.subject, got)
		}
	}
}

// A server takes changed rights while it runs: whoever they belong to connects again.
func TestBelieve(t *testing.T) {
	f := folder(t)
	s := testusers.Serve(t, testusers.Guarded(t, f))
	back := make(chan struct{}, 1)
	nc := login(t, f, s, "gate", nats.ReconnectWait(5*time.Millisecond), nats.ReconnectHandler(func(*nats.Conn) { back <- struct{}{} }))
	if may(t, nc, "switchyard.expert.other.3.f") {
		t.Error("the right is there already")
	}
	scope := settings().Scope
	scope.Models = append(scope.Models, rights.Model{Name: "other", MoELayers: []int{3}})
	if _, err := f.Update(credentials.Changes{Scope: scope}); err != nil {
		t.Fatal(err)
	}
	trust, err := f.Trust()
	if err == nil {
		err = s.Believe(trust)
	}
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-back:
	case <-time.After(testkit.Patience):
		t.Fatal("the client did not come back")
	}
	if !may(t, nc, "switchyard.expert.other.3.f") {
		t.Error("the right is not there")
	}
}

// Of many that make the same folder one does, and all use it.
func TestEnsure(t *testing.T) {
	path := filepath.Join(t.TempDir(), "auth")
	var made sync.WaitGroup
	for range 4 {
		made.Go(func() {
			if f, err := credentials.Ensure(path, settings()); err != nil || f.Creds("gate") != filepath.Join(path, "creds", "gate.creds") {
				t.Errorf("%v, %v", f, err)
			}
		})
	}
	made.Wait()
	if err := os.RemoveAll(filepath.Join(path, "stores")); err != nil {
		t.Fatal(err)
	}
	if _, err := credentials.Ensure(path, settings()); err == nil || !strings.Contains(err.Error(), "no folder of credentials") {
		t.Errorf("half a folder: %v", err)
	}
}

// Keys that were rotated twice, or by someone who failed on the way, are revoked all the same.
func TestRotateAgain(t *testing.T) {
	f := folder(t)
	if users, err := f.Rotate(credentials.Renewal{Certificate: true}); err != nil || len(users) != 17 {
		t.Fatalf("%v, %v", users, err)
	}
	if _, err := f.Rotate(credentials.Renewal{Users: []string{"nobody"}}); err == nil || !strings.Contains(err.Error(), `no user "nobody"`) {
		t.Errorf("nobody: %v", err)
	}
	if err := os.RemoveAll(filepath.Join(filepath.Dir(f.CA()), "keys")); err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile(f.Creds("gate"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Rotate(credentials.Renewal{Users: []string{"gate"}}); err == nil || !strings.Contains(err.Error(), "where they are kept") {
		t.Errorf("without keys: %v", err)
	}
	if now, err := os.ReadFile(f.Creds("gate")); err != nil || string(now) != string(old) {
		t.Errorf("the credentials were changed all the same (%v)", err)
	}
	login(t, f, testusers.Serve(t, testusers.Guarded(t, f)), "gate")
}

// Nobody changes a folder while somebody else does.
func TestLocked(t *testing.T) {
	f := folder(t)
	lock := filepath.Join(filepath.Dir(f.CA()), "keys", ".lock")
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Rotate(credentials.Renewal{}); !errors.Is(err, credentials.ErrLocked) || !strings.Contains(err.Error(), lock) {
		t.Errorf("rotating: %v", err)
	}
	if _, err := f.Update(credentials.Changes{Scope: settings().Scope}); !errors.Is(err, credentials.ErrLocked) {
		t.Errorf("updating: %v", err)
	}
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := f.Rotate(credentials.Renewal{Users: []string{"gate"}}); err != nil {
			t.Error(err)
		}
	}
}
