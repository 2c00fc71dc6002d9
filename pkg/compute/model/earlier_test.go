package model

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/switchyard/switchyard/models"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// earlierDemo is what `switchyard` of schema version 1 (commit d795e87) said of the demo model.
const earlierDemo = "cbbd05aea8cb5487713863a357b853d1f58005a992ffc6f8888ea4fc23f6da97"

// The hash of schema version 1 is found again, wherever the files lie.
func TestEarlierHash(t *testing.T) {
	demo, err := Demo()
	if err != nil {
		t.Fatal(err)
	}
	if got := demo.EarlierHash(); got != earlierDemo {
		t.Errorf("the demo model's is %s", got)
	}
	dir := t.TempDir()
	for name, data := range map[string][]byte{singleFile + safetensors.PackedSuffix: models.DemoWeights()} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(dir, "all"), models.Demo); err != nil {
		t.Fatal(err)
	}
	config, _ := os.ReadFile(filepath.Join(dir, "all", "demo", "config.json"))
	_ = os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600)
	m, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	if got := m.EarlierHash(); got != earlierDemo {
		t.Errorf("of a folder it is %s", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), append(config, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	other, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	if other.EarlierHash() == earlierDemo {
		t.Error("another config has the same hash")
	}
}
