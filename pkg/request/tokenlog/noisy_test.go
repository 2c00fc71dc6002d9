package tokenlog

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// drown stores messages in a log that are no records.
func (r *rig) drown(request string, n int) {
	r.t.Helper()
	js := r.conn.NATS()
	for range n {
		if err := js.Publish(names.Subjects.Token(request), []byte(`{"stream":"S","seq":1}`)); err != nil {
			r.t.Fatal(err)
		}
	}
	if err := js.FlushWithContext(r.ctx()); err != nil {
		r.t.Fatal(err)
	}
}

// A log that is full of noise is read by who goes on with the request, and by nobody who
// only asks for it; what it was opened with is known without reading it.
func TestNoisyLog(t *testing.T) {
	r := newRig(t)
	r.accept("r")
	r.drown("r", maxNoise+1)
	if a, err := r.log.Opening(r.ctx(), "r"); err != nil || a == nil {
		t.Errorf("opened with %v, error %v", a, err)
	}
	if a, err := r.log.First(r.ctx(), "r"); err != nil || a == nil {
		t.Errorf("first %v, error %v", a, err)
	}
	before := r.passed.Load()
	if existing, err := r.log.Accept(r.ctx(), "r", opening(1)); err != nil || existing == nil || r.passed.Load() != before {
		t.Errorf("accepted again: %v, error %v, %d passed over", existing, err, r.passed.Load()-before)
	}
	if err := r.log.FollowRequest(r.ctx(), "r", func(Entry) bool { return true }); !errors.Is(err, ErrNoisy) {
		t.Errorf("followed to %v", err)
	}
	if err := r.log.Finish(r.ctx(), "r", &pb.Terminal{FinishReason: "cancelled"}); !errors.Is(err, ErrNoisy) {
		t.Errorf("finished: %v", err)
	}
	w, _ := r.claim(r.log, "r", WriterSettings{})
	appendAll(t, w, token(0), terminal("stop"))
	r.flush(w)
}

// An id under which there is nothing but noise is not free, and is not read to its end.
func TestNoiseBeforeTheAcceptance(t *testing.T) {
	r := newRig(t)
	r.drown("r", maxNoise+1)
	if existing, err := r.log.Accept(r.ctx(), "r", opening(0)); !errors.Is(err, ErrNoisy) || existing != nil {
		t.Errorf("accepted: %v, error %v", existing, err)
	}
	if _, err := r.log.First(r.ctx(), "r"); !errors.Is(err, ErrUnknown) {
		t.Errorf("first: %v", err)
	}
}

// A log with too much behind its end stays as it is: others wait to be packed.
func TestPackingBehindNoiseEnds(t *testing.T) {
	r := newRig(t)
	r.accept("r")
	w, _ := r.claim(r.log, "r", WriterSettings{})
	appendAll(t, w, token(0), terminal("stop"))
	r.flush(w)
	end := r.read("r")[3].Seq
	p := &pb.Packed{Accept: opening(0), TokenIds: []uint32{1}, Terminal: terminal("stop").GetTerminal()}
	r.drown("r", maxBehind)
	if err := r.log.Pack(r.ctx(), "r", p, end); !errors.Is(err, ErrNoisy) {
		t.Errorf("packed: %v", err)
	}
}

// followed counts the consumers that a log's readers have made.
type followed struct {
	bus.LogStore
	n atomic.Int32
}

func (f *followed) Follow(ctx context.Context, stream string, subjects []string, after bus.Place, fn func(bus.Stored) bool) error {
	f.n.Add(1)
	return f.LogStore.Follow(ctx, stream, subjects, after, fn) //nolint:wrapcheck // it stands before another one
}

// A packed log is passed on without a consumer for it, to the last record that is wanted.
func TestPackedLogIsReadAtOnce(t *testing.T) {
	r := newRig(t)
	packed, last := r.ended("r")
	if err := r.log.Pack(r.ctx(), "r", packed, last); err != nil {
		t.Fatal(err)
	}
	store := &followed{LogStore: r.conn}
	l := New(store, names, r.as("b"))
	for most, want := range map[int]int{10: 4, 2: 2} {
		n := 0
		if err := l.FollowRequest(r.ctx(), "r", func(Entry) bool { n++; return n < most }); err != nil || n != want {
			t.Errorf("%d records, error %v, want %d", n, err, want)
		}
	}
	if n := store.n.Load(); n != 0 {
		t.Errorf("%d consumers", n)
	}
}
