// Package pages checks the documents: that links, tests, files and folders they name are there, and that the
// pages one reads first are short.
package pages

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// TestLinks follows every link of a page to a file of the repository, and to the heading in it.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, page := range markdown(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			path, heading, _ := strings.Cut(m[1], "#")
			to := page
			if path != "" {
				to = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s, which is not there", page, m[1])
			} else if heading != "" && strings.HasSuffix(to, ".md") && !headings(read(t, to))[heading] {
				t.Errorf("%s links to %s, which has no such heading", page, m[1])
			}
		}
	}
}

// TestSizes keeps the pages that one reads first short enough to be read.
func TestSizes(t *testing.T) {
	looked := []string{"fields.md", "flags.md", "permissions.md"} // made by the program: to look up and not to read
	for pages, most := range map[string]int{"README.md": 7 << 10, "ARCHITECTURE.md": 20000, "docs/operations/*.md": 10 << 10, "docs/design/*.md": 9 << 10, "docs/*.md": 16 << 10, "docs/benchmarks/*.md": 14 << 10} {
		for _, page := range glob(t, pages) {
			if n := len(read(t, page)); n > most && !slices.Contains(looked, filepath.Base(page)) {
				t.Errorf("%s has %d bytes; it may have %d: move what is of one package to its doc comment, and the rest to docs/design", page, n, most)
			}
		}
	}
}

// TestMap looks for every service, every package of a wing and every helper of all in the map of
// ARCHITECTURE.md, and for every folder that the map names.
func TestMap(t *testing.T) {
	_, mapped, _ := strings.Cut(read(t, filepath.Join(root, "ARCHITECTURE.md")), "## Map")
	mapped, _, _ = strings.Cut(mapped, "\n## ")
	for _, wing := range []string{"services/*", "services/gateway/*", "services/switchyard/*", "pkg/*", "pkg/*/*", "internal/*"} {
		for _, folder := range glob(t, wing) {
			info, err := os.Stat(folder)
			name := filepath.Base(folder)
			if err == nil && info.IsDir() && name != "testdata" && !regexp.MustCompile(`\b`+name+`/`).MatchString(mapped) {
				t.Errorf("the map of ARCHITECTURE.md lacks %s: name the folder in a line of its wing, with what it is for", folder)
			}
		}
	}
	folders := map[string]bool{".ci": true}
	for _, path := range files(t, "") {
		for dir := filepath.Dir(path); dir != "." && !folders[filepath.Base(dir)]; dir = filepath.Dir(dir) {
			folders[filepath.Base(dir)] = true
		}
	}
	for _, m := range regexp.MustCompile(`([a-z.][\w.-]*)/`).FindAllStringSubmatch(mapped, -1) {
		if !folders[m[1]] {
			t.Errorf("the map of ARCHITECTURE.md names %s, and there is no such folder", m[0])
		}
	}
}

// TestNamedTests looks for every test that a page names as code.
func TestNamedTests(t *testing.T) {
	named := regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w+`)
	there := tests(t)
	for _, page := range markdown(t) {
		for _, name := range named.FindAllString(read(t, page), -1) {
			if !there[name] {
				t.Errorf("%s names %s, and there is no such test", page, name)
			}
		}
	}
}

// tests are the names of all tests of the repository.
func tests(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	for _, path := range files(t, "_test.go") {
		for _, m := range declared.FindAllStringSubmatch(read(t, path), -1) {
			all[m[1]] = true
		}
	}
	return all
}

// TestPaths looks for every file and folder of the code that a page names.
func TestPaths(t *testing.T) {
	named := regexp.MustCompile("`((?:services|pkg|internal|kernels|loadtest|deploy|schemas)/[\\w./*-]+|\\w+\\.go)`")
	bases := map[string]bool{}
	for _, path := range files(t, ".go") {
		bases[filepath.Base(path)] = true
	}
	for _, page := range markdown(t) {
		for _, m := range named.FindAllStringSubmatch(read(t, page), -1) {
			found, _ := filepath.Glob(filepath.Join(root, m[1]))
			if len(found) == 0 && !bases[m[1]] && !strings.Contains(m[1], "NAME") {
				t.Errorf("%s names %s, which is not there: it was moved or renamed", page, m[1])
			}
		}
	}
}

// TestActors keeps sentences without an actor out of the pages: name the component, the client or
// the user that is meant.
func TestActors(t *testing.T) {
	nobody := regexp.MustCompile(`(?i)\b(?:whoever|nobody|somebody|anybody)\b`)
	for _, page := range markdown(t) {
		for i, line := range strings.Split(read(t, page), "\n") {
			if word := nobody.FindString(line); word != "" {
				t.Errorf("%s:%d says %q: name the component that is meant", page, i+1, word)
			}
		}
	}
}

// glob are the files and folders of a pattern; there must be some.
func glob(t *testing.T, pattern string) []string {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil || len(pages) == 0 {
		t.Fatalf("%s: %d pages, %v", pattern, len(pages), err)
	}
	return pages
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func markdown(t *testing.T) []string { return files(t, ".md") }

// files are those of the repository with an ending, without what tools leave in hidden folders.
func files(t *testing.T, ending string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		hidden := path != root && strings.HasPrefix(d.Name(), ".")
		switch {
		case err != nil:
			return err
		case d.IsDir() && (hidden || d.Name() == "testdata" || d.Name() == "bin"):
			return fs.SkipDir
		case strings.HasSuffix(path, ending):
			paths = append(paths, path)
		}
		return nil
	})
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d files %s, %v", len(paths), ending, err)
	}
	return paths
}

// headings are those of a page, as links name them.
func headings(text string) map[string]bool {
	all := map[string]bool{}
	dropped := regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
	for _, line := range strings.Split(text, "\n") {
		if hashes, title, found := strings.Cut(line, " "); found && strings.Trim(hashes, "#") == "" && hashes != "" {
			all[strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(title), ""), " ", "-")] = true
		}
	}
	return all
}
