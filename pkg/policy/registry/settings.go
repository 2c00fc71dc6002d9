package registry

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/switchyard/switchyard/pkg/policy/place"
	"github.com/switchyard/switchyard/pkg/policy/scale"
	"github.com/switchyard/switchyard/pkg/policy/world"
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

// where are the uses, as a reader looks for them.
var where = []struct {
	use  Use
	text string
}{
	{Live, "--scaling"}, {Simulated, "arena"}, {Hosts, "plan set --policy"}, {Scaling, "policy scale"}, {Placing, "policy place"},
}

// Page is docs/policies.md: all policies with their settings.
func Page() string {
	var b strings.Builder
	b.WriteString(`# Policies

Made of the registry (pkg/policy/registry); ` + "`go test ./pkg/policy/policies -rewrite`" + ` writes it anew.
A policy is a folder of pkg/policy and one registration in pkg/policy/policies. Its settings stand
behind its name: ` + "`--scaling eplb:every=300s`" + `.

` + "`--scaling`" + ` says how many replicas experts have. ` + "[`--offload`](operations/offload.md)" + ` says what a host does with more experts than
its memory holds. ` + "`up --policy`" + ` rents experts as functions, [remoe](remoe.md) or [bo-ods](bo-ods.md), and refuses ` + "`--scaling` and `--offload`" + `.
` + "`up --scaling auto`" + `, its default, is ` + "`moeless+lean`" + ` where hosts have devices of their own, and none where they share processors: copies gain nothing there.

| policy | what it does | goes by | chosen by |
|---|---|---|---|
`)
	for _, p := range All(0) {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", p.Name, p.About, p.goesBy(), p.Uses)
	}
	b.WriteString("\n| setting | of | default | from, to | what it is |\n|---|---|---|---|---|\n")
	for _, p := range All(0) {
		for _, s := range p.Settings {
			fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s, %s | %s%s |\n", s.Name, p.Name, s.Text(s.Default), s.Text(s.Min), s.Text(s.Max), s.Help, s.only())
		}
	}
	return b.String()
}

// goesBy is what a policy knows of loads, and how often it is asked.
func (p *Policy) goesBy() string {
	switch {
	case p.Decide == nil:
		return "nothing"
	case p.Sees == Past && p.Every > 0:
		return fmt.Sprintf("the past %v s", p.Every)
	}
	return p.Sees.String()
}

// String names uses by what chooses them.
func (u Use) String() string {
	var ways []string
	for _, w := range where {
		if u&w.use != 0 {
			ways = append(ways, w.text)
		}
	}
	return strings.Join(ways, ", ")
}

func (s Setting) only() string {
	if s.Uses == 0 {
		return ""
	}
	return " (" + s.Uses.String() + " only)"
}

// Both decides by a policy for replicas and one for their hosts.
func Both(s scale.Policy, p place.Policy) Decide {
	return Within(nil, s, p)
}

// Within is Both with a bound of the replicas beyond each expert's first, by the number of
// experts; nil is none but their room.
func Within(bound func(experts int) int, s scale.Policy, p place.Policy) Decide {
	return func(w *world.World) (d world.Decision, err error) {
		for _, at := range w.Due {
			l := &w.Layers[at]
			spare := l.Spare
			if bound != nil {
				spare = min(spare, bound(len(l.Units)))
			}
			fleet := Fleet(w, l)
			placed, err := p(place.State{Experts: scaled(w, l, s, spare, len(fleet)), Hosts: fleet, Previous: Warm(w, l)})
			if err != nil {
				return world.Decision{}, err
			}
			d.Layers = append(d.Layers, Placed(w, at, placed))
		}
		return d, nil
	}
}

// scaled are the experts with as many replicas as a policy gives them.
func scaled(w *world.World, l *world.Layer, policy scale.Policy, spare, hosts int) []place.Expert {
	rows := l.Rows()
	experts := make([]scale.Expert, len(l.Units))
	for e, u := range l.Units {
		experts[e] = scale.Expert{ID: uint32(e), Bytes: u.Bytes}
		if rows != nil {
			experts[e].Load = rows[e]
		}
	}
	d := policy(experts, scale.Settings{CV: w.CV, MemoryCap: uint64(spare) * l.Largest(), MaxReplicas: hosts})
	to := make([]place.Expert, len(d.Experts))
	for e, s := range d.Experts {
		to[e] = place.Expert{ID: s.ID, Replicas: s.Replicas, LoadEach: s.LoadEach, Bytes: experts[e].Bytes}
	}
	return to
}

// Fleet are the hosts that are not gone, with a layer's room, as policies of placement take them.
func Fleet(w *world.World, l *world.Layer) []place.Host {
	fleet := make([]place.Host, 0, len(w.Hosts))
	for h := range w.Hosts {
		if w.Hosts[h].Health == world.Gone {
			continue
		}
		one := place.Host{ID: w.Hosts[h].ID}
		if h < len(l.Room) {
			one.Capacity = l.Room[h]
		}
		fleet = append(fleet, one)
	}
	return fleet
}

// Warm is what hosts hold of a layer, or load, as policies of placement take it.
func Warm(w *world.World, l *world.Layer) []place.Warm {
	warm := make([]place.Warm, len(l.Held))
	for i, x := range l.Held {
		warm[i] = place.Warm{Expert: uint32(x.Unit), Host: w.Hosts[x.Host].ID}
	}
	return warm
}

// Placed is a placement of experts as a decision has it.
func Placed(w *world.World, layer int, p place.Placement) world.Placement {
	d := world.Placement{Layer: layer, Replicas: make([]world.Replica, len(p.Replicas))}
	for i, r := range p.Replicas {
		h, _ := w.Host(r.Host) // the placement is of its hosts
		d.Replicas[i] = world.Replica{Unit: int(r.Expert), Host: h}
	}
	return d
}
