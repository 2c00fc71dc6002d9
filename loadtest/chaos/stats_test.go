package chaos

import (
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// stats are what the members tell about themselves, the dead ones too: their
// last word counts.
type stats struct {
	mu      sync.Mutex
	members map[string]map[string]float64
}

// listenStats follows the members' keys, as any client could.
func listenStats(t *testing.T, nc *nats.Conn) *stats {
	s := &stats{members: map[string]map[string]float64{}}
	names := schemas.Streams{Subjects: schemas.NewSubjects(schemas.DefaultPrefix, "demo")}
	_, err := nc.Subscribe("$KV."+names.Bucket("members")+".*", func(m *nats.Msg) {
		member := &pb.Member{}
		if proto.Unmarshal(m.Data, member) != nil || member.Id == "" {
			return // a deletion
		}
		s.mu.Lock()
		s.members[member.Id] = member.Stats
		s.mu.Unlock()
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// counters of all members together.
type counters struct{ reissues, redeliveries, takeovers float64 }

func (c counters) minus(o counters) counters {
	return counters{c.reissues - o.reissues, c.redeliveries - o.redeliveries, c.takeovers - o.takeovers}
}

func (s *stats) total() (c counters) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.members {
		c.reissues += m["reissues_total"]
		c.redeliveries += m["redeliveries_total"]
		c.takeovers += m["shard_takeovers_total"]
	}
	return c
}

// told is longer than the members' pause between two words, so that their
// counters are up to date after it.
const told = 600 * time.Millisecond

// since is what was counted since before; it waits until everybody has told.
func (s *stats) since(before counters) counters {
	time.Sleep(told)
	return s.total().minus(before)
}
