package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/alecthomas/kong"

	"github.com/switchyard/switchyard/schemas"
)

// version is set by the linker in releases.
var version = "dev"

// VersionCmd prints what this binary is.
type VersionCmd struct{}

// Run prints the version, the commit, and the version of the messages.
func (VersionCmd) Run(e *env) error {
	_, err := fmt.Fprintf(e.out, "switchyard %s (%s, messages v%d, %s %s/%s)\n",
		version, commit(), schemas.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if err != nil {
		return fmt.Errorf("writing the version: %w", err)
	}
	return nil
}

// versionFlag is --version, which is the command version.
type versionFlag bool

// BeforeReset prints the version in place of what else was asked for.
func (versionFlag) BeforeReset(app *kong.Kong) error {
	if err := (VersionCmd{}).Run(&env{stdio: stdio{out: app.Stdout}}); err != nil {
		return err
	}
	app.Exit(exitDone)
	return nil
}

// commit is the revision that the binary was built from, if the build knew it.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "commit unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return "commit " + s.Value[:min(12, len(s.Value))]
		}
	}
	return "commit unknown"
}
