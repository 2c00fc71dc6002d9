package rights

import (
	"slices"
	"strings"
)

// Covers says whether one of the patterns takes in every subject that the given one,
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

// MaySubscribe says whether a server with these rights allows a subscription. It takes
// ">" at the end of a subscription for a token that "*" at the end of a right stands for,
// so that a right for "a.*" is one for "a.>".
func MaySubscribe(allowed []string, subject string) bool {
	return Covers(allowed, subject) || strings.HasSuffix(subject, ".>") &&
		slices.ContainsFunc(allowed, func(p string) bool {
			return strings.HasSuffix(p, ".*") && Covers([]string{p}, strings.TrimSuffix(subject, ">")+"x")
		})
}

// Sample is one subject that a pattern stands for.
func Sample(pattern string) string {
	tokens := strings.Split(pattern, ".")
	for i, t := range tokens {
		if t == "*" || t == ">" {
			tokens[i] = "x"
		}
	}
	return strings.Join(tokens, ".")
}
