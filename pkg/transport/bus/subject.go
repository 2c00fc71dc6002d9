package bus

import (
	"fmt"
	"strings"
)

// maxSubject bounds a subject with its reply subject, in bytes. A server closes
// the connection of whoever sends a line above its limit, for good; the line is
// these two, two sizes and a verb, and the limit 4096 unless configured otherwise.
const maxSubject = 2048

// maxName bounds the name of a consumer, which is a token of several subjects.
const maxName = 128

// SubjectError says that nothing can be published to a subject. It is found
// before publishing.
type SubjectError struct {
	Subject string
	// Reason is what is wrong with it.
	Reason string
}

func (e *SubjectError) Error() string {
	return fmt.Sprintf("nothing can be published to subject %.80q: it %s", e.Subject, e.Reason)
}

// checkSubject is passed by everything that is published: subjects have parts
// that came from outside. reply may be empty.
func checkSubject(subject, reply string) error {
	if n := len(subject) + len(reply); n > maxSubject {
		return &SubjectError{subject, fmt.Sprintf("and its reply subject have %d bytes, %d are allowed", n, maxSubject)}
	}
	if why := flaw(subject); why != "" {
		return &SubjectError{subject, why}
	}
	if reply == "" {
		return nil
	}
	if why := flaw(reply); why != "" {
		return &SubjectError{reply, why}
	}
	return nil
}

// plain are the bytes that may stand anywhere in a subject.
var plain = func() (plain [256]bool) {
	for c := range plain {
		plain[c] = c > ' ' && !strings.ContainsRune(".*>\x7f", rune(c))
	}
	return plain
}()

// flaw says why a subject is none, "" if it is one.
func flaw(subject string) string {
	before := byte('.')
	for i := range len(subject) {
		c := subject[i]
		switch {
		case plain[c]:
		case c == '*' || c == '>':
			return "has a wildcard"
		case c != '.':
			return "has white space or control characters"
		case before == '.':
			return "has an empty token"
		}
		before = c
	}
	if before == '.' {
		return "has an empty token"
	}
	return ""
}

func checkName(name string) error {
	why := flaw(name)
	switch {
	case len(name) > maxName:
		why = fmt.Sprintf("has %d bytes, %d are allowed", len(name), maxName)
	case why == "":
		for i := range len(name) {
			if c := name[i]; c == '.' || c == '/' || c == '\\' {
				why = "has a dot or slash"
			}
		}
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("%.80q cannot be a consumer's name: it %s", name, why)
}
