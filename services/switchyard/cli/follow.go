package cli

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/switchyard/switchyard/pkg/process/lifecycle"
)

// live are the flags that a process takes anew from its configuration while it runs.
var live = []string{"log-level", "tenant"}

// configured is what a command line and its configuration say.
type configured struct {
	command any // points to the selected command
	level   string
	flags   map[string]string
}

// configuredBy returns what was parsed.
func configuredBy(parsed *kong.Context, g *Globals) configured {
	c := configured{level: g.LogLevel, flags: map[string]string{}}
	if of := parsed.Selected(); of != nil && of.Target.CanAddr() {
		c.command = of.Target.Addr().Interface()
	}
	for _, f := range parsed.Flags() {
		value := f.Target
		for value.Kind() == reflect.Pointer && !value.IsNil() {
			value = value.Elem()
		}
		c.flags[f.Name] = fmt.Sprintf("%v", value)
	}
	return c
}

// fixed returns the flags in which two differ that count only after a restart.
func (c configured) fixed(other configured) (names []string) {
	for name, value := range c.flags {
		if other.flags[name] != value && !slices.Contains(live, name) {
			names = append(names, "--"+name)
		}
	}
	slices.Sort(names)
	return names
}

// Follow has take called with the command as the configuration file says it, each time that the file has changed, and at
// SIGHUP, until stop is called. What take refuses, and what cannot be read, changes nothing. The log's
// level follows by itself.
func (e *Env) Follow(ctx context.Context, take func(command any) error) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	var files []string
	if e.path != "" {
		files = append(files, e.path)
	}
	w := lifecycle.NewWatch("the configuration", func() error { return e.again(take) }, files...)
	go func() {
		defer close(done)
		lifecycle.FollowFiles(ctx, e.Log, w)
	}()
	return func() { cancel(); <-done }
}

// again reads the configuration anew.
func (e *Env) again(take func(command any) error) error {
	if e.parse == nil {
		return nil
	}
	now, err := e.parse()
	if err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(now.level)); err != nil {
		return fmt.Errorf("reading --log-level: %w", err)
	}
	if err := take(now.command); err != nil {
		return err
	}
	e.level.Set(level)
	if fixed := now.fixed(e.said); len(fixed) > 0 {
		e.Log.Warn("the configuration says of some flags what counts after a restart alone", "flags", strings.Join(fixed, ", "))
	}
	return nil
}
