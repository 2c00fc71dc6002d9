package main

import (
	"slices"
	"testing"

	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// What the laboratory takes for commands of this program are those, and a configuration file may have
// flags of both.
func TestProgramsBesideEachOther(t *testing.T) {
	parser, err := cli.NewParser(&CLI{Services: serviceCommands()})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, n := range parser.Model.Children {
		if n.Name != "maps" { // both have it
			names = append(names, n.Name)
			continue
		}
		for _, below := range n.Children {
			names = append(names, n.Name+" "+below.Name)
		}
	}
	if want := slices.Sorted(slices.Values(cli.ProductCommands)); !slices.Equal(slices.Sorted(slices.Values(names)), want) {
		t.Errorf("the commands are %v, the list has %v", names, want)
	}
	for text, code := range map[string]int{"bench: {batch: 8}": cli.ExitDone, "maps: {build: {train: 0.5}}": cli.ExitDone, "bensh: {batch: 8}": cli.ExitUsage, "up: {batch: 8}": cli.ExitUsage} {
		if got := invoke("", "version", "--config", write(t, text)); got.Code != code {
			t.Errorf("%s: %+v", text, got)
		}
	}
}
