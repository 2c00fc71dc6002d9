package registry

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// all are the registered policies, in the order of reports, and problems what was wrong with
// others. Registration is a matter of a program's beginning: nothing registers later.
var (
	all      []Policy
	problems []error
)

// Default is the policy that a scaler decides by unless it is told otherwise.
const Default = "moeless+lean"

// legal are names that can be flags' values, and parts of metrics and files.
var legal = regexp.MustCompile(`^[a-z][a-z0-9]*([-+][a-z0-9]+)*\+?$`)

// Register adds policies. One with a name that cannot be, or that is taken, is a fault of
// the program: it is left out, and Problems tells. Tests take back what they add.
func Register(policies ...Policy) (undo func()) {
	before, faults := all, problems
	for _, p := range policies {
		if err := p.check(); err != nil {
			problems = append(slices.Clip(problems), err)
			continue
		}
		all = append(slices.Clip(all), p.With(nil))
	}
	return func() { all, problems = before, faults }
}

// Problems are registrations that were refused.
func Problems() error { return errors.Join(problems...) }

func (p *Policy) check() error {
	switch {
	case !legal.MatchString(p.Name) || len(p.Name) > 32:
		return fmt.Errorf("policy %.64q: a name is 1 to 32 lower-case letters and digits, with - or + between them, and begins with a letter", p.Name)
	case slices.ContainsFunc(all, func(o Policy) bool { return o.Name == p.Name }):
		return fmt.Errorf("policy %s is registered twice", p.Name)
	case p.About == "" || strings.ContainsAny(p.About, "\n|") || strings.HasSuffix(p.About, "."):
		return fmt.Errorf("policy %s is described as %q; that is to be a line without | and without its full stop", p.Name, p.About)
	case (p.May(Scaling) || p.InSteps) && p.Scale == nil || (p.May(Placing) || p.InSteps) && p.Place == nil:
		return fmt.Errorf("policy %s can be chosen for a step that it does not have", p.Name)
	}
	return p.checkSettings()
}

func (p *Policy) checkSettings() error {
	for i, s := range p.Settings {
		if err := s.check(); err != nil {
			return fmt.Errorf("policy %s: %w", p.Name, err)
		}
		if slices.ContainsFunc(p.Settings[:i], func(o Setting) bool { return o.Name == s.Name }) {
			return fmt.Errorf("policy %s has its setting %s twice", p.Name, s.Name)
		}
	}
	return nil
}

// All are the policies of a use, in the order of reports; use 0 is all of them.
func All(use Use) (list []Policy) {
	for _, p := range all {
		if use == 0 || p.May(use) {
			list = append(list, p)
		}
	}
	return list
}

// Names are those of All.
func Names(use Use) (names []string) {
	for _, p := range All(use) {
		names = append(names, p.Name)
	}
	return names
}

// ErrUnknown says that there is no such policy, or not where it was asked for.
var ErrUnknown = errors.New("no such policy")

// unknown is ErrUnknown with a text of its own.
type unknown string

func (u unknown) Error() string { return string(u) }
func (u unknown) Unwrap() error { return ErrUnknown }

// Find is the policy of a name for a use. The error names the nearest ones, and all there are.
func Find(name string, use Use) (Policy, error) {
	at := slices.IndexFunc(all, func(p Policy) bool { return p.Name == name })
	switch {
	case at >= 0 && (use == 0 || all[at].May(use)):
		return all[at], nil
	case at >= 0:
		return Policy{}, unknown(fmt.Sprintf("policy %s cannot be chosen here; there are: %s", name, strings.Join(Names(use), ", ")))
	}
	return Policy{}, unknown(missing("policy", name, Names(use)))
}

// missing says that there is no such name, which ones are nearest, and which there are.
func missing(what, name string, known []string) string {
	if len(known) == 0 {
		return fmt.Sprintf("there is no %s %.64q, nor any other", what, name)
	}
	near := ""
	if n := Nearest(name, known); len(n) > 0 {
		near = "; nearest is " + strings.Join(n, " or ")
	}
	return fmt.Sprintf("there is no %s %.64q%s; there are: %s", what, name, near, strings.Join(known, ", "))
}

// Nearest returns the names with the least edits to this one, if that leaves half of it.
func Nearest(name string, known []string) (near []string) {
	if len(name) > 64 {
		return nil
	}
	least := max(1, len(name)/2)
	for _, k := range known {
		switch d := edits(strings.ToLower(name), k); {
		case d > least:
		case d < least:
			least, near = d, []string{k}
		default:
			near = append(near, k)
		}
	}
	return near
}

// edits is how many letters have to come, go or change to make b of a (Levenshtein).
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := corner
			if a[i] != b[j] {
				changed++
			}
			corner = row[j+1]
			row[j+1] = min(changed, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
