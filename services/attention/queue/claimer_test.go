package queue

import (
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention/renewal"
)

// What waited while this replica was disconnected may have been given back by a sibling,
// and is left to who has begun it.
func TestBegunElsewhere(t *testing.T) {
	d := testdeployment.Open(t)
	c := &claimer{log: tokenlog.Of(d, "attention-1"), engine: &fakeEngine{}}
	a := arrivals(nil, "a1")[0]
	a.away = d.Conn.Gap()
	a.msg.Accept = &pb.Accept{
		Identity: &pb.Identity{Version: schemas.Version, Model: d.Identity.Model}, PromptSequence: 1, PromptTokens: 10, MaxTokens: 10,
	}
	if _, err := c.log.Accept(t.Context(), "a1", a.msg.Accept); err != nil {
		t.Fatal(err)
	}
	if c.begun(t.Context(), "a1") {
		t.Error("nobody has begun it")
	}
	if _, _, err := tokenlog.Of(d, "attention-2").Claim(t.Context(), "a1", a.msg.Accept, tokenlog.WriterSettings{}); err != nil {
		t.Fatal(err)
	}
	if err := d.Conn.NATS().ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "a connection after a gap", func() bool { return d.Conn.Connected() && a.away() })
	if _, err := c.own(t.Context(), a); !errors.Is(err, errLapsed) {
		t.Errorf("error %v", err)
	}
}

// What was not renewed in time is not claimed: another has it by then.
func TestLapsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := &settled{}
		k := renewal.New(slog.New(slog.DiscardHandler), &renewal.Pulse{}, nil, time.Second)
		a := &arrival{hold: k.Keep(toldDelivery{"a1", told})}
		time.Sleep(2 * time.Second)
		k.Renew()
		c := &claimer{waiting: newWaiting(), slots: newSlots(1)}
		if _, err := c.own(t.Context(), a); !errors.Is(err, errLapsed) {
			t.Errorf("error %v", err)
		}
		(&settler{}).settle(t.Context(), a.hold, errLapsed)
		if k.Renew(); !slices.Equal(told.told, []string{"a1 renewed"}) { // before it was settled
			t.Errorf("%v", told.told)
		}
	})
}
