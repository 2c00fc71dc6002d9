package bus

import (
	"bufio"
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/switchyard/switchyard/schemas"
)

// mute is a server of a cluster that answers pings, unless it hangs, and nothing else.
type mute struct {
	listener net.Listener

	mu    sync.Mutex
	hangs bool
	sent  []string // subjects
}

func newMute(t *testing.T) *mute {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m, ended := &mute{listener: l}, make(chan struct{})
	go func() { defer close(ended); m.serve() }()
	t.Cleanup(func() { _ = l.Close(); <-ended })
	return m
}

func (m *mute) hang(hangs bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hangs = hangs
}

// serve serves one client, until that has gone.
func (m *mute) serve() {
	conn, err := m.listener.Accept()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, `INFO {"server_id":"mute","max_payload":1048576,"headers":true,"cluster":"c"}`+"\r\n")
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		_, _ = io.WriteString(conn, m.answer(lines.Text()))
	}
}

func (m *mute) answer(line string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch verb := strings.Fields(line + " ?"); {
	case verb[0] == "PING" && !m.hangs:
		return "PONG\r\n"
	case verb[0] == "PUB" || verb[0] == "HPUB":
		m.sent = append(m.sent, verb[1])
	}
	return ""
}

func (m *mute) got(subject string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Contains(m.sent, subject)
}

// A stream that nobody answers for is deleted, unless the server itself hangs: that
// would delete it when it goes on, and with it what was made anew meanwhile.
func TestAbandoned(t *testing.T) {
	spec := names(schemas.HopsUnacked).Hidden()
	for name, hangs := range map[string]bool{"the stream's server is gone": false, "this server hangs": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMute(t)
			c := inCluster(t, "nats://"+m.listener.Addr().String())
			c.noteSilence(spec, time.Now().Add(-abandonedAfter))
			m.hang(hangs)
			ctx, cancel := context.WithTimeout(t.Context(), lastLook)
			defer cancel()
			if _, err := c.look(ctx, spec.Name, spec.Memory); err == nil {
				t.Error("somebody answered")
			}
			m.hang(false)
			if err := c.nc.Flush(); err != nil { // then all that was sent is there
				t.Fatal(err)
			}
			if deleted := m.got("$JS.API.STREAM.DELETE." + spec.Name); deleted == hangs {
				t.Errorf("deleted %v", deleted)
			}
		})
	}
}
