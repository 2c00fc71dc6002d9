package model

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/switchyard/switchyard/pkg/compute/gguf"
)

// ggufTensors are llama.cpp's names, which all families share. A layer's experts are
// stacked.
var ggufTensors = map[Role]TensorRef{
	Embed:         {Name: ggufEmbed},
	FinalNorm:     {Name: "output_norm.weight"},
	FinalNormBias: {Name: "output_norm.bias"},
	Head:          {Name: "output.weight"},
	HeadBias:      {Name: "output.bias"},
	InputNorm:     {Name: "blk.{l}.attn_norm.weight"},
	InputNormBias: {Name: "blk.{l}.attn_norm.bias"},
	PostNorm:      {Name: "blk.{l}.ffn_norm.weight"},
	PostNormBias:  {Name: "blk.{l}.ffn_norm.bias"},
	Q:             {Name: "blk.{l}.attn_q.weight"},
	K:             {Name: "blk.{l}.attn_k.weight"},
	V:             {Name: "blk.{l}.attn_v.weight"},
	O:             {Name: "blk.{l}.attn_output.weight"},
	QBias:         {Name: "blk.{l}.attn_q.bias"},
	KBias:         {Name: "blk.{l}.attn_k.bias"},
	VBias:         {Name: "blk.{l}.attn_v.bias"},
	OBias:         {Name: "blk.{l}.attn_output.bias"},
	QNorm:         {Name: "blk.{l}.attn_q_norm.weight"},
	KNorm:         {Name: "blk.{l}.attn_k_norm.weight"},
	Router:        {Name: "blk.{l}.ffn_gate_inp.weight"},
	DenseGate:     {Name: "blk.{l}.ffn_gate.weight"},
	DenseUp:       {Name: "blk.{l}.ffn_up.weight"},
	DenseDown:     {Name: "blk.{l}.ffn_down.weight"},
	SharedGate:    {Name: "blk.{l}.ffn_gate_shexp.weight"},
	SharedUp:      {Name: "blk.{l}.ffn_up_shexp.weight"},
	SharedDown:    {Name: "blk.{l}.ffn_down_shexp.weight"},
	SharedRouter:  {Name: "blk.{l}.ffn_gate_inp_shexp.weight", Flat: true},
	ExpertGate:    {Name: "blk.{l}.ffn_gate_exps.weight", Stacked: true},
	ExpertUp:      {Name: "blk.{l}.ffn_up_exps.weight", Stacked: true},
	ExpertDown:    {Name: "blk.{l}.ffn_down_exps.weight", Stacked: true},
}

// ggufBeside begin the names of tensors of which config.json says the same.
var ggufBeside = []string{"rope_factors_"}

const (
	// ggufEmbed is in all GGUF files, or in the first of several.
	ggufEmbed = "token_embd.weight"
	// ggufLlama is the architecture whose queries and keys are paired.
	ggufLlama = "llama"
)

// in returns the family with the names that its tensors have in a source.
func (f *family) in(from source) (*family, error) {
	if !isGGUF(from) {
		return f, nil
	}
	if f.gguf == "" {
		return nil, fmt.Errorf("config.json: model_type %q is not read from GGUF files; those of %s are: get its safetensors files", f.modelType, strings.Join(inGGUF(), ", "))
	}
	if c, ok := from.(*checkpoint); ok {
		if got := c.architecture(); got != f.gguf {
			return nil, fmt.Errorf("the GGUF file is of architecture %.64q, but config.json's model_type %q has %q: they are of different models", got, f.modelType, f.gguf)
		}
	}
	named := *f
	named.prefix, named.place, named.beside, named.tensors = "", nil, ggufBeside, ggufTensors
	if f.gguf == ggufLlama {
		named.tensors = maps.Clone(ggufTensors)
		for _, role := range []Role{Q, K} {
			t := named.tensors[role]
			t.Paired = true
			named.tensors[role] = t
		}
	}
	return &named, nil
}

// inGGUF lists the families that are read from GGUF files.
func inGGUF() (types []string) {
	for _, f := range families {
		if f.gguf != "" {
			types = append(types, f.modelType)
		}
	}
	return types
}

func (s *Spec) heads(ref Ref) int {
	if m := &s.Layer[ref.Layer].Mixer; ref.Role == K {
		return m.KVHeads
	}
	return s.Layer[ref.Layer].Mixer.Heads
}

// isGGUF reports whether tensors have llama.cpp's names: those of GGUF files and, in a store, of
// what was pushed from them.
func isGGUF(from source) bool {
	if c, ok := from.(*checkpoint); ok && len(c.files) > 0 {
		_, is := c.files[0].weightFile.(*gguf.File)
		return is
	}
	_, ok := from.stat(ggufEmbed)
	return ok
}

func (c *checkpoint) architecture() string {
	if f, ok := c.files[0].weightFile.(*gguf.File); ok {
		return f.Architecture()
	}
	return ""
}

// ggufShard is the name of one of several files.
var ggufShard = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})\.gguf$`)

// openGGUF maps the GGUF file of a folder, or the files of one model.
func (c *checkpoint) openGGUF(dir string) error {
	names, err := fs.Glob(os.DirFS(dir), "*"+gguf.Suffix) // sorted
	if err != nil || len(names) == 0 {
		return fmt.Errorf("neither %s nor %s nor a file *%s is there", singleFile, indexFile, gguf.Suffix)
	}
	if err := oneModel(names); err != nil {
		return err
	}
	for _, name := range names {
		f, err := gguf.Open(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		for _, tensor := range f.Names() {
			if _, twice := c.home[tensor]; twice {
				return errors.Join(fmt.Errorf("tensor %q is in %s and in a file before it", tensor, name), f.Close())
			}
		}
		c.add(name, f)
		if err := c.checkPart(f, len(names)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// checkPart compares the header of the file that was added last with those before it, of so many parts.
func (c *checkpoint) checkPart(f *gguf.File, parts int) error {
	at := len(c.files) - 1
	split, ok := f.Split()
	switch got := f.Architecture(); {
	case at > 0 && got != "" && got != c.architecture():
		return fmt.Errorf("its architecture is %.64q, that of %s is %.64q: they are of different models", got, c.files[0].name, c.architecture())
	case !ok && parts > 1:
		return errors.New("it does not say which part of a model it is: split.no, split.count or split.tensors.count is missing")
	case ok && (split.Part != uint64(at) || split.Parts != uint64(parts)):
		return fmt.Errorf("it is part %d of %d by its header (split.no from 0, split.count), but part %d of %d by its name", split.Part, split.Parts, at, parts)
	case ok && at == parts-1 && split.Tensors != uint64(len(c.home)):
		return fmt.Errorf("all parts have %d tensors, not %d as split.tensors.count says", len(c.home), split.Tensors)
	}
	return nil
}

// oneModel refuses files that are not one, or all parts of one model.
func oneModel(names []string) error {
	if len(names) == 1 && !ggufShard.MatchString(names[0]) {
		return nil
	}
	first := ggufShard.FindStringSubmatch(names[0])
	for i, name := range names {
		parts := ggufShard.FindStringSubmatch(name)
		switch {
		case parts == nil || first == nil || parts[1] != first[1] || parts[3] != first[3]:
			return fmt.Errorf("%s and %s are different models: keep one of them in the folder", names[0], names[max(i, 1)])
		case parts[2] != fmt.Sprintf("%05d", i+1):
			return fmt.Errorf("%s-%05d-of-%s%s is missing", parts[1], i+1, parts[3], gguf.Suffix)
		case i == len(names)-1 && parts[2] != parts[3]:
			return fmt.Errorf("of %s files, the first %d are there: the others are missing", strings.TrimLeft(parts[3], "0"), len(names))
		}
	}
	return nil
}
