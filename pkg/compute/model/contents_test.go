package model

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/switchyard/switchyard/pkg/compute/digest"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
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
	if _, err := m.Contents(); !errors.Is(err, digest.ErrBadName) || !strings.Contains(err.Error(), "mixtral") {
		t.Error(err)
	}
}

// A tensor that was changed since it was hashed is not sent under the old hash.
func TestContentsNoticeChanges(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(goldens.Dir("mixtral"))); err != nil {
		t.Fatal(err)
	}
	m, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }() // only read
	contents, err := m.Contents()
	if err != nil {
		t.Fatal(err)
	}
	flipLast(t, filepath.Join(dir, singleFile))
	var changed []string
	for _, c := range contents {
		r, err := c.Open()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, r); errors.Is(err, digest.ErrChanged) {
			changed = append(changed, c.Name)
		} else if err != nil {
			t.Error(c.Name, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(changed) != 1 {
		t.Errorf("changed are %v", changed)
	}
}

// flipLast changes the last byte of a file.
func flipLast(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{data[len(data)-1] ^ 1}, int64(len(data)-1)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
