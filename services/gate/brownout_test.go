package gate

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// stand is the bundle of tests.
var stand = plan.Bundle{Way: 2, ID: 9}

// standing are routes of 8 experts, a function each, and of united experts of way 2, of which the
// groups have hosts that are named.
func standing(t interface{ Fatal(...any) }, groups ...uint32) *plan.Routes {
	lp := &pb.LayerPlan{Version: 1}
	for e := range uint32(8) {
		lp.Functions = append(lp.Functions, plan.Function(0, []uint32{e}, "a"))
	}
	for _, g := range groups {
		lp.Functions = append(lp.Functions, plan.UnitedFunction(0, stand, []uint32{g}, "a"))
	}
	return routesOf(t, lp, 8)
}

func stamped(rows int, s *pb.Stamp, phases ...*pb.PhaseRange) *pb.Hidden {
	h := hidden(rows)
	h.Stamp, h.Phases = s, phases
	return h
}

// Each slot has one fate; rows whose producers accept no stand-in keep their experts; a united
// expert is asked for only where a host has it; what replays the fates sends the same messages.
func TestDirectives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		groups := rapid.SliceOfNDistinct(rapid.Uint32Range(0, 3), 0, 4, rapid.ID).Draw(t, "groups")
		to := standing(t, groups...)
		n := [3]int{rapid.IntRange(0, 5).Draw(t, "prefill"), rapid.IntRange(0, 5).Draw(t, "decode"), rapid.IntRange(0, 3).Draw(t, "own")}
		rows := n[0] + n[1] + n[2]
		if rows == 0 {
			return
		}
		s := &pb.Stamp{
			Version: 3, Strategy: pb.Strategy(rapid.IntRange(1, 2).Draw(t, "strategy")), Way: 2, Bundle: 9,
			PrefillMillionths: rapid.Uint32Range(0, 1e6).Draw(t, "prefill share"), DecodeMillionths: rapid.Uint32Range(0, 1e6).Draw(t, "decode share"),
		}
		h := stamped(rows, s, &pb.PhaseRange{Phase: pb.Phase_PHASE_PREFILL, Rows: uint32(n[0])}, &pb.PhaseRange{Phase: pb.Phase_PHASE_DECODE, Rows: uint32(n[1])},
			&pb.PhaseRange{Phase: pb.Phase_PHASE_DECODE, Rows: uint32(n[2]), Own: true})
		chosen := drawRoutes(t, rows, 2, 8)
		var d directives
		o, err := d.obey(h, chosen, to, 8)
		if err != nil || o.bundle != stand {
			t.Fatal(o.bundle, err)
		}
		if o.after > o.before || o.fates == nil && o.after < o.before || s.Strategy == pb.Strategy_STRATEGY_PARTIAL && o.after == 0 {
			t.Fatalf("%d accesses, and %d with fates %v", o.before, o.after, o.fates)
		}
		routes, f := o.routes, o.fates
		codes := make([]wire.FateCode, len(chosen.Expert))
		if f != nil {
			if codes, err = wire.DecodeFates(f); err != nil || f.Way != 2 || f.Bundle != 9 {
				t.Fatal(f, err)
			}
		}
		for at, code := range codes {
			group := uint32(chosen.Expert[at]) / 2
			switch {
			case at/2 >= n[0]+n[1] && code != wire.FateOwn, code == wire.FateOwn && routes.Expert[at] != chosen.Expert[at],
				code == wire.FateUnited && (s.Strategy != pb.Strategy_STRATEGY_PARTIAL || !slices.Contains(groups, group)),
				code == wire.FateLeftOut && s.Strategy != pb.Strategy_STRATEGY_FULL:
				t.Fatalf("slot %d of expert %d has fate %d, and goes to %d", at, chosen.Expert[at], code, routes.Expert[at])
			}
		}
		checkReplay(t, h, f, chosen, routes, to)
	})
}

// checkReplay wants rows that are computed again by their fates to be sent as they were.
func checkReplay(t *rapid.T, h *pb.Hidden, f *pb.Fates, chosen, routes *forward.Routes, to *plan.Routes) {
	first := dispatched(h, routes, to)
	again := proto.CloneOf(h)
	again.Replay, again.Stamp = f, nil
	var d directives
	o, err := d.obey(again, chosen, to, 8)
	if err != nil || !proto.Equal(o.fates, f) {
		t.Fatalf("fates %v, replayed %v, %v", f, o.fates, err)
	}
	second := dispatched(h, o.routes, to)
	if len(first) != len(second) {
		t.Fatalf("%d messages, replayed %d", len(first), len(second))
	}
	for i := range first {
		if !proto.Equal(first[i], second[i]) {
			t.Fatalf("message %d: %v, replayed %v", i, first[i], second[i])
		}
	}
}

func dispatched(h *pb.Hidden, routes *forward.Routes, to *plan.Routes) (all []*pb.Dispatch) {
	s := newSplitter(width)
	s.bundle = stand
	for _, out := range s.split(h, routes, to, func(int) ways { return ways{} }) {
		all = append(all, proto.CloneOf(out.Dispatch))
	}
	return all
}

// A gate that is asked tells what a layer accesses at each threshold: at that of the stamp what it
// accesses, and at 1 what it does without a brownout.
func TestCurve(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		to := standing(t, 0, 1, 3)
		n := [3]int{rapid.IntRange(0, 3).Draw(t, "prefill"), rapid.IntRange(1, 5).Draw(t, "decode"), rapid.IntRange(0, 2).Draw(t, "own")}
		at := rapid.Uint32Range(0, 10).Draw(t, "threshold")
		s := &pb.Stamp{Version: 3, Strategy: pb.Strategy(rapid.IntRange(1, 2).Draw(t, "strategy")), Way: 2, Bundle: 9, PrefillMillionths: at * 1e5, DecodeMillionths: at * 1e5, Points: 11}
		h := stamped(n[0]+n[1]+n[2], s, &pb.PhaseRange{Phase: pb.Phase_PHASE_PREFILL, Rows: uint32(n[0])}, &pb.PhaseRange{Phase: pb.Phase_PHASE_DECODE, Rows: uint32(n[1])},
			&pb.PhaseRange{Phase: pb.Phase_PHASE_DECODE, Rows: uint32(n[2]), Own: true})
		var d directives
		o, err := d.obey(h, drawRoutes(t, n[0]+n[1]+n[2], 2, 8), to, 8)
		if err != nil || len(o.curve) != 11 || int(o.curve[10]) != o.before || int(o.curve[at]) != o.after {
			t.Fatalf("%v, of %d accesses and %d at point %d: %v", o.curve, o.before, o.after, at, err)
		}
		for _, points := range []uint32{0, 1, mostPoints + 1} {
			s.Points = points
			if o, err := d.obey(h, drawRoutes(t, n[0]+n[1]+n[2], 2, 8), to, 8); err != nil || o.curve != nil {
				t.Fatalf("%d points: %v, %v", points, o.curve, err)
			}
		}
	})
}

// Two slots of a row in one group are one entry of their united expert, with both weights.
func TestUnitedDispatch(t *testing.T) {
	to := standing(t, 0, 1, 2, 3)
	h := stamped(2, &pb.Stamp{Version: 1, Strategy: pb.Strategy_STRATEGY_PARTIAL, Way: 2, Bundle: 9}, &pb.PhaseRange{Phase: pb.Phase_PHASE_DECODE, Rows: 2})
	chosen := &forward.Routes{K: 2, Expert: []int32{3, 2, 2, 5}, Weight: []float32{0.5, 0.25, 1, 2}}
	var d directives
	o, err := d.obey(h, chosen, to, 8)
	if err != nil {
		t.Fatal(err)
	}
	f, all := o.fates, dispatched(h, o.routes, to)
	if o.before != 3 || o.after != 2 {
		t.Errorf("%d accesses, and %d with directives; want 3 and 2", o.before, o.after)
	}
	united := all[0]
	if len(all) != 2 || united.Kind != plan.United || united.Way != 2 || !slices.Equal(united.Expert, []uint32{1, 1}) ||
		!slices.Equal(united.Place, []uint32{0, 2}) || !slices.Equal(united.Weight, []float32{0.75, 1}) {
		t.Errorf("%v", all)
	}
	if own := all[1]; own.Kind != pb.FunctionKind_FUNCTION_KIND_UNSPECIFIED && own.Kind != plan.Routed || !slices.Equal(own.Expert, []uint32{5}) {
		t.Errorf("expert 5, alone of its group: %v", own)
	}
	if codes, err := wire.DecodeFates(f); err != nil || !slices.Equal(codes, []wire.FateCode{wire.FateUnited, wire.FateUnited, wire.FateUnited, wire.FateOwn}) {
		t.Errorf("%v, %v", codes, err)
	}
	if !slices.Equal(chosen.Expert, []int32{3, 2, 2, 5}) {
		t.Error("what the gate chose, which counts as load, has changed")
	}
}

// Directives that are not known, or need rows that other messages have, are none; rows that replay
// wait for a host.
func TestNoDirectives(t *testing.T) {
	to := standing(t)
	decode := &pb.PhaseRange{Phase: pb.Phase_PHASE_DECODE, Rows: 1}
	chosen := &forward.Routes{K: 2, Expert: []int32{0, 1}, Weight: []float32{1, 1}}
	for name, h := range map[string]*pb.Hidden{
		"no stamp":         stamped(1, nil, decode),
		"no version":       stamped(1, &pb.Stamp{}, decode),
		"unknown strategy": stamped(1, &pb.Stamp{Version: 1, Strategy: 7}, decode),
		"a part":           {Key: hidden(1).Key, Stamp: &pb.Stamp{Version: 1, Strategy: pb.Strategy_STRATEGY_FULL, Whole: true}, WholeRows: 2, Phases: []*pb.PhaseRange{decode}},
		"no phases":        stamped(1, &pb.Stamp{Version: 1, Strategy: pb.Strategy_STRATEGY_FULL}),
	} {
		var d directives
		o, err := d.obey(h, chosen, to, 8)
		if err != nil || o.fates != nil || !slices.Equal(o.routes.Expert, chosen.Expert) {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
	}
	shape := wire.FatesShape{Rows: 1, Layers: 1, Slots: 2}
	for want, way := range map[string]uint32{"which no host has warm": 2, "of way 9": 9} {
		f := wire.EncodeFates(shape, []wire.FateCode{wire.FateUnited, wire.FateOwn})
		f.Way = way
		h := stamped(1, nil, decode)
		h.Replay = f
		var d directives
		if _, err := d.obey(h, chosen, to, 8); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("way %d: %v, want %q", way, err, want)
		}
	}
}

// Beside a stamp, rows that are computed again have what they had, and others are split; experts that
// the former have serve the latter, too.
func TestReplayBesideStamp(t *testing.T) {
	to := standing(t, 0, 1, 2, 3)
	h := stamped(3, &pb.Stamp{Version: 1, Strategy: pb.Strategy_STRATEGY_PARTIAL, Way: 2, Bundle: 9},
		&pb.PhaseRange{Phase: pb.Phase_PHASE_PREFILL, Rows: 1, Own: true}, &pb.PhaseRange{Phase: pb.Phase_PHASE_DECODE, Rows: 2})
	h.Replay = wire.EncodeFates(wire.FatesShape{Rows: 3, Layers: 1, Slots: 2}, []wire.FateCode{wire.FateUnited, wire.FateOwn, wire.FateLeftOut, wire.FateLeftOut, 0, 0})
	h.Replay.Way, h.Replay.Bundle = 2, 9
	chosen := &forward.Routes{K: 2, Expert: []int32{0, 4, 2, 3, 4, 7}, Weight: []float32{1, 1, 1, 1, 1, 1}}
	var d directives
	o, err := d.obey(h, chosen, to, 8)
	if err != nil || !slices.Equal(o.routes.Expert, []int32{8, 4, 9, forward.NoExpert, 4, 7}) {
		t.Fatalf("%+v, %v", o.routes, err)
	}
	if codes, err := wire.DecodeFates(o.fates); err != nil || !slices.Equal(codes, []wire.FateCode{wire.FateUnited, wire.FateOwn, wire.FateUnited, wire.FateUnited, 0, 0}) {
		t.Errorf("%v, %v", codes, err)
	}
	h.Stamp.Bundle = 10
	if _, err := d.obey(h, chosen, to, 8); err == nil || !strings.Contains(err.Error(), "of other bundles") {
		t.Errorf("two bundles: %v", err)
	}
}

func BenchmarkDirectives(b *testing.B) {
	to := standing(b, 0, 1, 2, 3)
	h := stamped(64, &pb.Stamp{Version: 1, Strategy: pb.Strategy_STRATEGY_PARTIAL, Way: 2, Bundle: 9, DecodeMillionths: 4e5}, &pb.PhaseRange{Phase: pb.Phase_PHASE_DECODE, Rows: 64})
	chosen := &forward.Routes{K: 2}
	for i := range int32(64) {
		chosen.Expert, chosen.Weight = append(chosen.Expert, i%8, (i+1+i%3)%8), append(chosen.Weight, 0.5, 0.5)
	}
	var d directives
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.obey(h, chosen, to, 8); err != nil {
			b.Fatal(err)
		}
	}
}
