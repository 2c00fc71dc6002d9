// Package inspect says what a model is and takes, from its folder or from its
// config.json alone: sizes, parts, and whether this build serves it. Of a model
// for several kinds of input it counts the text part only.
package inspect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/gguf"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/schemas"
)

// Report is what is known of a model. The fields up to Reason are those that
// outsiders rely on.
type Report struct {
	Family    string `json:"family"`
	Layers    int    `json:"layers"`
	MoELayers int    `json:"moe_layers"`
	Experts   int    `json:"experts"` // of each of these
	TopK      int    `json:"top_k"`

	ParametersTotal  int64 `json:"parameters_total"`
	ParametersActive int64 `json:"parameters_active"` // that one token uses
	// ParametersActiveWithoutInput is without the input embedding, of which a
	// token reads one row.
	ParametersActiveWithoutInput int64 `json:"parameters_active_without_input_embedding"`

	Bytes           int64  `json:"bytes"`              // of the weights, as stored
	KVBytesPerToken int64  `json:"kv_bytes_per_token"` // as this build caches, in KVDType
	Servable        bool   `json:"servable"`
	Reason          string `json:"reason"` // why not; empty if it is

	KVDType string `json:"kv_dtype"`
	Parts   []Part `json:"parts"`
	// LargestMessageBytes is the most that a layer sends at once for Rows rows of
	// the wire's type: what all slots of the rows come to. It is split where the
	// server takes less, but a single row is not.
	LargestMessageBytes int64  `json:"largest_message_bytes"`
	RowBytes            int64  `json:"row_bytes"`
	Rows                int    `json:"rows"`
	Wire                string `json:"wire"`
	// StreamMemoryBytes and StreamFileBytes are what the model's streams and buckets in NATS may
	// take, which a server sets aside (max_memory_store, max_file_store), with default flags.
	StreamMemoryBytes int64 `json:"stream_memory_bytes"`
	StreamFileBytes   int64 `json:"stream_file_bytes"`
	// Stored reports whether bytes and types are those of files, or follow from config.json.
	Stored bool `json:"stored"`

	spec *model.Spec // nil where config.json could not be read
}

// Part is what one part of the model takes in one type.
type Part struct {
	Name       string `json:"part"`
	DType      string `json:"dtype"`
	Parameters int64  `json:"parameters"`
	Bytes      int64  `json:"bytes"`
}

const (
	// rows are a microbatch's by default, wire the default type.
	rows, wire, wireBytes = 256, "bf16", 2
	configFile            = "config.json"
)

// ErrNoConfig says that there is no config to look at.
var ErrNoConfig = errors.New("there is no readable config.json of a model")

// Path looks at a model's folder, or at its config.json alone.
func Path(ctx context.Context, path string) (*Report, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoConfig, err)
	}
	if !info.IsDir() {
		return file(path)
	}
	r, err := file(filepath.Join(path, configFile))
	if errors.Is(err, fs.ErrNotExist) && len(weights(path, gguf.Suffix)) > 0 {
		return nil, fmt.Errorf("%w: %s needs that of the model that it was made of beside it", err, weights(path, gguf.Suffix)[0])
	}
	if err != nil || !r.Servable || len(weights(path, ".safetensors"))+len(weights(path, gguf.Suffix)) == 0 { // a config alone, rather than bad weights
		return r, err
	}
	m, err := model.OpenWith(ctx, path, model.Settings{Unhashed: true})
	if err != nil {
		r.Servable, r.Reason = false, err.Error()
		return r, nil
	}
	defer func() { _ = m.Close() }() // it was only looked at
	r.measure(m)
	return r, nil
}

func weights(dir, suffix string) []string {
	names, err := fs.Glob(os.DirFS(dir), "*"+suffix+"*")
	if err != nil {
		return nil
	}
	return names
}

const maxConfig = 64 << 20

func file(path string) (*Report, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoConfig, err)
	}
	if filepath.Ext(path) == gguf.Suffix {
		return nil, fmt.Errorf("%w in %s: give the folder that has it, with config.json of the model that it was made of beside it", ErrNoConfig, path)
	}
	if !info.Mode().IsRegular() || info.Size() > maxConfig {
		return nil, fmt.Errorf("%w: %s is no file of at most %d bytes", ErrNoConfig, path, maxConfig)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoConfig, err)
	}
	r, err := Config(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// Config looks at the content of a config.json.
func Config(data []byte) (*Report, error) {
	family, err := familyOf(data)
	if err != nil {
		return nil, err
	}
	r := &Report{Family: family, KVDType: "f32", Rows: rows, Wire: wire, Parts: []Part{}}
	d, err := model.Describe(data)
	switch {
	case err != nil:
		r.Reason = err.Error()
		return r, nil
	case d.Refused != nil:
		r.Reason = d.Refused.Error()
	default:
		r.Servable = true
	}
	r.describe(&d.Spec)
	r.estimate(&d)
	return r, nil
}

func (r *Report) describe(s *model.Spec) {
	p := s.Parameters()
	r.Family, r.Layers, r.MoELayers, r.Experts, r.TopK = s.Family, s.Layers, s.MoELayers(), s.Experts, s.TopK
	r.ParametersTotal, r.ParametersActive, r.ParametersActiveWithoutInput = p.Total, p.Active, p.ActiveWithoutInput
	r.spec, r.KVBytesPerToken = s, keptBytes(s)
	r.RowBytes = wireBytes * int64(s.Hidden)
	r.LargestMessageBytes = r.RowBytes * rows * int64(max(1, s.TopK))
	room := schemas.Streams{Hops: schemas.HopsUnacked}.Room(make([]int, r.MoELayers)) // whichever layers these are
	r.StreamMemoryBytes, r.StreamFileBytes = room.Memory, room.File
}

func keptBytes(s *model.Spec) int64 { return kvcache.ShapeOf(s).PageBytes() / cpu.PagePositions }

// KeepIn has the report tell of keys and values that are kept so; it refuses what no service would do.
func (r *Report) KeepIn(c model.KVCache) error {
	if r.spec == nil || !c.Chosen() {
		return nil
	}
	if err := r.spec.KeepIn(c); err != nil {
		return err
	}
	r.KVBytesPerToken, r.KVDType = keptBytes(r.spec), string(c)
	return nil
}

func (r *Report) String() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-14s"+format+"\n", append([]any{name}, args...)...)
	}
	line("family", "%s", r.Family)
	if r.Layers > 0 {
		r.sizes(line)
	}
	if r.Servable {
		line("servable", "yes")
	} else {
		line("servable", "no: %s", r.Reason)
	}
	return b.String()
}

func (r *Report) sizes(line func(name, format string, args ...any)) {
	line("layers", "%d, %d of them with %d experts, of which a token takes %d", r.Layers, r.MoELayers, r.Experts, r.TopK)
	line("parameters", "%s, active for a token %s, without the input embedding %s",
		billions(r.ParametersTotal), billions(r.ParametersActive), billions(r.ParametersActiveWithoutInput))
	origin := "as config.json says"
	if r.Stored {
		origin = "in its files"
	}
	line("bytes", "%s %s", size(r.Bytes), origin)
	for _, p := range r.Parts {
		line("", "%-11s%-9s%12s%14s", p.Name, p.DType, billions(p.Parameters), size(p.Bytes))
	}
	line("KV cache", "%s a token, in %s", size(r.KVBytesPerToken), r.KVDType)
	line("messages", "at most %s for %d rows of a layer in %s, split where the server takes less; one row has %s",
		size(r.LargestMessageBytes), r.Rows, r.Wire, size(r.RowBytes))
	line("NATS", "streams and buckets take %s of the server's max_memory_store and %s of max_file_store, with default flags",
		size(r.StreamMemoryBytes), size(r.StreamFileBytes))
}

func billions(n int64) string {
	if n < 1e9 {
		return fmt.Sprintf("%.2f M", float64(n)/1e6)
	}
	return fmt.Sprintf("%.2f B", float64(n)/1e9)
}

func size(n int64) string {
	for _, u := range []struct {
		name  string
		bytes int64
	}{{"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}} {
		if n >= u.bytes {
			return fmt.Sprintf("%.2f %s", float64(n)/float64(u.bytes), u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}
