package gate

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit/testplan"
	"github.com/switchyard/switchyard/pkg/control/functions"
	"github.com/switchyard/switchyard/pkg/control/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

var rewrite = flag.Bool("rewrite", false, "write what the gate does into testdata")

// TestTranscripts plays the commands of each transcript, the lines that begin
// with "> ", and wants what they make of the functions in use. A transcript's model
// has experts 0 to 3 in layers 0 and 1.
//
//	plan LAYER VERSION EXPERTS@HOSTS…   a plan; "a~" is cold on a, no hosts: cold on purpose
//	warm LAYER EXPERTS HOST             a host has a function warm; cold, warming, refused, gone likewise
//	members HOST…                       who is live; "a!" leaves
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
			got := play(t, string(want))
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

// said is what hosts have said, by layer and function.
type said map[int]map[string]map[string]functions.Replica

// Replicas implements states.
func (s said) Replicas(layer int, function string) (out []functions.Replica) {
	for _, r := range s[layer][function] {
		out = append(out, r)
	}
	return out
}

func (s said) put(layer int, function string, r functions.Replica) {
	if s[layer] == nil {
		s[layer] = map[string]map[string]functions.Replica{}
	}
	if s[layer][function] == nil {
		s[layer][function] = map[string]functions.Replica{}
	}
	s[layer][function][r.Host] = r
}

var transcriptRules = plan.Rules{MoELayers: []int{0, 1}, Experts: 4}

func play(t *testing.T, script string) []byte {
	hosts := said{}
	p := newPlanSwitch(transcriptRules.MoELayers, hosts)
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
		do(t, p, hosts, strings.Fields(command))
		for _, l := range transcriptRules.MoELayers {
			fmt.Fprintf(&out, "layer %d: %s\n", l, testplan.Routes(p.in(l)))
		}
		if err := p.ready(); err != nil {
			out.WriteString("not ready\n")
		}
	}
	return out.Bytes()
}

func do(t *testing.T, p *planSwitch, hosts said, words []string) {
	layer := 0
	if words[0] != "members" {
		layer = int(words[1][0] - '0')
	}
	switch words[0] {
	case "plan":
		l, err := transcriptRules.Check(testplan.Parse(t, layer, words[2], words[3:]...))
		if err != nil {
			t.Fatal(err)
		}
		p.offer(l)
	case "members":
		live := map[string]bool{}
		for _, w := range words[1:] {
			id, leaves := strings.CutSuffix(w, "!")
			live[id] = leaves
		}
		p.members(live)
	default:
		phase, ok := pb.FunctionPhase_value["FUNCTION_PHASE_"+strings.ToUpper(words[0])]
		if !ok {
			t.Fatalf("no command %q", words)
		}
		f := plan.FunctionID(layer, testplan.Experts(words[2]), plan.Routed)
		for _, h := range words[3:] {
			hosts.put(layer, f, functions.Replica{Host: h, Phase: pb.FunctionPhase(phase), Joined: words[0] == "warm" || words[0] == "cold"})
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
