package digest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// Small is up to how many bytes of weights nothing is cached.
const Small = 64 << 20

// File is a safetensors file, or some of its tensors.
type File struct {
	Name string
	// Path is where the file lies; empty: the tensors' Data are hashed.
	Path    string
	Header  []byte
	Tensors []safetensors.Tensor
}

// Settings of Files.
type Settings struct {
	// Caches are files that digests are kept in: all that can be read are, and the
	// first that can be written is. None: nothing is kept.
	Caches []string
	// Progress, if set, hears now and then how many of the bytes that have to be
	// hashed are. Calls come one after the other.
	Progress func(done, total int64)
	// Log, if set, hears of caches that were not believed.
	Log *slog.Logger
	// Workers hash side by side; 0 is one a core.
	Workers int
}

// ErrChanged says that a file was written to while it was hashed, or after that.
var ErrChanged = errors.New("the file changed while it was read; wait until it is whole, and try again")

// Files returns the digest of each tensor of the files, from the caches as far
// as these hold, else from the bytes.
func Files(ctx context.Context, files []File, s Settings) (map[string]Sum, error) {
	c := openCache(s)
	h := &hasher{sums: map[string]Sum{}, progress: s.Progress}
	for _, f := range files {
		known, err := c.lookUp(ctx, f)
		if err != nil {
			return nil, err
		}
		h.plan(f, known)
	}
	if err := h.run(ctx, s.workers()); err != nil {
		return nil, err
	}
	return h.sums, c.keep(files, h.sums)
}

func (s Settings) workers() int {
	if s.Workers > 0 {
		return s.Workers
	}
	return runtime.GOMAXPROCS(0)
}

type job struct {
	file   File
	tensor safetensors.Tensor
}

type hasher struct {
	progress func(done, total int64)
	jobs     []job
	total    int64

	mu   sync.Mutex
	done int64
	sums map[string]Sum
}

// plan takes what is known of a file, and makes jobs of the rest.
func (h *hasher) plan(f File, known map[string]Sum) {
	for _, t := range f.Tensors {
		if s, ok := known[t.Name]; ok {
			h.sums[t.Name] = s
			continue
		}
		h.jobs = append(h.jobs, job{f, t})
		h.total += int64(len(t.Data))
	}
}

// run does the jobs in order, several at a time, so that a disk is read forward.
func (h *hasher) run(ctx context.Context, workers int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(workers, len(h.jobs)) {
		all.Go(func() {
			buf := make([]byte, sumPiece)
			for at := next.Add(1) - 1; at < int64(len(h.jobs)) && ctx.Err() == nil; at = next.Add(1) - 1 {
				if err := h.do(ctx, h.jobs[at], buf); err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

func (h *hasher) do(ctx context.Context, j job, buf []byte) error {
	s, err := j.sum(ctx, buf, h.tell)
	if err != nil {
		return fmt.Errorf("hashing tensor %q of %s: %w", j.tensor.Name, j.file.Name, err)
	}
	h.mu.Lock()
	h.sums[j.tensor.Name] = s
	h.mu.Unlock()
	return nil
}

func (h *hasher) tell(n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.done += n
	if h.progress != nil {
		h.progress(h.done, h.total)
	}
}

// sum reads the file rather than its mapping: pages that were only hashed would
// count as this process's memory.
func (j job) sum(ctx context.Context, buf []byte, done func(int64)) (Sum, error) {
	size := int64(len(j.tensor.Data))
	if j.file.Path == "" {
		return sum(ctx, bytes.NewReader(j.tensor.Data), size, buf, done)
	}
	f, err := os.Open(j.file.Path)
	if err != nil {
		return Sum{}, err
	}
	defer func() { _ = f.Close() }() // only read
	return sum(ctx, io.NewSectionReader(f, j.tensor.Offset, size), size, buf, done)
}
