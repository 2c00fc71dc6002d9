package fake

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/switchyard/switchyard/kernels/cuda"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stage is a device with one stream, one event, and memory for ten numbers.
type stage struct {
	*Device
	s  cuda.Stream
	e  cuda.Event
	at cuda.Ptr
	h  []byte
}

func newStage(t *testing.T) *stage {
	t.Helper()
	d := New(Settings{Kernels: map[string]Kernel{
		"double": func(m *Memory, l *cuda.Launch) { times(View[float32](m, cuda.Ptr(l.Args[0]), 10), 2) },
		"astray": func(m *Memory, l *cuda.Launch) { View[float32](m, cuda.Ptr(l.Args[0]), 11)[10] = 1 },
	}})
	t.Cleanup(func() { _ = d.Close() }) // says only that it is closed
	g := &stage{Device: d}
	var errs [4]error
	g.s, errs[0] = d.NewStream()
	g.e, errs[1] = d.NewEvent()
	g.at, errs[2] = d.Alloc(40)
	g.h, errs[3] = d.Pin(40)
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *stage) launch(kernel string) error {
	return g.s.Launch(&cuda.Launch{Kernel: kernelOf(kernel), Args: []uint64{uint64(g.at)}})
}

func kernelOf(name string) cuda.Kernel { return kernel(name) }

// A stream does things behind its caller, in order, and an event tells when.
func TestOrder(t *testing.T) {
	g := newStage(t)
	let := g.Faults.HoldCopies()
	g.h[3] = 0x40 // 2
	err := errors.Join(g.s.CopyIn(g.at, g.h), g.launch("double"), g.launch("double"), g.s.CopyOut(g.h, g.at), g.s.Record(g.e))
	if err != nil || g.h[3] != 0x40 {
		t.Fatal(err)
	}
	let()
	if err := g.e.Wait(); err != nil {
		t.Fatal(err)
	}
	if g.h[3] != 0x41 || g.h[2] != 0 { // 8
		t.Errorf("% x", g.h[:4])
	}
}

// What is wrong on a device shows at the event, and in every call from then on; what
// is wrong with a call shows at once and costs nothing else.
func TestWrong(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(g *stage) error // what the call says
		code int
		lost bool
	}{
		{"outside of memory", func(g *stage) error { return g.launch("astray") }, cuda.CodeIllegalAddress, true},
		{"freed memory", func(g *stage) error { return errors.Join(g.Release(g.at), g.launch("double")) }, cuda.CodeIllegalAddress, true},
		{"too much copied", func(g *stage) error { return g.s.CopyIn(g.at+8, g.h) }, cuda.CodeIllegalAddress, true},
		{"not pinned", func(g *stage) error { return g.s.CopyIn(g.at, make([]byte, 4)) }, cuda.CodeInvalidValue, false},
		{"freed twice", func(g *stage) error { return errors.Join(g.Release(g.at), g.Release(g.at)) }, cuda.CodeInvalidValue, false},
		{"unpinned twice", func(g *stage) error { return errors.Join(g.Unpin(g.h), g.Unpin(g.h)) }, cuda.CodeInvalidValue, false},
		{"more memory than there is", func(g *stage) error { _, err := g.Alloc(1 << 40); return err }, cuda.CodeOutOfMemory, false},
		{"lost", func(g *stage) error { g.Faults.Lose(cuda.CodeECC); return nil }, cuda.CodeECC, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newStage(t)
			err := tt.do(g)
			if tt.lost {
				if err != nil {
					t.Fatal(err)
				}
				if err = g.s.Record(g.e); err == nil {
					err = g.e.Wait()
				}
			}
			var e *cuda.Error
			if !errors.As(err, &e) || e.Code != tt.code {
				t.Fatalf("%v", err)
			}
			if _, err := g.Free(); (err != nil) != tt.lost {
				t.Errorf("the next call: %v", err)
			}
		})
	}
}

// A capture keeps launches; what it cannot keep is refused and ends it. Whatever goes wrong, the
// stream works on, and nothing is left.
func TestGraphs(t *testing.T) {
	twice := func(g *stage) error { return errors.Join(g.launch("double"), g.launch("double")) }
	alone := func(do func(g *stage) error) func(*stage) error {
		return func(g *stage) error {
			_ = do(g) // the end of the capture says so, too
			return nil
		}
	}
	for _, tt := range []struct {
		name  string
		fault func(*Faults)
		give  func(g *stage) error
		code  int
	}{
		{"all well", nil, twice, 0},
		{"free memory asked for", nil, func(g *stage) error { _, err := g.Free(); return errors.Join(err, twice(g)) }, 0},
		{"does not begin", func(f *Faults) { f.Refuse("cuStreamBeginCapture", 801, 1) }, twice, 801},
		{"launch refused", func(f *Faults) { f.Refuse("double", cuda.CodeInvalidValue, 1) }, twice, cuda.CodeInvalidValue},
		{"does not end", func(f *Faults) { f.Refuse("cuStreamEndCapture", cuda.CodeCaptureInvalidated, 1) }, twice, cuda.CodeCaptureInvalidated},
		{"no memory", func(f *Faults) { f.Refuse("cuGraphInstantiate", cuda.CodeOutOfMemory, 1) }, twice, cuda.CodeOutOfMemory},
		{"allocates", nil, func(g *stage) error { _, err := g.Alloc(8); return err }, cuda.CodeCaptureUnsupported},
		{"pins", nil, func(g *stage) error { _, err := g.Pin(8); return err }, cuda.CodeCaptureUnsupported},
		{"frees", nil, func(g *stage) error { return g.Release(g.at) }, cuda.CodeCaptureUnsupported},
		{"waits", nil, func(g *stage) error { return g.e.Wait() }, cuda.CodeCaptureUnsupported},
		{"records", nil, func(g *stage) error { return g.s.Record(g.e) }, cuda.CodeCaptureUnsupported},
		{"copies", nil, func(g *stage) error { return g.s.CopyIn(g.at, g.h) }, cuda.CodeCaptureUnsupported},
		{"copies unseen", nil, alone(func(g *stage) error { return g.s.CopyIn(g.at, g.h) }), cuda.CodeCaptureInvalidated},
		{"begins in itself", nil, alone(func(g *stage) error { _, err := g.s.Capture(func() error { return nil }); return err }), cuda.CodeCaptureInvalidated},
		{"another's wait", nil, func(g *stage) error {
			waited := make(chan error)
			go func() { waited <- g.e.Wait() }()
			return errors.Join(<-waited, twice(g))
		}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newStage(t)
			if tt.fault != nil {
				tt.fault(g.Faults)
			}
			of, err := g.s.Capture(func() error { return tt.give(g) })
			var e *cuda.Error
			if (err != nil) != (tt.code != 0) || err != nil && (!errors.As(err, &e) || e.Code != tt.code) {
				t.Fatalf("%v, want code %d", err, tt.code)
			}
			g.h[3] = 0x40 // 2
			want := byte(0x40)
			err = errors.Join(g.s.CopyIn(g.at, g.h), g.launch("double"))
			if of != nil {
				want = 0x41 // 16
				err = errors.Join(err, g.s.Run(of))
			}
			if err = errors.Join(err, g.s.CopyOut(g.h, g.at), g.s.Record(g.e), g.e.Wait()); err != nil || g.h[3] != want {
				t.Errorf("%x, want %x: %v", g.h[3], want, err)
			}
			if of != nil {
				if err := of.Close(); err != nil || of.Close() == nil || g.s.Run(of) == nil {
					t.Errorf("closed: %v", err)
				}
			}
			if open, _, _ := g.Graphs(); open != 0 {
				t.Errorf("%d graphs are open", open)
			}
		})
	}
}

// What goes wrong in a run does as it would alone.
func TestGraphFaults(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault func(g *stage, of cuda.Graph)
		run   int // the code that it answers
		lost  bool
	}{
		{"refused", func(g *stage, _ cuda.Graph) { g.Faults.Refuse("cuGraphLaunch", cuda.CodeLaunchOutOfMemory, 1) }, cuda.CodeLaunchOutOfMemory, false},
		{"a kernel fails", func(g *stage, _ cuda.Graph) { g.Faults.Break("double", cuda.CodeLaunchFailed) }, 0, true},
		{"lost before", func(g *stage, _ cuda.Graph) { g.Faults.Lose(cuda.CodeECC) }, cuda.CodeECC, true},
		{"closed under way", func(g *stage, of cuda.Graph) {
			let := g.Faults.HoldKernel("double")
			_ = errors.Join(g.s.Run(of), of.Close()) // the test looks what came of it
			let()
		}, cuda.CodeIllegalAddress, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newStage(t)
			of, err := g.s.Capture(func() error { return g.launch("double") })
			if err != nil {
				t.Fatal(err)
			}
			tt.fault(g, of)
			err = g.s.Run(of)
			var e *cuda.Error
			if (err != nil) != (tt.run != 0) || err != nil && (!errors.As(err, &e) || e.Code != tt.run) {
				t.Errorf("%v, want code %d", err, tt.run)
			}
			if err := errors.Join(g.s.Record(g.e), g.e.Wait()); (err != nil) != tt.lost {
				t.Errorf("then %v", err)
			}
		})
	}
}
