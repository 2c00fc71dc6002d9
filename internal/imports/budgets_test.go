package imports

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
)

const budgets = "testdata/budgets.txt"

// smallPackage is of fewer lines than this.
const smallPackage = 50

// What the product and the repository consist of stays within its budgets.
func TestBudgets(t *testing.T) {
	lines := map[string]int{} // by folder, below root
	all, small := 0, 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && path != root && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "bin") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			lines[filepath.ToSlash(filepath.Dir(path))] += ownLines(t, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range lines {
		all += n
		if n > 0 && n < smallPackage {
			small++
		}
	}
	packages, own, product := productOf(t)
	testkit.Budgets(t, budgets, map[string]int{
		"packages-of-product": packages, "own-packages-of-product": own, "own-lines-of-product": product,
		"packages-below-50-lines": small, "lines-of-go": all,
	})
}

// productOf counts what the binary consists of: packages, those of this module, and their lines
// without generated ones.
func productOf(t *testing.T) (packages, own, lines int) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", `{{.ImportPath}}{{range .GoFiles}} {{.}}{{end}}`, "./services/switchyard")
	list.Dir, list.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		packages++
		folder, ours := strings.CutPrefix(fields[0], Module+"/")
		if !ours {
			continue
		}
		own++
		for _, file := range fields[1:] {
			lines += ownLines(t, filepath.Join(root, folder, file))
		}
	}
	return packages, own, lines
}

// ownLines are those of a file that nobody has generated.
func ownLines(t *testing.T, path string) int {
	t.Helper()
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := parser.ParseFile(token.NewFileSet(), path, source, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	if ast.IsGenerated(tree) {
		return 0
	}
	return bytes.Count(source, []byte("\n"))
}

// Everybody clones all that is tracked.
func TestTrackedBytes(t *testing.T) {
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Skip("no git repository:", err)
	}
	sum := 0
	for path := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if info, err := os.Stat(filepath.Join(root, path)); err == nil { // else it is about to be removed
			sum += int(info.Size())
		}
	}
	testkit.Budgets(t, budgets, map[string]int{"tracked-bytes": sum})
}
