// Package testloads is the sink of load samples that tests look into.
package testloads

import (
	"sync"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Sink keeps samples.
type Sink struct {
	mu  sync.Mutex
	all []*pb.LoadSample
}

// Send keeps one.
func (s *Sink) Send(l *pb.LoadSample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, l)
}

// Take returns those that have come since the last call.
func (s *Sink) Take() []*pb.LoadSample {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.all
	s.all = nil
	return all
}
