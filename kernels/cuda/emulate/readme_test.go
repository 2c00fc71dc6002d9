//go:build emulate

package emulate

import (
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"
)

// The table of ../src/README.md has all kernels, each with its number of parameters.
func TestTable(t *testing.T) {
	text, err := os.ReadFile("../src/README.md")
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]int{}
	before := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 7 || !strings.HasPrefix(cells[1], " `") || strings.HasPrefix(cells[1], " `t") {
			continue
		}
		names := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1)
		parameters := len(regexp.MustCompile("`[a-z_]+`( |,|$)").FindAllString(strings.Split(cells[2], ": ")[0], -1))
		if strings.HasPrefix(cells[2], " the same") {
			parameters = before
		}
		for _, name := range names {
			for _, one := range expanded(name[1]) {
				told[one] = parameters
			}
		}
		before = parameters
	}
	if have := open(t).l.Kernels(); !maps.Equal(told, have) {
		t.Errorf("told %v, have %v", told, have)
	}
}

// expanded are the names that braces stand for.
func expanded(name string) []string {
	open, end := strings.Index(name, "{"), strings.Index(name, "}")
	if open < 0 {
		return []string{name}
	}
	var all []string
	for _, one := range strings.Split(name[open+1:end], ",") {
		all = append(all, expanded(name[:open]+one+name[end+1:])...)
	}
	return all
}
