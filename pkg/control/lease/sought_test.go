package lease

import (
	"context"
	"sync"
	"testing"
	"time"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// watchers tell candidates that an owner is gone when the test says so.
type watchers struct {
	mu   sync.Mutex
	of   map[string][]chan struct{}
	open int
}

func (w *watchers) Watch(owner string) (<-chan struct{}, func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	gone := make(chan struct{})
	w.of[owner] = append(w.of[owner], gone)
	w.open++
	return gone, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.open--
	}
}

// end says that an owner is gone, to all who look for it.
func (w *watchers) end(owner string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, gone := range w.of[owner] {
		close(gone)
	}
	w.of[owner] = nil
}

func (w *watchers) sought(owner string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.of[owner])
}

func (r *rig) contendWith(owner string, o Options) (stop func()) {
	kv := r.bucket()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = Hold(ctx, kv, "duty", owner, o, func(ctx context.Context, _ *Held) error {
			r.note("%s+", owner)
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	stop = func() { cancel(); <-done }
	r.t.Cleanup(stop)
	return stop
}

// never lapses within a test.
const never = time.Hour

// The lease of an owner that has no connection is free at once, and one whose owner
// is only thought to be gone is taken by its epoch.
func TestGoneOwner(t *testing.T) {
	r := newRig(t)
	w := &watchers{of: map[string][]chan struct{}{}}
	o := Options{TTL: never, Watcher: w, Listens: func() bool { return true }}
	r.contendWith("a", o)
	r.await("a+")
	stop := r.contendWith("b", o)
	r.eventually("b looks for a", func() bool { return w.sought("a") == 1 })
	w.end("a")
	r.await("a+ b+")
	stop()
	if w.mu.Lock(); w.open != 0 {
		t.Errorf("%d owners are still sought", w.open)
	}
	w.mu.Unlock()
}

// Whom candidates look for: an owner that says that it can be found. Others may be of
// an older version, or not be permitted to listen.
func TestSeek(t *testing.T) {
	for _, c := range []struct {
		name string
		of   *pb.Lease
		want int
	}{
		{"listens", &pb.Lease{Owner: "a", Listens: true}, 1},
		{"does not", &pb.Lease{Owner: "a"}, 0},
		{"free", &pb.Lease{Listens: true}, 0},
		{"our own", &pb.Lease{Owner: "b", Listens: true}, 0},
		{"nobody's", nil, 0},
	} {
		w := &watchers{of: map[string][]chan struct{}{}}
		x := &candidate{Options: Options{Watcher: w}, owner: "b"}
		x.seek(c.of)
		x.seek(c.of)
		if w.open != c.want {
			t.Errorf("%s: %d are sought, want %d", c.name, w.open, c.want)
		}
		x.seek(&pb.Lease{Owner: "c", Listens: true})
		if w.open != 1 || x.who != "c" {
			t.Errorf("%s, then c: %d are sought, the last %q", c.name, w.open, x.who)
		}
	}
}
