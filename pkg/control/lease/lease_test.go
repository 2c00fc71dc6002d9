package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ttl = 600 * time.Millisecond

type rig struct {
	t    *testing.T
	dir  string
	addr string
	srv  *natsserver.Server
	// events is what happened, in order: "a+" took it, "a-" lost or left it.
	mu     sync.Mutex
	events []string
	held   int
	epoch  uint64
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, dir: t.TempDir(), addr: "127.0.0.1:0"}
	r.start()
	r.addr = strings.TrimPrefix(r.srv.URL(), "nats://")
	t.Cleanup(func() { r.srv.Shutdown() })
	return r
}

func (r *rig) start() {
	srv, err := natsserver.Start(natsserver.Settings{StoreDir: r.dir, Listen: r.addr})
	if err != nil {
		r.t.Fatal(err)
	}
	r.srv = srv
}

func (r *rig) bucket() jetstream.KeyValue {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := bus.Connect(ctx, bus.Config{URL: r.srv.URL()}, bus.Settings{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(c.Close)
	kv, err := c.EnsureBucket(ctx, 1, "leases", 0)
	if err != nil {
		r.t.Fatal(err)
	}
	return kv
}

func (r *rig) note(format string, v ...any) {
	r.mu.Lock()
	r.events = append(r.events, fmt.Sprintf(format, v...))
	r.mu.Unlock()
}

func (r *rig) history() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.events, " ")
}

func (r *rig) await(want string) {
	r.t.Helper()
	r.eventually(want, func() bool { return r.history() == want })
}

func (r *rig) eventually(what string, ok func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("never: %s; history %q", what, r.history())
		}
	}
}

// contend wants the lease until stop; use sees every tenure's lease.
func (r *rig) contend(owner string, kv jetstream.KeyValue, use func(*Held)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = Hold(ctx, kv, "duty", owner, Options{TTL: ttl}, func(ctx context.Context, h *Held) error {
			r.enter(h)
			defer r.leave()
			r.note("%s+", owner)
			if use != nil {
				use(h)
			}
			<-ctx.Done()
			r.note("%s-", owner)
			return ctx.Err()
		})
	}()
	stop = func() { cancel(); <-done }
	r.t.Cleanup(stop)
	return stop
}

func (r *rig) enter(h *Held) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held++; r.held > 1 {
		r.t.Error("two hold the lease")
	}
	if h.Epoch() <= r.epoch {
		r.t.Errorf("epoch %d after %d", h.Epoch(), r.epoch)
	}
	r.epoch = h.Epoch()
}

func (r *rig) leave() {
	r.mu.Lock()
	r.held--
	r.mu.Unlock()
}

// awaitRenewals waits until the lease was written n more times.
func (r *rig) awaitRenewals(n uint64) {
	r.t.Helper()
	kv := r.bucket()
	revision := func() uint64 {
		e, err := kv.Get(r.t.Context(), "duty")
		if err != nil {
			r.t.Fatal(err)
		}
		return e.Revision()
	}
	first := revision()
	r.eventually("the lease is renewed", func() bool { return revision() >= first+n })
}

func TestReleaseHandsOverAtOnce(t *testing.T) {
	r, place := newRig(t), bus.Place{Incarnation: 7, Sequence: 42}
	stop := r.contend("a", r.bucket(), func(h *Held) { h.SetPosition(bus.Place{Incarnation: 7, Sequence: 41}); h.SetPosition(place) })
	r.await("a+")
	position := make(chan bus.Place, 1)
	r.contend("b", r.bucket(), func(h *Held) { position <- h.Position() })
	r.awaitRenewals(4) // for longer than ttl: b must not take what a renews
	start := time.Now()
	stop()
	r.await("a+ a- b+")
	if took := time.Since(start); took > ttl/2 {
		t.Errorf("handed over after %v", took)
	}
	if p := <-position; p != place {
		t.Errorf("position %v", p)
	}
}

func TestDeadHolderIsReplaced(t *testing.T) {
	r := newRig(t)
	dying := r.bucket()
	r.contend("a", dying, nil)
	r.await("a+")
	r.contend("b", r.bucket(), nil)
	b, err := bus.AsBucket(dying)
	if err != nil {
		t.Fatal(err)
	}
	b.Conn().NATS().Close()
	r.await("a+ a- b+") // in this order: the holder gives up first
}

func TestServerRestart(t *testing.T) {
	r := newRig(t)
	r.contend("a", r.bucket(), nil)
	r.await("a+")
	r.srv.Shutdown()
	r.await("a+ a-") // it cannot renew
	r.start()
	r.await("a+ a- a+")
}

func TestStolenKeyIsNoticed(t *testing.T) {
	r := newRig(t)
	kv := r.bucket()
	r.contend("a", kv, nil)
	r.await("a+")
	if _, err := kv.Put(context.Background(), "duty", nil); err != nil { // nobody's
		t.Fatal(err)
	}
	r.await("a+ a- a+")
}

// Whatever is written in the place of a lease, it is held again, with a larger
// epoch that nobody can forge to be the last (enter checks that it grows).
func TestForgedLease(t *testing.T) {
	forged := func(l *pb.Lease) []byte {
		body, err := proto.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	for _, tc := range []struct {
		name string
		body []byte // nil: deleted
	}{
		{"undecodable", []byte("\xff")},
		{"deleted", nil},
		{"last epoch, free", forged(&pb.Lease{Epoch: math.MaxUint64})},
		{"last epoch, owned", forged(&pb.Lease{Owner: "evil", Epoch: math.MaxUint64})},
		{"first epoch", forged(&pb.Lease{Epoch: 1})},
		{"an epoch that can be", forged(&pb.Lease{Owner: "evil", Epoch: 2})},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			kv := r.bucket()
			r.contend("a", kv, nil)
			r.await("a+")
			err := kv.Delete(t.Context(), "duty")
			if tc.body != nil {
				_, err = kv.Put(t.Context(), "duty", tc.body)
			}
			if err != nil {
				t.Fatal(err)
			}
			r.await("a+ a- a+")
			if r.epoch == 0 || r.epoch > 1000 {
				t.Errorf("epoch %d", r.epoch)
			}
		})
	}
}

// Whatever lies there, a lease that is believed has an epoch that goes on.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("\x0a\x01a\x10\x05"), uint64(9))
	f.Fuzz(func(t *testing.T, body []byte, revision uint64) {
		if l := decode(body, revision); l == nil || l.Epoch > revision {
			t.Errorf("%v of revision %d", l, revision)
		}
	})
}

func TestResultOfTheDuty(t *testing.T) {
	r := newRig(t)
	kv, broken := r.bucket(), errors.New("broken")
	for range 2 {
		err := Hold(context.Background(), kv, "duty", "a", Options{TTL: ttl}, func(context.Context, *Held) error { return broken })
		if !errors.Is(err, broken) {
			t.Errorf("error %v", err)
		}
	}
}

func TestManyContendersOneHolder(t *testing.T) {
	r := newRig(t)
	const n = 5
	var stops [n]func()
	for i := range n {
		stops[i] = r.contend(fmt.Sprint(i), r.bucket(), nil)
	}
	var order []string
	for range n {
		r.eventually("somebody holds it", func() bool { return strings.HasSuffix(r.history(), "+") })
		events := strings.Fields(r.history())
		holder := strings.TrimSuffix(events[len(events)-1], "+")
		order = append(order, holder)
		i, err := strconv.Atoi(holder)
		if err != nil {
			t.Fatal(err)
		}
		stops[i]()
	}
	if slices.Sort(order); !slices.Equal(order, []string{"0", "1", "2", "3", "4"}) {
		t.Errorf("held by %v", order)
	}
}

// A server that has not seen a newer revision than the holder's does not renew
// the lease for it, as one would that is cut off from its cluster.
func TestNothingNewIsNoRenewal(t *testing.T) {
	kv := newRig(t).bucket()
	b, err := bus.AsBucket(kv)
	if err != nil {
		t.Fatal(err)
	}
	c := &candidate{kv: b, key: "duty", owner: "a", Options: Options{TTL: ttl}}
	held, _ := c.attempt(t.Context())
	if held == nil {
		t.Fatal("it was not taken")
	}
	if _, err := held.recognise(t.Context()); !errors.Is(err, errBehind) {
		t.Errorf("nothing was written since: %v", err)
	}
	unacknowledged, err := held.write(t.Context(), held.current(), held.revision)
	if err != nil {
		t.Fatal(err)
	}
	if revision, err := held.recognise(t.Context()); err != nil || revision != unacknowledged {
		t.Errorf("revision %d, not %d: %v", revision, unacknowledged, err)
	}
}
