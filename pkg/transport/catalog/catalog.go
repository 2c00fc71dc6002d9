package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// all are the registered services, in the order of a token's way and then of places and names, and
// problems what was wrong with others. Registration is a matter of a program's beginning:
// nothing registers later.
var (
	all      []Service
	problems []error
)

// legal are names that can be commands, users and parts of subjects.
var legal = regexp.MustCompile(`^[a-z][a-z0-9]{0,31}$`)

// Register adds services. One that cannot be, or whose name is another's, is a fault of the
// program: it is left out, and Problems tells. One that is there already stays. Tests take
// back what they add.
func Register(services ...Service) (undo func()) {
	before, faults := all, problems
	for _, s := range services {
		there, known := Find(s.Name)
		switch err := s.check(); {
		case err != nil:
			problems = append(slices.Clip(problems), err)
		case known && there.What != s.What:
			problems = append(slices.Clip(problems), fmt.Errorf("service %s is registered twice, as %q and as %q", s.Name, there.What, s.What))
		case !known:
			all = append(slices.Clip(all), s)
		}
	}
	all = slices.SortedFunc(slices.Values(all), func(a, b Service) int {
		return cmp.Or(cmp.Compare(a.Place, b.Place), cmp.Compare(behind(a), behind(b)), cmp.Compare(a.Name, b.Name))
	})
	return func() { all, problems = before, faults }
}

// behind is how many services a token passes before this one.
func behind(s Service) (n int) {
	for ; s.After != "" && n <= len(all); n++ {
		s, _ = Find(s.After)
	}
	return n
}

// Problems are registrations that were refused.
func Problems() error { return errors.Join(problems...) }

func (s Service) check() error {
	switch {
	case !legal.MatchString(s.Name):
		return fmt.Errorf("service %.64q: a name is 1 to 32 lower-case letters and digits, and begins with a letter", s.Name)
	case s.Help == "" || !strings.HasSuffix(s.Help, ".") || strings.ContainsAny(s.Help, "\n|"):
		return fmt.Errorf("service %s has the help %q; that is to be a sentence of one line with its full stop", s.Name, s.Help)
	case s.What == "" || s.Can == "" || s.Cannot == "" || s.Grants == nil:
		return fmt.Errorf("service %s has no rights, or does not say what its user is, can and cannot do", s.Name)
	case s.After != "" && s.Place != Way:
		return fmt.Errorf("service %s comes after %s; only one on a token's way does", s.Name, s.After)
	case s.Lack != "" && (s.Place != Way || strings.Count(s.Lack, "%s") != 1):
		return fmt.Errorf("service %s says %q where none is ready; only one on a token's way does, with the model's name for %%s", s.Name, s.Lack)
	}
	return nil
}

// All are the services of these places, in the order of a token's way, and behind them the
// others; without a place, all of them.
func All(places ...Place) (list []Service) {
	for _, s := range all {
		if len(places) == 0 || slices.Contains(places, s.Place) {
			list = append(list, s)
		}
	}
	return list
}

// Names are those of All.
func Names(places ...Place) (names []string) {
	for _, s := range All(places...) {
		names = append(names, s.Name)
	}
	return names
}

// StartOrder are the names of these places in the order of starting: on a token's way who is
// sent to comes before who sends.
func StartOrder(places ...Place) []string {
	var way, others []string
	for _, s := range All(places...) {
		if s.Place == Way {
			way = append(way, s.Name)
		} else {
			others = append(others, s.Name)
		}
	}
	slices.Reverse(way)
	return append(way, others...)
}

// Find is the service of a name.
func Find(name string) (s Service, known bool) {
	at := slices.IndexFunc(all, func(s Service) bool { return s.Name == name })
	if at < 0 {
		return Service{Name: name}, false
	}
	return all[at], true
}

// Kinds are all kinds of messages whose traffic is counted, by the token of their subjects
// behind the prefix.
func Kinds() (kinds []string) {
	for _, s := range all {
		for _, kind := range s.Takes() {
			if !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
		}
	}
	return kinds
}

// Receivers are who receives messages with rows, by their kind.
func Receivers() map[string]string {
	to := map[string]string{}
	for _, s := range all {
		for _, kind := range s.Tensors {
			to[kind] = s.Name
		}
	}
	return to
}
