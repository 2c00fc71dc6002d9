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
		{"long", plan.Settings{Policy: strings.Repeat("x", 1<<20)}, `xxx"; there are: static`},
	} {
		s := plan.DefaultSettings().With(tc.change)
		err := s.Check()
		if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) || err != nil && len(err.Error()) > 200 {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.says)
		}
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
