package fake

import (
	"bytes"
	"runtime"
	"slices"

	"github.com/switchyard/switchyard/kernels/cuda"
)

// capture is launches that a stream keeps and does not begin.
type capture struct {
	by       []byte // the goroutine
	launches []cuda.Launch
	spoilt   bool
}

type graph struct {
	s        *stream
	launches []cuda.Launch
	running  int
	closed   bool
}

type graphs struct{ open, captured, run int }

// Graphs returns how many graphs are open, how many were captured, and how many runs began.
func (d *Device) Graphs() (open, captured, run int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.graphs.open, d.graphs.captured, d.graphs.run
}

// Capture keeps what is launched until give returns. Whatever else the same goroutine asks of the
// device meanwhile, but for free memory, is refused and spoils it, as on a real one.
func (s *stream) Capture(give func() error) (cuda.Graph, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	err := give()
	g, ended := s.end()
	if err == nil {
		err = ended
	}
	if err == nil {
		err = s.instantiate()
	}
	if err != nil {
		return nil, err
	}
	return g, nil
}

func (s *stream) begin() error {
	if code := s.d.Faults.launch("cuStreamBeginCapture"); code != 0 {
		return fault("cuStreamBeginCapture", code)
	}
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if err := s.d.ready("cuStreamBeginCapture"); err != nil {
		return err
	}
	s.capture = &capture{by: goroutine()}
	return nil
}

func (s *stream) end() (*graph, error) {
	code := s.d.Faults.launch("cuStreamEndCapture")
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	was := s.capture
	s.capture = nil
	switch {
	case s.d.lost != nil:
		return nil, s.d.lost
	case was.spoilt:
		return nil, fault("cuStreamEndCapture", cuda.CodeCaptureInvalidated)
	case code != 0:
		return nil, fault("cuStreamEndCapture", code)
	}
	return &graph{s: s, launches: was.launches}, nil
}

// instantiate makes a graph count.
func (s *stream) instantiate() error {
	if code := s.d.Faults.launch("cuGraphInstantiate"); code != 0 {
		return fault("cuGraphInstantiate", code)
	}
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	s.d.graphs.open++
	s.d.graphs.captured++
	return s.d.lost
}

func (s *stream) captured(l *cuda.Launch) bool {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if s.capture == nil {
		return false
	}
	s.capture.launches = append(s.capture.launches, *l)
	return true
}

// Run gives the stream all launches of a graph of its own.
func (s *stream) Run(of cuda.Graph) error {
	g := of.(*graph) //nolint:errcheck // a driver's graphs are its own
	if code := s.d.Faults.launch("cuGraphLaunch"); code != 0 {
		return fault("cuGraphLaunch", code)
	}
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if g.s != s || g.closed {
		return fault("cuGraphLaunch", cuda.CodeInvalidValue)
	}
	err := s.put("cuGraphLaunch", func() {
		for i := range g.launches {
			s.launched(&g.launches[i])
		}
		s.d.mu.Lock()
		defer s.d.mu.Unlock()
		g.running--
	})
	if err == nil {
		g.running++
		s.d.graphs.run++
	}
	return err
}

func (g *graph) Close() error {
	d := g.s.d
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case g.closed:
		return fault("cuGraphExecDestroy", cuda.CodeInvalidValue)
	case g.running > 0:
		d.loseLocked(fault("a graph that is closed while it runs", cuda.CodeIllegalAddress))
	}
	if err := d.ready("cuGraphExecDestroy"); err != nil {
		return err
	}
	g.closed = true
	d.graphs.open--
	return nil
}

// ready says what is wrong with a call of the driver: a lost device, or a capture of the same
// goroutine, which that ends.
func (d *Device) ready(call string) error {
	for s := range d.streams {
		if s.capture != nil && bytes.Equal(s.capture.by, goroutine()) {
			s.capture.spoilt = true
			return fault(call, cuda.CodeCaptureUnsupported)
		}
	}
	return d.lost
}

// goroutine tells goroutines apart, as a driver does threads.
func goroutine() []byte {
	trace := make([]byte, 64)
	trace = trace[:runtime.Stack(trace, false)]
	return slices.Clone(trace[:bytes.IndexByte(trace, '[')])
}
