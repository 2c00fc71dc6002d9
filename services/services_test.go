package services_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/switchyard/switchyard/pkg/process/service"
	"github.com/switchyard/switchyard/pkg/transport/catalog"
	_ "github.com/switchyard/switchyard/services"
)

// A description that cannot be is a fault of the program: this finds it. A folder that
// describes a service has its line, and every service can be made.
func TestListed(t *testing.T) {
	if err := catalog.Problems(); err != nil {
		t.Fatal(err)
	}
	folders, err := filepath.Glob("*/about")
	if err != nil {
		t.Fatal(err)
	}
	for i, folder := range folders {
		folders[i] = filepath.Dir(folder)
	}
	var made []string
	for _, d := range service.All() {
		made = append(made, d.Name)
	}
	if listed := catalog.Names(); !slices.Equal(slices.Sorted(slices.Values(listed)), folders) || !slices.Equal(listed, made) {
		t.Errorf("folders %v describe services, the list has %v, of which %v can be made", folders, listed, made)
	}
}
