package attention

import (
	"errors"
	"fmt"

	"github.com/switchyard/switchyard/internal/flagvalue"
	"github.com/switchyard/switchyard/pkg/process/gpus"
	"github.com/switchyard/switchyard/pkg/process/service"
	"github.com/switchyard/switchyard/pkg/transport/catalog"
)

// Descriptor returns the service as a process runs it.
func Descriptor() service.Descriptor {
	return service.Descriptor{
		Service: catalog.Attention, Flags: service.FlagsOf((*Command).Config), Loads: service.Loads{Flags: true},
		New: service.NewOf(New), Check: service.CheckOf[Config],
	}
}

// Flags are attention's own wherever it runs.
type Flags struct {
	BrownoutFlags `embed:""`

	KVMemory     string  `name:"kv-memory" default:"auto" help:"Memory for keys and values, such as 64MiB or 4GiB; auto is what the machine or container leaves, and they can use. On a GPU they take what its memory leaves." placeholder:"BYTES"`
	MaxSequences int     `default:"256" help:"Most sequences at once; more wait." placeholder:"N"`
	MaxRows      int     `default:"256" help:"Most rows of one microbatch, prompt and answer tokens together." placeholder:"N" advanced:""`
	Microbatches int     `default:"2" help:"Microbatches in flight at once." placeholder:"N" advanced:""`
	PromptDrag   float64 `default:"0.25" help:"Part by which prompts may lengthen the steps of answers under way, as a share of a step without; 0 bounds their pieces by time alone." placeholder:"PART" advanced:""`
	PrefixCache  bool    `default:"true" negatable:"" help:"Keep keys and values for prompts of the same tenant that begin alike, while there is memory." advanced:""`
	Speculate    int     `default:"8" help:"Most tokens of an answer to draft from the text before them and check in one step, where it pays; 0 drafts none." placeholder:"N" advanced:""`
	MinRows      int     `default:"0" help:"Fewest answer tokens a step for which another microbatch is used; 0 is by the size of a layer." placeholder:"N" advanced:""`
}

// Command are those of a process that is an attention replica alone.
type Command struct {
	Flags               `embed:""`
	service.UnitedFlags `embed:""`

	Device    string `default:"cpu" help:"What computes attention: cpu, or cuda (a GPU, or cuda:N the one of that number)." placeholder:"KIND"`
	GPUMemory string `name:"gpu-memory" default:"0" help:"Memory to take of the GPU, such as 40GiB: for weights, buffers, keys and values; 0 is nine tenths of what is free." placeholder:"BYTES" advanced:""`
}

// Config is what they say.
func (c *Command) Config(p service.Process) (Config, error) {
	on, noGPU := gpus.Flag{Name: "device", Device: c.Device, MemoryName: "gpu-memory", Memory: c.GPUMemory, Kinds: gpus.CPUOrGPU}.Open(p.GPU)
	own, err := c.Flags.Config(p, on, c.United)
	return own, errors.Join(noGPU, err)
}

// Bounds of what takes memory or goroutines from the start, or is calculated with.
const (
	MostRows         = 1 << 16
	MostMicrobatches = 256
	mostSequences    = 1 << 16
	mostDrafted      = 64
	mostDrag         = 100
)

// Config takes what computes attention in the CPU's place, nil is nothing, and the folder of united experts.
func (f Flags) Config(p service.Process, on *gpus.GPU, united string) (Config, error) {
	kv, err := f.kvBytes(on != nil)
	if err != nil {
		return Config{}, err
	}
	if err := f.check(); err != nil {
		return Config{}, err
	}
	dimmed, err := f.BrownoutFlags.config(united)
	if err != nil {
		return Config{}, err
	}
	return Config{
		Brownout:    dimmed,
		MaxModelLen: p.MaxModelLen, KVBytes: kv, AutoMemory: f.KVMemory == defaultKVMemory && on == nil, MaxSequences: f.MaxSequences, MaxRows: f.MaxRows, Microbatches: f.Microbatches, MinRows: f.MinRows, PromptDrag: f.PromptDrag, Speculate: f.Speculate, PrefixCache: f.PrefixCache, GPU: on,
	}, nil
}

func (f Flags) check() error {
	return errors.Join(
		service.CheckRange("max-sequences", f.MaxSequences, 1, mostSequences),
		service.CheckRange("max-rows", f.MaxRows, 1, MostRows),
		service.CheckRange("microbatches", f.Microbatches, 1, MostMicrobatches),
		checkDrag(f.PromptDrag),
		service.CheckRange("speculate", f.Speculate, 0, mostDrafted),
		service.CheckRange("min-rows", f.MinRows, 0, MostRows),
	)
}

func checkDrag(part float64) error {
	if !(part >= 0 && part <= mostDrag) {
		return fmt.Errorf("--prompt-drag is %v; it must be 0 to %d", part, mostDrag)
	}
	return nil
}

// kvBytes is 0 on a GPU, whose pages take what --gpu-memory leaves, and where others decide it (Config.AutoMemory).
func (f Flags) kvBytes(onGPU bool) (int64, error) {
	if onGPU && f.KVMemory != defaultKVMemory {
		return 0, fmt.Errorf("--kv-memory is %s; on a GPU keys and values take what its memory leaves: give --gpu-memory", f.KVMemory)
	}
	if f.KVMemory == defaultKVMemory {
		return 0, nil
	}
	return flagvalue.Bytes("kv-memory", f.KVMemory)
}

const defaultKVMemory = "auto"
