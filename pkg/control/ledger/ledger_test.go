package ledger

import (
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func gate(queue, compute uint64) *pb.GateTime {
	return &pb.GateTime{QueueNs: queue, ComputeNs: compute}
}

func took(id, queue, stall, compute, transfer uint64) *pb.FunctionTime {
	return &pb.FunctionTime{Function: id, QueueNs: queue, StallNs: stall, ComputeNs: compute, TransferNs: transfer}
}

func TestJoin(t *testing.T) {
	for _, tc := range []struct {
		name     string
		block    *pb.Block
		want     [Stages]time.Duration
		critical uint64
		cut      int
	}{
		{"one function", &pb.Block{Gate: gate(1, 2), Functions: []*pb.FunctionTime{took(7, 3, 4, 5, 6)}}, [Stages]time.Duration{1, 2, 3, 4, 5, 6, 0, 79}, 7, 0},
		{"the slowest is critical", &pb.Block{
			Gate: gate(1, 2), WaitNs: 30, Functions: []*pb.FunctionTime{took(7, 1, 0, 1, 0), took(8, 10, 0, 20, 0), took(9, 0, 0, 9, 1)},
		}, [Stages]time.Duration{1, 2, 10, 0, 20, 0, 2, 65}, 8, 0},
		{"a wait that the functions explain", &pb.Block{
			WaitNs: 20, Functions: []*pb.FunctionTime{took(7, 0, 0, 5, 0), took(8, 0, 0, 30, 0)},
		}, [Stages]time.Duration{0, 0, 0, 0, 30, 0, 0, 70}, 8, 0},
		{"no times", &pb.Block{}, [Stages]time.Duration{Messages: 100}, 0, 0},
		{"longer than the layer", &pb.Block{Gate: gate(101, 0)}, [Stages]time.Duration{GateQueue: 100}, 0, 1},
		{"endless", &pb.Block{
			Gate: gate(math.MaxUint64, 1), Functions: []*pb.FunctionTime{took(7, math.MaxUint64, math.MaxUint64, 1, 1)}, WaitNs: 1 << 63,
		}, [Stages]time.Duration{GateQueue: 100}, 7, 4},
		{"together longer than the layer", &pb.Block{Gate: gate(60, 10), Functions: []*pb.FunctionTime{took(7, 10, 0, 90, 5)}}, [Stages]time.Duration{60, 10, 10, 0, 20, 0, 0, 0}, 7, 0},
		{"more functions than routed rows", &pb.Block{Functions: []*pb.FunctionTime{took(7, 1, 0, 0, 0), took(8, 1, 0, 0, 0), took(9, 1, 0, 0, 0), took(6, 9, 0, 0, 0)}}, [Stages]time.Duration{ExpertQueue: 1, Messages: 99}, 7, 1},
	} {
		l, cut := Join(100, tc.block, 3)
		if l.By != tc.want || l.Critical != tc.critical || cut != tc.cut || l.Total != 100 {
			t.Errorf("%s: %v of %v, function %d, %d cut; want %v, function %d, %d cut", tc.name, l.By, l.Total, l.Critical, cut, tc.want, tc.critical, tc.cut)
		}
	}
}

// Whatever a block claims, the stages are together the time taken here.
func TestJoinAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ns := rapid.Uint64()
		b := &pb.Block{Gate: gate(ns.Draw(t, "queue"), ns.Draw(t, "compute")), WaitNs: ns.Draw(t, "wait")}
		for range rapid.IntRange(0, 9).Draw(t, "functions") {
			b.Functions = append(b.Functions, took(1, ns.Draw(t, "q"), ns.Draw(t, "s"), ns.Draw(t, "c"), ns.Draw(t, "t")))
		}
		total := time.Duration(rapid.Int64Min(-5).Draw(t, "total"))
		l, _ := Join(total, b, 4)
		checkSum(t, &l)
		if l.Total != max(0, total) || l.Functions > 4 {
			t.Errorf("total %v of %v, %d functions", l.Total, total, l.Functions)
		}
	})
}

func checkSum(t interface{ Errorf(string, ...any) }, l *Layer) {
	sum := time.Duration(0)
	for _, d := range l.By {
		sum += d
		if d < 0 {
			t.Errorf("a stage of %v", d)
		}
	}
	if sum != l.Total {
		t.Errorf("the stages are together %v of %v", sum, l.Total)
	}
}

// The layer forward time of MoEless, section 3.3, has no gate in it.
func TestLayerTime(t *testing.T) {
	l, _ := Join(100, &pb.Block{Gate: gate(5, 7), Functions: []*pb.FunctionTime{took(1, 1, 2, 3, 4)}}, 1)
	if l.Time() != 88 {
		t.Errorf("%v", l.Time())
	}
}

// The shares are together the step, though the shared expert runs beside the layers.
func TestShares(t *testing.T) {
	s := Step{Layers: make([]Layer, 2)}
	s.Own = forward.Spent{forward.Embedding: 1, forward.Attention: 10, forward.Dense: 4, forward.Shared: 30, forward.Waiting: 180, forward.Head: 20, forward.Sampling: 5}
	for i := range s.Layers {
		s.Layers[i], _ = Join(100, &pb.Block{Gate: gate(5, 7)}, 1)
	}
	sum, step := time.Duration(0), time.Duration(0)
	for _, share := range s.Shares() {
		sum += share.Time
		if share.Name == "after_block" && share.Time != 10 {
			t.Errorf("%v after the blocks", share.Time)
		}
	}
	for _, d := range s.Own {
		step += d
	}
	if sum != step {
		t.Errorf("shares of %v, step of %v", sum, step)
	}
}

// Bytes from outside never make stages that are not the layer's time.
func FuzzJoin(f *testing.F) {
	body, err := proto.Marshal(&pb.Block{Gate: gate(1, 2), WaitNs: 3, Functions: []*pb.FunctionTime{took(1, 2, 3, 4, 5), nil}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body, int64(100))
	f.Fuzz(func(t *testing.T, body []byte, total int64) {
		b := &pb.Block{}
		if proto.Unmarshal(body, b) != nil {
			return
		}
		l, _ := Join(time.Duration(total), b, 8)
		checkSum(t, &l)
	})
}
