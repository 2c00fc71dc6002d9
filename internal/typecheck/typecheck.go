// Package typecheck checks the types of this module's packages as another system's compiler
// would, without compiling them: of what they import, declarations alone are read.
package typecheck

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// listed is what "go list -json" says of a package.
type listed struct {
	Dir, ImportPath string
	GoFiles         []string
	ImportMap       map[string]string
	DepOnly         bool
	Standard        bool
	Error           *struct{ Err string }
}

// Check checks the packages that patterns name in folder dir, for an operating system and an
// architecture as Go names them, without cgo. The error has all mistakes, each with its place.
func Check(ctx context.Context, dir, system, arch string, patterns ...string) error {
	packages, err := list(ctx, dir, system, arch, patterns)
	if err != nil {
		return err
	}
	c := checker{fset: token.NewFileSet(), done: map[string]*types.Package{"unsafe": types.Unsafe}, sizes: types.SizesFor("gc", arch)}
	for _, p := range packages {
		if p.ImportPath != "unsafe" {
			c.check(p)
		}
	}
	return errors.Join(c.mistakes...)
}

// list has each package behind those that it imports.
func list(ctx context.Context, dir, system, arch string, patterns []string) ([]listed, error) {
	args := append([]string{"list", "-deps", "-json=Dir,ImportPath,GoFiles,ImportMap,DepOnly,Standard,Error"}, patterns...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	packages, err := decode(out)
	return packages, errors.Join(err, cmd.Wait())
}

func decode(from io.Reader) ([]listed, error) {
	var packages []listed
	for decoder := json.NewDecoder(from); ; {
		var p listed
		switch err := decoder.Decode(&p); {
		case errors.Is(err, io.EOF):
			return packages, nil
		case err != nil:
			return nil, fmt.Errorf("output of go list: %w", err)
		case p.Error != nil:
			return nil, fmt.Errorf("%s: %s", p.ImportPath, p.Error.Err)
		}
		packages = append(packages, p)
	}
}

type checker struct {
	fset     *token.FileSet
	sizes    types.Sizes
	done     map[string]*types.Package // by import path
	mistakes []error
}

func (c *checker) check(p listed) {
	files := make([]*ast.File, 0, len(p.GoFiles))
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(c.fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			c.mistakes = append(c.mistakes, err)
			continue
		}
		files = append(files, file)
	}
	config := types.Config{
		IgnoreFuncBodies: p.DepOnly,
		Importer:         imported{c, p.ImportMap},
		Sizes:            c.sizes,
		Error: func(err error) {
			if !p.DepOnly {
				c.mistakes = append(c.mistakes, err)
			}
		},
	}
	// Its error is the first of those that Error has been told of.
	c.done[p.ImportPath], _ = config.Check(p.ImportPath, c.fset, files, nil)
}

// imported finds what a package imports among those checked before it.
type imported struct {
	*checker
	vendored map[string]string // as the package writes it to import path
}

// Import returns the package that a path names; its error says that "go list" has not named it before this one.
func (i imported) Import(path string) (*types.Package, error) {
	if at, ok := i.vendored[path]; ok {
		path = at
	}
	if p := i.done[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s was not listed", path)
}
