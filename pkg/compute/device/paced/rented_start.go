package paced

import (
	"slices"
	"time"

	"github.com/switchyard/switchyard/pkg/policy/meter"
)

// coming are a layer's containers that start, to take the place of those that it has.
type coming struct {
	all  []Rental // nil: there are none
	due  float64  // when they have started
	unit meter.Unit
}

// Rent says what a layer's functions on this host are rented with from now on. What computes
// already goes on, and where a new container starts in place of one that has experts, that one
// computes until then.
func (d *Rented) Rent(layer int, all []Rental) {
	if uint(layer) >= uint(len(d.layers)) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	d.settle(layer, now)
	c := &d.coming[layer]
	d.meter.Drop(&c.unit, now)
	c.all = nil
	if cold := d.restart(layer, all); cold > 0 {
		c.all, c.due = all, now+cold
		d.meter.Take(&c.unit, layer, int64(d.bytes(all)), now)
		return
	}
	d.adopt(layer, all, now)
}

// restart returns how long new containers of a layer start; 0 where none takes the place of one that
// has experts. d.mu is held.
func (d *Rented) restart(layer int, all []Rental) (seconds float64) {
	if d.units[layer].held == 0 {
		return 0
	}
	for _, to := range all {
		for _, from := range d.layers[layer] {
			same := to.Memory == from.Memory && slices.Equal(to.Experts, from.Experts)
			if to.Beside || from.Beside || same || !slices.ContainsFunc(to.Experts, func(e uint32) bool { return slices.Contains(from.Experts, e) }) {
				continue
			}
			seconds = max(seconds, d.system.Functions.Cold(float64(len(to.Experts))*d.system.Expert))
		}
	}
	return seconds
}

// settle has containers that have started by now take the place of those before. d.mu is held.
func (d *Rented) settle(layer int, now float64) {
	c := &d.coming[layer]
	if c.all == nil || now < c.due {
		return
	}
	d.meter.Hold(&c.unit, c.due)
	d.meter.Drop(&c.unit, c.due)
	d.adopt(layer, c.all, c.due)
	c.all = nil
}

// adopt has a layer rented so. d.mu is held.
func (d *Rented) adopt(layer int, all []Rental, now float64) {
	d.layers[layer] = all
	u, bytes := &d.units[layer], d.bytes(all)
	if u.bytes == bytes {
		return
	}
	u.bytes = bytes
	d.reopen(layer, now)
}

// bytes returns those of a layer's functions: the memory beside attention is shared by all layers.
func (d *Rented) bytes(all []Rental) (bytes float64) {
	for _, r := range all {
		if r.Beside {
			bytes += r.Memory / float64(d.system.Layers)
		} else {
			bytes += r.Memory
		}
	}
	return bytes
}

func (d *Rented) now() float64 { return time.Since(d.began).Seconds() }
