package forged

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest/compared"
)

// A connection that the server closes for good ends the process: its service
// could do nothing any more, and whoever keeps processes alive would not see it.
func TestClosedConnectionEndsTheProcess(t *testing.T) {
	for i, service := range cluster.Names {
		t.Run(service, func(t *testing.T) {
			t.Parallel()
			y := clustertest.Start(t, clustertest.Open(t, goldens.Dir("mixtral")), clustertest.Context(compared.Positions))
			conn := y.Pipeline.Connections()[i]
			if err := conn.NATS().Publish(strings.Repeat("x", 5000), nil); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- y.Wait() }()
			select {
			case err := <-ended:
				if !errors.Is(err, bus.ErrClosed) || !strings.Contains(err.Error(), "maximum control line") {
					t.Errorf("ended with %v", err)
				}
			case <-time.After(testkit.Patience):
				t.Fatal("it goes on")
			}
			if err := y.Pipeline.Live(); !errors.Is(err, bus.ErrClosed) {
				t.Errorf("alive: %v", err)
			}
		})
	}
}

// Names that messages claim do not become subjects that cost a connection.
func TestLongNames(t *testing.T) {
	s := newAdversary(t, 1)
	good := &pb.Key{Version: schemas.Version, Model: s.layer().ModelHash, Owner: "a", Epoch: 1, Step: 1, Rows: 1, Aggregator: "s"}
	aggregator := s.anyOf("aggregator").Id
	for _, spoil := range []func(*pb.Key, string){
		func(k *pb.Key, name string) { k.Owner = name },
		func(k *pb.Key, name string) { k.Aggregator = name },
	} {
		for _, name := range []string{strings.Repeat("x", 5000), "*", "a b", "a\r\nPING", "a..b"} {
			key := proto.CloneOf(good)
			spoil(key, name)
			s.sendRows(key, aggregator)
		}
	}
	s.answers()
	for i, c := range s.y.Pipeline.Connections() {
		if err := c.Live(); err != nil {
			t.Errorf("%s: %v", cluster.Names[i], err)
		}
	}
}

// sendRows publishes a key to every service that names subjects by keys, with
// rows that can be worked on and with none.
func (s *adversary) sendRows(key *pb.Key, aggregator string) {
	s.t.Helper()
	hidden := s.y.Settings.Node.Shared.Model.Spec.Hidden
	one := tensor.Encode(tensor.BF16, make([]float32, hidden), hidden, nil)
	for _, rows := range []*pb.Tensor{one, nil} {
		for subject, m := range map[string]proto.Message{
			s.names.Subjects.Hidden(0):                            &pb.Hidden{Key: key, Tensor: rows, Phases: []*pb.PhaseRange{{Phase: pb.Phase_PHASE_DECODE, Rows: 1}}},
			s.names.Subjects.Expert(0, s.layer().Functions[0].Id): &pb.Dispatch{Key: key, Place: []uint32{0}, Expert: []uint32{0}, Weight: []float32{1}, Tensor: rows},
			s.names.Subjects.Partial(aggregator):                  &pb.Partial{Key: key, Place: []uint32{0}, Tensor: rows},
		} {
			if err := s.conn.Send(s.t.Context(), subject, m, nil); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// layer is the plan of layer 0.
func (s *adversary) layer() *pb.LayerPlan {
	s.t.Helper()
	entry, err := s.plans.Get(s.t.Context(), "0")
	lp := &pb.LayerPlan{}
	if err != nil || proto.Unmarshal(entry.Value(), lp) != nil {
		s.t.Fatalf("no plan of layer 0: %v", err)
	}
	return lp
}
