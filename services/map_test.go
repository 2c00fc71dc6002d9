package services_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/transport/catalog"
)

var rewrite = flag.Bool("rewrite", false, "write missing services into the map of ARCHITECTURE.md, and take those out that are gone")

// Every service has a line in the map: one written by hand, or else what it says of itself.
func TestMapped(t *testing.T) {
	const file = "../ARCHITECTURE.md"
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := mapped(string(page), catalog.All(), isFolder)
	if want == string(page) {
		return
	}
	if !*rewrite {
		t.Fatal("the map of ARCHITECTURE.md has not the services of the list; run go test ./services -run TestMapped -rewrite")
	}
	if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// mapped is a page whose map has a line of each service, and none of a folder that is gone.
func mapped(page string, all []catalog.Service, there func(folder string) bool) string {
	lines := strings.Split(page, "\n")
	first := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "services/ ") }) + 1
	end := first + slices.IndexFunc(lines[first:], func(l string) bool { return !strings.HasPrefix(l, "  ") })
	of := slices.DeleteFunc(slices.Clone(lines[first:end]), func(l string) bool {
		folder := folderOf(l)
		return folder != "" && !there(folder)
	})
	next := 0
	for _, s := range all {
		at := slices.IndexFunc(of, func(l string) bool { return folderOf(l) == s.Name })
		if at < 0 {
			at = next
			of = slices.Insert(of, at, fmt.Sprintf("  %-19s  %s", s.Name+"/", s.What))
		}
		next = at + 1
	}
	return strings.Join(slices.Concat(lines[:first], of, lines[end:]), "\n")
}

// folderOf is the folder of services that a line is of; empty: it is of one below.
func folderOf(line string) string {
	name, _, found := strings.Cut(line, "/")
	if name = strings.TrimPrefix(name, "  "); !found || strings.HasPrefix(name, " ") {
		return ""
	}
	return name
}

func TestMappedLines(t *testing.T) {
	const page = "# Map\nservices/  all\n  gate/     routes\n  gone/     was\n  command/  runs\n    below/    it\nschemas/  messages\n"
	echo, gate := catalog.Service{Name: "echo"}, catalog.Service{Name: "gate"}
	echo.What, gate.What = "counts", "is not written: it has a line"
	for name, tc := range map[string]struct {
		all  []catalog.Service
		want string
	}{
		"behind another": {[]catalog.Service{gate, echo}, "# Map\nservices/  all\n  gate/     routes\n  echo/                counts\n  command/  runs\n    below/    it\nschemas/  messages\n"},
		"before all":     {[]catalog.Service{echo, gate}, "# Map\nservices/  all\n  echo/                counts\n  gate/     routes\n  command/  runs\n    below/    it\nschemas/  messages\n"},
		"none is new":    {[]catalog.Service{gate}, "# Map\nservices/  all\n  gate/     routes\n  command/  runs\n    below/    it\nschemas/  messages\n"},
	} {
		there := func(folder string) bool { return folder != "gone" }
		got := mapped(page, tc.all, there)
		if got != tc.want || mapped(got, tc.all, there) != got {
			t.Errorf("%s:\n%s", name, got)
		}
	}
}
