package bytewise

import (
	"errors"
	"fmt"
	"math"
)

// Dead is the state from which nothing is accepted.
const Dead int32 = -1

// ErrEmpty says that an automaton accepts nothing at all.
var ErrEmpty = errors.New("nothing matches it")

// Budget is what may still be made; what is made is taken from it.
type Budget struct {
	States int // of automata
	Work   int // moves that are looked at on the way
}

// TooLargeError says that a budget is used up.
type TooLargeError struct{ What string }

// Error names what is too large.
func (e *TooLargeError) Error() string { return "it needs more than the " + e.What + " that are left" }

func (b *Budget) takeState() error {
	if b.States--; b.States < 0 {
		return &TooLargeError{"states of automata"}
	}
	return nil
}

func (b *Budget) takeWork(n int) error {
	if b.Work -= n; b.Work < 0 {
		return &TooLargeError{"moves between states"}
	}
	return nil
}

// DFA is a deterministic automaton over bytes. It is not changed once it is made.
type DFA struct {
	Start int32
	// Hub is a state in which most bytes change nothing, as within a text of any characters; Dead: there is none.
	Hub     int32
	class   [256]uint8
	classes int
	next    []int32 // (states, classes); Dead: none
	accept  []bool
	least   []int32 // bytes to the next accepting state
}

// States returns how many there are; the first is 0.
func (d *DFA) States() int { return len(d.accept) }

// Bytes is about how much memory it takes.
func (d *DFA) Bytes() int { return 4*len(d.next) + 5*len(d.accept) + len(d.class) }

// Next returns the state after a byte.
func (d *DFA) Next(s int32, b byte) int32 { return d.next[int(s)*d.classes+int(d.class[b])] }

// Accepts reports whether what was read until a state is whole.
func (d *DFA) Accepts(s int32) bool { return d.accept[s] }

// Least returns how many more bytes there are at least until an accepting state.
func (d *DFA) Least(s int32) int { return int(d.least[s]) }

// manyBytes is from how many bytes on, that lead to itself, a state may be a hub.
const manyBytes = 64

// hub returns the state that most bytes lead from to itself, as within a text of any characters; Dead: none has many.
func (d *DFA) hub() int32 {
	hub, most := Dead, manyBytes-1
	var bytes [256]int
	for _, c := range d.class {
		bytes[c]++
	}
	for s := range int32(len(d.accept)) {
		loops := 0
		for c, to := range d.next[int(s)*d.classes : (int(s)+1)*d.classes] {
			if to == s {
				loops += bytes[c]
			}
		}
		if loops > most {
			hub, most = s, loops
		}
	}
	return hub
}

// maxLike bounds the states that Like looks at.
const maxLike = 64

// Like is equal for states from which the same is accepted, as far as it is found out: it says all that follows from a
// state. ok is false where that is much.
func (d *DFA) Like(s int32) (key string, ok bool) {
	number, queue := map[int32]int32{s: 0}, []int32{s}
	var out []byte
	for at := 0; at < len(queue); at++ {
		from, last := queue[at], int32(math.MinInt32)
		out = append(out, '|', byte(b2i(d.accept[from])))
		for b := range 256 {
			to := d.Next(from, byte(b))
			if to != Dead {
				n, known := number[to]
				if !known {
					n = int32(len(queue))
					number[to], queue = n, append(queue, to)
				}
				to = n
			}
			if to != last { // in runs of bytes
				out = append(out, byte(b), byte(to), byte(to>>8))
				last = to
			}
		}
		if len(queue) > maxLike {
			return "", false
		}
	}
	return string(out), true
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Match reports whether all of a text is accepted.
func (d *DFA) Match(text string) bool {
	s := d.Start
	for i := range len(text) {
		if s = d.Next(s, text[i]); s == Dead {
			return false
		}
	}
	return d.accept[s]
}

// finish drops the states from which nothing is accepted.
func (d *DFA) finish() (*DFA, error) {
	d.measure()
	if d.least[d.Start] == math.MaxInt32 {
		return nil, ErrEmpty
	}
	number, kept := make([]int32, len(d.accept)), int32(0)
	for s, least := range d.least {
		if number[s] = Dead; least < math.MaxInt32 {
			number[s] = kept
			kept++
		}
	}
	out := &DFA{Start: number[d.Start], class: d.class, classes: d.classes, next: make([]int32, 0, int(kept)*d.classes)}
	for s, n := range number {
		if n == Dead {
			continue
		}
		for _, to := range d.next[s*d.classes : (s+1)*d.classes] {
			if to != Dead {
				to = number[to]
			}
			out.next = append(out.next, to)
		}
		out.accept, out.least = append(out.accept, d.accept[s]), append(out.least, d.least[s])
	}
	out.Hub = out.hub()
	return out, nil
}

// measure finds the least distances to acceptance.
func (d *DFA) measure() {
	from, begins := d.reversed()
	d.least = make([]int32, len(d.accept))
	var queue []int32
	for s, accepts := range d.accept {
		if d.least[s] = math.MaxInt32; accepts {
			d.least[s] = 0
			queue = append(queue, int32(s))
		}
	}
	for at := 0; at < len(queue); at++ {
		s := queue[at]
		for _, before := range from[begins[s]:begins[s+1]] {
			if d.least[before] == math.MaxInt32 {
				d.least[before] = d.least[s] + 1
				queue = append(queue, before)
			}
		}
	}
}

// reversed lists the states before each: those of s are from[begins[s]:begins[s+1]].
func (d *DFA) reversed() (from, begins []int32) {
	begins = make([]int32, len(d.accept)+1)
	for _, to := range d.next {
		if to != Dead {
			begins[to+1]++
		}
	}
	for s := range d.accept {
		begins[s+1] += begins[s]
	}
	from, at := make([]int32, begins[len(d.accept)]), append([]int32(nil), begins...)
	for i, to := range d.next {
		if to != Dead {
			from[at[to]] = int32(i / d.classes)
			at[to]++
		}
	}
	return from, begins
}

// Explore makes the automaton of whatever states a step leads to; an alphabet has the bytes
// that lead anywhere.
func Explore[S comparable](b *Budget, start S, alphabet string, step func(S, byte) (S, bool), accepts func(S) bool) (*DFA, error) {
	numbers := map[S]int32{}
	return explore(b, start, alphabet, step, accepts, func(s S, next int32) (int32, bool) {
		n, known := numbers[s]
		if !known {
			n, numbers[s] = next, next
		}
		return n, known
	})
}

// explore asks number for a state's number: the one that it has, or the next one, which it has from now on.
func explore[S comparable](b *Budget, start S, alphabet string, step func(S, byte) (S, bool), accepts func(S) bool, number func(s S, next int32) (int32, bool)) (*DFA, error) {
	d := &DFA{classes: len(alphabet) + 1}
	if d.classes > 256 {
		return nil, fmt.Errorf("an alphabet of %d bytes", len(alphabet))
	}
	for i := range d.class {
		d.class[i] = uint8(len(alphabet))
	}
	for i := range len(alphabet) {
		d.class[alphabet[i]] = uint8(i)
	}
	states := []S{start}
	number(start, 0)
	for at := 0; at < len(states); at++ {
		if err := errors.Join(b.takeState(), b.takeWork(d.classes)); err != nil {
			return nil, err
		}
		s := states[at]
		d.accept = append(d.accept, accepts(s))
		for i := range len(alphabet) {
			to, ok := step(s, alphabet[i])
			if !ok {
				d.next = append(d.next, Dead)
				continue
			}
			n, known := number(to, int32(len(states)))
			if !known {
				states = append(states, to)
			}
			d.next = append(d.next, n)
		}
		d.next = append(d.next, Dead)
	}
	return d.finish()
}

// Literals accepts some texts, as they are.
func Literals(b *Budget, texts ...string) (*DFA, error) {
	d := &DFA{classes: 1}
	for _, text := range texts {
		if !d.tellBytes(text) {
			return nil, errors.New("texts with all bytes") // no UTF-8 has
		}
	}
	if _, err := d.addState(b); err != nil {
		return nil, err
	}
	for _, text := range texts {
		if err := d.addText(b, text); err != nil {
			return nil, err
		}
	}
	return d.finish()
}

// tellBytes gives each byte of a text a class of its own; 0 is that of bytes that are in no
// text. It is false if there are no more.
func (d *DFA) tellBytes(text string) bool {
	for i := range len(text) {
		if d.class[text[i]] != 0 {
			continue
		}
		if d.classes == 256 {
			return false
		}
		d.class[text[i]] = uint8(d.classes)
		d.classes++
	}
	return true
}

// addState adds a state that leads nowhere.
func (d *DFA) addState(b *Budget) (int32, error) {
	for range d.classes {
		d.next = append(d.next, Dead)
	}
	d.accept = append(d.accept, false)
	return int32(len(d.accept) - 1), b.takeState()
}

// addText adds the states of a text that no earlier one has, from state 0 on.
func (d *DFA) addText(b *Budget, text string) error {
	s := int32(0)
	for i := range len(text) {
		at := int(s)*d.classes + int(d.class[text[i]])
		if d.next[at] == Dead {
			to, err := d.addState(b)
			if err != nil {
				return err
			}
			d.next[at] = to
		}
		s = d.next[at]
	}
	d.accept[s] = true
	return nil
}

// pair is a state of two automata at once; the second may be Dead.
type pair struct{ a, b int32 }

// And accepts what both accept.
func And(budget *Budget, a, b *DFA) (*DFA, error) {
	return product(budget, a, b, func(p pair) bool { return p.b != Dead && a.accept[p.a] && b.accept[p.b] }, false)
}

// Without accepts what a accepts, and b does not.
func Without(budget *Budget, a, b *DFA) (*DFA, error) {
	return product(budget, a, b, func(p pair) bool { return a.accept[p.a] && (p.b == Dead || !b.accept[p.b]) }, true)
}

// mostPairs bounds the pairs of states that are numbered by a table; beyond them a map has those that are met.
const mostPairs = 1 << 20

// explorePairs is Explore for two automata that read the same bytes.
func explorePairs(budget *Budget, a, b *DFA, alphabet string, accepts func(pair) bool, withDead bool) (*DFA, error) {
	step := func(p pair, c byte) (pair, bool) {
		to := pair{a.Next(p.a, c), Dead}
		if p.b != Dead {
			to.b = b.Next(p.b, c)
		}
		return to, to.a != Dead && (withDead || to.b != Dead)
	}
	wide := len(b.accept) + 1 // and Dead
	if len(a.accept)*wide > mostPairs {
		return Explore(budget, pair{a.Start, b.Start}, alphabet, step, accepts)
	}
	at := func(p pair) int { return int(p.a)*wide + int(p.b) + 1 } // Dead is -1
	numbers := make([]int32, len(a.accept)*wide)                   // 0: not met
	return explore(budget, pair{a.Start, b.Start}, alphabet, step, accepts, func(p pair, next int32) (int32, bool) {
		n := &numbers[at(p)]
		if *n == 0 {
			*n = next + 1
			return next, false
		}
		return *n - 1, true
	})
}

func product(budget *Budget, a, b *DFA, accepts func(pair) bool, withDead bool) (*DFA, error) {
	var alphabet []byte // one byte for each pair of classes
	representative, seen := [256]byte{}, map[[2]uint8]byte{}
	for i := range 256 {
		c := [2]uint8{a.class[i], b.class[i]}
		first, ok := seen[c]
		if !ok {
			first = byte(i)
			seen[c], alphabet = first, append(alphabet, first)
		}
		representative[i] = first
	}
	if len(alphabet) == 256 {
		alphabet = alphabet[:255] // 0xff is in no UTF-8
	}
	d, err := explorePairs(budget, a, b, string(alphabet), accepts, withDead)
	if err != nil {
		return nil, err
	}
	classes := d.class
	for i := range d.class {
		d.class[i] = classes[representative[i]]
	}
	d.Hub = d.hub()
	return d, nil
}
