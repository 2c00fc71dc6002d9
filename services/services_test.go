package services_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/switchyard/switchyard/pkg/transport/catalog"
	"github.com/switchyard/switchyard/services"
)

// A folder that makes a service's descriptor has its line in both lists, in one order.
func TestListed(t *testing.T) {
	folders, err := filepath.Glob("*/descriptor.go")
	if err != nil {
		t.Fatal(err)
	}
	for i, folder := range folders {
		folders[i] = filepath.Dir(folder)
	}
	var made []string
	for _, d := range services.All() {
		made = append(made, d.Name)
		if d.New == nil && d.Bare == nil {
			t.Errorf("no replica of %s can be made", d.Name)
		}
	}
	if listed := catalog.Names(); !slices.Equal(slices.Sorted(slices.Values(listed)), folders) || !slices.Equal(listed, made) {
		t.Errorf("folders %v make descriptors, the catalog has %v, of which %v can be made", folders, listed, made)
	}
}
