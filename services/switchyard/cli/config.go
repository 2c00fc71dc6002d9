package cli

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"gopkg.in/yaml.v3"
)

// configFile is a YAML file as a source of flags' values. It yields to the
// environment, and a key that is no flag is an error: a typing mistake must
// not silently leave a default in place.
type configFile struct {
	path string
	// entries are the file's values and mappings, by their keys joined by
	// dashes: a flag's name behind its command's.
	entries map[string]entry
	// others are commands whose flags another program reads.
	others []string
}

// entry is a value of the file, with its keys from the top.
type entry struct {
	keys []string
	line int // of the last key
	node *yaml.Node
}

// configPath returns --config, or SWITCHYARD_CONFIG, before anything is parsed:
// the file must be there when flags are resolved.
func configPath(args []string) string {
	if path, ok := flagValue(args, "--config"); ok {
		return path
	}
	return os.Getenv("SWITCHYARD_CONFIG")
}

// flagValue returns a flag's value in arguments that are not parsed.
func flagValue(args []string, flag string) (value string, ok bool) {
	for i, arg := range args {
		if arg == "--" {
			break
		}
		if value, ok := strings.CutPrefix(arg, flag+"="); ok {
			return value, true
		}
		if arg == flag && i+1 < len(args) {
			return args[i+1], true
		}
	}
	return "", false
}

// loadConfig returns what a file says; nil without one.
func loadConfig(path string) (*configFile, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	f := &configFile{path: path, entries: map[string]entry{}}
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil, fmt.Errorf("reading the configuration %s: %w", path, err)
	}
	if len(document.Content) == 0 {
		return f, nil // an empty file
	}
	return f, f.add(nil, document.Content[0])
}

// More than flags can have. Aliases let a mapping stand in many places, and in itself.
const (
	maxKeys    = 8 // from the top to a value
	maxEntries = 10_000
)

// add takes the entries of a mapping in.
func (f *configFile) add(above []string, n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return f.wrong(n.Line, errors.New("the file must have flags' names with their values, such as \"nats: nats://127.0.0.1:4222\""))
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		keys := append(append([]string{}, above...), key.Value)
		name := strings.Join(keys, "-")
		if before, again := f.entries[name]; again {
			return f.wrong(key.Line, fmt.Errorf("%s is already defined in line %d", quoted(keys), before.line))
		}
		if len(keys) > maxKeys || len(f.entries) == maxEntries {
			return f.wrong(key.Line, fmt.Errorf("there are more than %d values, or %d keys above one: no flag needs that; are there aliases that repeat themselves?", maxEntries, maxKeys))
		}
		f.entries[name] = entry{keys, key.Line, value}
		if value.Kind == yaml.MappingNode {
			if err := f.add(keys, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// wrong adds to an error where in the file an error is.
func (f *configFile) wrong(line int, err error) error {
	return fmt.Errorf("%s:%d: %w", f.path, line, err)
}

func quoted(keys []string) string { return fmt.Sprintf("%q", strings.Join(keys, ": ")) }

// Resolve returns a flag's value unless the environment sets it.
func (f *configFile) Resolve(_ *kong.Context, parent *kong.Path, flag *kong.Flag) (any, error) {
	for _, name := range flag.Envs {
		if _, ok := os.LookupEnv(name); ok {
			return nil, nil
		}
	}
	e, ok := f.find(parent.Node(), flag.Name)
	if !ok || e.node.Tag == "!!null" {
		return nil, nil
	}
	value, err := e.value()
	if err == nil {
		err = try(flag, value)
	}
	if err != nil {
		return nil, f.wrong(e.line, err)
	}
	return value, nil
}

// find returns the value of a command's flag: its own, or else that of the command above it, which all commands there
// have.
func (f *configFile) find(n *kong.Node, flag string) (e entry, ok bool) {
	for ; n != nil && !ok; n = above(n) {
		e, ok = f.entries[nameIn(n, flag)]
	}
	return e, ok
}

// above returns the command that a command stands under; nil without one.
func above(n *kong.Node) *kong.Node {
	if n.Parent == nil || n.Parent.Type == kong.ApplicationNode {
		return nil
	}
	return n.Parent
}

func (f *configFile) text(key string) string {
	if f == nil || f.entries[key].node == nil {
		return ""
	}
	return f.entries[key].node.Value
}

// nameIn returns a flag's name behind the names of its commands.
func nameIn(n *kong.Node, name string) string {
	for ; n != nil && n.Type != kong.ApplicationNode; n = n.Parent {
		name = n.Name + "-" + name
	}
	return name
}

// value returns what the parser of flags takes: text, as on the command line, or a list.
func (e entry) value() (any, error) {
	switch e.node.Kind {
	case yaml.ScalarNode:
		return e.node.Value, nil
	case yaml.SequenceNode:
		var list []any
		err := e.node.Decode(&list)
		return list, err
	}
	return nil, fmt.Errorf("%s has keys of its own where a value is wanted", quoted(e.keys))
}

// try parses a value as the parser will do, which does not know of lines.
func try(flag *kong.Flag, value any) error {
	target := reflect.New(flag.Target.Type()).Elem()
	if target.Kind() == reflect.Pointer {
		target.Set(reflect.New(target.Type().Elem()))
	}
	if _, list := value.([]any); list && !flag.IsSlice() {
		return errors.New("a list stands where one value is wanted")
	}
	scan := kong.Scan().PushTyped(value, kong.FlagValueToken)
	if err := flag.Mapper.Decode(&kong.DecodeContext{Value: flag.Value, Scan: scan}, target); err != nil {
		return err
	}
	if text, ok := value.(string); ok && flag.Enum != "" && !flag.EnumMap()[text] {
		return fmt.Errorf("%q is none of %s", text, flag.Enum)
	}
	return nil
}

// Validate refuses keys that are no flags.
func (f *configFile) Validate(app *kong.Application) error {
	flags, groups := map[string]bool{}, map[string]bool{}
	collect(flags, groups, app.Node)
	var first *entry
	for name, e := range f.entries {
		above := e.node.Kind == yaml.MappingNode && groups[name] || f.isOther(e.keys)
		if !flags[name] && !above && (first == nil || e.line < first.line) {
			first = &e
		}
	}
	if first == nil {
		return nil
	}
	return f.wrong(first.line, fmt.Errorf("%s is no flag; a command's flags stand under its name, "+
		"such as \"prompt: {max-tokens: 8}\", and --help lists them", quoted(first.keys)))
}

// isOther reports whether keys are those of another program's command, or stand below it or above it.
func (f *configFile) isOther(keys []string) bool {
	name := strings.Join(keys, " ") + " "
	return slices.ContainsFunc(f.others, func(c string) bool {
		return strings.HasPrefix(name, c+" ") || strings.HasPrefix(c+" ", name)
	})
}

// collect adds the names of a node's flags and of its commands' ones, and what
// they begin with: keys that others may stand under.
func collect(flags, groups map[string]bool, node *kong.Node) {
	for _, flag := range node.Flags {
		for n := node; n != nil; n = above(n) {
			name := nameIn(n, flag.Name)
			flags[name] = true
			for i, r := range name {
				if r == '-' {
					groups[name[:i]] = true
				}
			}
		}
	}
	for _, child := range node.Children {
		collect(flags, groups, child)
	}
}
