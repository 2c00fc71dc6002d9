package model

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/switchyard/switchyard/internal/wholefile"
	"github.com/switchyard/switchyard/models"
	"github.com/switchyard/switchyard/pkg/compute/gguf"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

const (
	singleFile = "model.safetensors"
	indexFile  = "model.safetensors.index.json"
	// maxSide bounds the files beside the weights, maxConfig those that say what is in the model,
	// in bytes.
	maxSide   = 256 << 20
	maxConfig = 64 << 20
)

// Open opens a checkpoint folder and checks all of it against its config.json
// before returning. The error names the folder and the file, key or tensor.
func Open(dir string) (*Model, error) { return OpenWith(context.Background(), dir, Settings{}) }

// OpenWith is Open, for a folder whose weights may have to be hashed: that takes
// as long as reading them, and ends with ctx.
func OpenWith(ctx context.Context, dir string, s Settings) (*Model, error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("opening model %s: there is no such folder: %w", dir, err)
	}
	m, c, err := open(NameOf(dir), os.DirFS(dir), func() (*checkpoint, error) { return openWeights(dir) })
	if err == nil && !s.Unhashed {
		err = m.hash(ctx, c, s)
	}
	if err != nil {
		return nil, fmt.Errorf("opening model %s: %w", dir, err)
	}
	return m, nil
}

// DemoName is the name of the model in this binary.
const DemoName = "demo"

// Demo opens the demo model that is part of the binary.
func Demo() (*Model, error) {
	side, err := fs.Sub(models.Demo, "demo")
	if err != nil {
		return nil, fmt.Errorf("opening demo model: %w", err)
	}
	m, c, err := open(DemoName, side, demoWeights)
	if err == nil {
		err = m.know(c, models.DemoDigests)
	}
	if err != nil {
		return nil, fmt.Errorf("opening demo model: %w", err)
	}
	return m, nil
}

// unpackedDemo is the demo model's plain file, unpacked once a process: what it takes
// stays in memory, however often the model is opened.
var unpackedDemo = sync.OnceValues(func() ([]byte, error) {
	data, _, err := safetensors.UnpackOutside(models.DemoWeights())
	safetensors.Drop(models.DemoWeights()) // nobody reads it again
	return data, err
})

func demoWeights() (*checkpoint, error) {
	if len(models.DemoWeights()) == 0 {
		return nil, errors.New("this binary has no weights for it: give --model DIR")
	}
	data, err := unpackedDemo()
	if err != nil {
		return nil, err
	}
	f, err := safetensors.Parse(data)
	if err != nil {
		return nil, err
	}
	c := &checkpoint{home: map[string]weightFile{}}
	c.add(singleFile, f)
	return c, nil
}

// open joins the configs in side with the weights. The model has no hash yet.
func open(name string, side fs.FS, weights func() (*checkpoint, error)) (*Model, *checkpoint, error) {
	config, generation, err := readConfigs(side)
	if err != nil {
		return nil, nil, err
	}
	c, err := weights()
	if err != nil {
		return nil, nil, err
	}
	c.side, c.config = side, config
	m, err := newModel(name, config, generation, c)
	if err != nil {
		return nil, nil, errors.Join(err, c.close())
	}
	m.Unused = c.unused(m)
	return m, c, nil
}

// newModel joins configs with a source, and checks that this has what they need.
func newModel(name string, config, generation []byte, from source) (*Model, error) {
	p, err := parse(config, generation)
	if err = cmp.Or(err, p.refused); err != nil {
		return nil, err
	}
	named, err := p.family.in(from)
	if err != nil {
		return nil, err
	}
	m := &Model{Name: name, Spec: p.spec, Generation: p.generation, Unknown: p.unknown, family: named, source: from}
	return m, m.validate()
}

// readConfigs returns config.json and generation_config.json, the latter nil
// where there is none.
func readConfigs(side fs.FS) (config, generation []byte, err error) {
	if config, err = wholefile.Read(side, "config.json", maxConfig); err != nil {
		if files, _ := fs.Glob(side, "*"+gguf.Suffix); len(files) > 0 && errors.Is(err, fs.ErrNotExist) {
			return nil, nil, fmt.Errorf("%s needs config.json, generation_config.json and tokenizer.json of the model that it was made of beside it: %w", files[0], err)
		}
		return nil, nil, fmt.Errorf("reading config.json: %w", err)
	}
	generation, err = wholefile.Read(side, "generation_config.json", maxConfig)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("reading generation_config.json: %w", err)
	}
	return config, generation, nil
}

// weightFile is a safetensors or a GGUF file.
type weightFile interface {
	Tensor(name string) (Tensor, bool)
	Names() []string // in the order of their bytes
	Header() []byte
	// Packed says that offsets of tensors are none of the file on disk.
	Packed() bool
	Close() error
}

// checkpoint is one or several files of weights.
type checkpoint struct {
	config []byte
	dir    string // empty: in memory
	side   fs.FS
	files  []namedFile           // in order of their names
	home   map[string]weightFile // tensor name → file
}

type namedFile struct {
	name string
	weightFile
}

func (c *checkpoint) add(name string, f weightFile) {
	c.files = append(c.files, namedFile{name, f})
	for _, tensor := range f.Names() {
		c.home[tensor] = f
	}
}

// openWeights maps model.safetensors, or else the shards of the index, or else GGUF files.
func openWeights(dir string) (*checkpoint, error) {
	c := &checkpoint{dir: dir, home: map[string]weightFile{}}
	f, err := safetensors.Open(filepath.Join(dir, singleFile))
	if err == nil {
		c.add(singleFile, f)
		return c, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	index, err := wholefile.Read(os.DirFS(dir), indexFile, maxConfig)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = c.openGGUF(dir)
	case err != nil:
		return nil, fmt.Errorf("reading index: %w", err)
	default:
		err = c.openShards(dir, index)
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// openShards maps every shard that the index names, and checks that each holds
// what the index says.
func (c *checkpoint) openShards(dir string, index []byte) error {
	weightMap, err := parseIndex(index)
	if err != nil {
		return err
	}
	shards := map[string]weightFile{}
	for _, shard := range slices.Compact(slices.Sorted(maps.Values(weightMap))) {
		f, err := safetensors.Open(filepath.Join(dir, shard))
		if err != nil {
			return fmt.Errorf("opening shard %q of %s: %w", shard, indexFile, err)
		}
		shards[shard] = f
		c.files = append(c.files, namedFile{shard, f})
	}
	for tensor, shard := range weightMap {
		if _, ok := shards[shard].Tensor(tensor); !ok {
			return fmt.Errorf("%s says that shard %q holds tensor %q, but it does not", indexFile, shard, tensor)
		}
		c.home[tensor] = shards[shard]
	}
	return nil
}

// parseIndex reads the map of tensor names to shards. A shard must be a plain
// file name: an index is no way to read elsewhere.
func parseIndex(index []byte) (map[string]string, error) {
	var parsed struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(index, &parsed); err != nil {
		return nil, fmt.Errorf("%s: reading JSON: %w", indexFile, err)
	}
	if len(parsed.WeightMap) == 0 {
		return nil, fmt.Errorf("%s: weight_map is missing or empty", indexFile)
	}
	for tensor, shard := range parsed.WeightMap {
		if !plainName(shard) || !strings.HasSuffix(shard, ".safetensors") {
			return nil, fmt.Errorf("%s: shard %q of tensor %q is not the name of a .safetensors file in the same folder", indexFile, shard, tensor)
		}
	}
	return parsed.WeightMap, nil
}

// plainName reports whether name is a file name without any path.
func plainName(name string) bool {
	return fs.ValidPath(name) && name != "." && !strings.ContainsAny(name, `/\:`)
}

func (c *checkpoint) tensor(name string) (Tensor, bool) {
	f, ok := c.home[name]
	if !ok {
		return Tensor{}, false
	}
	return f.Tensor(name)
}

// stat is tensor: a view costs nothing.
func (c *checkpoint) stat(name string) (Tensor, bool) { return c.tensor(name) }

// templates is the one folder in a model's whose files are looked up: further chat
// templates are there.
const templates = "chat_templates/"

func (c *checkpoint) file(name string) ([]byte, bool) {
	if !plainName(strings.TrimPrefix(name, templates)) {
		return nil, false
	}
	data, err := wholefile.Read(c.side, name, maxSide)
	return data, err == nil
}

func (c *checkpoint) close() error {
	var errs []error
	for _, f := range c.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// unused lists tensors without a role, sorted: transformers ignores them, and
// a caller may want to say so.
func (c *checkpoint) unused(m *Model) []string {
	rest := maps.Clone(c.home)
	for name := range m.names() {
		delete(rest, name)
	}
	maps.DeleteFunc(rest, func(name string, _ weightFile) bool { return m.leavesOut(name) })
	return slices.Sorted(maps.Keys(rest))
}
