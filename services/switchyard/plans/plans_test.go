package plans

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/internal/testkit/testserver"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

func testState() *State {
	return &State{Model: "demo", Settings: FromPlan(plan.DefaultSettings()), Layers: []Layer{
		{Layer: 1, Version: 4, Reason: "a\x1b[2J reason", Functions: []Function{{ID: "f", Experts: []uint32{0, 1, 2, 7}, Hosts: []string{"a", "b"}}}},
		{Layer: 3, Error: "no plan"},
	}}
}

func TestText(t *testing.T) {
	want := `model demo: policy static, grouping planner, replicas 1
no planner runs: no expert host is here

layer 1, version 4, 1 functions: a?[2J reason
  f  experts 0-2,7  on a, b

layer 3: no plan
`
	if got := testState().Text(); got != want {
		t.Errorf("%s", got)
	}
	if got := (&State{Model: "demo", Settings: Settings{Error: "why"}}).Text(); got != "model demo: settings refused: why\nno plan is written yet\nno planner runs: no expert host is here\n" {
		t.Errorf("%s", got)
	}
}

// here is what the bucket of members says, with these.
func hereWith(all ...*pb.Member) Here { return hereOf(all) }

func scaler(id, scaling string, ready bool, planning float64) *pb.Member {
	return &pb.Member{Id: id, Service: "scaler", Ready: ready, Stats: map[string]float64{members.ScalingBy + scaling: 1, members.Planning: planning}}
}

func host(id string) *pb.Member { return &pb.Member{Id: id, Service: "expert"} }

// Who reads settings is told who plans, and whether by them.
func TestWhoPlans(t *testing.T) {
	for want, h := range map[string]Here{
		"no planner runs: no expert host is here":                                                  hereWith(),
		"one of 2 expert hosts plans, by the settings":                                             hereWith(host("a"), host("b"), scaler("s", "moeless", false, 0)),
		"s (--scaling moeless) plans; policy and replicas of the settings are of plans without it": hereWith(host("a"), scaler("s", "moeless", true, 0)),
		"t (--scaling eplb) plans; policy and replicas of the settings are of plans without it":    hereWith(scaler("s", "moeless", true, 0), scaler("t", "eplb", true, 1), scaler("u", "moeless", true, 0)),
		"s (--scaling static) plans, by the settings":                                              hereWith(host("a"), scaler("s", "static", true, 1)),
		"old plans; policy and replicas of the settings are of plans without it":                   hereWith(&pb.Member{Id: "old", Service: "scaler", Ready: true}),
	} {
		s := testState()
		s.Here = h
		if !strings.Contains(s.Text(), "\n"+want+"\n") {
			t.Errorf("%s, want %q", s.Text(), want)
		}
	}
}

func TestRefuses(t *testing.T) {
	with := host("c")
	with.United = []*pb.UnitedExperts{{Way: 8}, {Way: 2}}
	two, byLoad := hereWith(host("a"), host("b")), hereWith(host("a"), host("b"), scaler("s", "moeless", true, 1))
	for _, tc := range []struct {
		name   string
		here   Here
		change plan.Settings
		want   string // a part of the refusal; empty: none
	}{
		{"as many as hosts", two, plan.Settings{Replicas: 2}, ""},
		{"more than hosts", two, plan.Settings{Replicas: 5}, "--replicas is 5, and model demo has 2 expert hosts: a function can have one replica on each; start 3 more, or set --replicas to 2"},
		{"before any host", Here{}, plan.Settings{Replicas: 2}, ""},
		{"replicas under a scaler", byLoad, plan.Settings{Replicas: 2}, "s (--scaling moeless) plans for model demo"},
		{"the policy under a scaler", byLoad, plan.Settings{Policy: "static"}, "start it with --scaling static"},
		{"the grouping under a scaler", byLoad, plan.Settings{Grouping: plan.ByHost}, ""},
		{"replicas under a static scaler", hereWith(host("a"), host("b"), scaler("s", "static", true, 1)), plan.Settings{Replicas: 2}, ""},
		{"a way", hereWith(host("a"), with), plan.Settings{Way: 8}, ""},
		{"a way that no host has", hereWith(host("a"), with), plan.Settings{Way: 3}, "--way is 3, and the expert hosts of model demo have united experts of ways [2 8]"},
		{"a way without united experts", two, plan.Settings{Way: 2}, "of ways []"},
		{"a way before any host", Here{}, plan.Settings{Way: 2}, ""},
	} {
		err := tc.here.Refuses(tc.change, "demo")
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

// A plan follows settings when its layers say so, or have what they want.
func TestFollows(t *testing.T) {
	function := func(experts, hosts int) Function {
		return Function{Experts: make([]uint32, experts), Hosts: make([]string, hosts)}
	}
	want := plan.Settings{Policy: plan.Static, Grouping: plan.ByExpert, Replicas: 2}
	for _, tc := range []struct {
		name   string
		layers []Layer
		want   bool
		short  Short
	}{
		{"no plan", nil, false, Short{Fewest: 2}},
		{"made by them", []Layer{{under: want, Functions: []Function{function(1, 1)}}}, true, Short{1, 1, 1}},
		{"as they want", []Layer{{Reason: "another", Functions: []Function{function(1, 2), function(1, 3)}}}, true, Short{0, 2, 2}},
		{"after more replicas", []Layer{{under: want.With(plan.Settings{Replicas: 20}), Functions: []Function{function(1, 20)}}}, false, Short{0, 1, 2}},
		{"another grouping", []Layer{{Reason: "another", Functions: []Function{function(3, 2)}}}, false, Short{0, 1, 2}},
		{"a layer of before", []Layer{{Functions: []Function{function(1, 2)}}, {Functions: []Function{function(1, 1)}}}, false, Short{1, 2, 1}},
	} {
		s := State{Layers: tc.layers}
		if got, short := s.follows(want), s.ShortOf(want.Replicas); got != tc.want || short != tc.short {
			t.Errorf("%s: %v, %+v", tc.name, got, short)
		}
	}
}

// One function an expert is no plan by hosts, however many hosts each has.
func TestFollowsHosts(t *testing.T) {
	want := plan.Settings{Policy: plan.Static, Grouping: plan.ByHost, Replicas: 1}
	byExpert := Layer{Reason: "static: round robin over 2 hosts, grouping expert, replicas 1"}
	for i := range 4 {
		byExpert.Functions = append(byExpert.Functions, Function{Experts: []uint32{uint32(i)}, Hosts: []string{[]string{"a", "b"}[i%2]}})
	}
	byHost := Layer{Reason: "moeless: another", Functions: []Function{{Experts: []uint32{0, 2}, Hosts: []string{"a"}}, {Experts: []uint32{1, 3}, Hosts: []string{"b"}}}}
	for _, tc := range []struct {
		name   string
		layers []Layer
		want   bool
	}{{"by expert", []Layer{byExpert}, false}, {"one layer of before", []Layer{byHost, byExpert}, false}, {"by host", []Layer{byHost}, true}} {
		if s := (State{Layers: tc.layers}); s.follows(want) != tc.want {
			t.Errorf("%s: %v", tc.name, !tc.want)
		}
	}
}

func TestRanges(t *testing.T) {
	for want, ids := range map[string][]uint32{"": nil, "5": {5}, "0-1": {0, 1}, "0,2-4,9": {0, 2, 3, 4, 9}, "3,1": {3, 1}} {
		if got := ranges(ids); got != want {
			t.Errorf("%v: %s, want %s", ids, got, want)
		}
	}
}

// A watch tells what is new, and nothing else.
func TestChanges(t *testing.T) {
	lines := func(before, now *State) int {
		var out bytes.Buffer
		if err := (printer{&out, true}).changes(before, now); err != nil {
			t.Fatal(err)
		}
		return strings.Count(out.String(), "\n")
	}
	settings, layer, gone, scaled := testState(), testState(), testState(), testState()
	scaled.Here = hereWith(scaler("s", "moeless", true, 1))
	settings.Settings.Replicas++
	layer.Layers[0].Version++
	gone.Layers = gone.Layers[:1]
	for _, tc := range []struct {
		name        string
		before, now *State
		want        int
	}{
		{"first", nil, testState(), 4},
		{"nothing", testState(), testState(), 0},
		{"settings", testState(), settings, 1},
		{"layer", testState(), layer, 1},
		{"deleted", testState(), gone, 1},
		{"a scaler", testState(), scaled, 1},
	} {
		if got := lines(tc.before, tc.now); got != tc.want {
			t.Errorf("%s: %d lines, want %d", tc.name, got, tc.want)
		}
	}
}

// Whatever lies in the bucket is shown, fit for a terminal.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("\x08\x01"))
	f.Fuzz(func(t *testing.T, body []byte) {
		s := &State{Settings: decodeSettings(body), Layers: []Layer{decodeLayer(1, body)}}
		if strings.ContainsAny(strings.ReplaceAll(s.Text(), "\n", ""), "\x1b\r\x00") {
			t.Errorf("%q", s.Text())
		}
	})
}

// Settings that others have replaced are waited for no more; what others have added to them is.
func TestAwaitSuperseded(t *testing.T) {
	change := plan.Settings{Replicas: 2}
	for name, tc := range map[string]struct {
		then plan.Settings
		want error
	}{
		"replaced": {plan.Settings{Replicas: 3}, ErrSuperseded},
		"added to": {plan.Settings{Grouping: plan.ByExpert}, ErrUnfollowed},
		"alone":    {plan.Settings{}, ErrUnfollowed},
	} {
		kv, err := testserver.Connect(t).EnsureBucket(t.Context(), 1, "plans", 0)
		if err != nil {
			t.Fatal(err)
		}
		set, revision, err := planstore.ChangeSettingsAt(t.Context(), kv, change)
		if err != nil {
			t.Fatal(err)
		}
		if tc.then != (plan.Settings{}) {
			if _, err := planstore.ChangeSettings(t.Context(), kv, tc.then); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, followed, err := Await(ctx, kv, "demo", set, change, revision)
		if !errors.Is(err, tc.want) || errors.Is(tc.want, ErrUnfollowed) && followed != set.With(tc.then) {
			t.Errorf("%s: %v, %+v", name, err, followed)
		}
	}
}
