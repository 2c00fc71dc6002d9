package schemas

import (
	"strings"
	"testing"
)

func TestFlowCheck(t *testing.T) {
	for _, tc := range []struct {
		flow    Flow
		problem string // empty: none
	}{
		{DefaultFlow(), ""},
		{Flow{"acme", ClassHigh}, ""},
		{Flow{"A-z_09", ClassLow}, ""},
		{Flow{strings.Repeat("a", MaxTenant), ClassNormal}, ""},
		{Flow{"", ClassNormal}, "0 bytes"},
		{Flow{strings.Repeat("a", MaxTenant+1), ClassNormal}, "65 bytes"},
		{Flow{"a.b", ClassNormal}, "other characters"},
		{Flow{"*", ClassNormal}, "other characters"},
		{Flow{"ä", ClassNormal}, "other characters"},
		{Flow{"acme", "urgent"}, `class "urgent" is none; use one of [high normal low]`},
		{Flow{"acme", ""}, "is none"},
		{CanaryFlow(), "the services' own"},
	} {
		err := tc.flow.Check()
		if (err == nil) != (tc.problem == "") || err != nil && !strings.Contains(err.Error(), tc.problem) {
			t.Errorf("%v: %v, want %q", tc.flow, err, tc.problem)
		}
	}
}

// What is built is parsed, and nothing else.
func TestParseFlow(t *testing.T) {
	for _, f := range []Flow{DefaultFlow(), {"acme", ClassHigh}, {DefaultTenant, ClassLow}} {
		if model, got, ok := subjects.ParsePrompt(subjects.PromptOf(f)); model != "demo" || got != f || !ok {
			t.Errorf("%v became %v of %s, %v", f, got, model, ok)
		}
		if model, got, ok := subjects.ParseAsk(subjects.AskOf(f)); model != "demo" || got != f || !ok {
			t.Errorf("%v became %v of %s, %v", f, got, model, ok)
		}
	}
	for _, subject := range []string{"", "demo", "switchyard.ask.demo", "switchyard.prompt.demo.acme", "switchyard.prompt.demo.a.b.c", "yard.prompt.demo"} {
		if model, f, ok := subjects.ParsePrompt(subject); ok {
			t.Errorf("%q was taken as %v of %s", subject, f, model)
		}
	}
}

func FuzzParseFlow(f *testing.F) {
	f.Add("switchyard.prompt.demo.acme.high")
	f.Fuzz(func(t *testing.T, subject string) {
		model, flow, ok := subjects.ParsePrompt(subject)
		if !ok || flow.Check() != nil || ModelToken(model) != model || flow == DefaultFlow() {
			return
		}
		if again := NewSubjects(DefaultPrefix, model).PromptOf(flow); again != subject {
			t.Errorf("%q became %q", subject, again)
		}
	})
}
