package loads

import (
	"errors"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

var hintLimits = HintLimits{Model: 7, Experts: 5, MoE: []bool{false, true, true}}

func hint(change func(*pb.Hint, *pb.LayerHint)) []byte {
	l := &pb.LayerHint{Layer: 1, Kind: plan.Routed, Unit: []uint32{4, 0}, Probability: []float32{1, 0}, PlanVersion: 3}
	h := &pb.Hint{Version: schemas.Version, Model: 7, Predictor: "predictor-1", Owner: "attention-1", Step: 9, Layers: []*pb.LayerHint{l}}
	change(h, l)
	body, err := proto.Marshal(h)
	if err != nil {
		panic(err)
	}
	return body
}

func TestDecode(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for name, tc := range map[string]struct {
		change  func(*pb.Hint, *pb.LayerHint)
		problem string // empty: none
	}{
		"good":             {func(*pb.Hint, *pb.LayerHint) {}, ""},
		"united":           {func(_ *pb.Hint, l *pb.LayerHint) { l.Kind, l.Way, l.Unit = plan.United, 2, []uint32{2, 1} }, ""},
		"next step":        {func(_ *pb.Hint, l *pb.LayerHint) { l.StepsAhead = 1 }, ""},
		"another model":    {func(h *pb.Hint, _ *pb.LayerHint) { h.Model = 8 }, "model 0000000000000008"},
		"another version":  {func(h *pb.Hint, _ *pb.LayerHint) { h.Version++ }, "of version"},
		"forged":           {func(h *pb.Hint, _ *pb.LayerHint) { h.Predictor = "a.>" }, "not replicas' ids"},
		"nobody's":         {func(h *pb.Hint, _ *pb.LayerHint) { h.Owner = "" }, "not replicas' ids"},
		"has reached all":  {func(h *pb.Hint, _ *pb.LayerHint) { h.Reached = 3 }, ""},
		"has gone beyond":  {func(h *pb.Hint, _ *pb.LayerHint) { h.Reached = 4 }, "layer 3 of 3"},
		"all wanted":       {func(_ *pb.Hint, l *pb.LayerHint) { l.Wanted = 2 }, ""},
		"more wanted":      {func(_ *pb.Hint, l *pb.LayerHint) { l.Wanted = 3 }, "3 of 2 units"},
		"no layers":        {func(h *pb.Hint, _ *pb.LayerHint) { h.Layers = nil }, "0 layers"},
		"many layers":      {func(h *pb.Hint, l *pb.LayerHint) { h.Layers = append(make([]*pb.LayerHint, MaxHintLayers), l) }, "513 layers"},
		"a dense layer":    {func(_ *pb.Hint, l *pb.LayerHint) { l.Layer = 0 }, "no experts"},
		"a layer beyond":   {func(_ *pb.Hint, l *pb.LayerHint) { l.Layer = 3 }, "no experts"},
		"far ahead":        {func(_ *pb.Hint, l *pb.LayerHint) { l.StepsAhead = 17 }, "17 steps ahead"},
		"no kind":          {func(_ *pb.Hint, l *pb.LayerHint) { l.Kind = 0 }, "kind 0"},
		"unknown kind":     {func(_ *pb.Hint, l *pb.LayerHint) { l.Kind = 3 }, "kind 3"},
		"routed way":       {func(_ *pb.Hint, l *pb.LayerHint) { l.Way = 2 }, "its way is 2"},
		"no way":           {func(_ *pb.Hint, l *pb.LayerHint) { l.Kind = plan.United }, "its way is 0"},
		"unknown group":    {func(_ *pb.Hint, l *pb.LayerHint) { l.Kind, l.Way = plan.United, 2 }, "unit 4 of 3"},
		"unknown expert":   {func(_ *pb.Hint, l *pb.LayerHint) { l.Unit[0] = 5 }, "unit 5 of 5"},
		"twice":            {func(_ *pb.Hint, l *pb.LayerHint) { l.Unit[0] = 0 }, "twice"},
		"nothing":          {func(_ *pb.Hint, l *pb.LayerHint) { l.Unit, l.Probability = nil, nil }, "0 units"},
		"probabilities":    {func(_ *pb.Hint, l *pb.LayerHint) { l.Probability = l.Probability[:1] }, "1 probabilities"},
		"not a number":     {func(_ *pb.Hint, l *pb.LayerHint) { l.Probability[0] = nan }, "NaN"},
		"infinite":         {func(_ *pb.Hint, l *pb.LayerHint) { l.Probability[0] = inf }, "+Inf"},
		"negative":         {func(_ *pb.Hint, l *pb.LayerHint) { l.Probability[0] = -0.5 }, "-0.5"},
		"one layer is bad": {func(h *pb.Hint, _ *pb.LayerHint) { h.Layers = append(h.Layers, &pb.LayerHint{Layer: 9}) }, "layer 9"},
	} {
		h, err := hintLimits.Decode(hint(tc.change))
		switch {
		case tc.problem == "" && (err != nil || h.Step != 9):
			t.Errorf("%s: %v", name, err)
		case tc.problem != "" && (!errors.Is(err, ErrHint) || !strings.Contains(err.Error(), tc.problem)):
			t.Errorf("%s: %v, want %q", name, err, tc.problem)
		}
	}
	if _, err := hintLimits.Decode(make([]byte, MaxHintBytes+1)); !errors.Is(err, ErrHint) {
		t.Errorf("too long: %v", err)
	}
}

// What is decoded names units that there are.
func FuzzDecode(f *testing.F) {
	f.Add(hint(func(*pb.Hint, *pb.LayerHint) {}))
	f.Add(hint(func(_ *pb.Hint, l *pb.LayerHint) { l.Kind, l.Way = plan.United, 5 }))
	f.Fuzz(func(t *testing.T, body []byte) {
		h, err := hintLimits.Decode(body)
		if err != nil {
			return
		}
		for _, l := range h.Layers {
			for i, u := range l.Unit {
				if u >= 5 || !(l.Probability[i] >= 0) || !hintLimits.MoE[l.Layer] {
					t.Errorf("%v", l)
				}
			}
		}
	})
}

// The newest hints are kept, within both bounds.
func TestQueue(t *testing.T) {
	q, dropped := NewHintQueue(), 0
	for i := range queueHints + 3 {
		dropped += q.Put([]byte{byte(i)})
	}
	if first, ok := q.Take(); dropped != 3 || !ok || first[0] != 3 {
		t.Errorf("%d dropped; the oldest is %v", dropped, first)
	}
	<-q.Note()
	if dropped = q.Put(make([]byte, queueBytes)); dropped != queueHints-1 {
		t.Errorf("%d dropped for a large one", dropped)
	}
	if _, ok := q.Take(); !ok {
		t.Error("the large one is lost")
	}
	if _, ok := q.Take(); ok || q.bytes != 0 {
		t.Errorf("something is left of %d bytes", q.bytes)
	}
}
