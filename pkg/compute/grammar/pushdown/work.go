package pushdown

import "errors"

// Work is what may be done for one answer; what is done is taken from Left.
type Work struct {
	Left int // about as many nodes of a vocabulary's trie as are looked at
	// Hurried work does not wait for what others do with the grammar.
	Hurried bool
}

// ErrSpent says that there was more to do. What was found is kept: another try begins there.
var ErrSpent = errors.New("there is more to do than may be done at once")

// What is taken for a step from place to place, and for what is made and kept.
const (
	ofStep = 16
	ofKept = 128
)

// PerToken returns what a token may take: each node of the trie many times, and thousands of ways of reading the same text.
func (v *Vocabulary) PerToken() *Work { return &Work{Left: 1<<22 + 64*len(v.nodes)} }

// do does something within some work. What panics with ErrSpent on the way has left nothing half done.
func (f *Follower) do(w *Work, what func()) (err error) {
	if !w.Hurried {
		f.mu.Lock()
	} else if !f.mu.TryLock() {
		return ErrSpent
	}
	defer f.mu.Unlock()
	f.forgetMuch()
	f.left = w.Left
	defer func() {
		w.Left = f.left
		if v := recover(); v != nil && v != any(ErrSpent) {
			panic(v)
		} else if v != nil {
			err = ErrSpent
		}
	}()
	what()
	return nil
}

// take takes from the work that is left.
func (f *Follower) take(n int) {
	if f.left -= n; f.left < 0 {
		panic(ErrSpent)
	}
}

// forgetMuch begins anew where much is kept. What stands in the middle of something stays as it is.
func (f *Follower) forgetMuch() {
	kept := f.Bytes()
	if kept > maxMasks || kept > fairShare && f.vocab.kept.Load() > MaxBytes || len(f.states)+len(f.stacks)+len(f.joint) > maxStates {
		f.forgetStates()
	}
}
