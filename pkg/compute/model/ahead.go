package model

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// What a checkpoint that is quantised ahead consists of; package checkpoint writes it.

// Ahead is a tensor that is stored for a model, and what becomes of it.
type Ahead struct {
	From   Tensor
	Ref    Ref // that it has a part in, of the first expert where it has all
	Groups bool
	// Of Groups: the name without what stands behind it, how many experts it has (0: it is no stack), and
	// the shape (N, K) of a matrix, with all parts that are stored together.
	Name    string
	Experts int
	N, K    int
}

// Ahead yields each stored tensor once, and behind an embedding that is the head, too, that as the head's
// matrix. CheckAhead has passed the model.
func (m *Model) Ahead() iter.Seq[Ahead] {
	return func(yield func(Ahead) bool) {
		for ref, t := range m.Stored() {
			a := Ahead{From: t, Ref: ref}
			if ref.Role.Rounded() && ref.Role != Embed {
				a = m.inGroups(ref, t)
			}
			if !yield(a) {
				return
			}
			if ref.Role == Embed && m.Spec.TiedEmbeddings {
				if !yield(m.inGroups(Ref{Role: Head}, t)) {
					return
				}
			}
		}
	}
}

func (m *Model) inGroups(ref Ref, t Tensor) Ahead {
	at, shape := m.stored(ref), m.Spec.Shape(ref)
	a := Ahead{From: t, Ref: ref, Groups: true, Name: at.Name, N: shape[0] * max(1, at.Part.Count), K: shape[1]}
	if at.Stacked {
		a.Experts = m.Spec.Experts
	}
	if ref.Role == Head {
		a.Name = m.family.tensor(&m.Spec, ref).Name
	}
	return a
}

// Whole returns a stored matrix that ref has a part in, with all its parts, outputs first: a view where it is stored so. It
// is for tensors that Ahead calls Groups.
func (m *Model) Whole(ref Ref) (Tensor, error) {
	r, err := m.load(ref)
	if err != nil {
		return Tensor{}, err
	}
	all := *r
	all.shape = []int{r.shape[0] * max(1, r.at.Part.Count), r.shape[1]}
	all.at.Part = Part{}
	return all.tensor(), nil
}

// CheckAhead refuses what has no copy in groups.
func (m *Model) CheckAhead() error {
	c, folder := m.source.(*checkpoint)
	switch {
	case !folder:
		return fmt.Errorf("model %s is in no folder: only what files have is quantised ahead", m.Name)
	case m.Spec.Quant.Grouped():
		return fmt.Errorf("model %s is quantised already, to codes of %d bits: quantise the folder that it was made of", m.Name, groupedBits[m.Spec.Quant])
	case isGGUF(c):
		return fmt.Errorf("model %s is in GGUF: quantise the safetensors that it was made of, or the file with llama.cpp's quantiser", m.Name)
	case m.Spec.Quant != Plain:
		return fmt.Errorf("model %s is published with codes (quantization_config in config.json): what else it has is quantised only when it is loaded, by --precision", m.Name)
	}
	return nil
}

// copyKey of config.json marks a copy. Engines pass over names that begin with _.
const copyKey = "_switchyard_copy"

// IsCopy reports whether config.json says that AheadConfig made it: outputs beside the copy are those of other numbers.
func (m *Model) IsCopy() bool {
	data, _ := m.File("config.json")
	var config map[string]json.RawMessage
	return json.Unmarshal(data, &config) == nil && string(config[copyKey]) == "true" && m.Spec.Quant.Grouped()
}

// AheadConfig is config.json of the copy in p, Q8 or Q4, whose head is not the embedding.
func (m *Model) AheadConfig(p Precision) ([]byte, error) {
	data, _ := m.File("config.json")
	var config, inner map[string]json.RawMessage
	if err := json.Unmarshal(data, &config); err != nil {
		return nil, fmt.Errorf("config.json: reading JSON: %w", err)
	}
	nested := m.family.nested
	if raw := config[nested]; nested != "" {
		if err := json.Unmarshal(raw, &inner); err != nil {
			return nil, fmt.Errorf("config.json: %s: reading JSON: %w", nested, err)
		}
	}
	quantised, err := json.Marshal(m.aheadQuantisation(p))
	if err != nil {
		return nil, fmt.Errorf("writing config.json: %w", err)
	}
	config["quantization_config"], config[copyKey] = quantised, json.RawMessage("true")
	if m.Spec.TiedEmbeddings {
		config["tie_word_embeddings"] = json.RawMessage("false")
		if inner != nil {
			inner["tie_word_embeddings"] = json.RawMessage("false")
			if config[nested], err = json.Marshal(inner); err != nil {
				return nil, fmt.Errorf("writing config.json: %s: %w", nested, err)
			}
		}
	}
	out, err := json.MarshalIndent(config, "", "  ")
	return append(out, '\n'), err
}

// aheadQuantisation is quantization_config as compressed-tensors has it. What it ignores are matrices that stay as they are.
func (m *Model) aheadQuantisation(p Precision) map[string]any {
	bits := map[Precision]int{Q8: groupedBits[Grouped8], Q4: groupedBits[Grouped4]}[p]
	ignored := []string{}
	for a := range m.Ahead() {
		if module, ok := strings.CutSuffix(a.From.Name, ".weight"); ok && !a.Groups && len(a.From.Shape) == 2 {
			ignored = append(ignored, module)
		}
	}
	slices.Sort(ignored)
	args := packArgs{Bits: bits, Type: "int", Symmetric: true, Strategy: byGroup, Group: cpu.QGroup}
	return map[string]any{
		"quant_method": packMethod, "format": packFormat, "quantization_status": "compressed", "ignore": ignored,
		"config_groups": map[string]packGroup{"group_0": {Targets: []string{"Linear"}, Weights: &args}},
	}
}

// SideNames returns the files beside the weights of a model in a folder that services may need.
func (m *Model) SideNames() ([]string, error) {
	c, ok := m.source.(*checkpoint)
	if !ok {
		return nil, fmt.Errorf("model %s is in no folder", m.Name)
	}
	return c.sideNames()
}

// Spent lets go of the pages of a tensor's files, which count as this process's memory: who has read one through.
func (m *Model) Spent(t Tensor) {
	c, ok := m.source.(*checkpoint)
	if !ok || c.dir == "" {
		return
	}
	if f, there := c.home[t.Name]; there && !f.Packed() {
		safetensors.Drop(t.Data)
	}
}
