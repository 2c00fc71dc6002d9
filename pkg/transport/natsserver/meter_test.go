package natsserver

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/transport/rights"
)

func TestMeter(t *testing.T) {
	type step struct {
		after time.Duration
		had   traffic // since the one before
		over  int
	}
	half := traffic{Sent: burst.Sent / 2, Bytes: burst.Bytes / 2, Got: burst.Got / 2}
	for _, tc := range []struct {
		name  string
		steps []step
	}{
		{"nothing", []step{{0, traffic{}, -1}, {time.Second, traffic{}, -1}}},
		{"half, and half", []step{{0, half, -1}, {0, half, -1}}},
		{"one more", []step{{0, half, -1}, {0, traffic{Sent: burst.Sent/2 + 1}, 0}}},
		{"a byte more", []step{{0, traffic{Bytes: burst.Bytes + 1}, 1}}},
		{"too much received", []step{{0, traffic{Got: burst.Got + 1}, 2}}},
		{"at its rate", []step{{0, half, -1}, {time.Second, mostTraffic, -1}, {time.Second, mostTraffic, -1}, {time.Second, mostTraffic, -1}, {0, half, -1}, {0, traffic{Sent: 1}, 0}}},
		{"rested", []step{{0, half, -1}, {0, half, -1}, {time.Hour, half, -1}, {0, half, -1}}},
		{"counted anew", []step{{0, half, -1}, {0, traffic{Sent: -half.Sent, Bytes: -half.Bytes, Got: -half.Got}, -1}, {0, half, -1}, {0, half, 2}}},
	} {
		m, now, all := &meter{}, time.Unix(1, 0), traffic{}
		for i, s := range tc.steps {
			now = now.Add(s.after)
			all = traffic{Sent: all.Sent + s.had.Sent, Bytes: all.Bytes + s.had.Bytes, Got: all.Got + s.had.Got}
			if got := m.measure(now, all); got != s.over {
				t.Errorf("%s: step %d: bound %d is exceeded, want %d", tc.name, i, got, s.over)
			}
		}
	}
}

// A tenant whose producers send more than a tenant may is kept out, and nobody else is. Later
// they are heard, and answered, as before.
func TestSenders(t *testing.T) {
	_, as := withProducers(t)
	edge, other := as.user(t, rights.Edge), as.user(t, "producer")
	asked, err := edge.Subscribe("switchyard.ask.demo.acme.*", func(m *nats.Msg) {
		if m.Reply != "" {
			_ = m.Respond([]byte("answer")) // the test sees what comes
		}
	})
	if err != nil || edge.Flush() != nil {
		t.Fatal(err)
	}
	if err := asked.SetPendingLimits(-1, -1); err != nil {
		t.Fatal(err)
	}
	beside, bad := as.user(t, "producer-acme"), as.user(t, "producer-acme")
	for !bad.IsClosed() {
		if err := bad.Publish("switchyard.ask.demo.acme.normal", nil); err != nil {
			break
		}
	}
	testkit.Eventually(t, "all of the tenant's connections are closed", func() bool { return bad.IsClosed() && beside.IsClosed() })
	if err := other.Flush(); err != nil {
		t.Errorf("another tenant's: %v", err)
	}
	testkit.Eventually(t, "the tenant is heard again, and answered", func() bool {
		nc, err := as.try("producer-acme")
		if err != nil {
			return false
		}
		defer nc.Close()
		m, err := nc.Request("switchyard.ask.demo.acme.normal", nil, testkit.Patience)
		return err == nil && string(m.Data) == "answer"
	})
}

// One message to many subscriptions is many messages, and who has too many of them is kept out.
func TestReceivers(t *testing.T) {
	_, as := withProducers(t)
	edge, other, bad := as.user(t, rights.Edge), as.user(t, "producer"), as.user(t, "producer-acme")
	for range 900 {
		if _, err := bad.Subscribe("_INBOX.producer-acme.x", func(*nats.Msg) {}); err != nil {
			t.Fatal(err)
		}
	}
	if err := bad.Flush(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the tenant's connection is closed", func() bool {
		if err := edge.Publish("_INBOX.producer-acme.x", nil); err != nil {
			t.Fatal(err)
		}
		return bad.IsClosed()
	})
	for _, nc := range []*nats.Conn{edge, other} {
		if err := nc.Flush(); err != nil {
			t.Errorf("another one's: %v", err)
		}
	}
}
