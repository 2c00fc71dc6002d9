package cluster_test

import (
	"context"
	"errors"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// Records of members of other kinds, which somebody may have invented, end nobody who has just come: whoever it is,
// it is not ready, says why, and serves when they are no longer written.
func TestForgedKinds(t *testing.T) {
	for _, service := range []string{"tokenizer", "attention", "gate", "expert", "aggregator", ""} {
		t.Run(service, func(t *testing.T) {
			server, err := natsserver.Start(natsserver.Settings{StoreDir: t.TempDir(), Listen: "127.0.0.1:0"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(server.Shutdown)
			p := process(t, server.URL(), schemas.HopsUnacked, service)
			if service == "" { // all of them
				s := settings(t)
				s.Node.Bus.URL = server.URL()
				t.Cleanup(func() { _ = s.Node.Close() })
				p = cluster.NewPipeline(s.Node, s.Services, map[string]int{"tokenizer": 1, "attention": 2, "gate": 2, "expert": 2, "aggregator": 1})
			}
			hush := forge(t, server.URL())
			_, leave := keptOut(t, p)
			defer leave()
			hush()
			testkit.Eventually(t, "nobody keeps it out", func() bool {
				err := p.Ready()
				return !errors.As(err, new(*deployment.ClassError)) && (service != "" || err == nil)
			})
		})
	}
}

// forge announces members of other kinds until hush.
func forge(t *testing.T, url string) (hush func()) {
	t.Helper()
	conn, err := bus.Connect(t.Context(), bus.Config{URL: url}, bus.Settings{Name: "forger"})
	if err != nil {
		t.Fatal(err)
	}
	names := schemas.Streams{Subjects: schemas.NewSubjects(schemas.DefaultPrefix, "tiny")}
	kv, err := conn.EnsureBucket(t.Context(), 1, names.Bucket("members"), members.BucketTTL)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{}, 2)
	for _, m := range []*pb.Member{
		{Id: "gate-x", Service: "gate", Model: "tiny", ModelHash: 0xbad, SchemaVersion: schemas.Version, Ready: true},
		{Id: "attention-x", Service: "attention", Model: "tiny", SchemaVersion: schemas.Version + 1},
	} {
		go func() {
			_ = members.Announce(ctx, kv, func() *pb.Member { return m }, members.Interval/40, nil)
			done <- struct{}{}
		}()
	}
	return func() { cancel(); <-done; <-done; conn.Close() }
}
