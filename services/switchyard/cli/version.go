package cli

import (
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/switchyard/switchyard/schemas"
)

// release is the version of these sources. It stands here alone: the Makefile reads it.
const release = "0.1.0"

// Version is the release with what git knows of the sources. The linker sets it, as make build has
// it do; else it is what Go knows of them.
var Version = release

// NameVersion finds the version of a binary to which the linker gave none.
func NameVersion() {
	info, ok := debug.ReadBuildInfo()
	if ok && Version == release {
		Version = described(info.Main.Version)
	}
}

// described returns a module's version, of a build of these sources. Where none has been released
// before, Go calls it v0.0.0 with time and commit, which then follow the release.
func described(module string) string {
	if module == "" || module == "(devel)" {
		return release
	}
	if commit, untagged := strings.CutPrefix(module, "v0.0.0-"); untagged {
		return release + "+" + noMetadata.ReplaceAllString(commit, "-")
	}
	return module
}

// VersionCmd prints what this binary is.
type VersionCmd struct{}

// Run prints the version, the commit, and the version of the messages.
func (VersionCmd) Run(e *Env) error {
	_, err := fmt.Fprintf(e.Out, "switchyard %s (%s, messages v%d, %s %s/%s)\n",
		Version, commit(), schemas.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if err != nil {
		return fmt.Errorf("writing the version: %w", err)
	}
	return nil
}

// VersionFlag is --version, which is the command version.
type VersionFlag bool

// BeforeReset prints the version in place of what else was asked for.
func (VersionFlag) BeforeReset(app *kong.Kong) error {
	if err := (VersionCmd{}).Run(&Env{Stdio: Stdio{Out: app.Stdout}}); err != nil {
		return err
	}
	app.Exit(ExitDone)
	return nil
}

// Semantic versioning's own pattern, and what build metadata cannot have.
// https://semver.org/#is-there-a-suggested-regular-expression-regex-to-check-a-semver-string
var (
	semantic = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)` +
		`(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?$`)
	noMetadata = regexp.MustCompile(`[^0-9a-zA-Z-]+`)
)

// Semver returns a version as NATS services must have it: a release's as it is, and
// any other build as metadata of 0.0.0.
func Semver(version string) string {
	if v := strings.TrimPrefix(version, "v"); semantic.MatchString(v) {
		return v
	}
	return "0.0.0+" + noMetadata.ReplaceAllString(version, "-")
}

// commit returns the revision that the binary was built from, if the build knew it.
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
