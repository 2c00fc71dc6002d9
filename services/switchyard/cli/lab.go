package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
)

// The names of the program that serves and of the one that measures.
const (
	Product    = "switchyard"
	LabProgram = "switchyard-lab"
)

// LabCommands are the commands of LabProgram, which switchyard runs under the same names.
var LabCommands = []string{
	"verify", "quantise", "upcycle", "bench", "arena", "policy", "record", "sps", "profile", "bayes", "tune",
	"distill", "rerun", "eval", "train-predictor", "maps build",
}

// ProductCommands are the commands of switchyard. A configuration file may have flags of both programs.
var ProductCommands = []string{
	"up", "tokenizer", "attention", "gate", "expert", "aggregator", "predictor", "scaler", "gateway", "demo", "prompt", "top", "drain",
	"plan", "brownout", "dlq", "setup", "auth", "keys", "usage", "probe", "version", "inspect", "weights", "tokenize",
	"maps inspect", "maps export", "maps import", "maps forget",
}

// otherCommands returns the commands of the program beside this one.
func (p Program) otherCommands() []string {
	if p.Name == LabProgram {
		return ProductCommands
	}
	return LabCommands
}

// IsLabCommand reports whether a command line of switchyard names one of LabCommands.
func IsLabCommand(args []string) bool { return labCommand(args) != "" }

// labCommand returns which of LabCommands a command line names, or "".
func labCommand(args []string) string {
	var bare []string
	for i := 0; i < len(args) && len(bare) < 2; i++ {
		switch arg := args[i]; {
		case arg == "--":
			i = len(args)
		case !strings.HasPrefix(arg, "-"):
			bare = append(bare, arg)
		case takesValue(arg):
			i++
		}
	}
	for n := range bare {
		if name := strings.Join(bare[:n+1], " "); slices.Contains(LabCommands, name) {
			return name
		}
	}
	return ""
}

// takesValue reports whether the argument after this one is the value of a flag of Globals.
func takesValue(arg string) bool {
	for f := range reflect.TypeFor[Globals]().Fields() {
		if arg == "--"+flagName(f) {
			return f.Type.Kind() != reflect.Bool
		}
	}
	return false
}

// flagName returns the name that the parser gives to a field of Globals.
func flagName(f reflect.StructField) string {
	if name := f.Tag.Get("name"); name != "" {
		return name
	}
	var b strings.Builder
	for i, r := range f.Name {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte('-')
		}
		b.WriteRune(r)
	}
	return strings.ToLower(b.String())
}

// RunLab replaces this process by LabProgram, which is beside this program's file, with the same
// arguments, and returns the exit code where that fails.
func RunLab(args []string, std Stdio) int {
	err := execLab(args)
	if errors.Is(err, os.ErrNotExist) {
		err = Usage(fmt.Errorf("%s is a command of %s, which is not beside this program (%w): make lab builds it", labCommand(args), LabProgram, err))
	}
	return report(std.Err, logFormat(args), err)
}

// execLab replaces this process by LabProgram, or its kin: that of switchyard-cuda is switchyard-lab-cuda.
func execLab(args []string) error {
	path, err := beside(func(name string) string {
		if kin, ok := strings.CutPrefix(name, Product); ok {
			return LabProgram + kin
		}
		return LabProgram
	})
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err != nil {
		return err
	}
	return fmt.Errorf("running %s: %w", path, syscall.Exec(path, append([]string{path}, args...), os.Environ()))
}

// ProductPath returns the path of switchyard, which is this program or stands beside it.
func ProductPath() (string, error) {
	return beside(func(name string) string { return strings.Replace(name, LabProgram, Product, 1) })
}

// beside returns the path of a program in the folder of this one, named by this one's name.
func beside(named func(self string) string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding this program: %w", err)
	}
	if target, err := filepath.EvalSymlinks(self); err == nil {
		self = target
	}
	return filepath.Join(filepath.Dir(self), named(filepath.Base(self))), nil
}
