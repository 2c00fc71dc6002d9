package cluster_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
)

// keptIn are settings of the demo model with keys and values kept so, in the numeric class of that.
func keptIn(t *testing.T, kept model.KVCache) cluster.Settings {
	t.Helper()
	m := clustertest.Demo(t)
	if err := m.KeepIn(kept); err != nil {
		t.Fatal(err)
	}
	s, err := clustertest.Settings(t.Context(), m, tensor.BF16, schemas.HopsUnacked)
	if err != nil {
		t.Fatal(err)
	}
	s.Node.Shared.Class = cpu.Class() + model.Class(m.Precision, kept)
	return s
}

// The next owner of a request computes its keys and values again, with the codes that the one before had.
func TestKeptSurvivesItsOwner(t *testing.T) {
	for _, kept := range []model.KVCache{model.KVBF16, model.KVInt8} {
		t.Run(string(kept), func(t *testing.T) {
			text := survives(t, func() cluster.Settings { return keptIn(t, kept) }, func() *pb.Prompt {
				return &pb.Prompt{Text: "Once upon a time there was", Seed: proto.Uint32(7), Temperature: proto.Float64(1), MaxTokens: proto.Int32(150), IgnoreEos: true}
			})
			if len(text) < 100 {
				t.Errorf("an answer of %d bytes", len(text))
			}
		})
	}
}

// Replicas whose keys and values have other bits do not serve together.
func TestOtherKept(t *testing.T) {
	server, err := natsserver.Start(natsserver.Settings{StoreDir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	serve := func(kept model.KVCache, service string) *cluster.Pipeline {
		s := keptIn(t, kept)
		s.Node.Bus.URL = server.URL()
		t.Cleanup(func() {
			if err := s.Node.Close(); err != nil {
				t.Error(err)
			}
		})
		return cluster.NewPipeline(s.Node, s.Services, map[string]int{service: 1})
	}
	running(t, serve(model.KVInt8, "expert"))
	for kept, class := range map[model.KVCache]string{model.KVAuto: "fma32", model.KVBF16: "fma32-kv16"} {
		refused, leave := keptOut(t, serve(kept, "attention"))
		if refused.Here.NumericClass != class || refused.There.NumericClass != "fma32-kv8" {
			t.Errorf("attention with keys and values in %s waits for %v", kept, refused)
		}
		leave()
	}
}
