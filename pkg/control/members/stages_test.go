package members

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/transcript"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// TestStages replays who is here, and what which replica tells of that.
func TestStages(t *testing.T) {
	transcript.Run(t, "testdata/*.txt", func(testing.TB) transcript.Machine {
		m := newMachine()
		return m.handle
	})
}

type machine struct {
	now     time.Time
	members []*pb.Member
	watches map[string]*StageWatch
	hung    []*pb.Member // looked at by none, and looking at none
}

func newMachine() *machine {
	return &machine{now: time.Unix(1000, 0), watches: map[string]*StageWatch{}}
}

func (m *machine) handle(t testing.TB, e *transcript.Event) []string {
	switch e.Name {
	case "here": // ids; the service is what they begin with
		for _, id := range e.Args {
			service, _, _ := strings.Cut(id, "-")
			m.members = append(m.members, &pb.Member{Id: id, Service: service, Ready: !e.Has("cold"), MadeUnixMs: m.made(!e.Has("old"))})
			m.watches[id] = NewStageWatch(id, m.now)
		}
		e.Text("cold", "")
		e.Text("old", "")
	case "gone":
		m.members = slices.DeleteFunc(m.members, func(x *pb.Member) bool { return slices.Contains(e.Args, x.Id) })
		for _, id := range e.Args {
			delete(m.watches, id)
		}
	case "hangs", "returns":
		from, to := &m.members, &m.hung
		if e.Name == "returns" {
			from, to = to, from
		}
		at := slices.IndexFunc(*from, func(x *pb.Member) bool { return x.Id == e.Arg(t, 0) })
		*to = append(*to, (*from)[at])
		*from = slices.Delete(*from, at, at+1)
	case "say":
		m.say(t, e)
	case "pass":
		d, err := time.ParseDuration(e.Arg(t, 0))
		if err != nil {
			e.Fatalf(t, "%v", err)
		}
		m.now = m.now.Add(d)
	default:
		e.Fatalf(t, "there is no such event")
	}
	return m.look()
}

// made is when who comes now was made, if it says so.
func (m *machine) made(said bool) int64 {
	if !said {
		return 0
	}
	return m.now.UnixMilli()
}

func (m *machine) say(t testing.TB, e *transcript.Event) {
	for _, x := range m.members {
		if x.Id != e.Arg(t, 0) {
			continue
		}
		switch e.Arg(t, 1) {
		case "ready":
			x.Ready, x.Trouble = true, ""
		case "draining":
			x.Draining = true
		case "trouble":
			x.Trouble = e.Arg(t, 2)
		default:
			e.Fatalf(t, "it cannot say that")
		}
	}
}

func (m *machine) look() (said []string) {
	slices.SortFunc(m.members, func(a, b *pb.Member) int { return strings.Compare(a.Id, b.Id) })
	for _, x := range m.members {
		w := m.watches[x.Id]
		for _, e := range w.Look(m.members, m.now) {
			line := fmt.Sprintf("%s: %s is missing: %s", x.Id, e.Stage, e.Why)
			if e.Back {
				line = fmt.Sprintf("%s: %s is back after %v; missing: %s", x.Id, e.Stage, e.Away, e.Missing)
			}
			said = append(said, strings.TrimSpace(line))
		}
	}
	return said
}

// Whoever tells, nothing is told by two replicas at once, and a stage is not told to be
// back that was not told to be missing, by itself or in another's return.
func FuzzStages(f *testing.F) {
	f.Add([]byte{0, 9, 1, 9, 2, 9, 3, 9, 4, 9, 2, 9, 9})
	ids := []string{"tokenizer-a", "tokenizer-b", "attention-a", "gate-a", "expert-a", "aggregator-a", "scaler-a"}
	f.Fuzz(func(t *testing.T, steps []byte) {
		m := newMachine()
		missing := map[string]map[string]bool{} // by teller and stage
		for _, step := range steps {
			m.now = m.now.Add(time.Duration(step>>4) * time.Second)
			if i := int(step & 15); i < len(ids) {
				m.toggle(ids[i])
			}
			tellers := map[string]bool{}
			for _, line := range m.look() {
				teller, what, _ := strings.Cut(line, ": ")
				tellers[teller] = true
				stage, _, _ := strings.Cut(what, " ")
				if missing[teller] == nil {
					missing[teller] = map[string]bool{}
				}
				if back := strings.Contains(what, "is back"); back && !missing[teller][stage] {
					t.Fatalf("%q was not told to be missing", line)
				} else {
					missing[teller][stage] = !back
				}
				if strings.HasSuffix(line, "; missing: "+TokenStage) {
					missing[teller][TokenStage] = true
				}
			}
			if len(tellers) > 1 {
				t.Fatalf("%v tell at once", tellers)
			}
		}
	})
}

func (m *machine) toggle(id string) {
	if m.watches[id] != nil {
		m.members = slices.DeleteFunc(m.members, func(x *pb.Member) bool { return x.Id == id })
		delete(m.watches, id)
		return
	}
	service, _, _ := strings.Cut(id, "-")
	m.members = append(m.members, &pb.Member{Id: id, Service: service, Ready: true, MadeUnixMs: m.made(true)})
	m.watches[id] = NewStageWatch(id, m.now)
}
