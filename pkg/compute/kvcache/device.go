package kvcache

import "fmt"

// DevicePage returns the bytes that each page of a device needs: those of the group that
// needs most, so that any page serves any group.
func (s Shape) DevicePage() (most int64) {
	groups, _ := s.groups()
	for i := range groups {
		most = max(most, groups[i].bytes())
	}
	return most
}

// NewDevicePool returns a pool of pages at these addresses of a device, of DevicePage
// bytes each.
func NewDevicePool(shape Shape, at []uint64) (*Pool, error) {
	p := &Pool{shape: shape, onDevice: true}
	p.groups, p.places = shape.groups()
	for i := range p.groups {
		p.groups[i].floats = int(shape.DevicePage() / 4)
	}
	if p.capacity = len(at) / len(p.groups); p.capacity < 1 {
		return nil, fmt.Errorf("%d pages for %d kinds of layers are too few", len(at), len(p.groups))
	}
	p.free = make([][]*page, 1)
	for _, a := range at {
		p.free[0] = append(p.free[0], &page{at: a})
	}
	return p, nil
}

// At is whose pages a layer's are, and where it lies in each, in bytes.
func (p *Pool) At(layer int) (group int, from int64) {
	at := p.places[layer]
	return at.group, 4 * int64(at.from)
}

// First returns the first position that a position sees in a group's layers.
func (p *Pool) First(group, position int) int { return p.groups[group].sight.First(position) }

// Addresses appends where a group's pages of the positions [0, end) lie; 0 for those
// that are not there.
func (t *Table) Addresses(dst []uint64, group, end int) []uint64 {
	for _, pg := range t.pages[group][:PagesFor(end)] {
		at := uint64(0)
		if pg != nil {
			at = pg.at
		}
		dst = append(dst, at)
	}
	return dst
}
