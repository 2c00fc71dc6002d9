package cluster_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// process has one replica of a service, as a process of its own would.
func process(t *testing.T, url string, hops schemas.Hops, service string) *cluster.Pipeline {
	t.Helper()
	s := settings(t)
	s.Node.Bus.URL, s.Node.Shared.Hops = url, hops
	t.Cleanup(func() {
		if err := s.Node.Close(); err != nil {
			t.Error(err)
		}
	})
	return cluster.NewPipeline(s.Node, s.Services, map[string]int{service: 1})
}

// running serves until stop, or the test's end, and is ready.
func running(t *testing.T, p *cluster.Pipeline) (stop func()) {
	t.Helper()
	_, stop = begun(t, p)
	return stop
}

// begun is running; leave has it begin to stop, for which stop waits.
func begun(t *testing.T, p *cluster.Pipeline) (leave, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Serve(ctx) }()
	stop = func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		ended <- nil
	}
	t.Cleanup(stop)
	if err := p.AwaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return cancel, stop
}

// herald has another host among the members that is of the one's kind, and says so far more often than
// others do: who listens for as long as a renewal takes hears it, also on a busy machine.
func herald(t *testing.T, conn *bus.Conn) (hush func()) {
	t.Helper()
	names := schemas.Streams{Subjects: schemas.NewSubjects(schemas.DefaultPrefix, "tiny")}
	kv, err := conn.EnsureBucket(t.Context(), 1, names.Bucket("members"), members.BucketTTL)
	if err != nil {
		t.Fatal(err)
	}
	var host *pb.Member
	testkit.Eventually(t, "the host", func() bool {
		all, err := members.List(t.Context(), kv)
		if err == nil && len(all) == 1 {
			host = proto.CloneOf(all[0])
		}
		return host != nil
	})
	host.Id = "expert-herald"
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = members.Announce(ctx, kv, func() *pb.Member { return host }, members.Interval/40, nil)
	}()
	hush = func() { cancel(); <-done }
	t.Cleanup(hush)
	return hush
}

// keptOut has a process serve that is not ready for others of another kind, until stop.
func keptOut(t *testing.T, p *cluster.Pipeline) (why *deployment.ClassError, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Serve(ctx) }()
	testkit.Eventually(t, "it is not ready, and says why", func() bool { return errors.As(p.Ready(), &why) || len(ended) > 0 })
	if len(ended) > 0 {
		t.Errorf("it has ended: %v", <-ended)
		ended <- nil
	}
	return why, func() { cancel(); t.Log("it ended: ", <-ended) }
}

// A process whose tensors would travel otherwise than those of the replicas that are
// here is not ready, and names both; when they are gone, it is.
func TestOtherHops(t *testing.T) {
	server, err := natsserver.Start(natsserver.Settings{StoreDir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	host := process(t, server.URL(), schemas.HopsCore, "expert")
	stop := running(t, host)
	hush := herald(t, host.Connections()[0])
	for _, hops := range []schemas.Hops{schemas.HopsUnacked, schemas.HopsAcked} {
		refused, leave := keptOut(t, process(t, server.URL(), hops, "aggregator"))
		if refused.Here.Hops != hops || refused.There.Hops != schemas.HopsCore || !strings.Contains(refused.Error(), "expert-") {
			t.Errorf("an aggregator with %s hops waits for %v", hops, refused)
		}
		leave()
	}
	conn := host.Connections()[0]
	hidden := schemas.Streams{Subjects: schemas.NewSubjects(schemas.DefaultPrefix, "tiny")}.Hidden().Name
	if _, err := conn.JetStream().Stream(t.Context(), hidden); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("a refused replica has left the stream %s: %v", hidden, err)
	}
	running(t, process(t, server.URL(), schemas.HopsCore, "aggregator"))()
	next := process(t, server.URL(), schemas.HopsUnacked, "expert")
	_, leave := keptOut(t, next)
	defer leave()
	hush()
	stop()
	if err := next.AwaitReady(t.Context()); err != nil {
		t.Error(err)
	}
}
