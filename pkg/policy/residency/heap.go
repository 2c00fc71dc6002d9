package residency

// heap has its first entry, by an order that may change under it, at 0. An entry is in
// one heap at most, and knows where.
type heap struct {
	before func(a, b *entry) bool
	list   []*entry
	stale  bool // the order has changed
}

func (h *heap) len() int { return len(h.list) }

func (h *heap) has(e *entry) bool { return e.at < len(h.list) && h.list[e.at] == e }

func (h *heap) push(e *entry) {
	e.at = len(h.list)
	h.list = append(h.list, e)
	h.up(e.at)
}

// first is nil if there is none.
func (h *heap) first() *entry {
	if len(h.list) == 0 {
		return nil
	}
	h.freshen()
	return h.list[0]
}

func (h *heap) pop() *entry {
	e := h.first()
	h.remove(e)
	return e
}

func (h *heap) remove(e *entry) {
	at, last := e.at, len(h.list)-1
	h.swap(at, last)
	h.list[last] = nil
	h.list = h.list[:last]
	if at < last {
		h.fix(h.list[at])
	}
}

// fix is for an entry whose rank has changed.
func (h *heap) fix(e *entry) {
	if !h.up(e.at) {
		h.down(e.at)
	}
}

// freshen makes the order hold again after it has changed.
func (h *heap) freshen() {
	if !h.stale {
		return
	}
	h.stale = false
	for i := len(h.list)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

func (h *heap) swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	h.list[i].at, h.list[j].at = i, j
}

func (h *heap) up(i int) (moved bool) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.before(h.list[i], h.list[parent]) {
			break
		}
		h.swap(i, parent)
		i, moved = parent, true
	}
	return moved
}

func (h *heap) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h.list); child++ {
			if h.before(h.list[child], h.list[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		h.swap(i, least)
		i = least
	}
}
