package pushdown

import (
	"slices"
	"sync"
)

// stack is what calls return to: some places, each with the calls around it. The same calls
// are one stack. nil is the outermost.
type stack struct {
	frames []frame // by place, each once
	bottom bool    // what was begun with may end here
	depth  int
	serial uint32
	least  int32  // bytes to the end of all, once it was looked for
	behind *State // what comes where they return, once it was looked for
}

type frame struct {
	to   Place
	next *stack
}

// item is a place in a terminal, with what it returns to.
type item struct {
	at    int32 // of all terminals' states
	calls *stack
}

// State is where a text stands.
type State struct {
	items  []item // by at, each once
	over   bool   // the text may end
	serial uint32
	next   [256]*State
	known  [4]uint64 // of next
	mask   []uint64
}

// Over says whether the text may end.
func (s *State) Over() bool { return s.over }

// Bounds of what is kept of a grammar, and of a state.
const (
	maxDepth  = 512     // calls within calls
	maxUnions = 1 << 14 // of stacks, for one byte
	maxStates = 1 << 13 // and stacks; a state takes some KiB
	maxMasks  = 64 << 20
)

// Follower follows texts of a grammar over one vocabulary. Any goroutine may use it.
type Follower struct {
	mu     sync.Mutex
	g      *Grammar
	vocab  *Vocabulary
	begin  *State
	serial uint32
	stacks map[string]*stack
	states map[string]*State
	local  map[int32]*local
	kept   int // bytes of masks
	scratch
}

// Follow is a follower over a vocabulary.
func (g *Grammar) Follow(v *Vocabulary) *Follower {
	f := &Follower{g: g, vocab: v}
	f.forget()
	return f
}

// forget begins anew: states that cursors hold stay as they are.
func (f *Follower) forget() {
	f.begin, f.stacks, f.states, f.local, f.kept = nil, map[string]*stack{}, map[string]*State{}, map[int32]*local{}, 0
}

// Begin is where nothing has been read.
func (f *Follower) Begin() *State {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.begin == nil {
		w := f.walk()
		w.open(f.g.begin, f.stack([]frame{}, true))
		f.begin = w.state()
	}
	return f.begin
}

// Read is the state after a text; nil: it cannot be.
func (f *Follower) Read(s *State, text []byte) *State {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range text {
		if s = f.after(s, b); s == nil {
			return nil
		}
	}
	return s
}

// after is the state after a byte.
func (f *Follower) after(s *State, b byte) *State {
	if s.known[b>>6]>>(b&63)&1 == 1 {
		return s.next[b]
	}
	w := f.walk()
	for _, it := range s.items {
		w.read(it, b)
	}
	to := w.state()
	s.next[b] = to
	s.known[b>>6] |= 1 << (b & 63)
	return to
}

// walk is a state that is being made.
type walk struct {
	*Follower
	items map[int32]*stack
	over  bool
	seen  map[frame]bool // that were opened
	joint map[[2]*stack]*stack
	// unions is how many were made; too many: it is given up.
	unions int
}

func (f *Follower) walk() *walk {
	return &walk{Follower: f, items: map[int32]*stack{}, seen: map[frame]bool{}, joint: map[[2]*stack]*stack{}}
}

// read adds what an item is after a byte.
func (w *walk) read(it item, b byte) {
	term, base := w.g.terminal(it.at)
	if to := term.Next(it.at-base, b); to >= 0 {
		w.add(base+to, it.calls)
	}
}

// add adds a place in a terminal, and what may come behind it.
func (w *walk) add(at int32, calls *stack) {
	if has, ok := w.items[at]; ok {
		if calls = w.union(has, calls); calls == has {
			return
		}
	}
	w.items[at] = calls
	if term, base := w.g.terminal(at); term.Accepts(at - base) {
		w.back(calls)
	}
}

// back goes on behind calls.
func (w *walk) back(calls *stack) {
	w.over = w.over || calls.bottom
	for _, to := range calls.frames {
		w.open(to.to, to.next)
	}
}

// open adds what a place can begin with.
func (w *walk) open(p Place, calls *stack) {
	if w.seen[frame{p, calls}] {
		return
	}
	w.seen[frame{p, calls}] = true
	flat := &w.g.flat[p]
	if flat.ends {
		w.back(calls)
	}
	for _, m := range flat.terms {
		if to := w.push(m.to, calls); to != nil {
			w.add(w.g.bases[m.term]+w.g.terms[m.term].Start, to)
		}
	}
	for _, m := range flat.calls {
		if to := w.push(m.to, calls); to != nil {
			w.open(Place(m.rule), to)
		}
	}
}

// push is a stack with one more call; a place that only ends its rule needs none. nil: too deep.
func (w *walk) push(to Place, calls *stack) *stack {
	if f := &w.g.flat[to]; f.ends && len(f.terms) == 0 && len(f.calls) == 0 {
		return calls
	}
	if calls.depth >= maxDepth {
		return nil
	}
	return w.stack([]frame{{to, calls}}, false)
}

// state makes the state, or finds it; nil: nothing can be there.
func (w *walk) state() *State {
	if len(w.items) == 0 && !w.over || w.unions > maxUnions {
		return nil
	}
	items := make([]item, 0, len(w.items))
	for at, calls := range w.items {
		items = append(items, item{at, calls})
	}
	slices.SortFunc(items, func(a, b item) int { return int(a.at) - int(b.at) })
	key := make([]byte, 1, 1+8*len(items))
	if w.over {
		key[0] = 1
	}
	for _, it := range items {
		key = appendNumber(appendNumber(key, uint32(it.at)), it.calls.serial)
	}
	s, ok := w.states[string(key)]
	if !ok {
		if len(w.states)+len(w.stacks) >= maxStates {
			w.forget()
		}
		w.serial++
		s = &State{items: items, over: w.over, serial: w.serial}
		w.states[string(key)] = s
	}
	return s
}

func appendNumber(key []byte, n uint32) []byte {
	return append(key, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
}

// stack finds a stack, or makes it. Frames are in order.
func (f *Follower) stack(frames []frame, bottom bool) *stack {
	key := make([]byte, 1, 1+8*len(frames))
	if bottom {
		key[0] = 1
	}
	depth := 0
	for _, fr := range frames {
		key = appendNumber(appendNumber(key, uint32(fr.to)), fr.next.serial)
		depth = max(depth, fr.next.depth)
	}
	s, ok := f.stacks[string(key)]
	if !ok {
		f.serial++
		s = &stack{frames: frames, bottom: bottom, depth: depth + 1, serial: f.serial}
		f.stacks[string(key)] = s
	}
	return s
}

// union has the calls of both. Where both return to one place, what is around is joined too,
// so that a text that may be read in many ways has no more stacks than one.
func (w *walk) union(a, b *stack) *stack {
	if a == b || w.unions > maxUnions {
		return a
	}
	if done, ok := w.joint[[2]*stack{a, b}]; ok {
		return done
	}
	w.unions++
	out := make([]frame, 0, len(a.frames)+len(b.frames))
	i, j := 0, 0
	for i < len(a.frames) || j < len(b.frames) {
		switch {
		case j == len(b.frames) || i < len(a.frames) && a.frames[i].to < b.frames[j].to:
			out = append(out, a.frames[i])
			i++
		case i == len(a.frames) || b.frames[j].to < a.frames[i].to:
			out = append(out, b.frames[j])
			j++
		default:
			out = append(out, frame{a.frames[i].to, w.union(a.frames[i].next, b.frames[j].next)})
			i++
			j++
		}
	}
	both := w.stack(out, a.bottom || b.bottom)
	w.joint[[2]*stack{a, b}] = both
	return both
}
