package engine

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/process/gpus"
)

// mostFailures is how many steps in a row a device may fail before its replica leaves.
const mostFailures = 5

// machine is the device that computes steps, as far as it fails.
type machine struct {
	log      *slog.Logger
	failures int   // in a row
	broken   error // why it is not used any more
}

// judge reports whether the device failed with a step. Its sequences stay as they were: their
// rows are computed again, here or, when the device is lost or fails all the time, elsewhere.
func (m *machine) judge(mb *microbatch) (failed bool) {
	var err *forward.DeviceError
	switch {
	case errors.As(mb.err, &err):
		m.failed(err, mb.rows)
		return true
	case mb.err == nil:
		m.failures = 0
	}
	return false
}

func (m *machine) failed(err *forward.DeviceError, rows int) {
	m.failures++
	m.log.Warn("the device failed with a step; its rows are computed again", "rows", rows, "error", err)
	switch {
	case m.broken != nil:
	case err.Lost:
		m.broken = &gpus.Error{Err: err}
	case m.failures == mostFailures:
		m.broken = &gpus.Error{Err: fmt.Errorf("%d steps in a row were not computed: %w", m.failures, err)}
	}
}

// lost ends stepping, whether or not a step is under way that sees it.
func (m *machine) lost(why error, sequences int) {
	if m.broken == nil {
		m.log.Warn("the device is lost; its sequences go to other replicas", "sequences", sequences, "error", why)
		m.broken = &gpus.Error{Err: why}
	}
}
