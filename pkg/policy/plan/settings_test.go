package plan_test

import (
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	_ "github.com/switchyard/switchyard/pkg/policy/policies" // registers them
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func TestSettings(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change plan.Settings
		says   string // empty: legal
	}{
		{"none", plan.Settings{}, ""},
		{"all", plan.Settings{Policy: plan.Static, Grouping: plan.ByExpert, Replicas: plan.MaxReplicas}, ""},
		{"policy", plan.Settings{Policy: "magic"}, `no policy "magic"; there are: static`},
		{"grouping", plan.Settings{Grouping: "pair"}, `no grouping "pair"; there are: planner and expert`},
		{"below", plan.Settings{Replicas: -1}, "replicas is -1; it must be 1 to 1024"},
		{"above", plan.Settings{Replicas: plan.MaxReplicas + 1}, "replicas is 1025"},
		{"way", plan.Settings{Way: 8}, ""},
		{"a way of one", plan.Settings{Way: 1}, "way is 1; it must be 2 to 65536, or 0"},
		{"pipelined", plan.Settings{Transfer: plan.Pipelined, Minibatch: 7}, ""},
		{"pipelined in no rows", plan.Settings{Transfer: plan.Pipelined}, "minibatches of no rows"},
		{"a minibatch alone", plan.Settings{Minibatch: 7}, "only the pipelined"},
		{"no rows", plan.Settings{Minibatch: -1}, "minibatch is -1 rows"},
		{"too many rows", plan.Settings{Transfer: plan.Pipelined, Minibatch: plan.MaxMinibatch + 1}, "minibatch is 1048577 rows"},
		{"another transfer", plan.Settings{Transfer: 9}, "its transfer mode is 9"},
		{"long", plan.Settings{Policy: strings.Repeat("x", 1<<20)}, `xxx"; there are: static`},
	} {
		s := plan.DefaultSettings().With(tc.change)
		err := s.Check()
		if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) || err != nil && len(err.Error()) > 200 {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.says)
		}
	}
}

// Another transfer has its own minibatch; without one it stays.
func TestTransferChanges(t *testing.T) {
	s := plan.DefaultSettings().With(plan.Settings{Transfer: plan.Pipelined, Minibatch: 7})
	if again := s.With(plan.Settings{Replicas: 2}); again.Transfer != plan.Pipelined || again.Minibatch != 7 {
		t.Errorf("%+v", again)
	}
	if other := s.With(plan.Settings{Minibatch: 9}); other.Transfer != plan.Pipelined || other.Minibatch != 9 {
		t.Errorf("%+v", other)
	}
	if single := s.With(plan.Settings{Transfer: plan.Direct}); single.Check() != nil || single.Minibatch != 0 {
		t.Errorf("%+v", single)
	}
}

// Settings from outside that are legal come back as they were.
func FuzzSettings(f *testing.F) {
	for _, p := range []*pb.PlanSettings{plan.DefaultSettings().Proto(), {Policy: "magic"}, {Policy: plan.Static, Grouping: "expert", Replicas: math.MaxUint32}} {
		body, err := proto.Marshal(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		p := &pb.PlanSettings{}
		if proto.Unmarshal(body, p) != nil {
			return
		}
		s := plan.SettingsOf(p)
		if s.Check() == nil && (plan.SettingsOf(s.Proto()) != s || s.Replicas < 1) {
			t.Errorf("%v", s)
		}
	})
}
