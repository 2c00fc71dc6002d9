package paced

import (
	"sync"
	"time"
)

// counts say how often the CPU kept up.
type counts struct {
	mu              sync.Mutex
	computes, loads tally
	busy            time.Duration // of the profile's device, computing
	over            time.Duration // from results' times to their releases
	standing        time.Duration // of loads that came to their end
}

// tally counts what was to be there at a time.
type tally struct {
	all, late int
	by        time.Duration // that all late ones were late together
}

// add counts one that was there so long after its time; negative is before it.
func (t *tally) add(late time.Duration) {
	t.all++
	if late > 0 {
		t.late++
		t.by += late
	}
}

func (c *counts) computed(took, late time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy += took
	c.computes.add(late)
}

func (c *counts) released(after time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over += after
}

func (c *counts) loaded(late time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loads.add(late)
}

func (c *counts) stood(stood time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.standing += stood
}

// Report adds how many results and loads the device has released, how many of
// them came late because the CPU did not keep up, and by how much together; how
// much later than they should results were released, for whatever reason; for how long loads stood
// still that came to their end; and how long the profile's device has computed.
func (d *Device) Report(stats map[string]float64) {
	c := d.counts
	c.mu.Lock()
	defer c.mu.Unlock()
	stats["paced_computes_total"], stats["paced_computes_late_total"] = float64(c.computes.all), float64(c.computes.late)
	stats["paced_loads_total"], stats["paced_loads_late_total"] = float64(c.loads.all), float64(c.loads.late)
	stats["paced_late_seconds_total"] = (c.computes.by + c.loads.by).Seconds()
	stats["paced_release_late_seconds_total"] = c.over.Seconds()
	stats["paced_load_stood_seconds_total"] = c.standing.Seconds()
	stats["paced_busy_seconds_total"] = c.busy.Seconds()
}
