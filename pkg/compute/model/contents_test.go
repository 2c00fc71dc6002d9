package model

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/switchyard/switchyard/pkg/compute/manifest"
)

func TestSideNames(t *testing.T) {
	tests := []struct {
		name  string
		files []string
		want  []string
	}{
		{"ends", []string{"config.json", "vocab.txt", "model.safetensors", "weights.bin"}, []string{"config.json", "vocab.txt"}},
		{"left out", []string{indexFile, ".hidden.json", "config.json"}, []string{"config.json"}},
		{"names of no object", []string{"read me.txt", "grün.json", strings.Repeat("n", 200) + ".txt", "config.json"}, []string{"config.json"}},
		{"further templates", []string{"config.json", templates + "tool_use.jinja", templates + "x.txt", templates + "a b.jinja"},
			[]string{"config.json", templates + "tool_use.jinja"}},
		{"other folders", []string{"config.json", "onnx/config.json"}, []string{"config.json"}},
		{"no folder of templates", []string{"chat_templates", "config.json"}, []string{"config.json"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			side := fstest.MapFS{}
			for _, name := range tt.files {
				side[name] = &fstest.MapFile{}
			}
			got, err := (&checkpoint{side: side}).sideNames()
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}

// What no manifest could list is refused before anything is sent.
func TestContentsRefuseLongTensorNames(t *testing.T) {
	m := openGolden(t, "mixtral")
	if _, err := m.Contents(); err != nil {
		t.Fatal(err)
	}
	m.digests = slices.Clone(m.digests)
	m.digests[0].Name = strings.Repeat("n", 201)
	if _, err := m.Contents(); !errors.Is(err, manifest.ErrName) || !strings.Contains(err.Error(), "mixtral") {
		t.Error(err)
	}
}
