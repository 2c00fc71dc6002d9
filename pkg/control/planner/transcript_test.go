package planner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/internal/transcript"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

var testModel = plan.Model{MoELayers: []int{1, 3}, Experts: 4, ExpertBytes: 10}

// TestTranscripts plays what happens to planners, on a clock of the test's own.
func TestTranscripts(t *testing.T) {
	transcript.RunInBubble(t, "testdata/*.txt", func(t testing.TB) transcript.Machine {
		s := &stage{world: newWorld(), stops: map[string]func(){}}
		t.Cleanup(s.end)
		return func(t testing.TB, e *transcript.Event) []string {
			s.do(t, e)
			synctest.Wait()
			return s.take()
		}
	})
}

// stage plays commands.
type stage struct {
	*world
	stops map[string]func()
}

func (s *stage) end() {
	for _, stop := range s.stops {
		stop()
	}
}

func (s *stage) do(t testing.TB, e *transcript.Event) {
	arg := e.Args
	switch e.Name {
	case "start":
		s.stops[arg[0]] = s.start(arg[0], slices.Contains(arg, "elastic"))
	case "news":
		s.mu.Lock()
		s.turn++
		s.mu.Unlock()
		s.news.fire()
	case "stop":
		s.stops[arg[0]]()
		delete(s.stops, arg[0])
	case "come":
		s.change(func() { s.come(t, e) })
	case "go":
		s.change(func() { delete(s.members, arg[0]) })
	case "wait":
		time.Sleep(duration(t, e))
	case "settings":
		s.set(arg)
	case "spoil":
		s.spoil(&pb.LayerPlan{})
	case "delete":
		s.spoil(nil)
	case "deploy":
		s.deploy(t, arg, e.Int(t, "layer", 0))
	case "record":
		s.change(func() { s.records[arg[0]] = arg[1:] })
	case "fail":
		s.faults[arg[0]] = map[string]error{"conflict": planstore.ErrConflict, "disk": errors.New("a broken disk"), "no": nil}[arg[1]]
	case "lose":
		s.lose()
	default:
		e.Fatalf(t, "there is no such event")
	}
}

// come lets a member come or say something else of itself: its id begins with
// its service, words and its budget follow.
func (s *stage) come(t testing.TB, e *transcript.Event) {
	id := e.Arg(t, 0)
	service, _, _ := strings.Cut(id, "-")
	m := &pb.Member{Id: id, Service: service, MemoryBudgetBytes: uint64(e.Int(t, "budget", 0))}
	s.mute[id] = false
	for _, word := range e.Args[1:] {
		switch word {
		case "mute":
			s.mute[id] = true
		case "ready":
			m.Ready = true
		case "draining":
			m.Draining = true
		case "throttles":
			m.Stats = map[string]float64{members.DeviceThrottled: 1}
		default:
			e.Fatalf(t, "no member is %q", word)
		}
	}
	s.members[id] = m
}

// set writes settings: those that are named, or what is none.
func (s *stage) set(words []string) {
	s.written = true
	s.settings, s.illegal = plan.Settings{Policy: words[0], Grouping: plan.ByHost, Replicas: 1}, nil
	if len(words) > 1 {
		s.settings.Grouping = plan.Grouping(words[1])
	}
	if len(words) > 2 {
		_, _ = fmt.Sscan(words[2], &s.settings.Replicas)
	}
	if err := s.settings.Check(); err != nil {
		s.written = true
		s.settings, s.illegal = plan.Settings{}, fmt.Errorf("%w: %w", planstore.ErrIllegalSettings, err)
	}
	if words[0] == "garbage" {
		s.illegal = fmt.Errorf("%w: %w", planstore.ErrIllegalSettings, planstore.ErrGarbage)
	}
	s.tell(planstore.SettingsKey)
}

// deploy puts a plan by loads into the bucket, all of each layer, or of one, on some hosts, which says the settings of the
// time.
func (s *stage) deploy(t testing.TB, hosts []string, only int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plan = maps.Clone(s.plan)
	for _, l := range testModel.MoELayers {
		if only > 0 && l != only {
			continue
		}
		lp := &pb.LayerPlan{Layer: uint32(l), Policy: plan.ForBatches, Functions: []*pb.Function{plan.Function(l, []uint32{0, 1, 2, 3}, hosts...)}}
		raw := plan.Under([]*pb.LayerPlan{lp}, s.settings)[0]
		checked, err := plan.Rules{MoELayers: testModel.MoELayers, Experts: testModel.Experts}.Check(raw)
		if err != nil {
			t.Fatal(err)
		}
		s.revision++
		s.plan[l] = planstore.Value{Layer: l, Plan: checked, Raw: raw, Revision: s.revision}
		if s.view != nil {
			s.view.Put(s.plan[l])
		}
	}
}

// start starts a planner until it is stopped.
func (s *stage) start(id string, elastic bool) (stop func()) {
	c := candidate{s.world, id}
	text := slog.NewTextHandler(logged{c}, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	settings := Settings{
		Lease: c, Members: c, Caller: c, Plans: c, Groups: c, Records: c, Model: testModel, YieldTo: "scaler", Logger: slog.New(text),
	}
	if elastic {
		settings.YieldTo, settings.Grouping, settings.Elastic = "", plan.ByExpert, turning{c}
	}
	p := New(settings)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx) })
	return func() { cancel(); running.Wait() }
}

func duration(t testing.TB, e *transcript.Event) time.Duration {
	d, err := time.ParseDuration(e.Arg(t, 0))
	if err != nil {
		e.Fatalf(t, "%v", err)
	}
	return d
}
