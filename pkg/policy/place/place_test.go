package place

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
)

// hosts are hosts a, b, c … with room.
func hosts(capacity ...uint64) []Host {
	hs := make([]Host, len(capacity))
	for i, c := range capacity {
		hs[i] = Host{ID: string(rune('a' + i)), Capacity: c}
	}
	return hs
}

// expert is one of 10 bytes.
func expert(id uint32, replicas int, each float64) Expert {
	return Expert{ID: id, Replicas: replicas, LoadEach: each, Bytes: 10}
}

// text is a placement as "expert:host", with * for warm.
func text(p Placement) string {
	var all []string
	for _, r := range p.Replicas {
		all = append(all, fmt.Sprintf("%d:%s%s", r.Expert, r.Host, map[bool]string{true: "*"}[r.Warm]))
	}
	return strings.Join(all, " ")
}

// policies are all there are.
var policies = map[string]Policy{"moeless": MoEless, "eplb": EPLB, "round-robin": RoundRobin}

func TestPolicies(t *testing.T) {
	roomy := hosts(100, 100, 100)
	three := []Expert{expert(0, 1, 5), expert(1, 1, 9), expert(2, 1, 7), expert(3, 1, 6)}
	tests := []struct {
		name   string
		policy Policy
		state  State
		want   string
	}{
		{"most load first", MoEless, State{Experts: three, Hosts: roomy}, "0:c 1:a 2:b 3:c"},
		{"lower ids first", MoEless, State{Experts: []Expert{expert(4, 1, 1), expert(3, 1, 1)}, Hosts: roomy}, "3:a 4:b"},
		{"warm", MoEless, State{Experts: three, Hosts: roomy, Previous: []Warm{{1, "c"}, {0, "c"}}}, "0:c* 1:c* 2:a 3:b"},
		{"least loaded of the warm", MoEless, State{Experts: three, Hosts: roomy, Previous: []Warm{{1, "a"}, {2, "a"}, {2, "b"}}}, "0:c 1:a* 2:b* 3:c"},
		{"warm takes one", MoEless, State{Experts: []Expert{expert(0, 2, 5)}, Hosts: roomy, Previous: []Warm{{0, "b"}}}, "0:a 0:b*"},
		{"warm, named twice", MoEless, State{Experts: []Expert{expert(0, 2, 5)}, Hosts: roomy, Previous: []Warm{{0, "b"}, {0, "b"}}}, "0:a 0:b*"},
		{"warm without room", MoEless, State{Experts: []Expert{expert(0, 1, 5)}, Hosts: hosts(9, 10), Previous: []Warm{{0, "a"}}}, "0:b"},
		{"warm on a host that went", MoEless, State{Experts: []Expert{expert(0, 1, 5)}, Hosts: roomy, Previous: []Warm{{0, "z"}}}, "0:a"},
		{"full hosts", MoEless, State{Experts: three, Hosts: hosts(10, 10, 20)}, "0:c 1:a 2:b 3:c"},
		{"apart", MoEless, State{Experts: []Expert{expert(0, 1, 9), expert(1, 2, 3)}, Hosts: hosts(50, 50)}, "0:a 1:a 1:b"},
		{"apart no more", MoEless, State{Experts: []Expert{expert(0, 3, 9)}, Hosts: hosts(50, 10)}, "0:a 0:a 0:b"},
		{"scaled to zero", MoEless, State{Experts: []Expert{expert(0, 0, 0), expert(1, 1, 1)}, Hosts: roomy, Previous: []Warm{{0, "a"}}}, "1:a"},
		{"nothing", MoEless, State{}, ""},
		{"round robin", RoundRobin, State{Experts: []Expert{expert(1, 2, 1), expert(0, 2, 9)}, Hosts: roomy, Previous: []Warm{{1, "a"}}}, "0:a 0:b 1:a* 1:c"},
		{"round robin past full", RoundRobin, State{Experts: three, Hosts: hosts(10, 100, 10)}, "0:a 1:b 2:c 3:b"},
		{"round robin beside itself", RoundRobin, State{Experts: []Expert{expert(0, 3, 1)}, Hosts: hosts(50, 50)}, "0:a 0:a 0:b"},
		{"eplb", EPLB, State{Experts: three, Hosts: hosts(100, 100)}, "0:a 1:a 2:b 3:b"},
		{"eplb counts", EPLB, State{Experts: []Expert{expert(0, 1, 9), expert(1, 1, 1), expert(2, 1, 1), expert(3, 1, 1)}, Hosts: hosts(100, 100)}, "0:a 1:b 2:b 3:a"},
		{"eplb without load", EPLB, State{Experts: []Expert{expert(0, 1, 0), expert(1, 1, 0), expert(2, 1, 0), expert(3, 1, 0)}, Hosts: roomy}, "0:a 1:a 2:b 3:c"},
		{"eplb memory before counts", EPLB, State{Experts: three, Hosts: hosts(10, 100)}, "0:b 1:a 2:b 3:b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := tt.policy(tt.state)
			if got := text(p); err != nil || got != tt.want {
				t.Errorf("got %s, %v; want %s", got, err, tt.want)
			}
		})
	}
}

func TestNoRoom(t *testing.T) {
	for name, policy := range policies {
		t.Run(name, func(t *testing.T) {
			_, err := policy(State{Experts: []Expert{expert(7, 3, 1)}, Hosts: hosts(10, 19)})
			for _, want := range []string{"expert 7 of 10 bytes", `host "b" has most left, 9 of 19 bytes`} {
				if !errors.Is(err, ErrNoRoom) || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
			if _, err := policy(State{Experts: []Expert{expert(7, 1, 1)}}); !errors.Is(err, ErrNoRoom) || !strings.Contains(err.Error(), "there are no hosts") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	tests := []struct {
		name  string
		state State
		want  string
	}{
		{"good", State{Experts: []Expert{expert(0, 0, 0)}, Hosts: hosts(1), Previous: []Warm{{0, "gone"}}}, ""},
		{"expert twice", State{Experts: []Expert{expert(3, 1, 1), expert(3, 1, 1)}}, "expert 3 is named twice"},
		{"negative load", State{Experts: []Expert{expert(3, 1, -1)}}, "expert 3: load_each is -1"},
		{"NaN", State{Experts: []Expert{expert(3, 1, math.NaN())}}, "load_each is NaN"},
		{"negative replicas", State{Experts: []Expert{expert(3, -1, 1)}}, "replicas is -1"},
		{"very many", State{Experts: []Expert{expert(3, MostReplicas, 1), expert(4, 1, 1)}}, "up to 4 have 262145 replicas"},
		{"host twice", State{Hosts: append(hosts(1), hosts(1)...)}, `host "a" is named twice`},
		{"nameless host", State{Hosts: []Host{{}}}, "no id"},
		{"unknown expert", State{Previous: []Warm{{9, "a"}}}, "expert 9"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := Check(tt.state)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
