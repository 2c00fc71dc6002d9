package provision_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testcluster"
	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/internal/testkit/testusers"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
	"github.com/switchyard/switchyard/pkg/transport/rights"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/provision"
)

// A server that is stopped while it creates a stream forgets two goroutines.
func TestMain(m *testing.M) {
	testleaks.Main(m,
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).flushStreamStateLoop"),
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1"))
}

func demo() bus.Model {
	return bus.Model{Streams: schemas.Streams{Subjects: schemas.NewSubjects(schemas.DefaultPrefix, "demo"), Hops: schemas.HopsUnacked}, MoELayers: []int{0}}
}

func justDemo(context.Context, *bus.Conn) ([]bus.Model, error) { return []bus.Model{demo()}, nil }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func dial(t *testing.T, c bus.Config) *bus.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	conn, err := bus.Connect(ctx, c, bus.Settings{Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// keep runs a service until the test's end.
func keep(t *testing.T, c bus.Config) *provision.Service {
	t.Helper()
	s := provision.New(provision.Settings{
		Connect: func(ctx context.Context) (*bus.Conn, error) {
			return bus.Connect(ctx, c, bus.Settings{Logger: quiet()})
		},
		Find: justDemo, Logger: quiet(),
	})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, s.Stop(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return s
}

// allThere reports whether all streams of the model have an answer.
func allThere(ctx context.Context, js jetstream.JetStream) bool {
	ctx, cancel := context.WithTimeout(ctx, testkit.Patience/10)
	defer cancel()
	m := demo()
	for _, want := range deployment.Wanted(m.Streams, m.MoELayers) {
		if _, err := js.Stream(ctx, want.Name); err != nil {
			return false
		}
	}
	return true
}

// What a server loses when it is restarted, or somebody deletes, is made again, by
// whichever of two is first. Meanwhile both are not ready.
func TestKeeps(t *testing.T) {
	f := testusers.Make(t, testusers.Demo())
	settings := testusers.Plain(t, f)
	srv := testusers.Serve(t, settings)
	settings.Listen = strings.TrimPrefix(srv.URL(), "nats://")
	c := bus.Config{URL: srv.URL(), Creds: f.Creds(rights.Setup)}
	both := []*provision.Service{keep(t, c), keep(t, c)}
	admin := dial(t, bus.Config{URL: srv.URL(), Creds: f.Creds("admin")})
	ready := func() bool { return both[0].Ready() == nil && both[1].Ready() == nil }
	testkit.Eventually(t, "both are ready", ready)
	for name, lose := range map[string]func(){
		"a server": func() {
			srv.Shutdown()
			var err error
			if srv, err = natsserver.Start(settings); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(srv.Shutdown)
		},
		"a stream, a bucket and the weights": func() {
			m := demo()
			for _, stream := range []string{m.Streams.Tokens().Name, schemas.BucketStream(m.Streams.Bucket("plans")), bus.WantObjects(m.Streams.Bucket("weights")).Name} {
				if err := admin.JetStream().DeleteStream(t.Context(), stream); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		lose()
		testkit.Eventually(t, name+" that was lost is there again", func() bool { return allThere(t.Context(), admin.JetStream()) && ready() })
	}
}

// A cluster that loses the server which has tensors' streams gets them anew, and services
// that may not make them find them.
func TestKeepsInACluster(t *testing.T) {
	servers := testcluster.Start(t)
	keep(t, bus.Config{URL: servers.URL()})
	conn := dial(t, bus.Config{URL: servers.URL()})
	hidden := demo().Streams.Hidden().Name
	var leader string
	testkit.Eventually(t, "there is a stream", func() bool {
		stream, err := conn.JetStream().Stream(t.Context(), hidden)
		if err == nil {
			leader = stream.CachedInfo().Cluster.Leader
		}
		return err == nil
	})
	servers.Named(t, leader).Shutdown()
	testkit.Eventually(t, "all streams are there again", func() bool { return allThere(t.Context(), conn.JetStream()) })
}

// Nothing is ready before there is a server, and a user without rights is told so.
func TestReady(t *testing.T) {
	f := testusers.Make(t, testusers.Demo())
	srv := testusers.Serve(t, testusers.Plain(t, f))
	s := provision.New(provision.Settings{
		Connect: func(ctx context.Context) (*bus.Conn, error) {
			return bus.Connect(ctx, bus.Config{URL: srv.URL(), Creds: f.Creds("top")}, bus.Settings{Logger: quiet()})
		},
		Find: justDemo, Logger: quiet(),
	})
	if err := s.Ready(); err == nil || !strings.Contains(err.Error(), "no NATS server") {
		t.Errorf("at first: %v", err)
	}
	if err := s.Start(t.Context()); !bus.IsDenied(err) {
		t.Errorf("without rights: %v", err)
	}
	if err := s.Ready(); err == nil || !strings.Contains(err.Error(), "not all there yet") {
		t.Errorf("then: %v", err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.Live(); err == nil {
		t.Error("it lives without a connection")
	}
}
