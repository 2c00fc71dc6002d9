package predictor

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testserver"
)

// A listener takes so many messages a period, then the server sends it none, and
// in the next period it takes as many again.
func TestListener(t *testing.T) {
	conn := testserver.Connect(t)
	const budget, sent = 5, 100
	got := make(chan string, 10*sent)
	l := &listener{conn: conn, subjects: []string{"a", "b"}, group: "g", budget: budget, handle: func(m *nats.Msg) { got <- m.Subject }}
	for round := 1; round <= 3; round++ {
		if err := l.open(); err != nil {
			t.Fatal(err)
		}
		for range sent {
			for _, subject := range l.subjects {
				if err := conn.NATS().Publish(subject, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		testkit.Eventually(t, "the budget is used up", func() bool { return len(got) >= round*budget && conn.NATS().NumSubscriptions() == 1 })
		if len(got) != round*budget {
			t.Fatalf("%d messages after %d rounds", len(got), round)
		}
	}
	l.close()
	if err := l.open(); err != nil || conn.NATS().NumSubscriptions() != 1 {
		t.Errorf("%v; it listens after its end", err)
	}
}

func TestBudget(t *testing.T) {
	for rate, want := range map[int]int{0: 0, 1: 1, 500: 50} {
		if got := (Config{MaxRate: rate}).budget(); got != want {
			t.Errorf("%d a second are %d a period, want %d", rate, got, want)
		}
	}
}
