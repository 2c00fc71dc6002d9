package engine

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/forward"
)

// What is said of a step that the device failed are its rows, of all its sequences.
func TestFailedStepSaysItsRows(t *testing.T) {
	b := newBench(t, 1, 8)
	var said bytes.Buffer
	b.machine.log = slog.New(slog.NewTextHandler(&said, nil))
	b.add(b.request("a", 3, 2))
	b.add(b.request("b", 2, 2))
	b.start()
	b.land(0, 0, &forward.DeviceError{Err: errors.New("the GPU is not well")})
	if !strings.Contains(said.String(), "rows=5 ") {
		t.Errorf("said %s", said.String())
	}
}
