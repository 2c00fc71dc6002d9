package fake

import (
	"sync"

	"github.com/switchyard/switchyard/kernels/cuda"
)

// copies is what Faults call all copies.
const copies = ""

// Faults are what goes wrong on a device. They are safe for concurrent use.
type Faults struct {
	d *Device // its mu guards the rest

	taken   int64 // bytes of others
	noAlloc bool
	image   int
	refused map[string]refusal
	breaks  map[string]int
	held    map[string]bool
	waiting int // streams, at what is held
	passes  int // of them may go on
}

type refusal struct{ code, times int }

// Take makes another process take so many bytes of the device; negative ones free them.
func (f *Faults) Take(bytes int64) { f.set(func() { f.taken += bytes }) }

// NoAlloc lets all allocations fail, whatever is free.
func (f *Faults) NoAlloc() { f.set(func() { f.noAlloc = true }) }

// BadImage lets loads of images fail with a code.
func (f *Faults) BadImage(code int) { f.set(func() { f.image = code }) }

// Refuse lets the next launches of a kernel fail with a code: they do not begin. So it does calls that
// make graphs or run them: cuStreamBeginCapture, cuStreamEndCapture, cuGraphInstantiate, cuGraphLaunch.
func (f *Faults) Refuse(kernel string, code, times int) {
	f.set(func() {
		if f.refused == nil {
			f.refused = map[string]refusal{}
		}
		f.refused[kernel] = refusal{code, times}
	})
}

// Break lets the next run of a kernel end with a code, and the context with it.
func (f *Faults) Break(kernel string, code int) {
	f.set(func() {
		if f.breaks == nil {
			f.breaks = map[string]int{}
		}
		f.breaks[kernel] = code
	})
}

// Lose ends the context at once, as a device that falls off the bus does.
func (f *Faults) Lose(code int) { f.d.lose(fault("the driver", code)) }

// HoldCopies makes streams wait at copies, until let is called.
func (f *Faults) HoldCopies() (let func()) { return f.hold(copies) }

// HoldKernel makes streams wait at a kernel, until let is called.
func (f *Faults) HoldKernel(name string) (let func()) { return f.hold(name) }

func (f *Faults) hold(what string) (let func()) {
	f.set(func() {
		if f.held == nil {
			f.held = map[string]bool{}
		}
		f.held[what] = true
	})
	return sync.OnceFunc(func() { f.set(func() { delete(f.held, what) }) })
}

func (f *Faults) set(do func()) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	do()
	f.d.changed.Broadcast()
}

// await waits while something is held; the end of the context ends it.
func (f *Faults) await(what string) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.waiting++
	for f.held[what] && f.passes == 0 && f.d.lost == nil {
		f.d.changed.Wait()
	}
	if f.held[what] {
		f.passes = max(0, f.passes-1)
	}
	f.waiting--
}

// Pass lets one stream go on that waits, or the next one that comes.
func (f *Faults) Pass() { f.set(func() { f.passes++ }) }

// Waiting returns how many streams wait at what is held.
func (f *Faults) Waiting() int {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	return f.waiting
}

// launch returns the code with which a launch is refused; 0 if it is not.
func (f *Faults) launch(kernel string) int {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	r, ok := f.refused[kernel]
	if !ok || r.times == 0 {
		return 0
	}
	r.times--
	f.refused[kernel] = r
	return r.code
}

// within returns the code with which a kernel ends; 0 if it ends well.
func (f *Faults) within(kernel string) int {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	code := f.breaks[kernel]
	delete(f.breaks, kernel)
	return code
}

var _ cuda.Stream = (*stream)(nil)
