package imports

import (
	"cmp"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Module is this module's path.
const Module = "github.com/switchyard/switchyard"

// Import is one import of one package, by paths as in Rule's patterns.
type Import struct {
	From, To string
	Test     bool // in a test file
}

// Violation is an import that breaks a rule.
type Violation struct {
	Import
	Rule Rule
}

// String says what is wrong and why.
func (v Violation) String() string {
	return fmt.Sprintf("%s imports %s: %s", v.From, v.To, v.Rule.Reason)
}

// Check returns the imports that break a rule.
func Check(rules []Rule, list []Import) (broken []Violation) {
	for _, i := range list {
		for _, r := range rules {
			if r.forbids(i) {
				broken = append(broken, Violation{i, r})
			}
		}
	}
	return broken
}

func (r Rule) forbids(i Import) bool {
	if i.Test && !r.AndTests || !matches(r.Of, i.From) || matches(r.Except, i.From) {
		return false
	}
	if i.From == i.To { // an external test of its own package
		return false
	}
	if r.Within != "" && match(folderIn(r.Within, i.From)+"/...", i.To) {
		return false
	}
	return matches(r.Never, i.To) || r.Only != nil && !matches(r.Only, i.To)
}

// folderIn returns the folder directly beneath another one that has a package.
func folderIn(folder, pkg string) string {
	own, _, _ := strings.Cut(strings.TrimPrefix(pkg, folder+"/"), "/")
	return folder + "/" + own
}

func matches(patterns []string, pkg string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return match(p, pkg) })
}

func match(pattern, pkg string) bool {
	switch pattern {
	case "std":
		return isStd(pkg)
	case "module":
		return inModule(pkg)
	}
	root, tree := strings.CutSuffix(pattern, "/...")
	if tree {
		parts := strings.SplitAfterN(pkg, "/", strings.Count(root, "/")+2)
		pkg = strings.TrimSuffix(strings.Join(parts[:min(len(parts), strings.Count(root, "/")+1)], ""), "/")
	}
	same, err := path.Match(root, pkg)
	return err == nil && same
}

// laboratory is the folder of the other module of the workspace, which the rules bind, too.
const laboratory = "loadtest"

// roots are the top folders of both modules that have packages.
var roots = []string{"deploy", "internal", "kernels", "loadtest", "models", "pkg", "schemas", "services"}

func inModule(pkg string) bool {
	root, _, _ := strings.Cut(pkg, "/")
	return slices.Contains(roots, root)
}

// isStd tells the standard library by its first element, which is no host.
func isStd(pkg string) bool {
	root, _, _ := strings.Cut(pkg, "/")
	return !strings.Contains(root, ".") && !inModule(pkg)
}

// Read returns the imports of every Go file beneath root, whatever its build
// tags say. Folders with a module of their own are left out, but for the laboratory.
func Read(root string) ([]Import, error) {
	var list []Import
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return skip(root, file, d)
		case !strings.HasSuffix(file, ".go"):
			return nil
		}
		from, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return fmt.Errorf("naming the package of %s: %w", file, err)
		}
		imports, err := readFile(file, filepath.ToSlash(from))
		list = append(list, imports...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the imports under %s: %w", root, err)
	}
	slices.SortFunc(list, func(a, b Import) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	return list, nil
}

// skip leaves out what the go command leaves out.
func skip(root, dir string, d fs.DirEntry) error {
	hidden := strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_") || d.Name() == "testdata"
	nested, err := filepath.Glob(filepath.Join(dir, "go.mod"))
	if err != nil {
		return fmt.Errorf("looking for a module in %s: %w", dir, err)
	}
	if dir != root && (hidden || len(nested) > 0 && dir != filepath.Join(root, laboratory)) {
		return filepath.SkipDir
	}
	return nil
}

func readFile(file, from string) ([]Import, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		return nil, fmt.Errorf("parsing %s: %w", file, err)
	}
	var list []Import
	for _, spec := range parsed.Imports {
		to, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, fmt.Errorf("reading an import of %s: %w", file, err)
		}
		if within, ok := strings.CutPrefix(to, Module+"/"); ok {
			to = path.Clean(within)
		}
		list = append(list, Import{From: from, To: to, Test: strings.HasSuffix(file, "_test.go")})
	}
	return list, nil
}
