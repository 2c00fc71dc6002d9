package sampling

import "github.com/switchyard/switchyard/kernels/pool"

// Batch chooses tokens of several rows side by side. One goroutine at a time uses it.
type Batch struct {
	// Pool has the threads; nil: the caller's alone.
	Pool     *pool.Pool
	samplers []Sampler
}

// How many logits are worth another thread: some tens of microseconds' work, and some ten where threads are awake.
const (
	worthwhile      = 1 << 16
	worthwhileAwake = 1 << 14
)

// Each calls use for each of so many rows of vocab logits each, with a sampler that no
// other call has meanwhile.
func (b *Batch) Each(rows, vocab int, use func(s *Sampler, row int)) {
	parts := 1
	if b.Pool != nil {
		of := worthwhile
		if b.Pool.Awake() > 0 {
			of = worthwhileAwake
		}
		parts = max(1, min(rows, b.Pool.Threads(), rows*vocab/of))
	}
	if missing := parts - len(b.samplers); missing > 0 {
		b.samplers = append(b.samplers, make([]Sampler, missing)...)
	}
	do := func(part int) {
		for row := part * rows / parts; row < (part+1)*rows/parts; row++ {
			use(&b.samplers[part], row)
		}
	}
	if parts == 1 {
		do(0)
		return
	}
	b.Pool.Run(parts, do)
}
