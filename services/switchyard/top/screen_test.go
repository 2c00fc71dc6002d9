package top

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/switchyard/switchyard/internal/transcript"
	"github.com/switchyard/switchyard/pkg/control/members"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// TestScreen replays what is shown and typed. A line of a page stands between bars, a loud
// one between exclamation marks.
func TestScreen(t *testing.T) {
	transcript.Run(t, "testdata/*.txt", func(testing.TB) transcript.Machine {
		m := &screenMachine{screen: NewScreen(), width: 80, height: 24}
		return m.handle
	})
}

type screenMachine struct {
	screen        *Screen
	at            *Snapshot
	before        *Snapshot
	members       []*pb.Member
	trouble       error
	width, height int
}

func (m *screenMachine) handle(t testing.TB, e *transcript.Event) []string {
	switch e.Name {
	case "pipeline":
		m.members = pipeline(e.Int(t, "experts", 2), e.Int(t, "gates", 1), e.Int(t, "tokens", 0))
		m.at = &Snapshot{Time: time.Date(2026, 3, 4, 15, 4, 5, 0, time.UTC), Model: "demo", Layers: loadsOf(e.Int(t, "layers", 2)), Replicas: placed(e.Int(t, "layers", 2))}
		m.at.Queues = queuesOf(uint64(e.Int(t, "waiting", 0)))
		if others := e.Text("others", ""); others != "" {
			m.at.Others = strings.Split(others, ",")
		}
	case "gone":
		m.members = slices.DeleteFunc(m.members, func(x *pb.Member) bool { return x.Service == e.Arg(t, 0) })
	case "trouble":
		for _, x := range m.members {
			if x.Service == e.Arg(t, 0) {
				x.Trouble, x.Ready = e.Arg(t, 1), e.Has("ready")
				e.Text("ready", "")
			}
		}
	case "empty": // what no live host has any more
		r := &m.at.Replicas[e.Int(t, "layer", 0)]
		for _, expert := range e.Args {
			var i int
			if _, err := fmt.Sscan(expert, &i); err != nil {
				e.Fatalf(t, "%v", err)
			}
			r.Warm[i] = 0
		}
	case "failing":
		m.trouble = errors.New(e.Arg(t, 0))
	case "size":
		m.width, m.height = e.Int(t, "w", 80), e.Int(t, "h", 24)
		return m.look()
	case "press":
		for _, key := range e.Args {
			m.screen.Press(key)
			m.look()
		}
		return m.look()
	default:
		e.Fatalf(t, "there is no such event")
	}
	return nil
}

func (m *screenMachine) look() (lines []string) {
	var list []Member
	for _, x := range m.members {
		first := &pb.Member{Id: x.Id, UptimeSeconds: x.UptimeSeconds - 8, Stats: map[string]float64{}}
		for name, v := range x.Stats {
			first.Stats[name] = v / 2
		}
		list = append(list, memberOf(&seen{looks: []look{{member: first}, {member: x}}}))
	}
	m.at.Members = list
	m.at.judge()
	for _, l := range m.screen.Look(m.at, m.before, m.trouble, m.width, m.height) {
		bar := "|"
		if l.Loud {
			bar = "!"
		}
		lines = append(lines, bar+l.Text+bar)
	}
	return lines
}

// pipeline is one replica of each service, and so many gates and hosts.
func pipeline(experts, gates, tokens int) (all []*pb.Member) {
	add := func(service string, n int, stats map[string]float64) {
		for i := range n {
			m := &pb.Member{Id: fmt.Sprintf("%s-%08d", service, i+1), Service: service, Ready: true, Host: fmt.Sprintf("machine-%d", i%3+1), Pid: uint32(4000 + 10*len(all)), Version: "v1.4.0", UptimeSeconds: float64(3700 + 100*i), Stats: map[string]float64{}}
			for name, v := range stats {
				m.Stats[name] = v * float64(i+1)
			}
			if service == "expert" {
				m.Device = "cpu"
			}
			all = append(all, m)
		}
	}
	n := float64(tokens)
	add("tokenizer", 1, map[string]float64{members.Requests: n / 100, members.Refused: 3})
	add("attention", 1, map[string]float64{
		members.Tokens: n, members.StepRows: 2 * n, members.Active: 6, members.Waiting: 4, members.InLine: 1, members.KVPages: 256, members.KVPagesUsed: 64, members.Failed: 2,
		members.FirstTokens: 40, members.FirstTokenSeconds: 1, members.Finished: 40, members.RequestSeconds: 60,
	})
	add("gate", gates, map[string]float64{members.RoutedRows: 8 * n})
	add("expert", experts, map[string]float64{members.HostRows: 2 * n})
	add("aggregator", 1, map[string]float64{"groups_total": n})
	return all
}

func queuesOf(waiting uint64) (all []Queue) {
	held, none := uint64(6), uint64(0)
	all = append(all, Queue{Stage: "PROMPTS", Waiting: &none, InHand: &none}, Queue{Stage: "SEQUENCES", Messages: waiting + 6, Bytes: 100 * (waiting + 6), Waiting: &waiting, InHand: &held})
	for _, stage := range []string{"HIDDEN", "EXPERT-0", "EXPERT-1", "PARTIAL", "BLOCK"} {
		all = append(all, Queue{Stage: stage, Waiting: &none})
	}
	return all
}

func loadsOf(layers int) (all []Layer) {
	for l := range layers {
		all = append(all, Layer{Layer: l, Rows: []uint64{12, 33, 0, uint64(7 * (l + 1))}})
	}
	return all
}

func placed(layers int) (all []Replicas) {
	for l := range layers {
		all = append(all, Replicas{Layer: l, Warm: []int{1, 2, 1, 1}, Kept: make([]int, 4), Cold: make([]int, 4)})
	}
	return all
}

// Whatever the size and whatever is typed, a page is as large as the terminal, its title
// is at the top and its keys at the bottom, and the cursor is on it.
func TestAnySize(t *testing.T) {
	keys := []string{keyUp, keyDown, keyLeft, keyRight, keyPageUp, keyPageDown, keyHome, keyEnd, keyEnter, "a", "1", "2", "5", "7", "x"}
	random := rand.New(rand.NewPCG(1, 2))
	m := &screenMachine{screen: NewScreen(), members: pipeline(8, 2, 9000), at: &Snapshot{Model: "demo", Layers: loadsOf(30), Replicas: placed(30), Queues: queuesOf(3), Others: []string{"big"}}}
	for range 3000 {
		m.width, m.height = 1+random.IntN(200), 1+random.IntN(60)
		m.screen.Press(keys[random.IntN(len(keys))])
		lines := m.look()
		if len(lines) != m.height {
			t.Fatalf("%d lines of %d", len(lines), m.height)
		}
		cursors := 0
		for _, line := range lines {
			if utf8.RuneCountInString(line) > m.width+2 {
				t.Fatalf("%d×%d: %q is too long", m.width, m.height, line)
			}
			if strings.HasPrefix(line, "|>") {
				cursors++
			}
		}
		if m.height >= 12 && m.width >= 30 && (cursors != 1 || !strings.HasPrefix(lines[0], "|demo  SERVING") || !strings.HasPrefix(lines[len(lines)-1], "|q quit")) {
			t.Fatalf("%d×%d, %d cursors:\n%s", m.width, m.height, cursors, strings.Join(lines, "\n"))
		}
	}
}
