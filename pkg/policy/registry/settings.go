package registry

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Kind is what a setting's value is.
type Kind uint8

// The kinds.
const (
	Ratio   Kind = iota // a number
	Count               // a whole number
	Seconds             // a time, as 300s or 10m
)

var units = [...]string{Ratio: "a number", Count: "a whole number", Seconds: "a time such as 10s"}

// Setting is one of a policy's own.
type Setting struct {
	Name, Help        string
	Kind              Kind
	Default, Min, Max float64
	// Uses are where it counts; 0 is wherever the policy can be chosen.
	Uses Use
}

// Values are those of settings, by name.
type Values map[string]float64

func (s Setting) check() error {
	switch {
	case !legal.MatchString(s.Name) || s.Help == "" || int(s.Kind) >= len(units):
		return fmt.Errorf("the setting %q needs a name of lower-case letters, a line of help and a kind", s.Name)
	case !(s.Min <= s.Default && s.Default <= s.Max):
		return fmt.Errorf("the setting %s has default %v, and is to be %v to %v", s.Name, s.Default, s.Min, s.Max)
	}
	return nil
}

// Text is a value as Choose reads it.
func (s Setting) Text(v float64) string {
	text := strconv.FormatFloat(v, 'g', -1, 64)
	if s.Kind == Seconds {
		return text + "s"
	}
	return text
}

// Choose reads NAME[:KEY=VALUE]…, such as eplb:every=300s: a policy of a use, and values of
// its settings.
func Choose(text string, use Use) (Policy, error) {
	name, rest, has := strings.Cut(text, ":")
	p, err := Find(name, use)
	if err != nil || !has {
		return p, err
	}
	values := Values{}
	for _, pair := range strings.Split(rest, ":") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return Policy{}, fmt.Errorf("policy %s: %.64q is no setting; write KEY=VALUE, as in %s", name, pair, p.example())
		}
		s, err := p.setting(key)
		if err != nil {
			return Policy{}, err
		}
		if _, twice := values[key]; twice {
			return Policy{}, fmt.Errorf("policy %s: %s is there twice; leave one out", name, key)
		}
		if use != 0 && s.Uses != 0 && s.Uses&use == 0 {
			return Policy{}, fmt.Errorf("policy %s: %s does not count here, only for %s; leave it out", name, key, s.Uses)
		}
		if values[key], err = s.parse(value); err != nil {
			return Policy{}, fmt.Errorf("policy %s: %w", name, err)
		}
	}
	return p.With(values), nil
}

func (p *Policy) example() string {
	if len(p.Settings) == 0 {
		return "eplb:every=300s (" + p.Name + " has none)"
	}
	return p.Name + ":" + p.Settings[0].Name + "=" + p.Settings[0].Text(p.Settings[0].Default)
}

// setting is the one of a name. Where others have it, the error says who.
func (p *Policy) setting(name string) (Setting, error) {
	var own, whose []string
	for _, s := range p.Settings {
		if s.Name == name {
			return s, nil
		}
		own = append(own, s.Name)
	}
	for _, o := range all {
		if slices.ContainsFunc(o.Settings, func(s Setting) bool { return s.Name == name }) {
			whose = append(whose, o.Name)
		}
	}
	switch {
	case len(whose) > 0 && len(own) > 0:
		return Setting{}, fmt.Errorf("policy %s: %s is a setting of %s; its own are: %s", p.Name, name, strings.Join(whose, ", "), strings.Join(own, ", "))
	case len(whose) > 0:
		return Setting{}, fmt.Errorf("policy %s: %s is a setting of %s; it has none of its own", p.Name, name, strings.Join(whose, ", "))
	}
	return Setting{}, fmt.Errorf("policy %s: %s", p.Name, missing("setting", name, own))
}

func (s Setting) parse(text string) (float64, error) {
	number, scale := text, 1.0
	if s.Kind == Seconds {
		for _, u := range []struct {
			suffix  string
			seconds float64
		}{{"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}} {
			if n, ok := strings.CutSuffix(text, u.suffix); ok {
				number, scale = n, u.seconds
				break
			}
		}
		if number == text && text != "0" {
			return 0, s.wrong(text)
		}
	}
	v, err := strconv.ParseFloat(number, 64)
	v *= scale
	if err != nil || !(v >= s.Min && v <= s.Max) || s.Kind == Count && v != math.Trunc(v) {
		return 0, s.wrong(text)
	}
	return v, nil
}

func (s Setting) wrong(text string) error {
	return fmt.Errorf("%s is %.32q; it must be %s from %s to %s", s.Name, text, units[s.Kind], s.Text(s.Min), s.Text(s.Max))
}
