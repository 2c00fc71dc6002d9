//go:build unix

package bus

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/testkit"
)

// said is a log that may be written to and read at once.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// A stream whose server cannot write is named, once in the log and in readiness while it lasts; what others of the
// server take does not hide it, and the server's return ends it.
func TestStreamThatStoresNothing(t *testing.T) {
	r := newRig(t)
	log := &said{}
	c := r.connect(nil)
	defer c.Close()
	c.log = slog.New(slog.NewTextHandler(log, nil))
	for name, storage := range map[string]jetstream.StorageType{"FULL": jetstream.FileStorage, "MEMORY": jetstream.MemoryStorage} {
		if _, err := r.conn.js.CreateStream(r.ctx(), jetstream.StreamConfig{Name: name, Subjects: []string{"yard." + strings.ToLower(name) + ".>"}, Storage: storage}); err != nil {
			t.Fatal(err)
		}
	}
	lift := testkit.BoundFiles(t, 64<<10)
	storing, stop := context.WithCancel(r.ctx())
	var tasks sync.WaitGroup
	for _, subject := range []string{"yard.full.m.1", "yard.full.m.2", "yard.memory.m"} {
		tasks.Go(func() {
			for storing.Err() == nil {
				within, cancel := context.WithTimeout(storing, 10*time.Second)
				_, _ = c.StoreBytes(within, subject, make([]byte, 32<<10), nil) // in vain where files are full
				cancel()
			}
		})
	}
	defer tasks.Wait()
	defer stop()
	var unstored *UnstoredError
	testkit.Eventually(t, "it is not ready", func() bool { return errors.As(c.Ready(), &unstored) })
	if !slices.Equal(unstored.Streams, []string{"FULL"}) || !strings.Contains(unstored.Error(), "NATS stores nothing in FULL (no acknowledgement") || !strings.Contains(unstored.Error(), "make room, and start that server again") {
		t.Errorf("it says: %v", unstored)
	}
	if n := strings.Count(log.String(), "level=ERROR"); n != 1 || !strings.Contains(log.String(), "stream=FULL") {
		t.Errorf("%d errors: %s", n, log)
	}
	lift()
	testkit.Eventually(t, "it is ready again", func() bool { return c.Ready() == nil })
}

// Its bounds, a server that is away, and what one publish meets are no stream that stores nothing.
func TestStreamThatStores(t *testing.T) {
	r := newRig(t)
	now := time.Now()
	full := &jetstream.APIError{Code: 503, ErrorCode: codeStreamStoreFailed, Description: "maximum bytes exceeded"}
	refused := &jetstream.APIError{Code: 503, ErrorCode: codeStreamStoreFailed, Description: "no space left on device"}
	for _, tc := range []struct {
		name    string
		becomes []error // of a publish each second
		ready   bool
	}{
		{"one is lost", []error{ErrAckLost}, true},
		{"two are within a moment", []error{ErrAckLost, ErrAckLost}, true},
		{"one is taken between", []error{ErrAckLost, ErrAckLost, nil, ErrAckLost, ErrAckLost}, true},
		{"all are lost", []error{ErrAckLost, ErrAckLost, ErrAckLost}, false},
		{"all are refused", []error{refused, refused, refused}, false},
		{"it is at its bounds", []error{full, full, full, full}, true},
		{"one is taken at last", []error{refused, refused, refused, nil}, true},
	} {
		u := unstored{c: r.conn, of: map[string]*vain{}}
		for i, err := range tc.becomes {
			u.note("yard.token.m.1.r", err, now.Add(time.Duration(i)*time.Second))
		}
		u.tell()
		if err := u.ready(now); (err == nil) != tc.ready {
			t.Errorf("%s: %v", tc.name, err)
		}
		if err := u.ready(now.Add(time.Hour)); err != nil {
			t.Errorf("%s, an hour later: %v", tc.name, err)
		}
	}
}
