package rights

import "strings"

// Covers reports whether one of the patterns takes in every subject that the given one,
// which may have wildcards itself, stands for.
func Covers(patterns []string, subject string) bool {
	for _, p := range patterns {
		if covers(strings.Split(p, "."), strings.Split(subject, ".")) {
			return true
		}
	}
	return false
}

func covers(pattern, subject []string) bool {
	for i, p := range pattern {
		switch {
		case i >= len(subject):
			return false
		case p == ">":
			return true
		case subject[i] == ">" || p != "*" && p != subject[i]:
			return false
		}
	}
	return len(pattern) == len(subject)
}
