package pages

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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
	const made = "flags.md" // of the commands' definitions, to look up and not to read
	for pages, most := range map[string]int{"README.md": 7 << 10, "ARCHITECTURE.md": 21 << 10, "docs/operations/*.md": 10 << 10} {
		for _, page := range glob(t, pages) {
			if n := len(read(t, page)); n > most && filepath.Base(page) != made {
				t.Errorf("%s has %d bytes; it may have %d: move what is of one package to its doc comment, and the rest to docs/design", page, n, most)
			}
		}
	}
}

// glob are the pages of a pattern; there must be some.
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

// markdown are the pages, without those of tools that a run leaves in hidden folders.
func markdown(t *testing.T) (pages []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		hidden := path != root && strings.HasPrefix(d.Name(), ".")
		switch {
		case err != nil:
			return err
		case d.IsDir() && (hidden || d.Name() == "testdata" || d.Name() == "bin"):
			return fs.SkipDir
		case strings.HasSuffix(path, ".md"):
			pages = append(pages, path)
		}
		return nil
	})
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	return pages
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
