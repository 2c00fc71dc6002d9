package credentials_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/internal/testkit/testusers"
	"github.com/switchyard/switchyard/pkg/transport/credentials"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

func settings() credentials.Settings { return testusers.Demo("acme", "globex") }

func folder(t *testing.T) credentials.Folder {
	t.Helper()
	return testusers.Make(t, settings())
}

// login connects as a user.
func login(t *testing.T, f credentials.Folder, s *natsserver.Server, user string, opts ...nats.Option) *nats.Conn {
	t.Helper()
	opts = append(opts, nats.Timeout(testkit.Patience), nats.UserCredentials(f.Creds(user)), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if strings.HasPrefix(s.URL(), "tls://") {
		opts = append(opts, nats.RootCAs(f.CA()))
	}
	nc, err := nats.Connect(s.URL(), opts...)
	if err != nil {
		t.Fatalf("%s: %v", user, err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// Nothing that is made can be read by others, and what is there is not overwritten.
func TestInit(t *testing.T) {
	f := folder(t)
	root := filepath.Dir(f.CA())
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(f.Creds("gate"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := credentials.Init(root, settings()); !errors.Is(err, credentials.ErrExists) {
		t.Errorf("the second time: %v", err)
	}
	if after, err := os.ReadFile(f.Creds("gate")); err != nil || string(after) != string(before) {
		t.Errorf("credentials were overwritten (%v)", err)
	}
	if rest, err := filepath.Glob(filepath.Join(filepath.Dir(root), ".auth-*")); err != nil || len(rest) > 0 {
		t.Errorf("left over: %v, %v", rest, err)
	}
}

func TestInitRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, path, want string
		change           func(*credentials.Settings)
	}{
		{"a file", file, "", func(*credentials.Settings) {}},
		{"below a file", filepath.Join(file, "x"), "not a directory", func(*credentials.Settings) {}},
		{"no model", "x", "no model", func(s *credentials.Settings) { s.Scope.Models = nil }},
		{"tenant", "x", `name "a.b"`, func(s *credentials.Settings) { s.Scope.Tenants = []string{"a.b"} }},
		{"default tenant", "x", `tenant "default"`, func(s *credentials.Settings) { s.Scope.Tenants = []string{"default"} }},
		{"host with a port", "x", `host "h:4222"`, func(s *credentials.Settings) { s.Hosts = []string{"h:4222"} }},
		{"two servers", "x", "a cluster of 2 servers", func(s *credentials.Settings) { s.Servers = []string{"a", "b"} }},
		{"a server twice", "x", `server "a" is named twice`, func(s *credentials.Settings) { s.Servers = []string{"a", "b", "a"} }},
		{"a server with a port", "x", `host "c:1"`, func(s *credentials.Settings) { s.Servers = []string{"a", "b", "c:1"} }},
		{"a URL", "x", `host "tls://h"`, func(s *credentials.Settings) { s.Hosts = []string{"tls://h"} }},
	} {
		s := settings()
		tc.change(&s)
		if _, err := credentials.Init(tc.path, s); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	if _, err := credentials.Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "auth init") {
		t.Errorf("an empty folder: %v", err)
	}
}
