package sampling

import "github.com/switchyard/switchyard/kernels/pool"

// Batch chooses tokens of several rows side by side. One goroutine at a time uses it.
type Batch struct {
	// Pool has the threads; nil: the caller's alone.
	Pool     *pool.Pool
	samplers []Sampler
}

// worthwhile is how many logits are worth another thread: some tens of microseconds' work.
const worthwhile = 1 << 16

// Each calls use for each of so many rows of vocab logits each, with a sampler that no
// other call has meanwhile.
func (b *Batch) Each(rows, vocab int, use func(s *Sampler, row int)) {
	parts := 1
	if b.Pool != nil {
		parts = max(1, min(rows, b.Pool.Threads(), rows*vocab/worthwhile))
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
