package digest

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

func example() *Manifest {
	return &Manifest{
		Format: ManifestFormat, Model: strings.Repeat("0a", 32),
		Tensors: []Tensor{{Name: "a", DType: safetensors.BF16, Shape: []int{2, 3}, Sum: Sum{1}}},
		Objects: []Object{
			{Name: "expert.3.7", Key: KeyOf(Sum{2}), Bytes: 12, Chunks: 1, Sum: Sum{3}},
			{Name: FilePrefix + "config.json", Key: KeyOf(Sum{4}), Bytes: 0, Chunks: 0, Sum: Sum{5}},
		},
	}
}

func TestRoundTrip(t *testing.T) {
	data, err := example().Encode()
	if err != nil {
		t.Fatal(err)
	}
	m, err := ParseManifest(data)
	if err != nil {
		t.Fatal(err)
	}
	again, err := m.Encode()
	if err != nil || !bytes.Equal(data, again) {
		t.Errorf("%s became %s, %v", data, again, err)
	}
	if m.Bytes() != 12 {
		t.Errorf("%d bytes in all, want 12", m.Bytes())
	}
}

func TestRefusals(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(m *Manifest)
		want  string
	}{
		{"format", func(m *Manifest) { m.Format = "other" }, "format is"},
		{"model", func(m *Manifest) { m.Model = "0A" }, "not a SHA-256"},
		{"tensor without name", func(m *Manifest) { m.Tensors[0].Name = "" }, "tensor 0: name"},
		{"tensor twice", func(m *Manifest) { m.Tensors = append(m.Tensors, m.Tensors[0]) }, "listed twice"},
		{"dtype", func(m *Manifest) { m.Tensors[0].DType = "X" }, "dtype"},
		{"negative shape", func(m *Manifest) { m.Tensors[0].Shape[0] = -1 }, "shape"},
		{"huge shape", func(m *Manifest) { m.Tensors[0].Shape = []int{1 << 31, 1 << 31, 1 << 31} }, "shape"},
		{"object name", func(m *Manifest) { m.Objects[0].Name = "a b" }, "printable"},
		{"key", func(m *Manifest) { m.Objects[0].Key = "x.>" }, "key"},
		{"size", func(m *Manifest) { m.Objects[0].Bytes = -1 }, "outside"},
		{"huge size", func(m *Manifest) { m.Objects[0].Bytes = 1 << 60 }, "outside"},
		{"chunks", func(m *Manifest) { m.Objects[0].Chunks = 13 }, "13 chunks for 12 bytes"},
		{"no chunks", func(m *Manifest) { m.Objects[0].Chunks = 0 }, "0 chunks for 12 bytes"},
		{"object twice", func(m *Manifest) { m.Objects[1].Name = m.Objects[0].Name }, "listed twice"},
		{"key twice", func(m *Manifest) { m.Objects[1].Key = m.Objects[0].Key }, "listed twice"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := example()
			tt.spoil(m)
			data, _ := json.Marshal(m)
			if _, err := ParseManifest(data); !errors.Is(err, ErrBadManifest) || !strings.Contains(err.Error(), tt.want) {
				t.Error(err)
			}
			if _, err := m.Encode(); err == nil {
				t.Error("it was written")
			}
		})
	}
}

func TestParseRefusesOtherData(t *testing.T) {
	for _, data := range []string{"", "{", "[]", `{"format":1}`} {
		if _, err := ParseManifest([]byte(data)); !errors.Is(err, ErrBadManifest) {
			t.Errorf("%q: %v", data, err)
		}
	}
}

func TestCheckName(t *testing.T) {
	tests := []struct {
		name string
		fits bool
	}{
		{"expert.3.7", true},
		{FilePrefix + "chat_templates/tool_use.jinja", true},
		{strings.Repeat("n", maxName), true},
		{strings.Repeat("n", maxName+1), false},
		{"", false},
		{"read me.txt", false},
		{"grün.txt", false},
		{"a\nb", false},
	}
	for _, tt := range tests {
		if err := CheckName(tt.name); (err == nil) != tt.fits || !tt.fits && !errors.Is(err, ErrBadName) {
			t.Errorf("%q: %v", tt.name, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	data, _ := example().Encode()
	f.Add(data)
	f.Add([]byte(`{"format":"` + ManifestFormat + `"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseManifest(data)
		if err != nil {
			return
		}
		for _, o := range m.Objects {
			if o.Bytes < 0 || o.Chunks < 0 || strings.ContainsAny(o.Key, ".*> ") {
				t.Errorf("%+v", o)
			}
		}
		if _, err := m.Encode(); err != nil {
			t.Error(err)
		}
	})
}
