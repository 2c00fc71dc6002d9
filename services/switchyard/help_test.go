package main

import (
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// The help is what testdata has: commands in groups, a command's own flags first, and those of
// the connection last.
func TestHelp(t *testing.T) {
	for file, args := range map[string][]string{"help.txt": {"--help"}, "help-drain.txt": {"drain", "--help"}, "help-gate.txt": {"gate", "--help"}} {
		t.Run(file, func(t *testing.T) {
			got := invoke("", args...).Out
			if *rewritePages {
				if err := os.WriteFile("testdata/"+file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want, err := os.ReadFile("testdata/" + file); err != nil || string(want) != got {
				t.Errorf("%v prints another help; if it is meant, run go test ./services/switchyard -run TestHelp -rewrite (%v):\n%s", args, err, got)
			}
		})
	}
}

// Every command has a group, and ends its help with the flags that all commands have.
func TestHelpOfAllCommands(t *testing.T) {
	parser, err := cli.NewParser(&CLI{Services: serviceCommands()}, kong.Name("switchyard"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range testkit.Some(parser.Model.Leaves(true)) {
		args := append(strings.Fields(strings.TrimPrefix(n.FullPath(), "switchyard")), "--help")
		got := invoke("", args...)
		shown, _, _ := strings.Cut(got.Out, " more flags: ")
		shown = strings.TrimRight(shown, "\n0123456789")
		if _, last, found := strings.Cut(shown, "\nConnection, logs and configuration:\n"); got.Code != cli.ExitDone || !found || strings.Contains(last, "\n\n") || n.ClosestGroup() == nil {
			t.Errorf("%v: code %d, group %v:\n%s", args, got.Code, n.ClosestGroup(), got.Out)
		}
	}
}

// The parser of one command knows that one, as the parser of all does.
func TestOnlyCommand(t *testing.T) {
	t.Parallel()
	all, err := cli.NewParser(&CLI{Services: serviceCommands()})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range all.Model.Children {
		c := &CLI{Services: serviceCommands()}
		one, err := cli.NewParser(c, cli.OnlyCommand(want.Name, append([]any{c}, c.Services...))...)
		if err != nil {
			t.Fatal(err)
		}
		if got := one.Model.Children; len(got) != 1 || got[0].Name != want.Name || len(got[0].Flags) != len(want.Flags) || len(one.Model.Flags) != len(all.Model.Flags) {
			t.Errorf("for %s: %d commands", want.Name, len(got))
		}
	}
	if c := (&CLI{Services: serviceCommands()}); cli.OnlyCommand("no-command", []any{c}) != nil {
		t.Error("a command that there is not leaves others out")
	}
}
