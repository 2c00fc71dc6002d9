package device_test

import (
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/device/devicetest"
	"github.com/switchyard/switchyard/pkg/compute/forward"
)

// A device meters what its experts do: what loads fail leaves nothing, and a call takes what
// it is told to have taken.
func TestMetered(t *testing.T) {
	d := devicetest.NewFake(2, 4, device.Settings{})
	defer d.Close()
	id := forward.ExpertID{Layer: 1, Expert: 2}
	ticket := d.Load(t.Context(), id, 0)
	if err := ticket.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	var use device.Use
	for range 2 {
		d.Begin(&use, 1, []uint32{2, 3, 2}, time.Hour) // 3 is cold
		d.End(&use)
	}
	if use.Entries() != 3 || use.Took(0) != use.Took(2) || use.Took(1) != 0 {
		t.Errorf("%d entries took %v, %v, %v", use.Entries(), use.Took(0), use.Took(1), use.Took(2))
	}
	ticket.Release()
	if err := d.Evict(id); err != nil {
		t.Fatal(err)
	}
	m := d.Metered()
	if m.Loads != 1 || m.Moved != devicetest.Bytes || m.Peak != devicetest.Bytes || !(m.Taken > 0 && m.Taken <= m.Held()) {
		t.Errorf("%+v", m)
	}
	if again := d.Metered(); again.Held() != m.Held() || again.Seconds <= m.Seconds {
		t.Errorf("%+v after %+v, with nothing in memory", again, m)
	}
}
