package cluster_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/credentials"
	"github.com/switchyard/switchyard/pkg/transport/rights"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/expert"
	"github.com/switchyard/switchyard/services/predictor"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// log gathers what is logged.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// guarded is a cluster whose users have their own rights, in dir.
func guarded(t *testing.T, dir string) (s cluster.Settings, said *log) {
	t.Helper()
	s, said = settings(t), &log{}
	model := rights.Model{Name: s.Node.ModelName()}
	for l, spec := range s.Node.Shared.Model.Spec.Layer {
		if spec.MoE {
			model.MoELayers = append(model.MoELayers, l)
		}
	}
	s.Node.Shared.Logger = slog.New(slog.NewTextHandler(said, nil))
	s.Listen = "127.0.0.1:0"
	s.Auth = &cluster.Auth{Dir: dir, For: credentials.Settings{Scope: rights.Scope{Prefix: s.Node.Shared.Prefix, Models: []rights.Model{model}, Tenants: []string{"acme"}}}}
	return s, said
}

// Every service works as a user of its own with its rights and no others, and so does
// a producer from outside, over TLS. New keys are taken while all of them run.
func TestAuth(t *testing.T) {
	for _, tc := range []struct {
		hops          schemas.Hops
		tenant, other string
	}{{schemas.HopsUnacked, schemas.DefaultTenant, "acme"}, {schemas.HopsCore, "acme", schemas.DefaultTenant}} {
		t.Run(string(tc.hops), func(t *testing.T) { useRights(t, tc.hops, tc.tenant, tc.other) })
	}
}

func useRights(t *testing.T, hops schemas.Hops, tenant, other string) {
	dir := filepath.Join(t.TempDir(), "auth")
	s, said := guarded(t, dir)
	s.Node.Shared.Hops = hops
	s.Count["predictor"], s.Count["scaler"] = 1, 1
	s.Node.Shared.AllRows, s.Services.Expert.Offload = true, expert.FMoE
	s.Services.Predictor = predictor.Config{Distance: 1, Maps: predictor.Maps{Capacity: 9}}
	y := ready(t, s)
	ask(t, y)
	if _, err := y.Users().Rotate(credentials.Renewal{}); err != nil {
		t.Fatal(err)
	}
	if err := y.ReloadUsers(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the services are back", func() bool { return y.Pipeline.Ready() == nil })
	askOutside(t, y, tenant, other)
	scrape(t, y)
	if text := strings.ToLower(said.String()); strings.Contains(text, "permissions violation") {
		t.Errorf("a service lacks a right:\n%s", text)
	}
	if _, err := bus.Connect(t.Context(), bus.Config{URL: y.URL(), TLSCA: y.Users().CA()}, bus.Settings{}); !errors.Is(err, bus.ErrNoConnection) {
		t.Errorf("without credentials: %v", err)
	}
}

// scrape wants the depths of both queues among the metrics.
func scrape(t *testing.T, y *cluster.Cluster) {
	t.Helper()
	testkit.Eventually(t, "metrics have the depths of both queues", func() bool { // unless NATS is late to tell
		return slices.Equal(queues(t, y), []string{"prompt", "sequence"})
	})
}

// queues are those whose depths are among the metrics.
func queues(t *testing.T, y *cluster.Cluster) (streams []string) {
	t.Helper()
	families, err := y.Settings.Node.Shared.Telemetry.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "switchyard_queue_depth" {
			continue
		}
		for _, m := range family.Metric {
			for _, l := range m.Label {
				if l.GetName() == "stream" {
					streams = append(streams, l.GetValue())
				}
			}
		}
	}
	slices.Sort(streams)
	return streams
}

// askOutside asks over TLS as a tenant's producer, who may not send in another's name.
func askOutside(t *testing.T, y *cluster.Cluster, tenant, other string) {
	t.Helper()
	f, n := y.Users(), y.Settings.Node
	conn, err := bus.Connect(t.Context(), bus.Config{URL: y.URL(), Creds: f.Creds(rights.ProducerOf(tenant)), TLSCA: f.CA()}, bus.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	whole(t, client.New(conn.NATS(), client.Settings{Model: n.ModelName(), Tenant: tenant}))
	denied := schemas.NewSubjects(n.Shared.Prefix, n.ModelName()).PromptOf(schemas.Flow{Tenant: other}.OrDefault())
	if err := errors.Join(conn.NATS().Publish(denied, nil), conn.NATS().Flush()); err != nil {
		t.Error(err)
	}
	testkit.Eventually(t, tenant+" is refused in the name of "+other, func() bool { return errors.Is(conn.NATS().LastError(), nats.ErrPermissionViolation) })
}

// A folder is used again, and one whose users lack rights is refused.
func TestAuthFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "auth")
	for _, tc := range []struct {
		name, model, tenant string
		want                error
		cure                string
	}{
		{"new", "tiny", "acme", nil, ""},
		{"again", "tiny", "acme", nil, ""},
		{"another model", "other", "acme", credentials.ErrNoRights, "--models"},
		{"another tenant", "tiny", "globex", credentials.ErrNoRights, "no user producer-globex; switchyard auth update " + dir + " --tenants acme,globex makes it"},
	} {
		s, _ := guarded(t, dir)
		s.Auth.For.Scope.Models[0].Name, s.Auth.For.Scope.Tenants = tc.model, []string{tc.tenant}
		y, err := cluster.Open(t.Context(), s)
		if !errors.Is(err, tc.want) || err != nil && !strings.Contains(err.Error(), tc.cure) {
			t.Errorf("%s: %v", tc.name, err)
		}
		if err == nil {
			if err := y.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	strange := t.TempDir()
	if err := os.WriteFile(filepath.Join(strange, "notes"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, _ := guarded(t, strange)
	if _, err := cluster.Open(t.Context(), s); err == nil || !strings.Contains(err.Error(), "no folder of credentials") {
		t.Errorf("a folder of something else: %v", err)
	}
}
