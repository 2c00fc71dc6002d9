package gate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit/testplan"
	"github.com/switchyard/switchyard/internal/transcript"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// TestTranscripts plays what happens to the functions in use. A transcript's model
// has experts 0 to 3 in layers 0 and 1.
//
//	plan LAYER VERSION EXPERTS@HOSTS…   a plan; "a~" is cold on a, no hosts: cold on purpose
//	warm LAYER EXPERTS HOST             a host has a function warm; cold, warming, refused, gone likewise
//	members HOST…                       who is live; "a!" leaves
func TestTranscripts(t *testing.T) {
	transcript.Run(t, "testdata/*.txt", func(testing.TB) transcript.Machine {
		hosts := said{}
		p := newPlanSwitch(transcriptRules.MoELayers, hosts)
		return func(t testing.TB, e *transcript.Event) []string {
			do(t, p, hosts, e)
			return inUse(p)
		}
	})
}

// said is what hosts have said, by layer and function.
type said map[int]map[string]map[string]planstore.Replica

// Replicas implements states.
func (s said) Replicas(layer int, function string) (out []planstore.Replica) {
	for _, r := range s[layer][function] {
		out = append(out, r)
	}
	return out
}

func (s said) put(layer int, function string, r planstore.Replica) {
	if s[layer] == nil {
		s[layer] = map[string]map[string]planstore.Replica{}
	}
	if s[layer][function] == nil {
		s[layer][function] = map[string]planstore.Replica{}
	}
	s[layer][function][r.Host] = r
}

var transcriptRules = plan.Rules{MoELayers: []int{0, 1}, Experts: 4}

// inUse tells what a gate uses.
func inUse(p *planSwitch) (out []string) {
	for _, l := range transcriptRules.MoELayers {
		out = append(out, fmt.Sprintf("layer %d: %s", l, testplan.Routes(p.in(l))))
	}
	if p.ready() != nil {
		out = append(out, "not ready")
	}
	return out
}

func do(t testing.TB, p *planSwitch, hosts said, e *transcript.Event) {
	layer := 0
	if e.Name != "members" {
		layer = int(e.Arg(t, 0)[0] - '0')
	}
	switch e.Name {
	case "plan":
		l, err := transcriptRules.Check(testplan.Parse(t, layer, e.Arg(t, 1), e.Args[2:]...))
		if err != nil {
			t.Fatal(err)
		}
		p.offer(l)
	case "members":
		live := map[string]bool{}
		for _, w := range e.Args {
			id, leaves := strings.CutSuffix(w, "!")
			live[id] = leaves
		}
		p.members(live)
	default:
		phase, ok := pb.FunctionPhase_value["FUNCTION_PHASE_"+strings.ToUpper(e.Name)]
		if !ok {
			e.Fatalf(t, "there is no such event")
		}
		f := plan.FunctionID(layer, testplan.Experts(e.Arg(t, 1)), plan.Routed)
		for _, h := range e.Args[2:] {
			hosts.put(layer, f, planstore.Replica{Host: h, Phase: pb.FunctionPhase(phase), Joined: e.Name == "warm" || e.Name == "cold"})
		}
		p.heard(layer)
	}
}

func TestHosts(t *testing.T) {
	got := hosts([]*pb.Member{
		{Id: "a", Service: "expert"}, {Id: "b", Service: "expert", Draining: true}, {Id: "c", Service: "gate"},
	})
	if leaves, live := got["b"]; len(got) != 2 || got["a"] || !leaves || !live {
		t.Errorf("%v", got)
	}
}
