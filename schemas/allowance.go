package schemas

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// HeaderLimits tells the first and the last chunk's reader what its tenant may have a minute, as Allowance
// write it. It is not there where no bound is set.
const HeaderLimits = "Switchyard-Allowance"

// Limit is how much of something a tenant may have a minute; without a bound Most is 0.
type Limit struct {
	Most, Left int64
	// Reset is how long until nothing is taken of it, if nothing more is asked.
	Reset time.Duration
}

// Allowance are what a tenant may have a minute.
type Allowance struct{ Requests, Tokens Limit }

// ByName returns the limits by what they are of.
func (l Allowance) ByName() map[string]Limit {
	return map[string]Limit{"requests": l.Requests, "tokens": l.Tokens}
}

// String returns what HeaderLimits has; empty: there is no bound.
func (l Allowance) String() string {
	var words []string
	for name, of := range l.ByName() {
		if of.Most > 0 {
			words = append(words, fmt.Sprintf("%s=%d/%d/%d", name, of.Left, of.Most, of.Reset.Milliseconds()))
		}
	}
	return strings.Join(words, " ")
}

// ParseAllowance reads what HeaderLimits has. What is none counts as no bound.
func ParseAllowance(text string) (l Allowance) {
	for _, word := range strings.Fields(text[:min(len(text), 200)]) {
		name, numbers, _ := strings.Cut(word, "=")
		var of Limit
		var ms int64
		if n, err := fmt.Sscanf(numbers, "%d/%d/%d", &of.Left, &of.Most, &ms); n < 3 || err != nil || of.Most < 1 || of.Left < 0 || of.Left > of.Most || ms < 0 || ms > math.MaxInt32 {
			continue
		}
		of.Reset = time.Duration(ms) * time.Millisecond
		switch name {
		case "requests":
			l.Requests = of
		case "tokens":
			l.Tokens = of
		}
	}
	return l
}
