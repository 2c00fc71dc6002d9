package expertmap

import (
	"errors"
	"fmt"
	"strings"

	"github.com/switchyard/switchyard/kernels/cpu"
)

// Shape is what maps of a model are like.
type Shape struct {
	Layers    int `json:"layers"`    // L, those with experts
	Experts   int `json:"experts"`   // J
	TopK      int `json:"top_k"`     // k
	Embedding int `json:"embedding"` // the embedding's length; 0: maps have none
}

// Format is how values are held. Those of a search are rounded as those that are stored,
// so that equal ones stay equal.
type Format string

// The formats: 4, 2 and about 1 byte a value. The last is e4m3 with a scale for each 128
// values.
const (
	F32  Format = "f32"
	BF16 Format = "bf16"
	FP8  Format = "fp8"
)

var formats = map[Format]cpu.Format{F32: cpu.F32, BF16: cpu.BF16, FP8: cpu.FP8}

// Replacement says which map goes for a new one when there is no room.
type Replacement string

// The rules.
const (
	// Redundant is fMoE's: the map that the new one is the most similar to goes.
	Redundant Replacement = "redundant"
	// FIFO lets the oldest go.
	FIFO Replacement = "fifo"
	// KCentre lets the older of the two most similar ones go, the new one included.
	KCentre Replacement = "k-centre"
	// LeastUseful lets that go which was found least often for its age.
	LeastUseful Replacement = "least-useful"
	// SkipRedundant does not take a new map that is too similar to one, and else lets the
	// oldest go.
	SkipRedundant Replacement = "skip-redundant"
)

// Replacements are all rules; the first is the default.
func Replacements() []Replacement {
	return []Replacement{Redundant, FIFO, KCentre, LeastUseful, SkipRedundant}
}

// Settings are those of a store.
type Settings struct {
	Shape
	// Model is the hash of the model whose maps they are.
	Model string `json:"model"`
	// Capacity is the most maps of a tenant, or of all tenants if Shared.
	Capacity int `json:"capacity"`
	// Distance is d, in layers.
	Distance int `json:"distance"`
	// Replace is Redundant by default.
	Replace Replacement `json:"replace"`
	// Redundancy is from when on SkipRedundant takes a map for one that is there.
	Redundancy float32 `json:"redundancy"`
	// Shared lets all tenants search one set of maps.
	Shared bool `json:"shared"`
	// Tenants is the most tenants that have maps.
	Tenants int `json:"tenants"`
	// Maps and Embeddings are F32 by default.
	Maps       Format `json:"maps"`
	Embeddings Format `json:"embeddings"`
}

// What settings are by default.
const (
	DefaultCapacity   = 1000
	DefaultRedundancy = 0.9
	DefaultTenants    = 64
)

// Bounds of what a store is asked for.
const (
	mostLayers    = 1 << 12
	mostExperts   = 1 << 16
	mostValues    = 1 << 20 // of a map
	mostEmbedding = 1 << 17
	mostCapacity  = 1 << 22
	mostTenants   = 1 << 16
)

// ErrSettings is of stores that cannot be.
var ErrSettings = errors.New("settings of expert maps")

func settingsError(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrSettings}, args...)...)
}

// filled are the settings with defaults where nothing is said.
func (s Settings) filled() Settings {
	if s.Replace == "" {
		s.Replace = Redundant
	}
	if s.Redundancy == 0 {
		s.Redundancy = DefaultRedundancy
	}
	if s.Tenants == 0 {
		s.Tenants = DefaultTenants
	}
	if s.Maps == "" {
		s.Maps = F32
	}
	if s.Embeddings == "" {
		s.Embeddings = F32
	}
	return s
}

// check says what is wrong, and what to do.
func (s Settings) check() error {
	if err := s.Shape.check(); err != nil {
		return err
	}
	switch {
	case s.Capacity < 1 || s.Capacity > mostCapacity:
		return settingsError("the capacity is %d maps; set it to 1 to %d, such as %d", s.Capacity, mostCapacity, DefaultCapacity)
	case s.Distance < 1 || s.Distance >= s.Layers:
		return settingsError("the distance is %d layers; with %d layers that have experts, set it to 1 to %d", s.Distance, s.Layers, s.Layers-1)
	case s.Tenants < 1 || s.Tenants > mostTenants:
		return settingsError("%d tenants may have maps; set it to 1 to %d", s.Tenants, mostTenants)
	case !(s.Redundancy > 0 && s.Redundancy <= 1):
		return settingsError("maps count as redundant from a similarity of %v on; set it above 0 and to 1 at most, such as %v", s.Redundancy, DefaultRedundancy)
	}
	return s.checkNames()
}

func (s Shape) check() error {
	switch {
	case s.Layers < 2 || s.Layers > mostLayers:
		return settingsError("the model has %d layers with experts; maps foretell layers from earlier ones, so that it must have 2 to %d", s.Layers, mostLayers)
	case s.Experts < 1 || s.Experts > mostExperts || s.TopK < 1 || s.TopK > s.Experts:
		return settingsError("gates choose %d of %d experts; there must be 1 to %d, and 1 of them or more chosen", s.TopK, s.Experts, mostExperts)
	case s.Layers*s.Experts > mostValues:
		return settingsError("maps have %d × %d values; at most %d are held", s.Layers, s.Experts, mostValues)
	case s.Embedding < 0 || s.Embedding > mostEmbedding:
		return settingsError("embeddings have %d values; there must be 0 (none) to %d", s.Embedding, mostEmbedding)
	}
	return nil
}

func (s Settings) checkNames() error {
	known := false
	var names []string
	for _, r := range Replacements() {
		known = known || r == s.Replace
		names = append(names, string(r))
	}
	if !known {
		return settingsError("there is no rule of replacement %q; choose one of %s", s.Replace, strings.Join(names, ", "))
	}
	for what, f := range map[string]Format{"maps": s.Maps, "embeddings": s.Embeddings} {
		if _, ok := formats[f]; !ok {
			return settingsError("%s cannot be held as %q; choose one of %s, %s, %s", what, f, F32, BF16, FP8)
		}
	}
	return nil
}

// Bytes is the memory of a store with so many maps of one tenant.
func (s Settings) Bytes(maps int) int64 {
	s = s.filled()
	whole := int64((maps + cpu.PanelWidth - 1) / cpu.PanelWidth * cpu.PanelWidth)
	bytes := int64(s.Layers) * (cpu.PackedBytes(maps, s.Experts, formats[s.Maps]) + 4*whole)
	if s.Embedding > 0 {
		bytes += cpu.PackedBytes(maps, s.Embedding, formats[s.Embeddings]) + 4*whole
	}
	return bytes + slotBytes*whole
}
