package cluster_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A host that has all experts of a group answers its owner itself: nothing goes to aggregators, and
// one block comes a layer.
func TestRowSums(t *testing.T) {
	y := ready(t, settings(t))
	conn, err := y.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	heard, names := make(chan *nats.Msg, 1000), schemas.NewSubjects(schemas.DefaultPrefix, "tiny")
	for _, subject := range []string{names.Partial("*"), names.Block("*")} {
		if _, err = conn.NATS().ChanSubscribe(subject, heard); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.NATS().FlushTimeout(testkit.Patience); err != nil {
		t.Fatal(err)
	}
	ask(t, y)
	if err := conn.NATS().FlushTimeout(testkit.Patience); err != nil {
		t.Fatal(err)
	}
	type answered struct {
		step    uint64
		layer   uint32
		attempt uint32
	}
	blocks, layers := map[answered]int{}, map[uint32]bool{}
	for range len(heard) {
		m, b := <-heard, &pb.Block{}
		if strings.HasPrefix(m.Subject, strings.TrimSuffix(names.Partial("*"), "*")) {
			t.Fatalf("a partial came to %s", m.Subject)
		}
		if err := proto.Unmarshal(m.Data, b); err != nil {
			t.Fatal(err)
		}
		at := answered{b.Key.Step, b.Key.Layer, b.Key.Attempt}
		blocks[at]++
		layers[b.Key.Layer] = true
		if b.Error != nil || blocks[at] > 1 || b.Tensor.Rows != b.Key.Rows || len(b.Functions) != 1 || b.Gate == nil || b.Key.Owner != "" || b.Key.RowSums {
			t.Fatalf("block %d of %v: %v", blocks[at], at, b)
		}
	}
	if len(layers) < 2 {
		t.Errorf("blocks of %d layers were heard", len(layers))
	}
}
