package united

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// Set is the bundles of a folder, one of each way. Its united experts have numbers, as devices
// name experts: behind the routed ones of a layer, those of the smallest way first. A nil one has
// none. It is safe for concurrent use until Close.
type Set struct {
	bundles []*Bundle // by way, ascending
	spec    *model.Spec
}

// OpenAll opens all bundles of a folder.
func OpenAll(dir string, m *model.Model) (*Set, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "way-*.safetensors"))
	if err != nil || len(paths) == 0 {
		if _, gone := os.Stat(dir); gone != nil {
			return nil, fmt.Errorf("%w: %w", ErrBundle, gone)
		}
		return nil, fmt.Errorf("%w: %s has none; make them with switchyard distill --out %[2]s", ErrBundle, dir)
	}
	s := &Set{spec: &m.Spec}
	for _, path := range paths {
		var way int
		if n, _ := fmt.Sscanf(filepath.Base(path), "way-%d.safetensors", &way); n != 1 || Name(way) != filepath.Base(path) {
			err = fmt.Errorf("%w: %s is no name of a bundle, such as %s", ErrBundle, path, Name(2))
		} else {
			err = s.open(dir, way, m)
		}
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	slices.SortFunc(s.bundles, func(a, b *Bundle) int { return a.Way - b.Way })
	return s, nil
}

func (s *Set) open(dir string, way int, m *model.Model) error {
	b, err := Open(dir, way, m)
	if err == nil {
		s.bundles = append(s.bundles, b)
	}
	return err
}

// Close gives the mappings back.
func (s *Set) Close() (err error) {
	if s == nil {
		return nil
	}
	for _, b := range s.bundles {
		err = errors.Join(err, b.Close())
	}
	return err
}

// Bundles returns those of the set, by way.
func (s *Set) Bundles() []*Bundle {
	if s == nil {
		return nil
	}
	return s.bundles
}

// Find returns the bundle with a number; nil if there is none.
func (s *Set) Find(way int, id uint64) *Bundle {
	for _, b := range s.Bundles() {
		if b.Way == way && b.ID() == id {
			return b
		}
	}
	return nil
}

// Has reports whether the set has a bundle.
func (s *Set) Has(way int, id uint64) bool { return s.Find(way, id) != nil }

// Number returns what devices name a united expert by; false if the layer has none of that group.
func (s *Set) Number(layer, way, group int) (number int, ok bool) {
	if s == nil {
		return 0, false
	}
	first := s.spec.Experts
	for _, b := range s.bundles {
		if b.Way == way {
			of := b.groups[[2]int{layer, group}]
			return first + group, of != nil && of.Rows > 0
		}
		first += b.Groups()
	}
	return 0, false
}

// Units returns how many numbers a layer's united experts have.
func (s *Set) Units() (n int) {
	for _, b := range s.Bundles() {
		n += b.Groups()
	}
	return n
}

// find returns the bundle and the group of a number.
func (s *Set) find(id forward.ExpertID) (b *Bundle, group int, err error) {
	group = id.Expert - s.spec.Experts
	for _, b := range s.bundles {
		if group >= 0 && group < b.Groups() {
			return b, group, nil
		}
		group -= b.Groups()
	}
	return nil, 0, fmt.Errorf("%w: there is no number %d in layer %d", ErrBundle, id.Expert, id.Layer)
}

// Size returns the bytes of a united expert on a processor.
func (s *Set) Size(id forward.ExpertID) (int64, error) {
	b, group, err := s.find(id)
	if err != nil {
		return 0, err
	}
	if of := b.groups[[2]int{id.Layer, group}]; of == nil || of.Rows == 0 {
		return 0, fmt.Errorf("%w: group %d of way %d of layer %d has none", ErrBundle, group, b.Way, id.Layer)
	}
	return forward.NewExpertBytes(s.spec, id.Layer), nil
}

// Load packs a united expert.
func (s *Set) Load(ctx context.Context, id forward.ExpertID) (*forward.Expert, error) {
	b, group, err := s.find(id)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return b.Load(id.Layer, group)
}

// ID returns the digest's beginning, which names the bundle in plans, stamps and logs.
func (b *Bundle) ID() uint64 {
	id, _ := strconv.ParseUint(b.Digest[:min(16, len(b.Digest))], 16, 64) // it is hexadecimal
	return max(1, id)                                                     // 0 is none
}

// Lacks says of the groups of all layers with experts, one layer behind the other, which have no
// united expert; nil: all have one.
func (b *Bundle) Lacks() (without []bool) {
	lacks := false
	for l, layer := range b.spec.Layer {
		for g := range b.Groups() {
			if layer.MoE {
				none := b.groups[[2]int{l, g}].Rows == 0
				without, lacks = append(without, none), lacks || none
			}
		}
	}
	if !lacks {
		return nil
	}
	return without
}

// Bytes returns the most that a united expert takes on a processor.
func (b *Bundle) Bytes() (most int64) {
	for l, layer := range b.spec.Layer {
		if layer.MoE {
			most = max(most, forward.NewExpertBytes(b.spec, l))
		}
	}
	return most
}
