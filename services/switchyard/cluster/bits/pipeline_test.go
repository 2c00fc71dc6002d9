// Package bits tests that whole pipelines give the bits of direct calls (pkg/compute/direct):
// whatever the model, the wire, the hops, the hosts, the device, and the memory.
package bits

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest/compared"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

const demo = "../../../../models/demo"

// The models of TestPipelineIsDirect: the demo; experts in every layer; dense
// layers between, and a shared expert; GPT-2's norms, positions and biases; sinks,
// windows and packed experts; a cache of latents.
var models = []string{
	demo, goldens.Dir("mixtral"), goldens.Dir("qwen2_moe-mixed"),
	goldens.Dir("gpt2_moe"), goldens.Dir("gpt_oss-mxfp4"),
	goldens.Dir("deepseek_v3"),
}

// setup is how a pipeline's parts are joined.
type setup struct {
	wire  tensor.Wire
	hops  schemas.Hops
	hosts int
}

// setups are all of them for one model, and each choice once for the others.
func setups(whole bool) (all []setup) {
	if !whole {
		return []setup{{tensor.BF16, schemas.HopsUnacked, 2}, {tensor.F32, schemas.HopsCore, 1}, {tensor.BF16, schemas.HopsAcked, 1}}
	}
	for _, wire := range []tensor.Wire{tensor.F32, tensor.BF16} {
		for _, hops := range []schemas.Hops{schemas.HopsAcked, schemas.HopsUnacked, schemas.HopsCore} {
			all = append(all, setup{wire, hops, 1}, setup{wire, hops, 2})
		}
	}
	return all
}

// TestPipelineIsDirect starts the five services and a NATS server, and wants
// from messages the bits that direct calls give.
func TestPipelineIsDirect(t *testing.T) {
	for i, dir := range models {
		for _, s := range testkit.Some(setups(i == 1 && !testkit.Race)) {
			t.Run(fmt.Sprintf("%s/%s/%s/hosts=%d", filepath.Base(dir), s.wire, s.hops, s.hosts), func(t *testing.T) {
				t.Parallel() // most of a pipeline's start and end is waiting
				want := compared.Direct(t, dir, s.wire)
				y := clustertest.Start(t, clustertest.Open(t, dir),
					clustertest.Joined(s.wire, s.hops), clustertest.Hosts(s.hosts), clustertest.Context(compared.Positions))
				compared.Compare(t, y, s.hosts, want)
			})
		}
	}
}
