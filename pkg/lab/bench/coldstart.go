package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// ColdSettings say whose experts are loaded.
type ColdSettings struct {
	Dir       string // of the model's files
	Precision model.Precision
	Pool      *pool.Pool
	// Rounds are the turns of which medians are taken.
	Rounds   int
	Progress func(format string, args ...any)
}

// Sources of an expert's bytes.
const (
	fromCache = "page cache"
	fromDisk  = "disk"
	fromStore = "object store"
)

// Cold is what one expert takes from the want of it until rows can be computed, by where its bytes are.
// Times are medians of turns.
type Cold struct {
	From    string  `json:"from"`
	Seconds float64 `json:"seconds"`
	Least   float64 `json:"least_seconds"`
	Most    float64 `json:"most_seconds"`
	// Rate is of the bytes that are stored for it, Share that of Copied.
	Rate  float64 `json:"bytes_per_s"`
	Share float64 `json:"of_copy"`
	// OfRead is its share of what reading as much of the files took; 0 where no disk is read.
	OfRead float64 `json:"of_read,omitempty"`
}

// Colds are all sources, beside the machine's rates in the same turns: of copying as many bytes, by one
// thread, to memory that was written before and to memory that was not; and of reading files that no cache has.
type Colds struct {
	Model     string          `json:"model"`
	Precision model.Precision `json:"precision"`
	Stored    int64           `json:"stored_bytes"` // of one expert
	Kept      int64           `json:"kept_bytes"`   // in memory
	Copied    float64         `json:"copy_bytes_per_s"`
	CopiedNew float64         `json:"copy_new_bytes_per_s"`
	Read      float64         `json:"read_bytes_per_s,omitempty"`
	Sources   []Cold          `json:"sources"`
}

// MeasureCold takes turns of copying, reading and loading.
func MeasureCold(ctx context.Context, s ColdSettings) (c *Colds, err error) {
	y, err := openColdYard(ctx, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, y.close()) }()
	took := map[string][]float64{}
	for turn := range s.Rounds + 1 { // the first one warms what all share
		s.Progress("loading experts, turn %d of %d…", turn, s.Rounds)
		for _, part := range y.parts() {
			seconds, err := part.run(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", part.name, err)
			}
			if turn > 0 {
				took[part.name] = append(took[part.name], seconds)
			}
		}
	}
	return y.result(took), nil
}

// coldPart is one of what turns consist of; run says how many seconds it took.
type coldPart struct {
	name string
	run  func(ctx context.Context) (float64, error)
}

// Names of parts that load nothing.
const (
	partCopy    = "copying"
	partCopyNew = "copying to new memory"
	partRead    = "reading"
)

func (y *coldYard) parts() []coldPart {
	all := []coldPart{{partCopy, y.copyOver}, {partCopyNew, y.copyNew}, {fromCache, y.loadCached}}
	if canDrop {
		all = append(all, coldPart{partRead, y.read}, coldPart{fromDisk, y.loadDropped})
	}
	return append(all, coldPart{fromStore, y.loadStored})
}

func (y *coldYard) result(took map[string][]float64) *Colds {
	median := func(name string) float64 {
		if len(took[name]) == 0 {
			return 0
		}
		slices.Sort(took[name])
		return took[name][len(took[name])/2]
	}
	rate := func(name string) float64 {
		if seconds := median(name); seconds > 0 {
			return float64(y.stored) / seconds
		}
		return 0
	}
	c := &Colds{
		Model: y.name, Precision: y.s.Precision, Stored: y.stored, Kept: y.kept,
		Copied: rate(partCopy), CopiedNew: rate(partCopyNew), Read: rate(partRead),
	}
	for _, from := range []string{fromCache, fromDisk, fromStore} {
		all := took[from]
		if len(all) == 0 {
			continue
		}
		one := Cold{From: from, Seconds: median(from), Least: all[0], Most: all[len(all)-1], Rate: rate(from)}
		one.Share = one.Rate / c.Copied
		if from == fromDisk {
			one.OfRead = one.Rate / c.Read
		}
		c.Sources = append(c.Sources, one)
	}
	return c
}

// String is a table, with lines that benchstat reads behind it.
func (c *Colds) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "an expert of %s: %.1f MB stored, %.1f MB in memory (%s)\n", c.Model, float64(c.Stored)/1e6, float64(c.Kept)/1e6, c.Precision)
	fmt.Fprintf(&b, "copying as much: %.2f GB/s, to new memory %.2f GB/s", c.Copied/1e9, c.CopiedNew/1e9)
	if c.Read > 0 {
		fmt.Fprintf(&b, "; reading as much of the disk: %.2f GB/s", c.Read/1e9)
	}
	fmt.Fprintf(&b, "\n%-14s %10s %10s %10s %8s %8s %8s\n", "from", "ms", "least", "most", "GB/s", "of copy", "of read")
	for _, s := range c.Sources {
		ofRead := "-"
		if s.OfRead > 0 {
			ofRead = fmt.Sprintf("%.2f", s.OfRead)
		}
		fmt.Fprintf(&b, "%-14s %10.2f %10.2f %10.2f %8.2f %8.2f %8s\n", s.From, 1e3*s.Seconds, 1e3*s.Least, 1e3*s.Most, s.Rate/1e9, s.Share, ofRead)
	}
	for _, s := range c.Sources {
		fmt.Fprintf(&b, "BenchmarkColdStart/model=%s/precision=%s/from=%s 1 %.0f ns/op %.2f MB/s %.3f of-copy\n",
			c.Model, c.Precision, strings.ReplaceAll(s.From, " ", "-"), 1e9*s.Seconds, s.Rate/1e6, s.Share)
	}
	return b.String()
}

// loadOne is a cold start on a device of its own.
func (y *coldYard) loadOne(ctx context.Context, m *model.Model) (float64, error) {
	m.In(y.s.Precision)
	on := device.NewCPU(m, y.s.Pool, device.Settings{})
	defer on.Close()
	id := y.next()
	begin := time.Now()
	ticket := on.Load(ctx, id, device.Demanded)
	err := ticket.Wait(ctx)
	took := time.Since(begin).Seconds()
	ticket.Release()
	_ = on.Evict(id) // its memory is the collector's
	return took, err
}

// next is another expert than the last one, so that no cache of the processor has it.
func (y *coldYard) next() forward.ExpertID {
	y.turn++
	return y.experts[y.turn%len(y.experts)]
}
