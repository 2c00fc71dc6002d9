package gate

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/policy/quarantine"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// said is what a host announces after so many looks.
func announced(id string, looks, messages int, took time.Duration) *pb.Member {
	n := float64(looks * messages)
	return &pb.Member{Id: id, Service: "expert", Stats: map[string]float64{
		members.HostMessages: n, members.HostRows: 4 * n, members.HostSeconds: n * took.Seconds(),
	}}
}

// A host that announces work of ten times the time is avoided, said so once, and
// forgotten when it has gone.
func TestSlowHosts(t *testing.T) {
	var log bytes.Buffer
	s := newSlowHosts(slog.New(slog.NewTextHandler(&log, nil)), telemetry.NewMetrics(prometheus.NewRegistry()).Hosts)
	others := []*pb.Member{{Id: "old", Service: "expert"}, {Id: "gate-1", Service: "gate", Stats: map[string]float64{members.HostSeconds: 1}}}
	at := s.began
	for look := range 6 {
		if s.now() != nil && look < 2 {
			t.Fatalf("judged after %d looks", look)
		}
		at = at.Add(members.Interval)
		s.look(at, append(others, announced("a", look, 40, time.Millisecond), announced("b", look, 20, 10*time.Millisecond)))
	}
	if got := s.now(); len(got) != 1 || got["b"] != quarantine.Avoided {
		t.Errorf("%v", got)
	}
	if n := s.count(); n["avoided"] != 1 || n["tried"] != 0 {
		t.Errorf("%v", n)
	}
	if lines := strings.Count(log.String(), "host=b"); lines != 1 || !strings.Contains(log.String(), "times_as_slow=9.99") {
		t.Errorf("the log says\n%s", log.String())
	}
	s.look(at.Add(members.Interval), others)
	if got := s.now(); got != nil {
		t.Errorf("%v, when it has gone", got)
	}
}

// A host whose device throttles is avoided from its own word on, and until it says that
// this is over.
func TestThrottledHosts(t *testing.T) {
	var log bytes.Buffer
	s := newSlowHosts(slog.New(slog.NewTextHandler(&log, nil)), telemetry.NewMetrics(prometheus.NewRegistry()).Hosts)
	at := s.began
	for look, throttled := range []float64{0, 1, 1, 0} {
		host := announced("a", look, 40, time.Millisecond)
		host.Stats[members.DeviceThrottled] = throttled
		at = at.Add(members.Interval)
		s.look(at, []*pb.Member{host, announced("b", look, 40, time.Millisecond)})
		if got := s.now()["a"]; (got == quarantine.Avoided) != (throttled > 0) {
			t.Errorf("look %d: %v", look, got)
		}
	}
	for _, want := range []string{"device throttles;", "throttles no more"} {
		if strings.Count(log.String(), want) != 1 {
			t.Errorf("the log says\n%s", log.String())
		}
	}
}
