package directives

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/policy/brownout"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func legal() *pb.Directive {
	return &pb.Directive{Version: 3, Model: testModel, Strategy: pb.Strategy_STRATEGY_PARTIAL, Way: 8, PrefillMillionths: 1, DecodeMillionths: 1_000_000, Exempt: []uint32{1, 3}}
}

func TestRules(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*pb.Directive)
		want   string // empty: legal
	}{
		{"legal", func(*pb.Directive) {}, ""},
		{"full", func(d *pb.Directive) { d.Strategy, d.Way = pb.Strategy_STRATEGY_FULL, 0 }, ""},
		{"another model's", func(d *pb.Directive) { d.Model++ }, "of model"},
		{"no version", func(d *pb.Directive) { d.Version = 0 }, "has version 0"},
		{"a version from the future", func(d *pb.Directive) { d.Version = 6 }, "revision 5 has version 6"},
		{"a threshold above 1", func(d *pb.Directive) { d.DecodeMillionths++ }, "1000001 millionths"},
		{"way 1", func(d *pb.Directive) { d.Way = 1 }, "the way is 1"},
		{"more than there are", func(d *pb.Directive) { d.Way = 17 }, "the way is 17"},
		{"no strategy", func(d *pb.Directive) { d.Strategy = 0 }, "strategy 0"},
		{"a negative strategy", func(d *pb.Directive) { d.Strategy = -1 }, "strategy 0"},
		{"a layer without experts", func(d *pb.Directive) { d.Exempt = []uint32{0} }, "layer 0"},
		{"layers in disorder", func(d *pb.Directive) { d.Exempt = []uint32{3, 1} }, "in their order"},
		{"a floor above 1", func(d *pb.Directive) { d.FloorMillionths = 1_000_001 }, "floor"},
	} {
		d := legal()
		tc.change(d)
		if err := testRules().Check(d, 5); (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
	for _, s := range []*pb.BrownoutSettings{{Mode: 4}, {Mode: -1}, {PrefillMillionths: 1_000_001}, {DecodeMillionths: 1 << 31}, {Way: 1}} {
		if CheckSettings(s) == nil {
			t.Errorf("%v is taken", s)
		}
	}
}

func TestMeter(t *testing.T) {
	m := NewMeter(testModel, "attention-1", 4)
	if l := m.Take(); l != nil {
		t.Errorf("%v of nothing", l)
	}
	for range MostTimes + 5 {
		m.Step(false, time.Millisecond)
	}
	m.Step(true, time.Second)
	for range MostCurves + 1 {
		m.Curve(&pb.StepCurve{Rows: 1})
	}
	m.Wait(3*time.Second, true, 4)
	l := m.Take()
	if len(l.DecodeSeconds) != MostTimes || len(l.PrefillSeconds) != 1 || l.WaitedSeconds != 3 || !l.Busy || l.Number != 1 || l.Life != 4 || len(l.Curves) != MostCurves || l.ComingRows != 4 {
		t.Errorf("%d of decode, %v of prefill, waited %v, number %d", len(l.DecodeSeconds), l.PrefillSeconds, l.WaitedSeconds, l.Number)
	}
	if l := m.Take(); l.Number != 2 || len(l.DecodeSeconds)+len(l.Curves) > 0 {
		t.Errorf("the next one: %v", l)
	}
	m.Wait(0, false, 0)
	if l := m.Take(); l != nil {
		t.Errorf("when there is nothing more: %v", l)
	}
}

// Whatever lies in the bucket or comes as latencies, nothing but what is legal is obeyed.
func FuzzDecode(f *testing.F) {
	body, err := proto.Marshal(legal())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body, uint64(9))
	message, err := proto.Marshal(latencies(1, 0.1))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(message, uint64(1))
	told := latencies(1, 0.1)
	told.Curves, told.ComingRows = []*pb.StepCurve{toldOf(brownout.One, 0.2)}, 3
	if message, err = proto.Marshal(told); err != nil {
		f.Fatal(err)
	}
	f.Add(message, uint64(1))
	f.Fuzz(func(t *testing.T, body []byte, revision uint64) {
		if w := testRules().decode(body, revision); w.Directive != nil && testRules().Check(w.Directive, revision) != nil {
			t.Errorf("%v is obeyed", w.Directive)
		}
		if w := testRules().decodeSettings(body, revision); w.Settings != nil && CheckSettings(w.Settings) != nil {
			t.Errorf("%v is wanted", w.Settings)
		}
		for _, predictive := range []bool{false, true} {
			s := testSettings()
			s.Predictive = predictive
			d, err := newDecider(s, 0)
			if err != nil {
				t.Fatal(err)
			}
			l := &pb.Latencies{}
			if proto.Unmarshal(body, l) == nil {
				d.hear(l, 1)
			}
			d.resume(testRules().decode(body, revision).Directive, 1)
			d.want(testRules().decodeSettings(body, revision), 1)
			made, _ := d.decide(2)
			made.Version, made.Model = 1, testModel
			if err := testRules().Check(made, 1); err != nil {
				t.Errorf("%v is written: %v", made, err)
			}
		}
	})
}
