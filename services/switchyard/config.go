package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/alecthomas/kong"
	kongyaml "github.com/alecthomas/kong-yaml"
	"gopkg.in/yaml.v3"
)

// configFile is a YAML file as a source of flags' values. It yields to the
// environment, and a key that is no flag is an error: a typing mistake must
// not silently leave a default in place.
type configFile struct {
	kong.Resolver
	path string
	keys map[string]any
}

// configPath finds --config, or SWITCHYARD_CONFIG, before anything is parsed:
// the file must be there when flags are resolved.
func configPath(args []string) string {
	for i, arg := range args {
		if arg == "--" {
			break
		}
		if value, ok := strings.CutPrefix(arg, "--config="); ok {
			return value
		}
		if arg == "--config" && i+1 < len(args) {
			return args[i+1]
		}
	}
	return os.Getenv("SWITCHYARD_CONFIG")
}

// loadConfig reads the file; nil without one.
func loadConfig(path string) (*configFile, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	keys := map[string]any{}
	if err := yaml.NewDecoder(bytes.NewReader(data)).Decode(&keys); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading the configuration %s: %w", path, err)
	}
	resolver, err := kongyaml.Loader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("reading the configuration %s: %w", path, err)
	}
	return &configFile{Resolver: resolver, path: path, keys: keys}, nil
}

// Resolve returns a flag's value unless the environment sets it.
func (f *configFile) Resolve(ctx *kong.Context, parent *kong.Path, flag *kong.Flag) (any, error) {
	for _, name := range flag.Envs {
		if _, ok := os.LookupEnv(name); ok {
			return nil, nil
		}
	}
	return f.Resolver.Resolve(ctx, parent, flag)
}

// Validate refuses keys that are no flags.
func (f *configFile) Validate(app *kong.Application) error {
	known := map[string]bool{}
	collect(known, "", app.Node)
	for _, key := range unknown(known, "", f.keys) {
		return fmt.Errorf("%s: %q is no flag; a command's flags stand under its name, "+
			"such as \"prompt: {max-tokens: 8}\", and --help lists them", f.path, key)
	}
	return nil
}

// collect adds the names of a node's flags and of its commands' ones.
func collect(known map[string]bool, prefix string, node *kong.Node) {
	for _, flag := range node.Flags {
		known[prefix+flag.Name] = true
	}
	for _, child := range node.Children {
		collect(known, prefix+child.Name+"-", child)
	}
}

// unknown lists the keys that are no flags; nested keys are joined by dashes.
func unknown(known map[string]bool, prefix string, keys map[string]any) (list []string) {
	for key, value := range keys {
		name := prefix + key
		if known[name] {
			continue
		}
		if nested, ok := value.(map[string]any); ok {
			list = append(list, unknown(known, name+"-", nested)...)
			continue
		}
		list = append(list, name)
	}
	return list
}
