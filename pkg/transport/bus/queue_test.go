package bus

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/schemas"
)

func (r *rig) queue(s schemas.Streams, wait time.Duration) *Queue {
	r.t.Helper()
	q, err := r.conn.Queue(r.ctx(), QueueSettings{Stream: s.Sequences(), Name: "attention", AckWait: wait})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(q.Stop)
	return q
}

func (r *rig) store(s schemas.Streams, n int) {
	r.t.Helper()
	for i := range n {
		if seq, err := r.conn.Store(r.ctx(), s.Subjects.Sequence(), hidden(10), nil); err != nil || seq != uint64(i+1) {
			r.t.Fatalf("stored as %d, error %v", seq, err)
		}
	}
}

// pull takes what is wanted, by as many pulls as that needs: a message that was
// just stored may not be there for the first.
func (r *rig) pull(q *Queue, limit, want int) (ds []*Delivery) {
	r.t.Helper()
	for len(ds) < want {
		more, err := q.Pull(r.ctx(), limit-len(ds))
		if err != nil {
			r.t.Fatalf("pulled %d of %d, error %v", len(ds), want, err)
		}
		ds = append(ds, more...)
	}
	return ds
}

func TestQueueTakesOnlyWhatItAsksFor(t *testing.T) {
	r := newRig(t)
	s := names(schemas.HopsCore)
	a, b := r.queue(s, time.Minute), r.queue(s, time.Minute)
	r.store(s, 5)
	ds := append(r.pull(a, 2, 2), r.pull(b, 10, 3)...)
	for i, d := range ds {
		if d.Sequence != uint64(i+1) || d.Delivered != 1 || time.Since(d.Timestamp) > time.Minute {
			t.Errorf("delivery %d: %+v", i, d)
		}
		if err := d.Ack(); err != nil {
			t.Error(err)
		}
	}
}

func TestQueueRedelivers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := names(schemas.HopsCore)
	q := r.queue(s, 200*time.Millisecond)
	r.store(s, 1)
	r.pull(q, 1, 1) // and forgotten
	if d := r.pull(q, 1, 1)[0]; d.Delivered != 2 || r.obs.redelivered.Load() != 1 {
		t.Errorf("delivered %d times", d.Delivered)
	}
}

// What the server hears of a delivery: that it is worked on, is given back, is given up.
func TestQueueSettles(t *testing.T) {
	r := newRig(t)
	s := names(schemas.HopsCore)
	q := r.queue(s, time.Hour)
	r.store(s, 1)
	d := r.pull(q, 1, 1)[0]
	told, err := r.conn.nc.SubscribeSync(d.AckSubject())
	if err != nil {
		t.Fatal(err)
	}
	if err := d.InProgress(); err != nil {
		t.Fatal(err)
	}
	if m, err := told.NextMsgWithContext(r.ctx()); err != nil || string(m.Data) != "+WPI" { // NATS's word for it
		t.Errorf("told %v, error %v", m, err)
	}
	if err := d.Nak(0); err != nil {
		t.Fatal(err)
	}
	if d = r.pull(q, 1, 1)[0]; d.Delivered != 2 {
		t.Errorf("delivered %d times", d.Delivered)
	}
	if err := d.End(Poison(errors.New("unreadable"))); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "it is settled", func() bool { return r.unsettled(s) == 0 })
}

// What a replica had that is gone is somebody else's at once, and nothing else can be
// given back in its name.
func TestQueueGiveBack(t *testing.T) {
	r := newRig(t)
	s := names(schemas.HopsCore)
	dead, heir := r.queue(s, time.Hour), r.queue(s, time.Hour)
	r.store(s, 1)
	subject := r.pull(dead, 1, 1)[0].AckSubject()
	for _, wrong := range []string{"", "switchyard.cancel.demo.r", "$JS.ACK.OTHER.attention.1.1.1.1.0", subject + ".x.>", "$JS.API.STREAM.DELETE." + s.Sequences().Name, "$JS.ACK." + s.Sequences().Name + ".attention.1.x"} {
		if err := heir.GiveBack(wrong); err == nil {
			t.Errorf("%q was taken for a delivery", wrong)
		}
	}
	if err := heir.GiveBack(subject); err != nil {
		t.Fatal(err)
	}
	if d := r.pull(heir, 1, 1)[0]; d.Delivered != 2 {
		t.Errorf("delivered %d times", d.Delivered)
	}
}

// What arrives after its Pull was cancelled is for the next one at once.
func TestQueueCancelledPull(t *testing.T) {
	r := newRig(t)
	s := names(schemas.HopsCore)
	q := r.queue(s, time.Minute)
	ctx, cancel := context.WithCancel(r.ctx())
	pulled := make(chan error)
	go func() { _, err := q.Pull(ctx, 4); pulled <- err }()
	testkit.Eventually(t, "a pull waits", func() bool {
		c, err := r.conn.js.Consumer(r.ctx(), s.Sequences().Name, "attention")
		return err == nil && c.CachedInfo().NumWaiting == 1
	})
	cancel()
	if err := <-pulled; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	r.store(s, 1)
	r.pull(q, 1, 1)
}

func TestQueueSurvivesRestart(t *testing.T) {
	r := newRig(t)
	s := names(schemas.HopsCore)
	q := r.queue(s, time.Minute)
	pulled := make(chan []*Delivery)
	go func() {
		ds, _ := q.Pull(r.ctx(), 4)
		pulled <- ds
	}()
	r.restart()
	r.store(s, 1)
	if ds := <-pulled; len(ds) != 1 {
		t.Fatalf("pulled %d", len(ds))
	}
}

func TestQueueStop(t *testing.T) {
	r := newRig(t)
	q := r.queue(names(schemas.HopsCore), time.Minute)
	time.AfterFunc(20*time.Millisecond, q.Stop)
	if _, err := q.Pull(r.ctx(), 1); !errors.Is(err, ErrStopped) {
		t.Errorf("error %v", err)
	}
}

func TestStoreOnce(t *testing.T) {
	r := newRig(t)
	s := names(schemas.HopsCore)
	if err := r.conn.Ensure(r.ctx(), 0, s.Sequences()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		seq, err := r.conn.Store(r.ctx(), s.Subjects.Sequence(), hidden(1), nats.Header{nats.MsgIdHdr: {"x"}})
		if err != nil || seq != 1 {
			t.Errorf("stored as %d, error %v", seq, err)
		}
	}
}

// PullNow waits for nothing.
func TestPullNow(t *testing.T) {
	r := newRig(t)
	s := names(schemas.HopsCore)
	q := r.deadQueue(s)
	if ds, err := q.PullNow(r.ctx(), 5); err != nil || len(ds) != 0 {
		t.Errorf("pulled %d, error %v", len(ds), err)
	}
	r.store(s, 3)
	var ds []*Delivery
	testkit.Eventually(t, "the server has told the consumer of three messages", func() bool {
		more, err := q.PullNow(r.ctx(), 5)
		if err != nil {
			t.Error(err)
		}
		ds = append(ds, more...)
		return len(ds) >= 3
	})
	if len(ds) != 3 {
		t.Errorf("pulled %d", len(ds))
	}
}
