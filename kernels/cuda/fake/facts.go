package fake

import (
	"errors"
	"maps"
	"sync"

	"github.com/switchyard/switchyard/kernels/cuda"
)

// errUnsupported is what a reader says for a figure that the GPU does not have.
var errUnsupported = errors.New("not supported")

// Facts are what a GPU says of itself, as a test wants it. They are safe for
// concurrent use.
type Facts struct {
	mu     sync.Mutex
	values map[cuda.FactName]float64
	xids   []uint64
	err    error
	reads  int
}

var _ cuda.Reader = (*Facts)(nil)

// NewFacts returns those of a GPU that says everything and has nothing to do.
func NewFacts() *Facts {
	f := &Facts{values: map[cuda.FactName]float64{}}
	for _, name := range []cuda.FactName{
		cuda.MemoryUsed, cuda.MemoryFree, cuda.Busy, cuda.MemoryBusy, cuda.Power, cuda.Energy, cuda.Temperature, cuda.Slowed,
		cuda.Corrected, cuda.Uncorrected, cuda.PCIeIn, cuda.PCIeOut,
	} {
		f.values[name] = 0
	}
	return f
}

// Set says a figure from now on.
func (f *Facts) Set(name cuda.FactName, v float64) { f.locked(func() { f.values[name] = v }) }

// Without leaves figures out, as a GPU that does not support them.
func (f *Facts) Without(names ...cuda.FactName) {
	f.locked(func() {
		for _, name := range names {
			delete(f.values, name)
		}
	})
}

// Throttle slows the GPU for these reasons; 0 ends that.
func (f *Facts) Throttle(r cuda.Reasons) { f.Set(cuda.Slowed, float64(r)) }

// Note lets the driver note an error.
func (f *Facts) Note(xid uint64) { f.locked(func() { f.xids = append(f.xids, xid) }) }

// Fail lets every read fail; nil ends that.
func (f *Facts) Fail(err error) { f.locked(func() { f.err = err }) }

// Lose takes the GPU off its bus.
func (f *Facts) Lose() { f.Fail(&cuda.LostError{Why: "the test took it off its bus"}) }

// Reads returns how often it was read.
func (f *Facts) Reads() (n int) {
	f.locked(func() { n = f.reads })
	return n
}

// Read is for who watches.
func (f *Facts) Read() (out cuda.Facts, err error) {
	f.locked(func() {
		f.reads++
		if err = f.err; err != nil {
			return
		}
		out = cuda.Facts{Values: maps.Clone(f.values), Xids: f.xids}
		f.xids, err = nil, out.Fatal()
	})
	return out, err
}

// Energy is for who measures. Each look finds that some has been used.
func (f *Facts) Energy() (joules float64, err error) {
	f.locked(func() {
		if _, says := f.values[cuda.Energy]; !says {
			err = errUnsupported
			return
		}
		joules, err = f.values[cuda.Energy], f.err
		f.values[cuda.Energy]++
	})
	return joules, err
}

func (f *Facts) locked(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}
