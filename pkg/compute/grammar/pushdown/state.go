package pushdown

import (
	"cmp"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// stack is what calls return to: some places, each with the calls around it. The same calls
// are one stack. nil is the outermost.
type stack struct {
	frames []frame // by place and count, each once
	bottom bool    // what was begun with may end here
	depth  int
	serial uint32
	least  int32  // bytes to the end of all, once it was looked for
	behind *State // what comes where they return, once it was looked for
	like   *stack // with counts for which the next bytes are alike, once it was looked for
}

// frame is a place that is returned to, and what its rule has counted.
type frame struct {
	to    Place
	count int32
	next  *stack
}

// inside is a place in a terminal.
type inside struct {
	term int32
	within
}

// item is a place in a terminal, with what it returns to.
type item struct {
	inside
	calls *stack
}

// State is where a text stands.
type State struct {
	items  []item // in order, each once
	over   bool   // the text may end
	serial uint32
	next   []successor
	mask   []uint64
}

type successor struct {
	b  byte
	to *State
}

// Over reports whether the text may end.
func (s *State) Over() bool { return s.over }

// Bounds of what is kept of a grammar, and of a state.
const (
	maxDepth  = 512     // calls within calls
	maxStates = 1 << 14 // and stacks, and unions of them
	maxMasks  = 64 << 20
	// MaxBytes is how much grammars of one vocabulary are to keep. Beyond, each that follows a text keeps fairShare.
	MaxBytes  = 256 << 20
	fairShare = MaxBytes / 64
)

// What is counted of states and stacks, and of what follows a byte.
const (
	ofEntry     = 256
	ofSuccessor = 32
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
	joint  map[[2]*stack]*stack // unions, the first of the two has the lower serial
	kept   *atomic.Int64        // bytes, those of the grammar among them
	left   int                  // of the work of what is being done
	scratch
}

// Follow returns a follower over a vocabulary.
func (g *Grammar) Follow(v *Vocabulary) *Follower {
	f := &Follower{g: g, vocab: v, kept: new(atomic.Int64)}
	f.forgetStates()
	runtime.AddCleanup(f, func(kept *atomic.Int64) { v.kept.Add(-kept.Load()) }, f.kept)
	return f
}

// keep counts bytes that are kept.
func (f *Follower) keep(bytes int) {
	f.kept.Add(int64(bytes))
	f.vocab.kept.Add(int64(bytes))
}

// Bytes is about how much is kept.
func (f *Follower) Bytes() int { return int(f.kept.Load()) }

// bytes is about how much a grammar has.
func (g *Grammar) bytes() int {
	n := 128 * len(g.flat)
	for i := range g.flat {
		n += 32 * (len(g.flat[i].terms) + len(g.flat[i].calls) + len(g.flat[i].ends))
	}
	for _, t := range g.terms {
		n += t.bytes()
	}
	return n + 4*len(g.far)
}

// forgetStates begins anew: states that cursors hold stay as they are.
func (f *Follower) forgetStates() {
	f.keep(f.g.bytes() - f.Bytes())
	f.begin, f.stacks, f.states, f.joint = nil, map[string]*stack{}, map[string]*State{}, map[[2]*stack]*stack{}
}

// Begin returns where nothing has been read.
func (f *Follower) Begin(w *Work) (s *State, err error) {
	err = f.do(w, func() {
		if f.begin == nil {
			w := f.walk()
			w.open(frame{f.g.begin, 0, f.stack([]frame{}, true)})
			f.begin = w.state()
		}
		s = f.begin
	})
	return s, err
}

// Read returns the state after a text; nil: it cannot be.
func (f *Follower) Read(s *State, text []byte, w *Work) (*State, error) {
	err := f.do(w, func() {
		for _, b := range text {
			if s = f.after(s, b); s == nil {
				return
			}
		}
	})
	return s, err
}

// after returns the state after a byte.
func (f *Follower) after(s *State, b byte) *State {
	for _, known := range s.next {
		if known.b == b {
			return known.to
		}
	}
	w := f.walk()
	f.take(len(s.items))
	for _, it := range s.items {
		if to := f.g.terms[it.term].next(it.within, b); to.at >= 0 {
			w.add(inside{it.term, to}, it.calls)
		}
	}
	to := w.state()
	s.next = append(s.next, successor{b, to})
	f.keep(ofSuccessor)
	return to
}

// walk is a state that is being made.
type walk struct {
	*Follower
	items map[inside]*stack
	over  bool
	seen  map[frame]bool // that were opened
}

func (f *Follower) walk() *walk {
	return &walk{Follower: f, items: map[inside]*stack{}, seen: map[frame]bool{}}
}

// add adds a place in a terminal, and what may come behind it.
func (w *walk) add(at inside, calls *stack) {
	if has, ok := w.items[at]; ok {
		if calls = w.union(has, calls); calls == has {
			return
		}
	}
	w.items[at] = calls
	if w.g.terms[at.term].accepts(at.within) {
		w.back(calls)
	}
}

// back goes on behind calls.
func (w *walk) back(calls *stack) {
	w.over = w.over || calls.bottom
	for _, to := range calls.frames {
		w.open(to)
	}
}

// open adds what a place can begin with.
func (w *walk) open(at frame) {
	if w.seen[at] {
		return
	}
	w.seen[at] = true
	flat := &w.g.flat[at.to]
	w.take(ofStep * (1 + len(flat.terms) + len(flat.calls)))
	if slices.ContainsFunc(flat.ends, func(when Guard) bool { return when.lets(at.count) }) {
		w.back(at.next)
	}
	for _, m := range flat.terms {
		if to := w.push(at, m.to, m.when); to != nil {
			w.add(inside{m.term, w.g.terms[m.term].start()}, to)
		}
	}
	for _, m := range flat.calls {
		if to := w.push(at, m.to, m.when); to != nil {
			w.open(frame{Place(m.rule), 0, to})
		}
	}
}

// push returns a stack with one more call; a place that only ends its rule needs none. nil: it may
// not be, comes to no end, or is too deep.
func (w *walk) push(at frame, to Place, when Guard) *stack {
	if !when.lets(at.count) {
		return nil
	}
	count := w.g.counts[to].at(when.after(at.count))
	if w.g.distance(to, count) == never {
		return nil
	}
	if f := &w.g.flat[to]; len(f.ends) == 1 && f.ends[0] == Always && len(f.terms) == 0 && len(f.calls) == 0 {
		return at.next
	}
	if at.next.depth >= maxDepth {
		return nil
	}
	return w.stack([]frame{{to, count, at.next}}, false)
}

// state makes the state, or finds it; nil: nothing can be there.
func (w *walk) state() *State {
	if len(w.items) == 0 && !w.over {
		return nil
	}
	items := make([]item, 0, len(w.items))
	for at, calls := range w.items {
		items = append(items, item{at, calls})
	}
	return w.stateOf(items, w.over)
}

func inOrder(a, b inside) int {
	return cmp.Or(cmp.Compare(a.term, b.term), cmp.Compare(a.at, b.at), cmp.Compare(a.count, b.count))
}

// stateOf finds the state of some items, or makes it.
func (f *Follower) stateOf(items []item, over bool) *State {
	slices.SortFunc(items, func(a, b item) int { return inOrder(a.inside, b.inside) })
	key := make([]byte, 1, 1+16*len(items))
	if over {
		key[0] = 1
	}
	for _, it := range items {
		key = appendNumbers(key, uint32(it.term), uint32(it.at), uint32(it.count), it.calls.serial)
	}
	s, ok := f.states[string(key)]
	if !ok {
		f.take(ofKept + len(items))
		f.keep(ofEntry + 48*len(items))
		f.serial++
		s = &State{items: items, over: over, serial: f.serial}
		f.states[string(key)] = s
	}
	return s
}

func appendNumbers(key []byte, all ...uint32) []byte {
	for _, n := range all {
		key = append(key, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
	}
	return key
}

// stack finds a stack, or makes it. Frames are in order.
func (f *Follower) stack(frames []frame, bottom bool) *stack {
	key := make([]byte, 1, 1+12*len(frames))
	if bottom {
		key[0] = 1
	}
	depth := 0
	for _, fr := range frames {
		key = appendNumbers(key, uint32(fr.to), uint32(fr.count), fr.next.serial)
		depth = max(depth, fr.next.depth)
	}
	s, ok := f.stacks[string(key)]
	if !ok {
		f.take(ofKept + len(frames))
		f.keep(ofEntry + 32*len(frames))
		f.serial++
		s = &stack{frames: frames, bottom: bottom, depth: depth + 1, serial: f.serial}
		f.stacks[string(key)] = s
	}
	return s
}

// union has the calls of both. Where both return to one place, what is around is joined too,
// so that a text that may be read in many ways has no more stacks than one.
func (f *Follower) union(a, b *stack) *stack {
	if a == b {
		return a
	}
	if a.serial > b.serial {
		a, b = b, a
	}
	if done, ok := f.joint[[2]*stack{a, b}]; ok {
		return done
	}
	f.take(ofKept + len(a.frames) + len(b.frames))
	f.keep(ofEntry)
	out := make([]frame, 0, len(a.frames)+len(b.frames))
	i, j := 0, 0
	for i < len(a.frames) || j < len(b.frames) {
		order := 0
		switch {
		case j == len(b.frames):
			order = -1
		case i == len(a.frames):
			order = 1
		default:
			order = framesInOrder(a.frames[i], b.frames[j])
		}
		switch {
		case order < 0:
			out = append(out, a.frames[i])
			i++
		case order > 0:
			out = append(out, b.frames[j])
			j++
		default:
			out = append(out, frame{a.frames[i].to, a.frames[i].count, f.union(a.frames[i].next, b.frames[j].next)})
			i++
			j++
		}
	}
	both := f.stack(out, a.bottom || b.bottom)
	f.joint[[2]*stack{a, b}] = both
	return both
}

func framesInOrder(a, b frame) int {
	return cmp.Or(cmp.Compare(a.to, b.to), cmp.Compare(a.count, b.count))
}
