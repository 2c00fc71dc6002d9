package up

import (
	"slices"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/device/paced"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/process/lifecycle"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// TellDevice says what computes, if it is not the CPU as it is: with the figures of
// this process, and to the others with its class.
func TellDevice(e *cli.Env, s cluster.Services, m ModelFlags, t *telemetry.Config) {
	tellPaced(e, s.Expert.Profile, t)
	t.NumericClass = ClassOf(s, m)
	tellMemory(e, s)
	tellGPU(e, "attention", s.Attention.GPU, t)
	tellGPU(e, "gates", s.Gate.GPU, t)
	tellGPU(e, "experts", s.Expert.GPU, t)
}

// TellModel says in one line what is served, with what and where.
func TellModel(e *cli.Env, p Part, n *cluster.Node, f ModelFlags, at string) {
	m, from := p.Model, f.dir()
	if from == "" {
		from = "this binary"
	}
	keys := []any{"name", n.ModelName(), "from", from, "hash", m.Hash, "bytes", m.Bytes, "class", n.Shared.Class, "kernels", cpu.Name(), "threads", f.ComputeThreads(), "nats", at}
	if p.Count["attention"] > 0 {
		keys = append(keys, "kv_bytes", p.Services.Attention.KVBytes)
	}
	if p.Count["expert"] > 0 {
		keys = append(keys, "expert_bytes", p.Services.Expert.MemoryBudget)
	}
	e.Log.Info("a model is opened", keys...)
}

// tellMemory warns of flags that allow more memory than the machine has, or the container, or GOMEMLIMIT. That of a GPU is
// looked at when it is taken, and that of paced hosts is another device's.
func tellMemory(e *cli.Env, s cluster.Services) {
	m := lifecycle.MemoryOf()
	for _, a := range beyond(uint64(m.Limit), s) { //nolint:gosec // it is not negative
		e.Log.Warn("a flag allows more memory than this process may have: it is taken as it is needed, and then the system may end this process; give less",
			"flag", a.flag, "bytes", a.bytes, "limit_bytes", m.Limit, "by", m.By)
	}
}

// allowed is what a flag lets a service take of the machine's memory.
type allowed struct {
	flag  string
	bytes uint64
}

// beyond returns the flags that allow more than a machine has; 0: nobody knows how much that is.
func beyond(machine uint64, s cluster.Services) (all []allowed) {
	all = append(all, allowed{"--kv-memory", uint64(s.Attention.KVBytes)}) //nolint:gosec // it is not negative
	if s.Expert.Profile == nil {
		all = append(all, allowed{"--expert-memory", s.Expert.MemoryBudget})
	}
	return slices.DeleteFunc(all, func(a allowed) bool { return machine == 0 || a.bytes <= machine })
}

// tellPaced says of which device the figures of this process are: to people, in
// the log, and with the figures themselves.
func tellPaced(e *cli.Env, p *profiles.Profile, t *telemetry.Config) {
	if p == nil {
		return
	}
	if e.Told != p.Name { // the arena has many pipelines of one device
		e.Told = p.Name
		e.Say(p.String(), "profile", "name", p.Name, "numbers", p.Values())
	}
	t.Device = paced.NameOf(p)
	e.Log.Info("expert hosts take the time and memory of another device", "device", t.Device, "is", p.Device, "experts", p.Experts)
}
