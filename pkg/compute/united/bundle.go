package united

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
)

// Format is what a file's metadata say it is.
const Format = "switchyard-united-1"

// FormatGrouped is Format of files whose table says which experts a group has, where they are
// not those with the numbers from group · way on.
const FormatGrouped = "switchyard-united-2"

// ErrBundle is of files that cannot be used.
var ErrBundle = errors.New("these united experts cannot be used")

// Header is what a file is of.
type Header struct {
	Model   string // the model's hash
	Way     int
	Experts int     // of a layer
	Loss    string  // that they learnt by: routed or eq4
	Data    string  // digest of the rows that they learnt from
	Note    string  // how they were made
	Table   []Group // by layer, then group
}

// Groups returns those of a layer.
func (h *Header) Groups() int { return brownout.Groups(h.Experts, h.Way) }

// Name returns the file of a way in a folder of united experts.
func Name(way int) string { return fmt.Sprintf("way-%d.safetensors", way) }

// Weights are a united expert's, in bf16.
type Weights struct{ Gate, Up, Down []byte }

// Bundle is an open file. It is safe for concurrent use until Close.
type Bundle struct {
	Header
	Digest string // of the whole file
	spec   *model.Spec
	file   *safetensors.File
	groups map[[2]int]*Group
	by     map[int]*brownout.Grouping // by layer
	costs  map[int][]float64          // by layer: what Distances says
}

// Write writes united experts of a model; of gives a group's weights, and is asked for those that
// learnt from rows.
func Write(w io.Writer, spec *model.Spec, h Header, of func(layer, group int) (Weights, error)) error {
	table, err := json.Marshal(h.Table)
	if err != nil {
		return err
	}
	var tensors []safetensors.Tensor
	for i := range h.Table {
		g := &h.Table[i]
		if g.Rows == 0 {
			continue
		}
		weights, err := of(g.Layer, g.Group)
		if err != nil {
			return err
		}
		d, f := spec.Hidden, spec.Layer[g.Layer].Expert.Width
		for k, data := range [][]byte{weights.Gate, weights.Up, weights.Down} {
			shape := []int{f, d}
			if k == 2 {
				shape = []int{d, f}
			}
			tensors = append(tensors, safetensors.Tensor{Name: tensor(g.Layer, g.Group, k), DType: safetensors.BF16, Shape: shape, Data: data})
		}
	}
	format, grouping := Format, "expert/way"
	if slices.ContainsFunc(h.Table, func(g Group) bool { return g.Of != nil }) {
		format, grouping = FormatGrouped, "table"
	}
	return safetensors.Write(w, tensors, map[string]string{
		"format": format, "model": h.Model, "way": strconv.Itoa(h.Way), "experts": strconv.Itoa(h.Experts), "grouping": grouping,
		"loss": h.Loss, "data": h.Data, "note": h.Note, "table": string(table),
	})
}

func tensor(layer, group, k int) string {
	return fmt.Sprintf("layers.%d.united.%d.%s_proj.weight", layer, group, [...]string{"gate", "up", "down"}[k])
}

// Open maps a way's file in a folder and checks it against the model.
func Open(dir string, way int, m *model.Model) (*Bundle, error) {
	path := filepath.Join(dir, Name(way))
	f, err := safetensors.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s has none of way %d; make them with switchyard distill --way %d", ErrBundle, dir, way, way)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w; copy them whole, or make them anew with switchyard distill", ErrBundle, err)
	}
	b, err := of(f, m)
	if err == nil && b.Way != way {
		err = fmt.Errorf("they are of way %d", b.Way)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %s: %w; make them anew with switchyard distill", ErrBundle, path, err), f.Close())
	}
	return b, nil
}

func of(f *safetensors.File, m *model.Model) (*Bundle, error) {
	meta := f.Metadata()
	b := &Bundle{spec: &m.Spec, file: f, groups: map[[2]int]*Group{}, by: map[int]*brownout.Grouping{}, costs: map[int][]float64{}}
	b.Header = Header{Model: meta["model"], Loss: meta["loss"], Data: meta["data"], Note: meta["note"]}
	b.Way, _ = strconv.Atoi(meta["way"])
	b.Experts, _ = strconv.Atoi(meta["experts"])
	switch {
	case meta["format"] != Format && meta["format"] != FormatGrouped:
		return nil, fmt.Errorf("they are of format %q, not %s or %s", meta["format"], Format, FormatGrouped)
	case b.Model != m.Hash:
		return nil, fmt.Errorf("they are of the model with hash %.12s, not %.12s", b.Model, m.Hash)
	case b.Experts != m.Spec.Experts || b.Way < 2 || b.Way > b.Experts:
		return nil, fmt.Errorf("they are of way %d for %d experts; the model has %d, and a way is at least 2", b.Way, b.Experts, m.Spec.Experts)
	}
	if err := json.Unmarshal([]byte(meta["table"]), &b.Table); err != nil {
		return nil, fmt.Errorf("reading their table: %w", err)
	}
	if err := b.index(); err != nil {
		return nil, err
	}
	sum := sha256.New()
	sum.Write(f.Header())
	sum.Write(f.Body())
	b.Digest = hex.EncodeToString(sum.Sum(nil))
	return b, b.checkWeights()
}

// index finds the table's groups: each of every layer with experts must be there once.
func (b *Bundle) index() error {
	for i := range b.Table {
		g := &b.Table[i]
		if err := g.check(&b.Header); err != nil {
			return err
		}
		if g.Layer >= len(b.spec.Layer) || !b.spec.Layer[g.Layer].MoE || b.groups[[2]int{g.Layer, g.Group}] != nil {
			return fmt.Errorf("their table names group %d of layer %d, twice or without experts", g.Group, g.Layer)
		}
		b.groups[[2]int{g.Layer, g.Group}] = g
	}
	for l, layer := range b.spec.Layer {
		for g := range b.Groups() {
			if layer.MoE && b.groups[[2]int{l, g}] == nil {
				return fmt.Errorf("group %d of layer %d is missing", g, l)
			}
		}
		if layer.MoE {
			if err := b.group(l); err != nil {
				return err
			}
		}
	}
	return nil
}

// group finds how a layer's experts are grouped, and what degrading each costs.
func (b *Bundle) group(layer int) (err error) {
	var order []int32
	b.costs[layer] = make([]float64, b.Experts)
	for g := range b.Groups() {
		group := b.groups[[2]int{layer, g}]
		for _, c := range group.Experts {
			b.costs[layer][c.Expert] = c.Distance
		}
		of := group.Of
		if size := min(b.Way, b.Experts-g*b.Way); len(of) != size && (of != nil || order != nil) {
			return fmt.Errorf("group %d of layer %d has %d experts; it must have %d", g, layer, len(of), size)
		}
		order = append(order, of...)
	}
	if order == nil {
		return nil
	}
	if len(order) != b.Experts {
		return fmt.Errorf("the groups of layer %d have %d experts of %d", layer, len(order), b.Experts)
	}
	b.by[layer], err = brownout.NewGrouping(order)
	return err
}

// Grouping returns how a layer's experts are grouped.
func (b *Bundle) Grouping(layer int) *brownout.Grouping { return b.by[layer] }

// Grouped reports whether any layer's are grouped otherwise than by their numbers.
func (b *Bundle) Grouped() bool {
	for _, by := range b.by {
		if by != nil {
			return true
		}
	}
	return false
}

// checkWeights wants finite numbers of the right shapes.
func (b *Bundle) checkWeights() error {
	for _, g := range b.Table {
		if g.Rows == 0 {
			continue
		}
		d, f := b.spec.Hidden, b.spec.Layer[g.Layer].Expert.Width
		for k := range 3 {
			name := tensor(g.Layer, g.Group, k)
			t, ok := b.file.Tensor(name)
			if !ok || t.DType != safetensors.BF16 || t.Len() != d*f || len(t.Data) != 2*d*f {
				return fmt.Errorf("tensor %s must be there, and be %d numbers of BF16", name, d*f)
			}
			for i := 0; i < len(t.Data); i += 2 {
				if v := uint32(t.Data[i])<<16 | uint32(t.Data[i+1])<<24; v&0x7f800000 == 0x7f800000 {
					return fmt.Errorf("tensor %s has the number %v", name, math.Float32frombits(v))
				}
			}
		}
	}
	return nil
}

// Error returns what a layer loses where all its groups have stand-ins, as a share of what dropping
// all of its experts' rows costs: that of the groups, by the rows that they had.
func (b *Bundle) Error(layer int) float64 {
	lost, rows := 0.0, 0
	for g := range b.Groups() {
		if of := b.groups[[2]int{layer, g}]; of != nil && of.Rows > 0 {
			lost += of.Error * float64(of.Rows)
			rows += of.Rows
		}
	}
	return lost / float64(max(1, rows))
}

// Close gives the mapping back.
func (b *Bundle) Close() error { return b.file.Close() }

// Without says which groups of a layer have no united expert; nil: all have one.
func (b *Bundle) Without(layer int) (without []bool) {
	for g := range b.Groups() {
		if of := b.groups[[2]int{layer, g}]; of == nil || of.Rows == 0 {
			if without == nil {
				without = make([]bool, b.Groups())
			}
			without[g] = true
		}
	}
	return without
}

// Distances returns what degrading a row of each expert of a layer costs, for the square of a weight
// of 1; 0 where that was not measured.
func (b *Bundle) Distances(layer int) []float64 { return b.costs[layer] }

// Load packs a group's united expert.
func (b *Bundle) Load(layer, group int) (*forward.Expert, error) {
	g := b.groups[[2]int{layer, group}]
	if g == nil || g.Rows == 0 {
		return nil, fmt.Errorf("%w: group %d of layer %d has none", ErrBundle, group, layer)
	}
	var parts [3][]byte
	for k := range parts {
		t, _ := b.file.Tensor(tensor(layer, group, k)) // Open has looked
		parts[k] = t.Data
	}
	e, err := forward.NewExpert(b.spec, layer, parts[0], parts[1], parts[2])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBundle, err)
	}
	return e, nil
}
