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
