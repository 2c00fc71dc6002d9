package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

// ttl is what services have: a shorter one would be lost on a busy machine.
const ttl = TTL

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
	stood  func() time.Duration
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, dir: t.TempDir(), addr: "127.0.0.1:0", stood: testkit.Standing(t)}
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
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
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

// await waits until all of this has happened, in this order. A machine that stands still
// for about as long as a lease lasts may make its holder lose it between.
func (r *rig) await(want string) {
	r.t.Helper()
	r.eventually(want, func() bool {
		left := strings.Fields(want)
		for _, event := range strings.Fields(r.history()) {
			if len(left) > 0 && event == left[0] {
				left = left[1:]
			}
		}
		return len(left) == 0
	})
}

func (r *rig) eventually(what string, ok func() bool) {
	r.t.Helper()
	defer func() {
		if r.t.Failed() {
			r.t.Logf("history %q", r.history())
		}
	}()
	testkit.Eventually(r.t, what, ok)
}

// contend wants the lease until stop; use sees every tenure's lease.
func (r *rig) contend(owner string, kv jetstream.KeyValue, use func(*Held)) (stop func()) {
	return r.contendBy(Options{TTL: ttl}, owner, kv, use)
}

func (r *rig) contendBy(o Options, owner string, kv jetstream.KeyValue, use func(*Held)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = Hold(ctx, kv, "duty", owner, o, func(ctx context.Context, h *Held) error {
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
	// Where the process stood still, the next holder may begin before the last one has heard of the time.
	if r.held++; r.held > 1 && r.stood() < ttl/8 {
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

// awaitRenewals waits until one holder has written the lease n more times.
func (r *rig) awaitRenewals(n uint64) {
	r.t.Helper()
	kv := r.bucket()
	var first, epoch uint64
	r.eventually("the lease is renewed", func() bool {
		e, err := kv.Get(r.t.Context(), "duty")
		if err != nil {
			r.t.Fatal(err)
		}
		if l := decode(e.Value(), e.Revision()); l.GetEpoch() != epoch {
			first, epoch = e.Revision(), l.GetEpoch()
		}
		return e.Revision() >= first+n
	})
}

// A lease that is released is taken without waiting for its end, which is beyond this test's.
func TestReleaseHandsOverAtOnce(t *testing.T) {
	t.Parallel()
	r, place := newRig(t), bus.Place{Incarnation: 7, Sequence: 42}
	w := &watchers{of: map[string][]chan struct{}{}}
	o := Options{TTL: 5 * time.Minute, Watcher: w, Listens: func() bool { return true }}
	stop := r.contendBy(o, "a", r.bucket(), func(h *Held) { h.SetPosition(bus.Place{Incarnation: 7, Sequence: 41}); h.SetPosition(place) })
	r.await("a+")
	position := make(chan bus.Place, 1)
	r.contendBy(o, "b", r.bucket(), func(h *Held) { position <- h.Position() })
	r.eventually("b waits for a", func() bool { return w.sought("a") == 1 })
	stop()
	r.await("a+ a- b+")
	if p := <-position; p != place {
		t.Errorf("position %v", p)
	}
}

// Nobody takes what its holder renews, however long he has it.
func TestRenewedIsKept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.contend("a", r.bucket(), nil)
	r.await("a+")
	r.contend("b", r.bucket(), nil)
	r.awaitRenewals(4) // for longer than ttl
}

func TestDeadHolderIsReplaced(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
	r := newRig(t)
	r.contend("a", r.bucket(), nil)
	r.await("a+")
	r.srv.Shutdown()
	r.await("a+ a-") // it cannot renew
	r.start()
	r.await("a+ a- a+")
}

func TestStolenKeyIsNoticed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	kv := r.bucket()
	r.contend("a", kv, nil)
	r.await("a+")
	if _, err := kv.Put(context.Background(), "duty", nil); err != nil { // nobody's
		t.Fatal(err)
	}
	r.await("a+ a- a+")
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
	t.Parallel()
	r := newRig(t)
	const n = 5
	var stops [n]func()
	for i := range n {
		stops[i] = r.contendBy(Options{TTL: never}, fmt.Sprint(i), r.bucket(), nil)
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
	held, _, _ := c.attempt(t.Context())
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

// What was not renewed in time, and what nobody has taken since, is its last owner's
// again at once.
func TestOwnLeaseIsNotWaitedFor(t *testing.T) {
	b, err := bus.AsBucket(newRig(t).bucket())
	if err != nil {
		t.Fatal(err)
	}
	c := &candidate{kv: b, key: "duty", owner: "a", Options: Options{TTL: never}}
	before, _, _ := c.attempt(t.Context())
	again, _, _ := c.attempt(t.Context())
	if before == nil || again == nil || again.Epoch() <= before.Epoch() {
		t.Fatalf("it was held as %v, and then as %v", before, again)
	}
	other := &candidate{kv: b, key: "duty", owner: "b", Options: Options{TTL: never}}
	if held, _, _ := other.attempt(t.Context()); held != nil {
		t.Error("another took it")
	}
}

// faulty is a bucket of which the first calls of a method fail.
type faulty struct {
	jetstream.KeyValue
	method string
	left   int
}

func (f *faulty) fail(method string) error {
	if f.method != method || f.left == 0 {
		return nil
	}
	f.left--
	return errors.New("no answer")
}

func (f *faulty) Get(ctx context.Context, key string) (jetstream.KeyValueEntry, error) {
	if err := f.fail("Get"); err != nil {
		return nil, err
	}
	return f.KeyValue.Get(ctx, key)
}

func (f *faulty) Status(ctx context.Context) (jetstream.KeyValueStatus, error) {
	if err := f.fail("Status"); err != nil {
		return nil, err
	}
	return f.KeyValue.Status(ctx)
}

func (f *faulty) Create(ctx context.Context, key string, value []byte, opts ...jetstream.KVCreateOpt) (uint64, error) {
	if err := f.fail("Create"); err != nil {
		return 0, err
	}
	return f.KeyValue.Create(ctx, key, value, opts...)
}

// A lease that could not be looked at, or written, is tried again soon, however long
// it lasts: a third of this one's time is beyond this test's.
func TestFailuresAreTriedAgainSoon(t *testing.T) {
	for _, method := range []string{"Get", "Status", "Create"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			b, err := bus.AsBucket(r.bucket())
			if err != nil {
				t.Fatal(err)
			}
			b.KeyValue = &faulty{KeyValue: b.KeyValue, method: method, left: 4}
			r.contendBy(Options{TTL: never}, "a", b, nil)
			r.await("a+")
		})
	}
}
