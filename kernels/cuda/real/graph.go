//go:build cuda

package real

// #include <cuda.h>
import "C"

import (
	"errors"
	"runtime"
	"unsafe"

	"github.com/switchyard/switchyard/kernels/cuda"
)

// graph is launches that are ready to start.
type graph struct {
	d *driver
	g C.CUgraphExec
}

// Capture is of the thread alone that it locks: what others ask of the driver meanwhile is
// none of its business, and what this one asks that cannot be captured ends it.
func (s *stream) Capture(give func() error) (cuda.Graph, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := s.d.direct("cuStreamBeginCapture", func() C.CUresult {
		return C.cuStreamBeginCapture(s.c(), C.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
	})
	if err != nil {
		return nil, err
	}
	err = give()
	var of C.CUgraph
	ended := s.d.direct("cuStreamEndCapture", func() C.CUresult { return C.cuStreamEndCapture(s.c(), &of) })
	if of != nil {
		defer s.d.direct("cuGraphDestroy", func() C.CUresult { return C.cuGraphDestroy(of) }) //nolint:errcheck // what counts is made of it, or was said
	}
	if err == nil {
		err = ended
	}
	if err != nil {
		return nil, err
	}
	return s.instantiate(of)
}

// instantiate brings a graph to the device, so that its first run is like all others.
func (s *stream) instantiate(of C.CUgraph) (cuda.Graph, error) {
	g := &graph{d: s.d}
	err := s.d.direct("cuGraphInstantiate", func() C.CUresult { return C.cuGraphInstantiate(&g.g, of, 0) })
	if err != nil {
		return nil, err
	}
	err = s.d.direct("cuGraphUpload", func() C.CUresult { return C.cuGraphUpload(g.g, s.c()) })
	if err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

func (s *stream) Run(g cuda.Graph) error {
	of := g.(*graph) //nolint:errcheck // a driver's graphs are its own
	return s.d.direct("cuGraphLaunch", func() C.CUresult { return C.cuGraphLaunch(of.g, s.c()) })
}

func (s *stream) c() C.CUstream { return C.CUstream(unsafe.Pointer(s.s.C())) }

// Close destroys the graph; a run of it that is under way ends before.
func (g *graph) Close() error {
	return g.d.direct("cuGraphExecDestroy", func() C.CUresult { return C.cuGraphExecDestroy(g.g) })
}
