package testdeployment

import (
	"sync"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// LoadSink keeps samples.
type LoadSink struct {
	mu  sync.Mutex
	all []*pb.LoadSample
}

// Send keeps one.
func (s *LoadSink) Send(l *pb.LoadSample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, l)
}

// Take returns those that have come since the last call.
func (s *LoadSink) Take() []*pb.LoadSample {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.all
	s.all = nil
	return all
}
