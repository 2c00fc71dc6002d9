package planstore

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testserver"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const one, two = "0000000000000001", "0000000000000002"

var rules = FunctionSettings{MoELayers: []int{1, 3}, Experts: 2}

func warmOn(host string, ids ...string) *pb.HostLayer {
	r := &pb.HostLayer{Host: host, Layer: 3}
	for _, id := range ids {
		r.Functions = append(r.Functions, &pb.FunctionState{Id: id, Phase: pb.FunctionPhase_FUNCTION_PHASE_WARM, Joined: true})
	}
	return r
}

func encodeFunctions(t testing.TB, m proto.Message) []byte {
	t.Helper()
	body, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// Whatever is no record of the replica that its key names is refused, and what
// the replica said before counts.
func TestIllegalFunctions(t *testing.T) {
	host := func(change func(*pb.HostLayer)) []byte {
		r := warmOn("a", one, two)
		change(r)
		return encodeFunctions(t, r)
	}
	for _, tc := range []struct {
		name, key string
		body      []byte
	}{
		{"unreadable", "3.a", []byte("\xff")},
		{"long", "3.a", make([]byte, maxBody+1)},
		{"another host", "3.b", host(func(*pb.HostLayer) {})},
		{"another layer", "1.a", host(func(*pb.HostLayer) {})},
		{"a layer without experts", "2.a", host(func(r *pb.HostLayer) { r.Layer = 2 })},
		{"no replica", "3.a.b", host(func(r *pb.HostLayer) { r.Host = "a.b" })},
		{"no function", "3.a", host(func(r *pb.HostLayer) { r.Functions[0].Id = "x" })},
		{"a wildcard", "3.a", host(func(r *pb.HostLayer) { r.Functions[0].Id = "000000000000000>" })},
		{"a function twice", "3.a", host(func(r *pb.HostLayer) { r.Functions[0].Id = two })},
		{"no phase", "3.a", host(func(r *pb.HostLayer) { r.Functions[0].Phase = 99 })},
		{"a long reason", "3.a", host(func(r *pb.HostLayer) { r.Functions[0].Reason = strings.Repeat("x", maxReason+1) })},
		{"many functions", "3.a", host(func(r *pb.HostLayer) { r.Functions = make([]*pb.FunctionState, perExpert*2+1) })},
		{"no key", "head", nil},
		{"another gate", "gate.h", encodeFunctions(t, &pb.GateLayers{Gate: "g"})},
		{"a gate of other layers", "gate.g", encodeFunctions(t, &pb.GateLayers{Gate: "g", Versions: map[uint32]uint64{2: 1}})},
	} {
		v := &FunctionView{s: rules}
		v.forget()
		if _, err := v.put("3.a", encodeFunctions(t, warmOn("a", one))); err != nil {
			t.Fatal(err)
		}
		if _, err := v.put(tc.key, tc.body); !errors.Is(err, ErrIllegalFunctions) || len(v.Replicas(3, one)) != 1 || len(v.Replicas(3, two)) != 0 {
			t.Errorf("%s: %v; %v", tc.name, err, v.index)
		}
	}
}

// The index follows what hosts say, and keys that go.
func TestIndex(t *testing.T) {
	v := &FunctionView{s: rules}
	v.forget()
	for _, step := range []struct {
		key        string
		r          *pb.HostLayer // nil: deleted
		ones, twos int
	}{
		{"3.a", warmOn("a", one), 1, 0}, {"3.b", warmOn("b", one, two), 2, 1}, {"3.a", warmOn("a", two), 1, 2}, {"3.b", nil, 0, 1}, {"3.b", nil, 0, 1},
	} {
		var body []byte
		if step.r != nil {
			body = encodeFunctions(t, step.r)
		}
		if _, err := v.put(step.key, body); err != nil || len(v.Replicas(3, one)) != step.ones || len(v.Replicas(3, two)) != step.twos {
			t.Errorf("%s: %v, %v", step.key, err, v.index)
		}
	}
}

// bench is a bucket that a replica announces in and a view follows.
type bench struct {
	*FunctionView
	t       *testing.T
	conn    *bus.Conn
	kv      jetstream.KeyValue
	says    *Announcer
	changes atomic.Int64
}

// announcing starts both; leave is the replica's end.
func announcing(t *testing.T) (b *bench, leave context.CancelFunc) {
	t.Helper()
	b = &bench{t: t, conn: testserver.Connect(t)}
	b.create()
	var errs [2]error
	b.says, errs[0] = NewAnnouncer(b.kv)
	b.FunctionView, errs[1] = NewFunctionView(b.kv, rules)
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	saying, leave := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	tasks.Go(func() { b.Follow(ctx, b.says, func(FunctionChange) { b.changes.Add(1) }) })
	tasks.Go(func() { _ = b.says.Run(saying) })
	t.Cleanup(func() { stop(); tasks.Wait() })
	return b, leave
}

func (b *bench) create() {
	b.t.Helper()
	var err error
	if b.kv, err = b.conn.EnsureBucket(b.t.Context(), 1, "functions", 0); err != nil {
		b.t.Fatal(err)
	}
}

// until waits for so many replicas of function one.
func (b *bench) until(what string, n int) {
	b.t.Helper()
	testkit.Eventually(b.t, what, func() bool { return len(b.Replicas(3, one)) == n })
}

// A replica's keys are written when they change, again when somebody else changes
// them or the bucket is made anew, and go with it.
func TestAnnounce(t *testing.T) {
	b, leave := announcing(t)
	if err := b.says.Set(HostKey(3, "a"), warmOn("a", one)); err != nil {
		t.Fatal(err)
	}
	b.until("said", 1)
	before := b.changes.Load()
	if err := b.kv.Delete(t.Context(), HostKey(3, "a")); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the deletion, and what mends it", func() bool { return b.changes.Load() >= before+2 })
	b.until("said again", 1)
	before = b.changes.Load()
	if err := b.conn.JetStream().DeleteKeyValue(t.Context(), "functions"); err != nil {
		t.Fatal(err)
	}
	b.create()
	testkit.Eventually(t, "said in the new bucket", func() bool {
		_, err := b.kv.Get(t.Context(), HostKey(3, "a"))
		return err == nil && b.changes.Load() > before
	})
	b.until("heard again", 1)
	leave()
	b.until("gone", 0)
}

// A key that has ended is written, and then goes; one that is said again stays.
func TestEnd(t *testing.T) {
	b, _ := announcing(t)
	for _, key := range []string{HostKey(3, "a"), HostKey(3, "b")} {
		if err := b.says.Set(key, warmOn(key[2:], one)); err != nil {
			t.Fatal(err)
		}
	}
	b.until("said", 2)
	for _, key := range []string{HostKey(3, "a"), HostKey(3, "b")} {
		if err := b.says.End(key, warmOn(key[2:])); err != nil {
			t.Fatal(err)
		}
	}
	b.until("ended", 0)
	if err := b.says.Set(HostKey(3, "b"), warmOn("b", one)); err != nil {
		t.Fatal(err)
	}
	b.until("said again", 1)
	testkit.Eventually(t, "one key", func() bool {
		b.says.clearEnded(t.Context())
		keys := b.Keys()
		return len(keys) == 1 && len(keys["b"]) == 1
	})
}

// Bytes from outside are a record or an error.
func FuzzPut(f *testing.F) {
	f.Add("3.a", encodeFunctions(f, warmOn("a", one)))
	f.Add("gate.g", encodeFunctions(f, &pb.GateLayers{Gate: "g", Versions: map[uint32]uint64{1: 2}}))
	f.Fuzz(func(t *testing.T, key string, body []byte) {
		v := &FunctionView{s: rules}
		v.forget()
		if _, err := v.put(key, body); err != nil && !errors.Is(err, ErrIllegalFunctions) {
			t.Error(err)
		}
	})
}
