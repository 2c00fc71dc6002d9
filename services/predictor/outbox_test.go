package predictor

import (
	"testing"
	"time"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Predictions of some milliseconds become one sample a layer; many become
// several.
func TestOutbox(t *testing.T) {
	var sent []*pb.LoadSample
	o := newOutbox(7, "predictor-1", 3, func(s *pb.LoadSample) { sent = append(sent, s) })
	now := time.Now()
	if _, ok := o.flushDue(now); ok || len(sent) > 0 {
		t.Fatal("something waits at the start")
	}
	for step := range uint64(3) {
		o.put(now.Add(time.Duration(step)*time.Millisecond), 1, &pb.StepLoad{Step: step})
		o.put(now, 2, &pb.StepLoad{Step: step})
	}
	if wait, ok := o.flushDue(now.Add(batchFor / 2)); !ok || wait != batchFor/2 || len(sent) > 0 {
		t.Fatalf("waits %v, %v; sent %v", wait, ok, sent)
	}
	if _, ok := o.flushDue(now.Add(batchFor)); ok || len(sent) != 2 {
		t.Fatalf("still waits: %v; sent %v", ok, sent)
	}
	for range batchSteps + 1 {
		o.put(now, 1, &pb.StepLoad{})
	}
	o.flush(now)
	want := []struct {
		layer uint32
		steps int
	}{{1, 3}, {2, 3}, {1, batchSteps}, {1, 1}}
	if len(sent) != len(want) {
		t.Fatalf("%d samples, want %d", len(sent), len(want))
	}
	for i, w := range want {
		s := sent[i]
		if s.Layer != w.layer || len(s.Steps) != w.steps || s.SpanMs == 0 || s.Host != "predictor-1" ||
			s.Model != 7 || s.Source != pb.LoadSource_LOAD_SOURCE_PREDICTOR {
			t.Errorf("sample %d is %v, want %v", i, s, w)
		}
	}
}
