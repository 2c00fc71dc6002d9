package chaos

import (
	"fmt"
	"testing"
	"time"

	"github.com/switchyard/switchyard/loadtest/fleet"
)

// serverDeath is when the server dies after the services began to start, and
// for how long.
type serverDeath struct{ after, away time.Duration }

// The NATS server dies while the services start, at another moment each time.
// They wait for it, for as long as it takes, and then serve.
func TestServerDiesDuringStart(t *testing.T) {
	deaths := []serverDeath{{20 * time.Millisecond, time.Second}, {400 * time.Millisecond, time.Second}}
	if wanted(t) != short {
		deaths = append(deaths, []serverDeath{
			{100 * time.Millisecond, time.Second}, {200 * time.Millisecond, 8 * time.Second}, {800 * time.Millisecond, 8 * time.Second},
		}...)
	}
	y := startPipeline(t, fleet.Build(t), "unacked")
	defer func() { t.Log("\n" + y.table()) }()
	y.Scale(1, 1)
	y.alone()
	for _, c := range deaths {
		y.Clear()
		started := y.Launch(2, 2)
		time.Sleep(c.after)
		y.Servers[0].Kill()
		time.Sleep(c.away)
		y.Servers[0].Start()
		for _, p := range started {
			p.Await(t, "ready")
		}
		y.batch(fmt.Sprintf("nats-dies-%v-into-start-for-%v", c.after, c.away), nil)
	}
}
