package main

import (
	"slices"
	"testing"

	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// What switchyard runs here are this program's commands, and a configuration file may have flags of both.
func TestProgramsBesideEachOther(t *testing.T) {
	parser, err := cli.NewParser(&CLI{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, n := range parser.Model.Children {
		if n.Name == "maps" { // both have it
			n = n.Children[0]
			n.Name = "maps " + n.Name
		}
		names = append(names, n.Name)
	}
	if want := slices.Sorted(slices.Values(cli.LabCommands)); !slices.Equal(slices.Sorted(slices.Values(names)), want) {
		t.Errorf("the commands are %v, the list has %v", names, want)
	}
	for text, code := range map[string]int{"up: {hosts: 2}": cli.ExitDone, "maps: {inspect: {json: true}}": cli.ExitDone, "upp: {hosts: 2}": cli.ExitUsage, "bench: {hosts: 2}": cli.ExitUsage} {
		if got := invoke(`{"loads":[1],"replicas":1}`, "policy", "lpt", "--config", write(t, text)); got.Code != code {
			t.Errorf("%s: %+v", text, got)
		}
	}
}
