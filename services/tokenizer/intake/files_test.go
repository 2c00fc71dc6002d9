package intake_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/digest"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/request/chat"
	"github.com/switchyard/switchyard/pkg/request/tokenizer"
)

// Every file that a tokenizer or a template may be read from is one that the
// object store keeps of a model.
func TestFilesAreStored(t *testing.T) {
	var asked []string
	having := func(there string) func(string) ([]byte, bool) {
		return func(name string) ([]byte, bool) {
			asked = append(asked, name)
			return []byte("{}"), name == there
		}
	}
	for _, there := range []string{"nothing", "vocab.json", "chat_template.jinja"} { // with which others are looked for
		if _, err := tokenizer.Open(having(there)); err == nil {
			t.Errorf("a tokenizer was made of %s", there)
		}
		if _, err := chat.Open(having(there)); err != nil {
			t.Error(err)
		}
	}
	stored := storedFiles(t, asked)
	for _, name := range asked {
		if !slices.Contains(stored, digest.FilePrefix+name) {
			t.Errorf("%s is not kept in the object store", name)
		}
	}
}

// storedFiles are the objects of a model's folder that has such files.
func storedFiles(t *testing.T, names []string) (objects []string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(goldens.Dir("mixtral"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m, err := model.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }() // only read
	contents, err := m.Contents()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range contents {
		objects = append(objects, c.Name)
	}
	return objects
}
