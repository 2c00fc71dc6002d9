package bus

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/testkit"
)

// Names come from records that others write: what cannot be asked for is an error, and
// the connection stays.
func TestAbsent(t *testing.T) {
	r := newRig(t)
	sub, err := r.conn.Subscribe("here.a", "", func(*nats.Msg) {})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	for _, c := range []struct {
		subject       string
		within        time.Duration
		absent, fails bool
	}{
		{"here.a", 10 * time.Millisecond, false, false},
		{"here.b", 10 * time.Second, true, false},
		{"here.a b", time.Second, false, true},
		{"here.", time.Second, false, true},
		{"here.>", time.Second, false, true},
		{"here." + strings.Repeat("x", 5000), time.Second, false, true},
	} {
		if absent, err := r.conn.Absent(r.ctx(), c.subject, c.within); absent != c.absent || (err != nil) != c.fails {
			t.Errorf("%.20s: absent %v, error %v", c.subject, absent, err)
		}
	}
	ended, cancel := context.WithCancel(r.ctx())
	cancel()
	if _, err := r.conn.Absent(ended, "here.a", time.Minute); err == nil {
		t.Error("it goes on after its context")
	}
	if !r.conn.Connected() {
		t.Error("the connection is gone")
	}
}

// Who may not ask is told; what else the connection may not do is of no interest, as
// where an answer goes is for who asks to choose.
func TestAbsentWithoutRights(t *testing.T) {
	t.Parallel()
	c := denied(t, "here.b", "answers")
	sub, err := c.Subscribe("here.*", "", func(*nats.Msg) {})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	testkit.Eventually(t, "a missing right", func() bool {
		_, err := c.Absent(t.Context(), "here.b", 20*time.Millisecond)
		return errors.Is(err, nats.ErrPermissionViolation)
	})
	ctx, cancel := context.WithCancel(t.Context())
	var answering sync.WaitGroup
	answering.Go(func() {
		for ctx.Err() == nil {
			_ = c.SendBytes(ctx, "answers", nil, nil)
			time.Sleep(time.Millisecond)
		}
	})
	if absent, err := c.Absent(t.Context(), "here.a", 100*time.Millisecond); absent || err != nil {
		t.Errorf("while an answer is denied: absent %v, error %v", absent, err)
	}
	cancel()
	answering.Wait()
}
