package schemas

import (
	"fmt"
	"slices"
	"strings"
)

// Class is how urgent a tenant's request is among that tenant's own.
type Class string

// The classes, the most urgent first.
const (
	ClassHigh   Class = "high"
	ClassNormal Class = "normal"
	ClassLow    Class = "low"
)

// Classes lists them, the most urgent first.
var Classes = []Class{ClassHigh, ClassNormal, ClassLow}

// DefaultTenant is whose the requests are whose subject names no tenant; their
// class is ClassNormal.
const DefaultTenant = "default"

// CanaryTenant is the services' own: whose the requests are by which they see whether
// a token can flow. Nobody else can have the name.
const CanaryTenant = "_canary"

// MaxTenant bounds the length of a tenant's name, in bytes.
const MaxTenant = 64

// Flow says whose a request is, and how urgent. It comes from the subject that
// the request was published to, which permissions fix, and never from its body.
type Flow struct {
	Tenant string
	Class  Class
}

// DefaultFlow is that of subjects that name none.
func DefaultFlow() Flow { return Flow{DefaultTenant, ClassNormal} }

// CanaryFlow is that of the services' own requests.
func CanaryFlow() Flow { return Flow{CanaryTenant, ClassHigh} }

// IsCanary reports whether a flow is CanaryFlow.
func (f Flow) IsCanary() bool { return f == CanaryFlow() }

// OrDefault fills in what is empty.
func (f Flow) OrDefault() Flow {
	if f.Tenant == "" {
		f.Tenant = DefaultTenant
	}
	if f.Class == "" {
		f.Class = ClassNormal
	}
	return f
}

// flowed is a message that says whose a request is.
type flowed interface {
	GetTenant() string
	GetClass() string
}

// FlowOf reads it.
func FlowOf(m flowed) Flow { return Flow{m.GetTenant(), Class(m.GetClass())}.OrDefault() }

// Check says why nobody can have such a flow: its parts are tokens of subjects.
func (f Flow) Check() error {
	if err := CheckTenant(f.Tenant); err != nil {
		return err
	}
	if !slices.Contains(Classes, f.Class) {
		return fmt.Errorf("class %q is none; use one of %v", f.Class, Classes)
	}
	return nil
}

// CheckTenant says why a name cannot be a tenant's.
func CheckTenant(name string) error {
	switch {
	case name == "" || len(name) > MaxTenant:
		return fmt.Errorf("the tenant's name has %d bytes; it must have 1 to %d", len(name), MaxTenant)
	case ModelToken(name) != name:
		return fmt.Errorf("the tenant's name %q has other characters than letters, digits, '_' and '-'", name)
	case name == CanaryTenant:
		return fmt.Errorf("the tenant's name %q is the services' own; choose another one", name)
	}
	return nil
}

// flowSubject returns a subject of a kind and a flow. The default one has the short form.
func (s Subjects) flowSubject(kind string, f Flow) string {
	if f = f.OrDefault(); f == DefaultFlow() {
		return s.join(kind, s.Model)
	}
	return s.join(kind, s.Model, f.Tenant, string(f.Class))
}

// anyFlow matches a model's subjects of a kind: the short form and the long one.
func (s Subjects) anyFlow(kind string) []string {
	return []string{s.join(kind, s.Model), s.join(kind, s.Model, "*", "*")}
}

// parseFlow returns the model that a subject of a kind names, in the short form or the
// long one, and the flow, which is not checked.
func (s Subjects) parseFlow(kind, subject string) (model string, f Flow, ok bool) {
	rest, ok := strings.CutPrefix(subject, s.Prefix+"."+kind+".")
	switch tokens := strings.Split(rest, "."); {
	case !ok:
	case len(tokens) == 1:
		return tokens[0], DefaultFlow(), true
	case len(tokens) == 3:
		return tokens[0], Flow{tokens[1], Class(tokens[2])}, true
	}
	return "", Flow{}, false
}

// ParsePrompt returns what a subject of prompts names. The flow is not checked.
func (s Subjects) ParsePrompt(subject string) (model string, f Flow, ok bool) {
	return s.parseFlow("prompt", subject)
}

// ParseAsk returns what a subject of asks names. The flow is not checked.
func (s Subjects) ParseAsk(subject string) (model string, f Flow, ok bool) {
	return s.parseFlow("ask", subject)
}
