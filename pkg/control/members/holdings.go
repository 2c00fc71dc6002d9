package members

import (
	"cmp"
	"maps"
	"slices"
	"sync"
)

// Holdings are the deliveries that a replica has, by the subjects on which they are settled.
type Holdings struct {
	mu      sync.Mutex
	turns   map[string]uint64 // grow with each that is added
	changes uint64
}

// NewHoldings returns none.
func NewHoldings() *Holdings { return &Holdings{turns: map[string]uint64{}} }

// Add notes a delivery; one that is known stays as it is.
func (h *Holdings) Add(delivery string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, known := h.turns[delivery]; !known {
		h.changes++
		h.turns[delivery] = h.changes
	}
}

// Remove forgets a delivery that is settled, or not renewed any more.
func (h *Holdings) Remove(delivery string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, known := h.turns[delivery]; known {
		h.changes++
		delete(h.turns, delivery)
	}
}

// changed counts what was added and removed.
func (h *Holdings) changed() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changes
}

// oldest are the deliveries that have been here longest, as many as fit so many bytes.
func (h *Holdings) oldest(most, bytes int) (deliveries []string) {
	const perDelivery = 4 // of the message, beside the name
	h.mu.Lock()
	turns := maps.Clone(h.turns)
	h.mu.Unlock()
	all := slices.SortedFunc(maps.Keys(turns), func(a, b string) int { return cmp.Compare(turns[a], turns[b]) })
	for _, name := range all[:min(most, len(all))] {
		if bytes -= len(name) + perDelivery; bytes < 0 {
			break
		}
		deliveries = append(deliveries, name)
	}
	return deliveries
}
