package cluster_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testusers"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/credentials"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
	"github.com/switchyard/switchyard/pkg/transport/rights"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/provision"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// keepStreams makes the streams of a node's model as setup, until the test's end.
func keepStreams(t *testing.T, c bus.Config, n *cluster.Node) {
	t.Helper()
	m := bus.Model{Streams: n.Names(), MoELayers: deployment.MoELayers(n.Shared.Model)}
	m.Streams.Hops = n.Shared.Hops
	s := provision.New(provision.Settings{
		Connect: func(ctx context.Context) (*bus.Conn, error) {
			return bus.Connect(ctx, c, bus.Settings{Logger: slog.New(slog.DiscardHandler)})
		},
		Find:   func(context.Context, *bus.Conn) ([]bus.Model, error) { return []bus.Model{m}, nil },
		Logger: slog.New(slog.DiscardHandler),
	})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, s.Stop(context.Background())); err != nil {
			t.Error(err)
		}
	})
}

// userProcesses are services, each a process and a user of its own, and setup.
func userProcesses(t *testing.T, f credentials.Folder, url string) {
	t.Helper()
	as := func(user string) bus.Config { return bus.Config{URL: url, Creds: f.Creds(user)} }
	var all []*cluster.Pipeline
	for _, name := range cluster.Names {
		s := settings(t)
		s.Node.Bus = as(name)
		edge := as(rights.Edge)
		s.Services.Edge = &edge
		if len(all) == 0 {
			keepStreams(t, as(rights.Setup), s.Node)
		}
		p := cluster.NewPipeline(s.Node, s.Services, map[string]int{name: 1})
		all = append(all, p)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- p.Serve(ctx) }()
		t.Cleanup(func() {
			cancel()
			if err := errors.Join(<-ended, s.Node.Close()); err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	testkit.Eventually(t, "all services are ready", func() bool {
		return !slices.ContainsFunc(all, func(p *cluster.Pipeline) bool { return p.Ready() != nil })
	})
}

// Services that make no streams go on by themselves when a server has lost those in memory,
// and when somebody deletes what is on disk.
func TestUsersOutliveStreams(t *testing.T) {
	m := settings(t)
	scope := testusers.Demo()
	scope.Scope.Models = []rights.Model{{Name: m.Node.ModelName(), MoELayers: deployment.MoELayers(m.Node.Shared.Model)}}
	names := m.Node.Names()
	if err := m.Node.Close(); err != nil {
		t.Fatal(err)
	}
	f := testusers.Make(t, scope)
	on := testusers.Plain(t, f)
	srv := testusers.Serve(t, on)
	on.Listen = strings.TrimPrefix(srv.URL(), "nats://")
	userProcesses(t, f, srv.URL())
	conn, err := bus.Connect(t.Context(), bus.Config{URL: srv.URL(), Creds: f.Creds(rights.Producer)}, bus.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	asked := client.New(conn.NATS(), client.Settings{Model: names.Subjects.Model})
	whole(t, asked)

	srv.Shutdown()
	if srv, err = natsserver.Start(on); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	testkit.Eventually(t, "the producer is back", conn.Connected)
	whole(t, asked)

	admin, err := bus.Connect(t.Context(), bus.Config{URL: srv.URL(), Creds: f.Creds("admin")}, bus.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	for _, stream := range []string{names.Prompts().Name, names.Hidden().Name, schemas.BucketStream(names.Bucket("members"))} {
		if err := admin.JetStream().DeleteStream(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, stream+" is made again", func() bool {
			_, err := admin.JetStream().Stream(t.Context(), stream)
			return !errors.Is(err, jetstream.ErrStreamNotFound)
		})
	}
	whole(t, asked)
}
