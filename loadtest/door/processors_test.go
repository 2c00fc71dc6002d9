package door

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// processors is the time that processes have had of processors, in seconds.
type processors struct{ up, gateway, client float64 }

// processors are those of the pipeline, of its gateway, and of this process, which is the client.
func (y *yard) processors(t *testing.T) processors {
	t.Helper()
	return processors{processorsOf(t, y.up.PID()), processorsOf(t, y.gateway.PID()), processorsOf(t, os.Getpid())}
}

// add adds what was spent between two looks.
func (p *processors) add(before, after processors) {
	p.up += after.up - before.up
	p.gateway += after.gateway - before.gateway
	p.client += after.client - before.client
}

// over is how much that is of each token.
func (p *processors) over(tokens int) string {
	of := func(seconds float64) float64 { return seconds * 1e6 / float64(tokens) }
	return fmt.Sprintf("up %.0f µs, gateway %.0f µs, client %.0f µs", of(p.up), of(p.gateway), of(p.client))
}

const (
	// fieldsBefore are those of /proc/PID/stat behind the program's name, before the time that a
	// process has had itself and in the system, which are in hundredths of a second.
	fieldsBefore, hundredths = 11, 100
)

// processorsOf is a process's time.
func processorsOf(t *testing.T, pid int) (seconds float64) {
	t.Helper()
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Skipf("processors' time is known on Linux alone: %v", err)
	}
	fields := strings.Fields(string(line[strings.LastIndexByte(string(line), ')')+1:]))
	for _, field := range fields[fieldsBefore : fieldsBefore+2] {
		ticks, err := strconv.ParseFloat(field, 64)
		if err != nil {
			t.Fatal(err)
		}
		seconds += ticks / hundredths
	}
	return seconds
}
