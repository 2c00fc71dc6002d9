package recording

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// Format is what the metadata of a recording say it is.
const Format = "switchyard-recording-1"

// FormatKeys is Format of recordings with keys.
const FormatKeys = "switchyard-recording-2"

// Header is what a recording is of.
type Header struct {
	Model   string   // the model's hash
	Domains []string // at most 256
	Layers  []int    // those with experts, ascending
	Experts int      // E, at most 65536
	TopK    int      // k
	Hidden  int      // D; 0 is without inputs
	Rows    int      // R
	// Keys says that it has of each row and layer the position of the key that counted most in
	// the attention before the gate: its softmax weights summed over the heads, the earliest of
	// equal ones.
	Keys bool
	// Note says how it was made, for people and for telling recordings apart.
	Note string
}

// Row is one token.
type Row struct {
	Domain   int
	Answer   bool // generated; else of a prompt
	Sequence int
	Position int
	Token    uint32
}

func (h *Header) check() error {
	switch {
	case len(h.Domains) == 0 || len(h.Domains) > 256:
		return fmt.Errorf("it has %d domains; there must be 1 to 256", len(h.Domains))
	case h.Experts < 1 || h.Experts > 1<<16 || h.TopK < 1 || h.TopK > h.Experts:
		return fmt.Errorf("it has %d experts and chooses %d; there must be 1 to 65536, and no more chosen", h.Experts, h.TopK)
	case len(h.Layers) == 0 || !slices.IsSorted(h.Layers) || h.Layers[0] < 0 || len(slices.Compact(slices.Clone(h.Layers))) != len(h.Layers):
		return fmt.Errorf("its layers are %v; they must be different and ascending", h.Layers)
	case h.Hidden < 0 || h.Rows < 1 || h.Rows > 1<<31-1:
		return fmt.Errorf("it has %d rows of %d inputs; there must be at least one row", h.Rows, h.Hidden)
	}
	return nil
}

// column is one tensor: so many bytes a row, from at in the file's data.
type column struct {
	name  string
	dtype safetensors.DType
	shape []int
	width int
	at    int64
}

const (
	u16       = safetensors.DType("U16")
	rowFields = 5 // columns before those of layers
)

func (h *Header) columns() []column {
	r := h.Rows
	list := []column{
		{name: "domain", dtype: safetensors.U8, shape: []int{r}, width: 1},
		{name: "phase", dtype: safetensors.U8, shape: []int{r}, width: 1},
		{name: "sequence", dtype: safetensors.I32, shape: []int{r}, width: 4},
		{name: "position", dtype: safetensors.I32, shape: []int{r}, width: 4},
		{name: "token", dtype: safetensors.I32, shape: []int{r}, width: 4},
	}
	for _, l := range h.Layers {
		list = append(list, column{name: expertsOf(l), dtype: u16, shape: []int{r, h.TopK}, width: 2 * h.TopK})
		if h.Hidden > 0 {
			list = append(list, column{name: inputsOf(l), dtype: safetensors.BF16, shape: []int{r, h.Hidden}, width: 2 * h.Hidden})
		}
	}
	for _, l := range h.Layers {
		if h.Keys {
			list = append(list, column{name: keysOf(l), dtype: safetensors.I32, shape: []int{r}, width: 4})
		}
	}
	at := int64(0)
	for i := range list {
		list[i].at = at
		at += int64(list[i].width) * int64(r)
	}
	return list
}

func expertsOf(layer int) string { return "layer." + strconv.Itoa(layer) + ".experts" }
func inputsOf(layer int) string  { return "layer." + strconv.Itoa(layer) + ".inputs" }

func keysOf(layer int) string { return "layer." + strconv.Itoa(layer) + ".keys" }

// firstKeys returns the column of the first layer's keys.
func (h *Header) firstKeys() int {
	if h.Hidden > 0 {
		return rowFields + 2*len(h.Layers)
	}
	return rowFields + len(h.Layers)
}

func (h *Header) format() string {
	if h.Keys {
		return FormatKeys
	}
	return Format
}

func (h *Header) metadata() (map[string]string, error) {
	domains, err := json.Marshal(h.Domains)
	if err != nil {
		return nil, fmt.Errorf("encoding domains: %w", err)
	}
	layers, err := json.Marshal(h.Layers)
	if err != nil {
		return nil, fmt.Errorf("encoding layers: %w", err)
	}
	return map[string]string{
		"format": h.format(), "model": h.Model, "domains": string(domains), "layers": string(layers), "note": h.Note,
		"experts": strconv.Itoa(h.Experts), "top_k": strconv.Itoa(h.TopK), "hidden": strconv.Itoa(h.Hidden), "rows": strconv.Itoa(h.Rows),
	}, nil
}

func parseHeader(meta map[string]string) (h Header, err error) {
	if h.Keys = meta["format"] == FormatKeys; !h.Keys && meta["format"] != Format {
		return h, fmt.Errorf("the metadata's format is %q, not %q: it is no file of switchyard record", meta["format"], Format)
	}
	h.Model, h.Note = meta["model"], meta["note"]
	if err := json.Unmarshal([]byte(meta["domains"]), &h.Domains); err != nil {
		return h, fmt.Errorf("reading the metadata's domains: %w", err)
	}
	if err := json.Unmarshal([]byte(meta["layers"]), &h.Layers); err != nil {
		return h, fmt.Errorf("reading the metadata's layers: %w", err)
	}
	for key, to := range map[string]*int{"experts": &h.Experts, "top_k": &h.TopK, "hidden": &h.Hidden, "rows": &h.Rows} {
		if *to, err = strconv.Atoi(meta[key]); err != nil {
			return h, fmt.Errorf("reading the metadata's %s: %w", key, err)
		}
	}
	return h, h.check()
}
