package main

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/lifecycle"
	"github.com/switchyard/switchyard/pkg/process/service"
	"github.com/switchyard/switchyard/pkg/transport/catalog"
	"github.com/switchyard/switchyard/pkg/transport/rights"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services"
)

// parrotFlags are a service's own flags.
type parrotFlags struct {
	Word string `default:"hello" help:"What it says." placeholder:"TEXT"`
}

// parrot is a replica of a service for tests.
type parrot struct {
	id       string
	word     string
	said     chan<- string
	presence *deployment.Presence
}

func (p *parrot) Name() string                  { return p.id }
func (p *parrot) Start(context.Context) error   { p.said <- p.word; return nil }
func (p *parrot) Run(ctx context.Context) error { return p.presence.Announce(ctx) }
func (p *parrot) Stop(context.Context) error    { return nil }

// parrots is the service's descriptor, as its folder would have it. Its replicas tell said
// what they have as settings.
func parrots(said chan<- string) service.Descriptor {
	return service.Descriptor{
		Service: catalog.Service{
			Name: "parrot", Help: "Run a parrot: it says what it is told.", Place: catalog.Aside, Kinds: []string{"squawk"},
			Role: catalog.Role{
				What: "says what it is told", Can: "say anything", Cannot: "read anything",
				Grants: func(n catalog.ModelNames) []catalog.Grant {
					return append(catalog.Joining(n), catalog.Grant{Reason: "to say it", Publish: []string{n.Prefix + ".squawk." + n.Model}})
				},
			},
		},
		Flags: service.FlagsOf(func(f *parrotFlags, p service.Process) (string, error) { return p.Prefix + " " + f.Word, nil }),
		Loads: service.Loads{Flags: true},
		New: func(d *deployment.Deployment, s service.Settings) (lifecycle.Service, error) {
			id := d.ReplicaID("parrot")
			return &parrot{id, service.Own[string](s), said, d.NewPresence(id, "parrot")}, nil
		},
	}
}

// A service that is a folder and a line is everywhere: it has rights, a place in the order of
// starting, a command with its own flags, lines in the pages, and metrics.
func TestRegisteredService(t *testing.T) {
	said := make(chan string, 1)
	defer services.Add(parrots(said))()
	if all := catalog.StartOrder(); all[len(all)-1] != "parrot" || !slices.Contains(catalog.Kinds(), "squawk") {
		t.Errorf("services start as %v and send %v", all, catalog.Kinds())
	}
	scope := rights.Scope{Prefix: schemas.DefaultPrefix, Models: []rights.Model{{Name: "demo"}}}
	for what, tc := range map[string]struct{ text, want string }{
		"the page of rights":   {rights.Page(scope), "## parrot: says what it is told\n"},
		"the matrix of rights": {rights.Page(scope), "| `switchyard.squawk.demo` | parrot |"},
		"a server's settings":  {rights.Config(scope), "user: parrot, password: $PARROT_PASSWORD"},
		"inboxes":              {rights.InboxOf("parrot"), "_INBOX_parrot"},
		"help":                 {invoke("", "--help").Out, "  parrot "},
		"help of the command":  {invoke("", "parrot", "--help").Out, "--word=TEXT"},
		"its flags of Kafka":   {invoke("", "parrot", "--help").Out, "--kafka=HOST:PORT"},
		"the page of flags":    {flagsPage(t), "| `--word` | hello | parrot | What it says |"},
	} {
		if !strings.Contains(tc.text, tc.want) {
			t.Errorf("%s has no %q:\n%s", what, tc.want, tc.text)
		}
	}
	url := startNATS(t, &server.Options{JetStream: true, StoreDir: t.TempDir()}).ClientURL()
	p := startProbed(t, "parrot", url, "--threads", "1", "--word", "good day")
	select {
	case got := <-said:
		if got != "switchyard good day" {
			t.Errorf("it says %q", got)
		}
	case <-time.After(testkit.Patience):
		t.Fatal("no replica starts")
	}
	for _, want := range []string{`switchyard_replica_info{`, `service="parrot"`, `switchyard_bus_messages_total{direction="out",model="demo",stream="squawk"} 0`} {
		testkit.Eventually(t, "metrics have "+want, func() bool { _, page := p.get(t, "/metrics"); return strings.Contains(page, want) })
	}
}
