package credentials

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/switchyard/switchyard/pkg/transport/rights"
	"github.com/switchyard/switchyard/schemas"
)

// Storage is what servers are to have room for, beside what follows from the models.
type Storage struct {
	// LogBytes bound the token log of each model, as its services are told; 0 is the default.
	LogBytes int64 `json:"log_bytes"`
	// Objects are the bytes of models' weights in the object store.
	Objects int64 `json:"objects"`
}

// Limits are those of each server.
type Limits struct {
	Storage

	Memory int64 `json:"memory"`
	File   int64 `json:"file"`
}

// limitStep is what limits are rounded up to.
const limitStep = 1 << 30

// LimitsOf is what a server needs for the models of a scope, whatever their hops are: each
// server of a cluster may have to hold a copy of every stream.
func LimitsOf(s rights.Scope, st Storage) Limits {
	var sum schemas.Room
	for _, m := range s.Models {
		streams := schemas.Streams{Subjects: schemas.NewSubjects(s.Prefix, m.Name), Hops: schemas.HopsAcked, LogBytes: st.LogBytes, Moved: m.Objects}
		sum = sum.Plus(streams.Room(m.MoELayers))
	}
	return Limits{Storage: st, Memory: roundUp(sum.Memory), File: roundUp(sum.File + st.Objects)}
}

func roundUp(n int64) int64 { return (n + limitStep - 1) / limitStep * limitStep }

// atLeast has no limit lower than another: a running server takes higher ones, and refuses
// all of its new settings over a lower one.
func (l Limits) atLeast(other Limits) Limits {
	l.Memory, l.File = max(l.Memory, other.Memory), max(l.File, other.File)
	return l
}

const limitsHead = `# Made by "switchyard auth": what the streams of models may take, which a server sets
# aside when they are made. A running server takes more with nats-server --signal reload
# Models: %s; %d GiB are for weights in the object store.
`

func (f Folder) writeLimits(l Limits, models []rights.Model) error {
	names := make([]string, len(models))
	for i, m := range models {
		names[i] = m.Name
	}
	text := fmt.Sprintf(limitsHead, strings.Join(names, ", "), roundUp(l.Objects)>>30) +
		fmt.Sprintf("max_memory_store: %dGiB   # tensors in flight\nmax_file_store: %dGiB   # prompts, sequences, token logs, dead letters, buckets\n", l.Memory>>30, l.File>>30)
	saved, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(write(f.LimitsConfig(), []byte(text)), write(f.limitsFile(), append(saved, '\n')))
}

// Limits are the servers' as they were written last; those of a folder of an older version
// are zero.
func (f Folder) Limits() (l Limits, err error) {
	data, err := os.ReadFile(f.limitsFile())
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &l)
	}
	if err != nil {
		return l, fmt.Errorf("reading %s: %w", f.limitsFile(), err)
	}
	return l, nil
}

// TakesLimits reports whether the servers' settings include the limits from here: those of a
// folder of an older version say their own.
func (f Folder) TakesLimits() bool {
	names, err := filepath.Glob(f.in("server", "nats*.conf"))
	return err == nil && !slices.ContainsFunc(names, func(name string) bool {
		data, err := os.ReadFile(name)
		return err == nil && !strings.Contains(string(data), filepath.Base(f.LimitsConfig()))
	})
}

// SetLimits has the servers' limits fit a scope. It never lowers one.
func (f Folder) SetLimits(s rights.Scope, st Storage) (Limits, error) {
	before, err := f.Limits()
	if err != nil {
		return before, err
	}
	l := LimitsOf(s, st).atLeast(before)
	return l, f.writeLimits(l, s.Models)
}
