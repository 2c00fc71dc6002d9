package planner

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/switchyard/switchyard/pkg/control/plan"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var rewrite = flag.Bool("rewrite", false, "write what the planners do into testdata")

var testModel = plan.Model{MoELayers: []int{1, 3}, Experts: 4, ExpertBytes: 10}

// TestTranscripts plays the commands of each transcript, the lines that begin
// with "> ", on a clock of the test's own, and wants what they led to.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var got []byte
			synctest.Test(t, func(t *testing.T) { got = play(t, string(want)) })
			if *rewrite {
				err = os.WriteFile(file, got, 0o600)
			} else if !bytes.Equal(got, want) {
				t.Errorf("what happened is another thing; if that is right, run the test with -rewrite:\n%s", got)
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// play returns the transcript with what happens now.
func play(t *testing.T, script string) []byte {
	s := &stage{world: newWorld(), t: t, stops: map[string]func(){}}
	defer s.end()
	var out bytes.Buffer
	for line := range strings.Lines(script) {
		command, is := strings.CutPrefix(line, "> ")
		if !is {
			if strings.HasPrefix(line, "#") || line == "\n" {
				out.WriteString(line)
			}
			continue
		}
		out.WriteString(line)
		s.do(strings.Fields(command))
		synctest.Wait()
		for _, event := range s.take() {
			fmt.Fprintln(&out, event)
		}
	}
	return out.Bytes()
}

// stage plays commands.
type stage struct {
	*world
	t     *testing.T
	stops map[string]func()
}

func (s *stage) end() {
	for _, stop := range s.stops {
		stop()
	}
}

func (s *stage) do(words []string) {
	arg := words[1:]
	switch words[0] {
	case "start":
		s.stops[arg[0]] = s.start(arg[0])
	case "stop":
		s.stops[arg[0]]()
		delete(s.stops, arg[0])
	case "come":
		s.change(func() { s.come(arg) })
	case "go":
		s.change(func() { delete(s.members, arg[0]) })
	case "wait":
		time.Sleep(parse[time.Duration](s.t, arg[0], time.ParseDuration))
	case "settings":
		s.set(arg)
	case "spoil":
		s.spoil(&pb.LayerPlan{})
	case "delete":
		s.spoil(nil)
	case "record":
		s.change(func() { s.records[arg[0]] = arg[1:] })
	case "fail":
		s.faults[arg[0]] = map[string]error{"conflict": planstore.ErrConflict, "disk": errors.New("a broken disk"), "no": nil}[arg[1]]
	case "lose":
		s.lose()
	default:
		s.t.Fatalf("no command %q", words)
	}
}

// come lets a member come or say something else of itself: its id begins with
// its service, words follow.
func (s *stage) come(words []string) {
	id := words[0]
	service, _, _ := strings.Cut(id, "-")
	m := &pb.Member{Id: id, Service: service}
	s.mute[id] = false
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "mute":
			s.mute[id] = true
		case "ready":
			m.Ready = true
		case "draining":
			m.Draining = true
		case "budget":
			_, _ = fmt.Sscan(value, &m.MemoryBudgetBytes)
		default:
			s.t.Fatalf("no member is %q", word)
		}
	}
	s.members[id] = m
}

// set writes settings: those that are named, or what is none.
func (s *stage) set(words []string) {
	s.settings, s.illegal = plan.Settings{Policy: words[0], Grouping: plan.ByHost, Replicas: 1}, nil
	if len(words) > 1 {
		s.settings.Grouping = plan.Grouping(words[1])
	}
	if len(words) > 2 {
		_, _ = fmt.Sscan(words[2], &s.settings.Replicas)
	}
	if err := s.settings.Check(); err != nil {
		s.settings, s.illegal = plan.Settings{}, fmt.Errorf("%w: %w", planstore.ErrIllegalSettings, err)
	}
	s.tell(planstore.SettingsKey)
}

// start starts a planner until it is stopped.
func (s *stage) start(id string) (stop func()) {
	c := candidate{s.world, id}
	text := slog.NewTextHandler(logged{c}, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	p := New(Settings{
		Lease: c, Members: c, Caller: c, Plans: c, Groups: c, Records: c, Model: testModel, YieldTo: "scaler", Logger: slog.New(text),
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx) })
	return func() { cancel(); running.Wait() }
}

func parse[T any](t *testing.T, text string, f func(string) (T, error)) T {
	v, err := f(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Every policy that settings may name is one, and no other.
func TestPolicies(t *testing.T) {
	if len(policies) != len(plan.Policies) {
		t.Errorf("%d policies, %d names", len(policies), len(plan.Policies))
	}
	for _, name := range plan.Policies {
		if policies[name] == nil {
			t.Errorf("no policy %s", name)
		}
	}
}
