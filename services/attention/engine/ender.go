package engine

import (
	"errors"
	"log/slog"
	"sync"

	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
)

// ender ends the deliveries of sequences whose logs have ended.
type ender struct {
	log   *slog.Logger
	tasks *sync.WaitGroup
}

// finished settles a sequence whose terminal record is in the log.
func (t *ender) finished(s *Sequence) {
	if s.fault != nil {
		t.tasks.Go(func() { t.giveUp(s) })
		return
	}
	if err := s.delivery.Ack(); err != nil {
		t.log.Debug("acknowledging a sequence", "request", s.seq.RequestId, "error", err)
	}
}

// giveUp leaves a sequence to the dead letters whose steps panic.
func (t *ender) giveUp(s *Sequence) {
	if err := s.delivery.End(bus.GiveUp(bus.Panicked, s.fault)); err != nil {
		t.log.Debug("giving up a sequence", "request", s.seq.RequestId, "error", err)
	}
}

// lost settles a sequence whose log is not ours to write any more. Another
// owner has the work, or its end is stored.
func (t *ender) lost(s *Sequence, err error) {
	if errors.Is(err, tokenlog.ErrFinished) {
		t.finished(s)
		return
	}
	s.delivery.Drop()
}
