package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/switchyard/switchyard/pkg/transport/catalog"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

var rewritePages = flag.Bool("rewrite", false, "write docs/operations/flags.md anew")

// The table of flags is what the commands' definitions say.
func TestFlagsPage(t *testing.T) {
	const file = "../../docs/operations/flags.md"
	want := flagsPage(t)
	if *rewritePages {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(file)
	if err != nil || string(page) != want {
		t.Errorf("docs/operations/flags.md is not what the commands say; run go test ./services/switchyard -run TestFlagsPage -rewrite (%v)", err)
	}
}

// The help shows that a list has more values: its placeholder names one.
func TestPlaceholdersOfLists(t *testing.T) {
	parser, err := cli.NewParser(&CLI{Services: serviceCommands()}, kong.Name("switchyard"))
	if err != nil {
		t.Fatal(err)
	}
	nodes := []*kong.Node{parser.Model.Node}
	for len(nodes) > 0 {
		n := nodes[0]
		nodes = append(nodes[1:], n.Children...)
		for _, f := range n.Flags {
			if shown := f.FormatPlaceHolder(); f.IsSlice() && strings.Count(shown, ",") > 1 {
				t.Errorf("%s shows --%s=%s; let its placeholder be one value", n.Path(), f.Name, shown)
			}
		}
	}
}

// A flagRow is a flag that has the same default and meaning in all of its commands.
type flagRow struct{ name, def, help string }

// flagTables are the rows by heading, in the order in which the commands' help has them.
type flagTables struct {
	headings []string
	rows     map[string][]flagRow
	of       map[flagRow][]string
}

// pageOf are the commands that the page tells of.
func pageOf() []string {
	return slices.Concat([]string{"up"}, catalog.Names(), []string{"setup", "top", "drain", "plan", "dlq", "auth", "keys", "usage", "weights", "probe"})
}

func flagsPage(t *testing.T) string {
	t.Helper()
	parser, err := cli.NewParser(&CLI{Services: serviceCommands()}, kong.Name("switchyard"))
	if err != nil {
		t.Fatal(err)
	}
	tables := flagTables{rows: map[string][]flagRow{}, of: map[flagRow][]string{}}
	tables.add("all", slices.DeleteFunc(slices.Clone(parser.Model.Flags), func(f *kong.Flag) bool { return f.Group == nil })) // without --help
	for _, name := range pageOf() {
		for _, n := range parser.Model.Children {
			if n.Name == name {
				tables.addCommand(n)
			}
		}
	}
	return tables.page()
}

func (t *flagTables) addCommand(n *kong.Node) {
	t.add(n.Name, n.Flags)
	for _, below := range n.Children {
		t.add(n.Name, below.Flags)
	}
}

func (t *flagTables) add(command string, flags []*kong.Flag) {
	for _, f := range flags {
		row := flagRow{f.Name, f.Default, strings.TrimSuffix(f.Help, ".")}
		if len(t.of[row]) == 0 {
			t.addRow(headingOf(f, command), row)
		}
		if !slices.Contains(t.of[row], command) {
			t.of[row] = append(t.of[row], command)
		}
	}
}

func (t *flagTables) addRow(heading string, row flagRow) {
	if t.rows[heading] == nil {
		t.headings = append(t.headings, heading)
	}
	t.rows[heading] = append(t.rows[heading], row)
}

// headingOf is the group of a flag, or its command.
func headingOf(f *kong.Flag, command string) string {
	if f.Group != nil {
		return strings.TrimSuffix(f.Group.Title, ":")
	}
	return command
}

func (t *flagTables) page() string {
	var b strings.Builder
	b.WriteString("# Flags\n\nMade of the commands' definitions: `go test ./services/switchyard -run TestFlagsPage -rewrite` writes it anew.\n" +
		"[Configure](configure.md) says how variables and a file set flags. `switchyard COMMAND --help` has those of the commands that are not here.\n")
	for _, heading := range t.headings {
		fmt.Fprintf(&b, "\n## %s\n\n| flag | default | of | what |\n|---|---|---|---|\n", heading)
		for _, row := range t.rows[heading] {
			fmt.Fprintf(&b, "| `--%s` | %s | %s | %s |\n", row.name, row.def, ofCommands(t.of[row]), strings.ReplaceAll(row.help, "|", `\|`))
		}
	}
	return b.String()
}

// ofCommands names commands, and those of all services in one word.
func ofCommands(names []string) string {
	services := "up, " + strings.Join(catalog.Names(), ", ")
	return strings.Replace(strings.Join(names, ", "), services, "up, services", 1)
}
