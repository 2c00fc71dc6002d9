package up

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit/testusers"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

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
	e := &cli.Env{Globals: cli.Globals{Prefix: schemas.DefaultPrefix}, Log: slog.New(slog.DiscardHandler)}
	s, err := InProcess(t.Context(), e, func(up *Cmd) {
		up.Auth, up.Tenant = AuthFlag{On: true}, []string{"globex:log=1GiB", "*:waiting=5", "acme:weight=4", "default:weight=2"}
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
