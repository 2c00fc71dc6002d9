package device

import (
	"sync"

	"github.com/switchyard/switchyard/kernels/cpu"
)

// mostSpare are the spaces that are kept for later loads: of each load that runs at a time one, and of as many that wait.
const mostSpare = 2 * DefaultLoads

// spaces are the memory of experts that were given up, which later ones are packed into: what the system gives anew costs
// more time than packing. Experts in use, those beside included, and spare spaces together never take more than those in
// use have at most taken, so that a budget of a store, in whatever unit, holds for both.
type spaces struct {
	fresh func(bytes int64) *cpu.Space

	mu    sync.Mutex
	spare []*cpu.Space
	kept  int64 // bytes of spare
	used  int64 // bytes of experts in use
	most  int64 // used at most
}

// newSpaces have the system give new memory to pieces of run.
func newSpaces(run func(n int, f func(i int))) *spaces {
	return &spaces{fresh: func(bytes int64) *cpu.Space {
		s := cpu.NewSpace(bytes)
		s.Populate(run)
		return s
	}}
}

// take returns a space for an expert of so many bytes. New memory takes long, so nobody waits for the lock meanwhile.
func (s *spaces) take(bytes int64) *cpu.Space {
	if space := s.use(bytes, true); space != nil {
		space.Reset()
		return space
	}
	return s.fresh(bytes)
}

// use counts an expert before its memory is there, and returns a spare space for it, if one is wanted and there.
func (s *spaces) use(bytes int64, again bool) (space *cpu.Space) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if again {
		space = s.fit(bytes)
	}
	s.used += bytes
	s.most = max(s.most, s.used)
	s.shrink()
	return space
}

// fit takes a spare space that others of the size have left, if there is one.
func (s *spaces) fit(bytes int64) *cpu.Space {
	for i, space := range s.spare {
		if space.Bytes() == bytes {
			s.spare = append(s.spare[:i], s.spare[i+1:]...)
			s.kept -= bytes
			return space
		}
	}
	return nil
}

// give takes back an expert's bytes, and its space, which nothing computes with any more; nil: it has none.
func (s *spaces) give(bytes int64, space *cpu.Space) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= bytes
	if space != nil {
		s.spare = append(s.spare, space)
		s.kept += space.Bytes()
	}
	s.shrink()
}

// shrink leaves to the collector what is too much, the oldest first.
func (s *spaces) shrink() {
	for len(s.spare) > mostSpare || len(s.spare) > 0 && s.used+s.kept > s.most {
		s.kept -= s.spare[0].Bytes()
		s.spare = append(s.spare[:0], s.spare[1:]...)
	}
}
