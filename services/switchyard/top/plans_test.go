package top

import (
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/control/members"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Plans that are made by loads are shown, the newest first, with what came of changes.
func TestPlans(t *testing.T) {
	s := &Snapshot{Plans: []Planned{{Layer: 0, AgeSeconds: 9, Reason: "static: round robin"}}}
	if _, byLoads := s.plans(); byLoads {
		t.Error("a plan by the settings is shown")
	}
	for l, age := range []float64{40, 10, 30, 20} {
		s.Plans = append(s.Plans, Planned{Layer: l + 1, AgeSeconds: age, Policy: "moeless", Reason: "because"})
	}
	m := Member{Service: "scaler", Stats: map[string]float64{members.TrialsHelped: 1, members.TrialsUndone: 3}}
	m.said = &pb.Member{Service: m.Service, Stats: m.Stats}
	s.Members = []Member{m}
	g, byLoads := s.plans()
	var layers []string
	for _, row := range g.table.rows {
		layers = append(layers, strings.Join(row, " "))
	}
	if got := strings.Join(layers, ", "); !byLoads || got != "2 10 s because, 4 20 s because, 3 30 s because" || g.brief != "changes that helped: 1, undone: 3; scaling hurts here" {
		t.Errorf("%v, %q, %q", byLoads, got, g.brief)
	}
}

// Gates are named that tell of rows which no hosts have computed.
func TestDoubtedGates(t *testing.T) {
	stats := map[string]float64{members.TrialsHelped: 1, members.Doubted + "gate-x": 3, members.Doubted + "gate-b": 1}
	s := &Snapshot{Members: []Member{{Service: "scaler", Stats: stats}, {Service: "gate", Stats: map[string]float64{members.Doubted + "gate-y": 1}}}}
	if g, _ := s.plans(); !strings.HasSuffix(g.brief, "count for nothing: gate-b (1 samples), gate-x (3 samples)") {
		t.Errorf("%q", g.brief)
	}
}
