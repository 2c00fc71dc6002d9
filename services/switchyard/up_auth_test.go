package main

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit/testusers"
	"github.com/switchyard/switchyard/schemas"
)

// --auth has a folder or none; a file and a variable may say so as well.
func TestAuthFlag(t *testing.T) {
	for _, tc := range []struct {
		name     string
		args     []string
		env, yml string
		want     authFlag
	}{
		{"left out", []string{"up"}, "", "", authFlag{}},
		{"alone", []string{"up", "--auth"}, "", "", authFlag{on: true}},
		{"before a flag", []string{"up", "--auth", "--hosts", "2"}, "", "", authFlag{on: true}},
		{"folder", []string{"up", "--auth", "dir", "--hosts", "2"}, "", "", authFlag{true, "dir"}},
		{"folder with =", []string{"up", "--auth=dir"}, "", "", authFlag{true, "dir"}},
		{"variable", []string{"up"}, "dir", "", authFlag{true, "dir"}},
		{"variable true", []string{"up"}, "true", "", authFlag{on: true}},
		{"variable false", []string{"up"}, "false", "", authFlag{}},
		{"file", []string{"up"}, "", "up:\n  auth: dir\n", authFlag{true, "dir"}},
		{"file true", []string{"up"}, "", "up:\n  auth: true\n", authFlag{on: true}},
		{"flag over file", []string{"up", "--auth=x"}, "", "up:\n  auth: dir\n", authFlag{true, "x"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.env != "" {
				t.Setenv("SWITCHYARD_AUTH", tc.env)
			}
			if tc.yml != "" {
				t.Setenv("SWITCHYARD_CONFIG", write(t, tc.yml))
			}
			var cli CLI
			if _, err := parse(&cli, tc.args, stdio{}); err != nil {
				t.Fatal(err)
			}
			if cli.Up.Auth != tc.want || slices.Contains(tc.args, "--hosts") != (cli.Up.Hosts == 2) {
				t.Errorf("%+v, hosts %d", cli.Up.Auth, cli.Up.Hosts)
			}
		})
	}
}

func TestCertifiedHosts(t *testing.T) {
	for listen, own := range map[string]string{"127.0.0.1:4222": "", "localhost:1": "", "0.0.0.0:4222": "", "[::]:1": "", "10.0.0.7:4222": "10.0.0.7", "nats.example.org:1": "nats.example.org"} {
		hosts := certifiedHosts(listen)
		if own != "" && !slices.Contains(hosts, own) || slices.Contains(hosts, "0.0.0.0") || slices.Contains(hosts, "::") {
			t.Errorf("%s: %v", listen, hosts)
		}
		if local := strings.Contains(listen, "127.") || strings.Contains(listen, "local"); local != (len(hosts) == 0) {
			t.Errorf("%s: %v", listen, hosts)
		}
	}
}

// What is greeted with works as it stands: each command logs in.
func TestGreetingWithUsers(t *testing.T) {
	f := testusers.Make(t, testusers.Demo())
	got := greeting("tls://x:1", "switchyard", "m", suggestText("x"), &f, []string{"acme"})
	for _, want := range []string{
		"switchyard prompt --nats tls://x:1 --model m --creds " + f.Creds("producer") + " --tls-ca " + f.CA(),
		"nats req -s tls://x:1 --creds " + f.Creds("producer") + " --tlsca " + f.CA() + " --inbox-prefix _INBOX.producer switchyard.ask.m",
		"switchyard top --nats tls://x:1 --model m --creds " + f.Creds("top"),
		"switchyard prompt --nats tls://x:1 --model m --tenant acme --creds " + f.Creds("producer-acme") + " --tls-ca " + f.CA() + ` "x"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// Each tenant that up is told of has a producer, and nobody else has.
func TestTenantsOfUp(t *testing.T) {
	e := &env{Globals: Globals{Prefix: schemas.DefaultPrefix}, log: slog.New(slog.DiscardHandler)}
	s, err := inProcess(t.Context(), e, func(up *UpCmd) {
		up.Auth, up.Tenant = authFlag{on: true}, []string{"globex:log=1GiB", "*:waiting=5", "acme:weight=4", "default:weight=2"}
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Auth.For.Scope.Tenants; !slices.Equal(got, []string{"acme", "globex"}) {
		t.Errorf("there are producers of %v", got)
	}
	if err := s.Node.Close(); err != nil {
		t.Error(err)
	}
}
