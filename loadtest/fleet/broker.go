package fleet

import (
	"path/filepath"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
)

// Broker is a Kafka broker's process, always with the same store and address.
type Broker struct {
	*Process

	t             *testing.T
	program, addr string
	store         string
}

// NewBroker starts a broker from the folder that Build returned.
func NewBroker(t *testing.T, programs string) *Broker {
	t.Helper()
	b := &Broker{t: t, program: filepath.Join(programs, "broker"), addr: testkit.FreeAddr(t), store: t.TempDir()}
	b.Start()
	return b
}

// Addr is HOST:PORT.
func (b *Broker) Addr() string { return b.addr }

// Start starts it, again after its end.
func (b *Broker) Start() {
	b.t.Helper()
	b.Process = Launch(b.t, "broker", b.program, "-listen", b.addr, "-data", b.store)
	b.Await(b.t, "ready")
}
