// Package drain asks replicas to drain, as an operator does, and waits until they are gone.
package drain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/switchyard/switchyard/services/switchyard/top"
)

// choose lists the replicas that a name means: the one of that id, or those of that host.
func choose(all []top.Member, model, name string) ([]top.Member, error) {
	var out []top.Member
	for _, m := range all {
		if m.ID == name {
			return []top.Member{m}, nil
		}
		if m.Host == name {
			out = append(out, m)
		}
	}
	if name == "" || len(out) == 0 {
		return nil, fmt.Errorf("no replica and no host %q of model %s is here%s", name, model, suggestion(all, name))
	}
	return out, nil
}

// suggestion names what is nearest to a name.
func suggestion(all []top.Member, name string) string {
	if len(all) == 0 {
		return ": no replica of this model is"
	}
	const most = 3
	var names []string
	for _, m := range all {
		for _, n := range []string{m.ID, m.Host} {
			if n != "" && !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(distance(name, a), distance(name, b)) })
	return "; nearest: " + strings.Join(names[:min(most, len(names))], ", ") + " (`switchyard top --once` lists all)"
}

// longest bounds what is compared: longer names differ anyway.
const longest = 256

// distance returns how many characters are to be changed, added or left out to make b of a;
// what begins with a is nearer than anything else.
func distance(a, b string) int {
	if a != "" && strings.HasPrefix(b, a) {
		return 0
	}
	x, y := []rune(a[:min(len(a), longest)]), []rune(b[:min(len(b), longest)])
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := range x {
		corner := row[0]
		row[0] = i + 1
		for j := range y {
			change := corner
			if x[i] != y[j] {
				change++
			}
			corner = row[j+1]
			row[j+1] = min(change, row[j]+1, corner+1)
		}
	}
	return row[len(y)]
}

// stages parts replicas by their service, in the order of a token's way: what takes work in
// goes before what does it.
func stages(all []top.Member) (out [][]top.Member) {
	for _, m := range all { // they are in that order
		if n := len(out); n > 0 && out[n-1][0].Service == m.Service {
			out[n-1] = append(out[n-1], m)
			continue
		}
		out = append(out, []top.Member{m})
	}
	return out
}
