package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
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
	Model *model.Model // hashed, in the precision that is measured; CheckCold has passed it
	Dir   string       // of its files
	Pool  *pool.Pool
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
	From string `json:"from"`
	// Again says that the expert takes the memory of another one that was given up for it, as on a host that
	// offloads; else memory that the system gives anew.
	Again   bool    `json:"again"`
	Seconds float64 `json:"seconds"`
	Least   float64 `json:"least_seconds"`
	Most    float64 `json:"most_seconds"`
	// Rate is of the bytes that are stored for it, Share that of Copied.
	Rate  float64 `json:"bytes_per_s"`
	Share float64 `json:"of_copy"`
	// OfRead is its share of what reading as much of the files took; 0 where no disk is read.
	OfRead float64 `json:"of_read,omitempty"`
	// OfGot is its share of what nats.go took to read the same objects; 0 where it reads none.
	OfGot float64 `json:"of_nats_go,omitempty"`
}

// Colds are all sources, beside the machine's rates in the same turns: of copying as many bytes, by one
// thread, to memory that was written before and to memory that was not; of reading files that no cache has; of
// core NATS, from a connection to the server and back; and of nats.go, from the object store to memory that was
// written before.
type Colds struct {
	Model     string          `json:"model"`
	Precision model.Precision `json:"precision"`
	Stored    int64           `json:"stored_bytes"` // of one expert
	Kept      int64           `json:"kept_bytes"`   // in memory
	Copied    float64         `json:"copy_bytes_per_s"`
	CopiedNew float64         `json:"copy_new_bytes_per_s"`
	Read      float64         `json:"read_bytes_per_s,omitempty"`
	Sent      float64         `json:"nats_bytes_per_s"`
	Got       float64         `json:"nats_go_bytes_per_s"`
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
				return nil, unloaded(fmt.Errorf("%s: %w", part.name, err))
			}
			for i, one := range seconds {
				if name := part.name + kinds[i]; turn > 0 {
					took[name] = append(took[name], one)
				}
			}
		}
	}
	return y.result(took), nil
}

// coldPart is one of what turns consist of; run says how many seconds it took: of a source, by kinds.
type coldPart struct {
	name string
	run  func(ctx context.Context) ([]float64, error)
}

// kinds of memory that an expert is loaded into.
var kinds = []string{"", " again"}

// Names of parts that load nothing.
const (
	partCopy    = "copying"
	partCopyNew = "copying to new memory"
	partRead    = "reading"
	partSent    = "sending by NATS"
	partGot     = "reading by nats.go"
)

func (y *coldYard) parts() []coldPart {
	all := []coldPart{{partCopy, y.copyOver}, {partCopyNew, y.copyNew}, {fromCache, y.loadCached}}
	if canDrop {
		all = append(all, coldPart{partRead, y.read}, coldPart{fromDisk, y.loadDropped})
	}
	return append(all, coldPart{partSent, y.send}, coldPart{partGot, y.get}, coldPart{fromStore, y.loadStored})
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
		Model: y.name, Precision: y.s.Model.Precision, Stored: y.stored, Kept: y.kept,
		Copied: rate(partCopy), CopiedNew: rate(partCopyNew), Read: rate(partRead), Sent: rate(partSent), Got: rate(partGot),
	}
	for _, from := range []string{fromCache, fromDisk, fromStore} {
		for i, kind := range kinds {
			all := took[from+kind]
			if len(all) == 0 {
				continue
			}
			one := Cold{From: from, Again: i > 0, Seconds: median(from + kind), Least: all[0], Most: all[len(all)-1], Rate: rate(from + kind)}
			one.Share = one.Rate / c.Copied
			switch from {
			case fromDisk:
				one.OfRead = one.Rate / c.Read
			case fromStore:
				one.OfGot = one.Rate / c.Got
			}
			c.Sources = append(c.Sources, one)
		}
	}
	return c
}

func (c Cold) name() string {
	if c.Again {
		return c.From + kinds[1]
	}
	return c.From
}

// String is a table, with lines that benchstat reads behind it.
func (c *Colds) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "an expert of %s: %.1f MB stored, %.1f MB in memory (%s)\n", c.Model, float64(c.Stored)/1e6, float64(c.Kept)/1e6, c.Precision)
	fmt.Fprintf(&b, "copying as much: %.2f GB/s, to new memory %.2f GB/s", c.Copied/1e9, c.CopiedNew/1e9)
	if c.Read > 0 {
		fmt.Fprintf(&b, "; reading as much of the disk: %.2f GB/s", c.Read/1e9)
	}
	fmt.Fprintf(&b, "; core NATS there and back: %.2f GB/s; nats.go from the object store: %.2f GB/s", c.Sent/1e9, c.Got/1e9)
	fmt.Fprintf(&b, "\n%-19s %10s %10s %10s %8s %8s %8s %10s\n", "from", "ms", "least", "most", "GB/s", "of copy", "of read", "of nats.go")
	share := func(v float64) string {
		if v == 0 {
			return "-"
		}
		return fmt.Sprintf("%.2f", v)
	}
	for _, s := range c.Sources {
		fmt.Fprintf(&b, "%-19s %10.2f %10.2f %10.2f %8.2f %8.2f %8s %10s\n", s.name(), 1e3*s.Seconds, 1e3*s.Least, 1e3*s.Most, s.Rate/1e9, s.Share, share(s.OfRead), share(s.OfGot))
	}
	for _, s := range c.Sources {
		fmt.Fprintf(&b, "BenchmarkColdStart/model=%s/precision=%s/from=%s 1 %.0f ns/op %.2f MB/s %.3f of-copy\n",
			c.Model, c.Precision, strings.ReplaceAll(s.name(), " ", "-"), 1e9*s.Seconds, s.Rate/1e6, s.Share)
	}
	return b.String()
}

// load is two cold starts on a device of its own that holds one expert: the first takes new memory, and the second that
// of the first. Between them is what a turn does before it loads.
func (y *coldYard) load(ctx context.Context, m *model.Model, between func() error) (took []float64, err error) {
	m.In(y.s.Model.Precision)
	debug.FreeOSMemory() // else new memory would be what a former turn left in the heap
	on := device.NewCPU(m, y.s.Pool, device.Settings{Budget: y.kept})
	defer on.Close()
	for i := range kinds {
		if i > 0 {
			if err := between(); err != nil {
				return nil, err
			}
		}
		begin := time.Now()
		ticket := on.Load(ctx, y.next(), device.Demanded)
		err := ticket.Wait(ctx)
		took = append(took, time.Since(begin).Seconds())
		ticket.Release()
		if err != nil {
			return nil, err
		}
	}
	return took, nil
}

// next is another expert than the last one, so that no cache of the processor has it.
func (y *coldYard) next() forward.ExpertID {
	y.turn++
	return y.experts[y.turn%len(y.experts)]
}
