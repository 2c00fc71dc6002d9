package devicetest

import (
	"errors"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/policy/residency"
)

func testRefuse(t *testing.T, create New) {
	d, f := limited(t, create, device.Settings{}, 2)
	defer d.Close()
	held := warm(t, d, 0)
	defer f.Hold(expert(1))()
	coming := d.Load(t.Context(), expert(1), 0)
	wantRefusal(t, d, d.Load(t.Context(), expert(2), 9), size(t, d)-1) // what is coming counts
	coming.Release()
	await(t, "the bytes of the cancelled load", func() bool { return d.Memory().Used == size(t, d) })
	warm(t, d, 2)
	wantRefusal(t, d, d.Load(t.Context(), expert(3), 9), size(t, d)-1)
	held[0].Release()
	warm(t, d, 3)
	wantUsed(t, d, 2)
}

func testBelowOneExpert(t *testing.T, create New) {
	d, f := limited(t, create, device.Settings{}, 0)
	defer d.Close()
	budget := size(t, d) - 1
	wantRefusal(t, d, d.Load(t.Context(), expert(0), 0), budget)
	if len(f.Began()) > 0 || d.Memory() != (device.Memory{Budget: budget}) {
		t.Fatalf("%v began, %+v", f.Began(), d.Memory())
	}
}

func testEvict(t *testing.T, create New) {
	d, _ := create(t, device.Settings{})
	defer d.Close()
	first := warm(t, d, 0)[0]
	second := warm(t, d, 0)[0]
	for held := 2; held > 0; held-- {
		var inUse *device.HeldError
		if err := d.Evict(expert(0)); !errors.As(err, &inUse) || inUse.Tickets != held {
			t.Fatalf("evicting an expert with %d tickets: %v", held, err)
		}
		first.Release()
		first.Release() // counts once
		first = second
	}
	wantPhase(t, d, device.Warm, 0)
	for range 2 { // also when it is cold
		if err := d.Evict(expert(0)); err != nil {
			t.Fatal(err)
		}
		wantPhase(t, d, device.Cold, 0)
		wantUsed(t, d, 0)
	}
}

// Of those without tickets, the one released first goes; held ones never do.
func testEvictForLoad(t *testing.T, create New) {
	d, _ := limited(t, create, device.Settings{}, 3)
	defer d.Close()
	held := warm(t, d, 0, 1, 2)
	held[1].Release()
	held[0].Release()
	warm(t, d, 1)[0].Release() // now it is the later one
	warm(t, d, 3)
	wantPhase(t, d, device.Cold, 0)
	wantPhase(t, d, device.Warm, 1, 2, 3)
	warm(t, d, 0)
	wantPhase(t, d, device.Cold, 1)
	wantPhase(t, d, device.Warm, 0, 2, 3)
	wantRefusal(t, d, d.Load(t.Context(), expert(1), 0), size(t, d)-1)
}

// highest evicts the expert with the highest number.
type highest struct{ residency.Newest }

// EvictFirst returns the higher number.
func (highest) EvictFirst(a, b *residency.Item) int { return b.Unit.Index - a.Unit.Index }

func testEvictFirst(t *testing.T, create New) {
	d, _ := limited(t, create, device.Settings{Order: highest{}}, 3)
	defer d.Close()
	for _, ticket := range warm(t, d, 0, 2, 1) {
		ticket.Release()
	}
	warm(t, d, 3)
	wantPhase(t, d, device.Cold, 2)
	wantPhase(t, d, device.Warm, 0, 1, 3)
}
