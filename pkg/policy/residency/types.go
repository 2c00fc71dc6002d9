package residency

import "github.com/switchyard/switchyard/pkg/policy/unit"

// Urgency is who waits for a unit.
type Urgency uint8

// The urgencies, in ascending order.
const (
	Hinted   Urgency = iota // nobody yet: a prediction names it
	Planned                 // whoever wants it here, for rows to come
	Demanded                // rows
)

var urgencies = [...]string{"hinted", "planned", "demanded"}

func (u Urgency) String() string { return urgencies[min(int(u), len(urgencies)-1)] }

// Want asks for a unit.
type Want struct {
	Unit  unit.Unit
	Bytes int64
	Urgency
	// Priority is for the Order, within an urgency.
	Priority int64
}

// Item is what an Order may know of a unit. Wanted and Used are larger, the later.
type Item struct {
	Unit  unit.Unit
	Bytes int64
	// Urgency is the highest with which it was wanted since it was cold.
	Urgency
	// Priority is of the want that counts: the most urgent one, of those the highest.
	Priority int64
	// Wanted is when that want came, Used when the last reference was given back or
	// the unit was touched.
	Wanted, Used uint64
}

// Phase is where a unit is in its life.
type Phase uint8

// The phases.
const (
	Cold     Phase = iota
	Queued         // its load has not begun
	Loading        // its load runs, or stands still between pieces
	Held           // it can be used
	Evicting       // the host is to free it
)

var phases = [...]string{"cold", "queued", "loading", "held", "evicting"}

func (p Phase) String() string { return phases[min(int(p), len(phases)-1)] }

// Kind says what the host is to do.
type Kind uint8

// The kinds of actions.
const (
	// Load begins a load; Loaded, Failed or Stopped answers.
	Load Kind = iota
	// Resume lets a load go on that has stood still since a piece's end.
	Resume
	// Cancel ends a load early, whether it runs or stands still; Stopped answers, or
	// what the load's end was before.
	Cancel
	// Evict frees a held unit; Evicted or InUse answers.
	Evict
	// Ready says that those who wait for a unit have it.
	Ready
	// Refuse says that those who wait for a unit do not get it: Room bytes are free, or
	// could be, for its Bytes. Their references are gone.
	Refuse
)

var kinds = [...]string{"load", "resume", "cancel", "evict", "ready", "refuse"}

func (k Kind) String() string { return kinds[min(int(k), len(kinds)-1)] }

// Action is what the host is to do.
type Action struct {
	Kind
	Unit        unit.Unit
	Bytes, Room int64
}
