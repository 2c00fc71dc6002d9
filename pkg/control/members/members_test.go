package members

import (
	"context"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

const bucket = "members"

func start(t *testing.T, dir, addr string) *natsserver.Server {
	t.Helper()
	srv, err := natsserver.Start(natsserver.Settings{StoreDir: dir, Listen: addr})
	if err != nil {
		t.Fatal(err)
	}
	return srv
}

func connect(t *testing.T, srv *natsserver.Server) *bus.Bucket {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	c, err := bus.Connect(ctx, bus.Config{URL: srv.URL()}, bus.Settings{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	kv, err := c.EnsureBucket(ctx, 1, bucket, BucketTTL)
	if err != nil {
		t.Fatal(err)
	}
	b, err := bus.AsBucket(kv)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// announce returns what ends it by deregistering.
func announce(kv *bus.Bucket, member func() *pb.Member) (leave func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { _ = Announce(ctx, kv, member, Interval, nil); close(done) }()
	return func() { cancel(); <-done }
}

func view(t *testing.T, kv *bus.Bucket) *View {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	v, err := Watch(ctx, kv)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cancel)
	return v
}

func await(t *testing.T, v *View, want string) {
	t.Helper()
	testkit.Eventually(t, "members are "+want, func() bool { return ids(v) == want })
}

// gone are the members that went without a farewell.
func gone(v *View) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var out []string
	for _, m := range v.missing {
		out = append(out, m.id)
	}
	return strings.Join(out, " ")
}

func ids(v *View) string {
	var out []string
	for _, m := range v.Snapshot() {
		out = append(out, m.GetId())
	}
	return strings.Join(out, " ")
}

func named(id string) func() *pb.Member { return func() *pb.Member { return &pb.Member{Id: id} } }

func TestMembersComeAndGo(t *testing.T) {
	srv := start(t, t.TempDir(), "127.0.0.1:0")
	t.Cleanup(srv.Shutdown)
	watching, dying := connect(t, srv), connect(t, srv)
	v := view(t, watching)
	var ready atomic.Bool
	leave := announce(watching, func() *pb.Member {
		return &pb.Member{Id: "a", Ready: ready.Load(), Stats: map[string]float64{"t": float64(time.Now().UnixNano())}}
	})
	killed := announce(dying, named("b"))
	defer killed()
	await(t, v, "a b")

	changed := v.Changed()
	ready.Store(true)
	<-changed
	testkit.Eventually(t, "the view follows", func() bool { // a member that is late is a change, too
		return slices.ContainsFunc(v.Snapshot(), func(m *pb.Member) bool { return m.Id == "a" && m.Ready })
	})
	dying.Conn().NATS().Close() // no farewell
	await(t, v, "a")
	leave()
	await(t, v, "")
	if left := gone(v); left != "b" {
		t.Errorf("without a farewell went %q", left)
	}
}

func TestList(t *testing.T) {
	srv := start(t, t.TempDir(), "127.0.0.1:0")
	t.Cleanup(srv.Shutdown)
	kv := connect(t, srv)
	defer announce(kv, func() *pb.Member { return &pb.Member{Id: "a", Service: "gate"} })()
	defer announce(kv, named("b"))()
	testkit.Eventually(t, "both are listed", func() bool { // unless a renewal takes longer than they are listened for
		all, err := List(context.Background(), kv)
		if err != nil {
			t.Fatal(err)
		}
		return len(all) == 2 && len(OfService(all, "gate")) == 1
	})
}

func TestOutageBlamesNobody(t *testing.T) {
	dir := t.TempDir()
	srv := start(t, dir, "127.0.0.1:0")
	addr := strings.TrimPrefix(srv.URL(), "nats://")
	kv := connect(t, srv)
	v := view(t, kv)
	leave := announce(kv, named("a"))
	defer leave()
	await(t, v, "a")
	srv.Shutdown()
	testkit.Eventually(t, "the watcher is cut off", func() bool { return !v.conn.Connected() })
	changed := v.Changed()
	before, _ := v.Silent("a")
	for range 2 * TTL / tick { // the outage is longer than a member may be silent
		v.listen(tick)
	}
	if silent, here := v.Silent("a"); !here || silent > before+maxTick { // which may have been under way
		t.Errorf("the member is blamed for the outage: it is here %v, silent for %v, and was for %v", here, silent, before)
	}
	select {
	case <-changed:
		t.Error("a change was reported")
	default:
	}
	srv = start(t, dir, addr)
	defer srv.Shutdown()
	testkit.Eventually(t, "it is heard again", func() bool {
		silent, here := v.Silent("a")
		return v.conn.Connected() && here && silent <= Interval
	})
}

// A change during the call leads to another call.
func TestFollow(t *testing.T) {
	v := &View{changed: make(chan struct{}), members: map[string]*entry{}}
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	calls := 0
	v.Follow(ctx, func(all []*pb.Member) {
		if calls++; len(all) == 2 {
			cancel()
			return
		}
		v.put(&pb.Member{Id: string(rune('a' + len(all)))})
	})
	if calls != 3 {
		t.Errorf("%d calls, want one for each of 0, 1 and 2 members", calls)
	}
}

func TestForgedKeysAreIgnored(t *testing.T) {
	srv := start(t, t.TempDir(), "127.0.0.1:0")
	t.Cleanup(srv.Shutdown)
	kv := connect(t, srv)
	v := view(t, kv)
	for subject, body := range map[string]string{
		"x": "no protobuf", "y": "\x0a\x01z", "z.a": "\x0a\x03z.a", strings.Repeat("l", 65): "\x0a\x41" + strings.Repeat("l", 65),
		"s": "\x0a\x01s\x12\x41" + strings.Repeat("s", 65), "h": "\x0a\x01h" + strings.Repeat("\x0a\x01h", maxRecord/3),
	} {
		if err := kv.Conn().SendBytes(context.Background(), bus.KeySubject(bucket, subject), []byte(body), nil); err != nil {
			t.Fatal(err)
		}
	}
	defer announce(kv, named("a"))()
	await(t, v, "a")
}

// Who listens while the server is away has not heard that nobody is here.
func TestListWaitsForTheServer(t *testing.T) {
	dir := t.TempDir()
	srv := start(t, dir, "127.0.0.1:0")
	addr := strings.TrimPrefix(srv.URL(), "nats://")
	kv := connect(t, srv)
	ctx, stop := context.WithCancel(context.Background())
	announced := make(chan struct{})
	go func() { // far more often than others do, over the connection that is listened on: it is heard in time
		defer close(announced)
		_ = Announce(ctx, kv, func() *pb.Member { return &pb.Member{Id: "gate-1", Service: "gate"} }, Interval/40, nil)
	}()
	defer func() { stop(); <-announced }()
	srv.Shutdown()
	defer func() { srv.Shutdown() }()
	listed := make(chan int, 1)
	go func() {
		all, err := List(t.Context(), kv)
		if err != nil {
			t.Error(err)
		}
		listed <- len(all)
	}()
	select {
	case n := <-listed:
		t.Fatalf("%d members are here without a server", n)
	case <-time.After(2 * Hearing):
	}
	srv = start(t, dir, addr)
	if n := <-listed; n != 1 {
		t.Errorf("%d members", n)
	}
}

// All live attention replicas of the model must know what is asked.
func TestSamples(t *testing.T) {
	all := []*pb.Member{{Service: "attention", ModelHash: 7, Sampling: 1}, {Service: "attention", ModelHash: 8}, {Service: "gate", ModelHash: 7}}
	if !Samples(all, 7, 1) || Samples(all, 8, 1) || !Samples(all, 8, 0) || !Samples(nil, 7, 1) {
		t.Error("who knows how to sample is another")
	}
}

func TestPlacesAndWaiting(t *testing.T) {
	of := func(id string, places, waiting float64) *pb.Member {
		return &pb.Member{Id: id, Service: "attention", Ready: true, Stats: map[string]float64{Places: places, Waiting: waiting}}
	}
	draining, starting := of("c", 3, 4), of("d", 3, 4)
	draining.Draining, starting.Ready = true, false
	all := []*pb.Member{of("a", 2, 5), of("b", 7, 1), draining, starting, of("e", math.NaN(), math.Inf(-1)), of("f", 1e30, -1), {Id: "g", Service: "gate", Stats: map[string]float64{Places: 9}}}
	all[1].Stats[KVPages], all[5].Stats[KVPages] = 9, 4
	if n, pages := PlacesElsewhere(all, "a"); n != 7+mostCounted || pages != 4 {
		t.Errorf("%d places with %v pages", n, pages)
	}
	if n, pages := PlacesElsewhere(all[:2], "a"); n != 7 || pages != 9 {
		t.Errorf("%d places with %v pages", n, pages)
	}
	all[5].Stats[DeviceThrottled] = 1
	if n, pages := PlacesElsewhere(all, "a"); n != 7 || pages != 9 {
		t.Errorf("%d places with %v pages where devices do not throttle", n, pages)
	}
	if n := FreePlaces(all); n != 2+7+mostCounted {
		t.Errorf("%d places", n)
	}
	all[4].Stats[KVPages], all[5].Stats[StepSeconds], all[4].Stats[StepSeconds] = math.NaN(), 7, math.NaN()
	draining.Stats[StepSeconds] = 9
	all[0].Stats[Context], all[1].Stats[Context], draining.Stats[Context] = 128, 64, 512
	if n, positions := LargestKV(all, 0), LongestContext(all, 0); n != 9 || positions != 128 {
		t.Errorf("the largest has %v pages, the longest %v positions", n, positions)
	}
	if s := LongestStep(all); s != 7 {
		t.Errorf("the longest step takes %v s", s)
	}
	if n := WaitingIn(all); n != 5+1+4+4 {
		t.Errorf("%d wait", n)
	}
}
