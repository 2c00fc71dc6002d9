package bytewise

import (
	"errors"
	"math"
)

// Strings are the texts of a body that have some length, within quotation marks if that is how
// it has them. A text is followed by a state and a count: of characters, or of how often a
// repetition was gone through. What counts has no states of its own.
type Strings struct {
	*Body
	bounds Bounds
	states int32 // of the encoder
	free   bool  // nothing is refused by what was counted
}

// States of strings that are not within their characters.
const (
	opening int32 = iota
	closed
	inside
)

// NewStrings returns a body's texts of some length. It is not for several goroutines at once.
func NewStrings(b *Budget, of *Body, within Bounds) (*Strings, error) {
	if within.Most > MaxTimes {
		within.Most = -1 // no answer has so many
	}
	if within != AnyLength && of.counted {
		return nil, errors.New("lengths beside counted repetitions")
	}
	if within != AnyLength && of.within == nil {
		of.Settle(b)
	}
	if within != AnyLength && of.settled < 0 {
		body, err := of.unrolled(b, within)
		if err != nil {
			return nil, err
		}
		of, within = body, AnyLength
	}
	t := &Strings{Body: of, bounds: within, states: int32(len(of.enc.next) / of.enc.bytes)}
	if within != AnyLength && !t.alive(of.d.start, 0) {
		return nil, ErrEmpty
	}
	return t, nil
}

// bounded reports whether characters are counted.
func (t *Strings) bounded() bool { return t.bounds != AnyLength }

// Counts reports whether anything is counted.
func (t *Strings) Counts() bool { return t.bounded() || t.counted }

// Start returns where nothing was read.
func (t *Strings) Start() (at, count int32) {
	if t.o.Quoted {
		return opening, 0
	}
	return inside + t.d.start*t.states, 0
}

// Between are the states between characters where nothing was counted, and Start.
func (t *Strings) Between(yield func(at int32) bool) {
	at, _ := t.Start()
	if !yield(at) {
		return
	}
	for s := range int32(len(t.d.rows)) {
		if !yield(inside + s*t.states) {
			return
		}
	}
}

// split returns a state's characters, and how far the next one is.
func (t *Strings) split(at int32) (s, e int32) {
	return (at - inside) / t.states, (at - inside) % t.states
}

// Next returns where a byte leads; Dead: nowhere.
func (t *Strings) Next(at, count int32, b byte) (to, counted int32) {
	switch at {
	case opening:
		if b == '"' {
			return inside + t.d.start*t.states, 0
		}
		return Dead, 0
	case closed:
		return Dead, 0
	}
	s, e := t.split(at)
	if e == 0 && b == '"' && t.o.Quoted {
		return t.close(s, count)
	}
	switch to := t.enc.after(e, b); {
	case to == Dead:
		return Dead, 0
	case to <= ended(0):
		if s, count = t.step(s, count, ended(to)); s == Dead {
			return Dead, 0
		}
		return inside + s*t.states, count
	case t.leads(s, count, to):
		return at - e + to, count
	}
	return Dead, 0
}

func (t *Strings) close(s, count int32) (at, counted int32) {
	switch {
	case !t.whole(s, count):
		return Dead, 0
	case t.free:
		return closed, count
	}
	return closed, 0
}

// whole reports whether a text may end between characters.
func (t *Strings) whole(s, count int32) bool {
	return t.d.accepted(s, count) && (!t.bounded() || t.free || t.bounds.has(count))
}

// has reports whether a text may have so many characters.
func (b Bounds) has(count int32) bool {
	return int(count) >= b.Least && (b.Most < 0 || int(count) <= b.Most)
}

// step returns where a character of a class leads.
func (t *Strings) step(s, count, class int32) (to, counted int32) {
	to, counted = t.d.next(s, count, class)
	if !t.bounded() || to == Dead {
		return to, counted
	}
	if counted = count + 1; t.bounds.Most < 0 && !t.free {
		counted = min(counted, int32(t.bounds.Least))
	}
	if !t.alive(to, counted) {
		return Dead, 0
	}
	return to, counted
}

// alive reports whether a text of so many characters may come to an end.
func (t *Strings) alive(s, count int32) bool { return t.free || t.left(s, count) >= 0 }

// left returns how many characters have to come at least; -1: none end the text.
func (t *Strings) left(s, count int32) int32 {
	if !t.bounded() {
		return t.d.least(s, count)
	}
	least := max(0, int32(t.bounds.Least)-count)
	most := int32(math.MaxInt32)
	if t.bounds.Most >= 0 {
		most = int32(t.bounds.Most) - count
	}
	for n := least; n <= min(most, max(least, t.settled)); n++ {
		if t.ends(s, n) {
			return n
		}
	}
	return -1
}

// leads reports whether a character that has begun may go on.
func (t *Strings) leads(s, count, e int32) bool {
	reach := t.enc.reach[int(e)*t.enc.words : (int(e)+1)*t.enc.words]
	if !t.Counts() {
		for w, word := range t.allowed[int(s)*t.enc.words : (int(s)+1)*t.enc.words] {
			if word&reach[w] != 0 {
				return true
			}
		}
		return false
	}
	for c := range int32(t.enc.classes) {
		if reach[c/64]>>(c%64)&1 == 1 {
			if to, _ := t.step(s, count, c); to != Dead {
				return true
			}
		}
	}
	return false
}

// Accepts reports whether what was read is whole.
func (t *Strings) Accepts(at, count int32) bool {
	if at <= closed {
		return at == closed
	}
	s, e := t.split(at)
	return !t.o.Quoted && e == 0 && t.whole(s, count)
}

// Least returns how many more bytes there are at least until a text is whole, or some more than that:
// some byte always leads to less.
func (t *Strings) Least(at, count int32) int {
	quote := 0
	if t.o.Quoted {
		quote = 1
	}
	switch at {
	case opening:
		return quote + t.Least(inside+t.d.start*t.states, 0)
	case closed:
		return 0
	}
	s, e := t.split(at)
	if e == 0 {
		return quote + int(t.weight)*int(t.left(s, count))
	}
	least := math.MaxInt32
	for c := range int32(t.enc.classes) {
		if left := t.enc.left[int(e)*t.enc.classes+int(c)]; left < math.MaxInt32 {
			if to, n := t.step(s, count, c); to != Dead {
				least = min(least, quote+int(left)+int(t.weight)*int(t.left(to, n)))
			}
		}
	}
	return least
}

// Like returns a count for which what comes within some bytes is as for another one.
func (t *Strings) Like(at, count int32, bytes int) int32 {
	if at <= closed || !t.Counts() {
		return count
	}
	ahead := int32(bytes)
	if t.bounded() {
		ahead += t.settled + 1
		return like(count, int32(t.bounds.Least), int32(t.bounds.Most), ahead)
	}
	s, _ := t.split(at)
	c := t.d.counter[s]
	if c.most == 0 {
		return count
	}
	most := int32(-1)
	if c.most < math.MaxInt32 {
		most = c.most - 1
	}
	return like(count, max(c.least, 1)-1, most, ahead+1)
}

// like returns the first count between bounds, or before them, if all up to another one are alike.
func like(count, least, most, ahead int32) int32 {
	switch {
	case count < least && least-count > ahead:
		return 0
	case count >= least && (most < 0 || most-count > ahead):
		return least
	}
	return count
}

// Free returns the same strings if no length refuses any. Their count is how many characters were
// read, at the end, too. nil: other things are counted.
func (t *Strings) Free() *Strings {
	if !t.bounded() {
		return nil
	}
	return &Strings{Body: t.Body, bounds: Bounds{0, MaxTimes}, states: t.states, free: true}
}

// Alive reports whether a state of Free's is one of these strings, too.
func (t *Strings) Alive(at, count int32) bool {
	if at <= closed {
		return at == opening || t.bounds.has(count)
	}
	s, e := t.split(at)
	if e == 0 {
		return t.alive(s, count)
	}
	return t.leads(s, count, e)
}

// Ends reports whether a text of so many characters may be one of these strings.
func (t *Strings) Ends(count int32) bool { return t.bounds.has(count) }

// Match reports whether all of a text is one of them.
func (t *Strings) Match(text string) bool {
	at, count := t.Start()
	for i := range len(text) {
		if at, count = t.Next(at, count, text[i]); at == Dead {
			return false
		}
	}
	return t.Accepts(at, count)
}

// DFA returns the automaton of strings that count nothing.
func (t *Strings) DFA(b *Budget) (*DFA, error) {
	alphabet, classes := t.alphabet()
	type state struct{ at, count int32 }
	at, count := t.Start()
	d, err := Explore(b, state{at, count}, string(alphabet), func(s state, c byte) (state, bool) {
		to, n := t.Next(s.at, s.count, c)
		return state{to, n}, to != Dead
	}, func(s state) bool { return t.Accepts(s.at, s.count) })
	if err != nil {
		return nil, err
	}
	known := d.class
	for i := range d.class {
		d.class[i] = known[classes[i]]
	}
	d.Hub = d.hub()
	return d, nil
}

// alphabet has one byte of each class that leads anywhere, and each byte's own.
func (t *Strings) alphabet() (some []byte, of [256]byte) {
	first := map[int]byte{}
	for i := range 256 {
		class := int(t.enc.class[i])
		if i == '"' && t.o.Quoted {
			class = -1
		}
		b, ok := first[class]
		if !ok {
			b = byte(i)
			first[class] = b
			if class < 0 || t.enc.leads(uint8(class)) {
				some = append(some, b)
			}
		}
		of[i] = b
	}
	return some, of
}

// leads reports whether a class of bytes leads anywhere.
func (e *encoder) leads(class uint8) bool {
	for at := int(class); at < len(e.next); at += e.bytes {
		if e.next[at] != Dead {
			return true
		}
	}
	return false
}
