package device

import (
	"sync"

	"github.com/switchyard/switchyard/kernels/cpu"
)

// mostSpare are the spaces that are kept for later loads: of each load that runs at a time one, and of as many that wait.
const mostSpare = 2 * DefaultLoads

// spaces are the memory of experts that were given up, which later ones are packed into: what the system gives anew costs
// more time than packing. Spaces in use and spare ones together never take more than those in use have at most taken, so
// that a budget holds for both.
type spaces struct {
	mu    sync.Mutex
	spare []*cpu.Space
	kept  int64 // bytes of spare
	used  int64 // bytes of those in use
	most  int64 // used at most
}

// take is a space for matrices of so many bytes.
func (s *spaces) take(bytes int64) *cpu.Space {
	s.mu.Lock()
	defer s.mu.Unlock()
	space := s.fit(bytes)
	if space == nil {
		space = cpu.NewSpace(bytes)
	}
	s.used += space.Bytes()
	s.most = max(s.most, s.used)
	s.shrink()
	return space
}

// fit takes a spare space that others of the size have left, if there is one.
func (s *spaces) fit(bytes int64) *cpu.Space {
	for i, space := range s.spare {
		if space.Fits(bytes) {
			s.spare = append(s.spare[:i], s.spare[i+1:]...)
			s.kept -= space.Bytes()
			space.Reset()
			return space
		}
	}
	return nil
}

// give takes back a space whose matrices nobody uses.
func (s *spaces) give(space *cpu.Space) {
	if space == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= space.Bytes()
	s.spare = append(s.spare, space)
	s.kept += space.Bytes()
	s.shrink()
}

// shrink leaves to the collector what is too much, the oldest first.
func (s *spaces) shrink() {
	for len(s.spare) > mostSpare || len(s.spare) > 0 && s.used+s.kept > s.most {
		s.kept -= s.spare[0].Bytes()
		s.spare = append(s.spare[:0], s.spare[1:]...)
	}
}
