package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/schemas"
)

func TestArrival(t *testing.T) {
	for name, c := range map[string]struct {
		reply      string
		ours, good bool
	}{
		"short":            {"$JS.ACK.S.C.3.70.5.1700000000000000000.9", true, true},
		"domain":           {"$JS.ACK.hub.acc.S.C.3.70.5.1700000000000000000.9", true, true},
		"with token":       {"$JS.ACK.hub.acc.S.C.3.70.5.1700000000000000000.9.x", true, true},
		"truncated":        {"$JS.ACK.S.C.3.70", true, false},
		"no number":        {"$JS.ACK.S.C.3.x.5.1700000000000000000.9", true, false},
		"negative":         {"$JS.ACK.S.C.3.-70.5.1700000000000000000.9", true, false},
		"beyond 63 bit":    {"$JS.ACK.S.C.3.9223372036854775808.5.1700000000000000000.9", true, false},
		"other consumer":   {"$JS.ACK.S.CC.3.70.5.1700000000000000000.9", false, false},
		"other stream":     {"$JS.ACK.T.C.3.70.5.1700000000000000000.9", false, false},
		"other, elsewhere": {"$JS.ACK.hub.acc.S.D.3.70.5.1700000000000000000.9", false, false},
		"between":          {"$JS.ACK.acc.S.C.3.70.5.1700000000000000000.9", false, false},
		"of somebody":      {"_INBOX.a", false, false},
		"of the API":       {"$JS.API.STREAM.DELETE.S.C.3.70.5", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := refTo("S", "C").arrival(&nats.Msg{Reply: c.reply})
			if (err == nil) != c.ours {
				t.Fatalf("error %v", err)
			}
			if !c.ours {
				return
			}
			o, err := a.origin()
			if (err == nil) != c.good {
				t.Fatalf("error %v", err)
			}
			if want := (origin{3, 70, 5, time.Unix(1700000000, 0)}); c.good && o != want {
				t.Errorf("got %+v", o)
			}
			if n := a.deliveries(); n != 3 {
				t.Errorf("%d deliveries", n)
			}
		})
	}
}

func FuzzArrival(f *testing.F) {
	f.Add("$JS.ACK.S.C.3.70.5.1700000000000000000.9")
	f.Add("$JS.ACK.hub.acc.S.C.3.70.5.1700000000000000000.9.x")
	f.Add("$JS.ACK.........")
	f.Fuzz(func(t *testing.T, reply string) {
		a, err := refTo("S", "C").arrival(&nats.Msg{Reply: reply})
		if err != nil {
			return
		}
		if o, err := a.origin(); a.deliveries() < 1 || err == nil && (o.delivered < 1 || o.sequence < 1) {
			t.Errorf("%q: %+v", reply, o)
		}
	})
}

func TestDoneAllocatesNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() {
		if o, _ := classify(nil, 1); o != Done {
			t.Errorf("a message without an error is %v", o)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestArrivalAllocatesNothing(t *testing.T) {
	m, ref := &nats.Msg{Reply: "$JS.ACK.S.C.3.70.5.1700000000000000000.9"}, refTo("S", "C")
	n := testing.AllocsPerRun(100, func() {
		a, err := ref.arrival(m)
		if err == nil {
			_, err = a.origin()
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	if n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// statuses are what a server says by itself on a pull's inbox.
var statuses = []string{"100", "404", "408", "409", "503"}

// publishStatuses stores messages that look like the server's statuses, and a
// plain one behind them.
func (r *rig) publishStatuses(subject string) {
	r.t.Helper()
	for _, status := range append(statuses, "") {
		m := &nats.Msg{Subject: subject, Header: nats.Header{"Status": {status}}}
		if _, err := r.conn.js.PublishMsg(r.ctx(), m); err != nil {
			r.t.Fatal(err)
		}
	}
}

// A stream's message is a message, whatever its publisher's headers say.
func TestStatusHeaderOfAMessage(t *testing.T) {
	for _, mode := range []schemas.Hops{schemas.HopsAcked, schemas.HopsUnacked} {
		t.Run(string(mode), func(t *testing.T) {
			r := newRig(t)
			s, got := names(mode), make(chan string, 2*len(statuses))
			running, err := NewHop(r.conn, mode).Receive(r.ctx(), receiver(s), func(_ context.Context, m *Msg) error {
				got <- m.Header.Get("Status")
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			defer running.Stop()
			r.publishStatuses(s.Subjects.Hidden(0))
			for _, want := range append(statuses, "") {
				r.expect(got, want)
			}
		})
	}
	t.Run("queue", func(t *testing.T) {
		r := newRig(t)
		s := names(schemas.HopsCore)
		q := r.queue(s, time.Minute)
		r.publishStatuses(s.Subjects.Sequence())
		for i, d := range r.pull(q, 10, len(statuses)+1) {
			if d.Sequence != uint64(i+1) || d.Ack() != nil {
				t.Errorf("delivery %d: %+v", i, d)
			}
		}
		testkit.Eventually(t, "all settled", func() bool {
			info, err := r.conn.js.Stream(r.ctx(), s.Sequences().Name)
			return err == nil && info.CachedInfo().State.Msgs == 0
		})
	})
	t.Run("follow", func(t *testing.T) {
		r := newRig(t)
		s := names(schemas.HopsCore)
		if err := r.conn.Ensure(r.ctx(), 1, s.Tokens()); err != nil {
			t.Fatal(err)
		}
		r.publishStatuses(s.Subjects.Token("r"))
		n := 0
		err := r.conn.Follow(r.ctx(), s.Tokens().Name, []string{s.Subjects.AnyToken()}, Place{}, func(Stored) bool {
			n++
			return n <= len(statuses)
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func (r *rig) expect(got <-chan string, want string) {
	r.t.Helper()
	select {
	case g := <-got:
		if g != want {
			r.t.Fatalf("got %q, want %q", g, want)
		}
	case <-time.After(testkit.Patience):
		r.t.Fatalf("%q did not come", want)
	}
}

// Who may publish to an inbox cannot make its owner publish somewhere.
func TestForgedOriginIsNotAnswered(t *testing.T) {
	r := newRig(t)
	s := names(schemas.HopsAcked)
	got := make(chan string, 10)
	running, err := NewHop(r.conn, schemas.HopsAcked).Receive(r.ctx(), receiver(s), func(_ context.Context, m *Msg) error {
		got <- string(m.Data)
		return errors.New("not handled")
	})
	if err != nil {
		t.Fatal(err)
	}
	defer running.Stop()
	q := r.queue(s, time.Minute)
	answered := make(chan *nats.Msg, 100)
	for _, subject := range []string{"victim", "$JS.ACK.>"} {
		if _, err := r.conn.nc.ChanSubscribe(subject, answered); err != nil {
			t.Fatal(err)
		}
	}
	// A server lets nobody publish with a reply subject below $JS.ACK, but
	// another one in between may, so these go past it.
	replies := []string{"victim", "", "$JS.API.STREAM.DELETE." + s.Hidden().Name, "$JS.ACK.other.gate.1.1.1.1.1", "$JS.ACK.S.C.x"}
	for _, receive := range []func(*nats.Msg){running.puller.receive, q.receive} {
		for _, reply := range replies {
			receive(&nats.Msg{Subject: "inbox", Reply: reply})
			receive(&nats.Msg{Subject: "inbox", Reply: reply, Data: []byte("x")})
		}
	}
	if n := r.obs.refused.Load(); n != int64(2*2*len(replies)) {
		t.Errorf("%d were refused", n)
	}
	if _, err := r.conn.js.Publish(r.ctx(), s.Subjects.Hidden(0), []byte("real")); err != nil {
		t.Fatal(err)
	}
	r.expect(got, "real")
	for own := fmt.Appendf(nil, "$JS.ACK.%s.gate.", s.Hidden().Name); len(answered) > 0; {
		if m := <-answered; !bytes.HasPrefix([]byte(m.Subject), own) {
			t.Errorf("published %q to %s", m.Data, m.Subject)
		}
	}
}
