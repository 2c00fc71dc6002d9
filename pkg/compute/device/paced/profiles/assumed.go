package profiles

import (
	"fmt"
	"slices"
	"strings"
)

// Assumed returns the names of the numbers whose source says that they are assumed, or scaled by
// what is, and that the form of time has a use for.
func (p *Profile) Assumed() (keys []string) {
	for _, f := range fields {
		unused := f.key == "alpha_seconds"
		switch {
		case p.measured():
			unused = unused || slices.Contains(roofline, f.key) && f.key != "call_seconds"
		case p.printed():
			unused = slices.Contains(roofline, f.key)
		}
		if !unused && strings.Contains(f.of(p).Source, "assumed") {
			keys = append(keys, f.key)
		}
	}
	return keys
}

// Scaled returns the profile with one number multiplied. What no device has is refused.
func (p *Profile) Scaled(key string, factor float64) (*Profile, error) {
	scaled := *p
	for _, f := range fields {
		if f.key != key {
			continue
		}
		n := f.of(&scaled)
		n.Value *= factor
		n.Source = fmt.Sprintf("%v times: %s", factor, n.Source)
		if err := f.check(n.Value); err != nil {
			return nil, err
		}
		return &scaled, scaled.check()
	}
	return nil, fmt.Errorf("a profile has no %q", key)
}
