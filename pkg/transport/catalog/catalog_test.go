package catalog_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/transport/catalog"
)

// Each service can be a command, a user and a part of subjects, and says what it is.
func TestTable(t *testing.T) {
	legal := regexp.MustCompile(`^[a-z][a-z0-9]{0,31}$`)
	known := map[string]bool{}
	for _, s := range catalog.All() {
		if !legal.MatchString(s.Name) || known[s.Name] {
			t.Errorf("service %q: a name is 1 to 32 lower-case letters and digits, begins with a letter, and is its own", s.Name)
		}
		known[s.Name] = true
		if !strings.HasSuffix(s.Help, ".") || strings.ContainsAny(s.Help, "\n|") {
			t.Errorf("service %s has the help %q; that is to be a sentence of one line with its full stop", s.Name, s.Help)
		}
		if s.What == "" || s.Can == "" || s.Cannot == "" || s.Grants == nil {
			t.Errorf("service %s has no rights, or does not say what its user is, can and cannot do", s.Name)
		}
		if s.Lack != "" && (s.Place != catalog.Way || strings.Count(s.Lack, "%s") != 1) {
			t.Errorf("service %s says %q where none is ready; only one on a token's way does, with the model's name for %%s", s.Name, s.Lack)
		}
	}
}

func TestStartOrder(t *testing.T) {
	defer catalog.Add(catalog.Service{Name: "echo", Place: catalog.Aside})()
	if got := strings.Join(catalog.StartOrder(), " "); got != "aggregator expert gate attention tokenizer predictor scaler gateway echo" {
		t.Errorf("they start as %s", got)
	}
	if got := strings.Join(catalog.Names(catalog.Loop, catalog.Aside), " "); got != "predictor scaler gateway echo" {
		t.Errorf("beside a token's way are %s", got)
	}
}

// Every kind of messages with rows has one receiver.
func TestReceivers(t *testing.T) {
	for kind, want := range map[string]string{"hidden": "gate", "gate": "gate", "expert": "expert", "host": "expert", "partial": "aggregator", "block": "attention", "prompt": ""} {
		if got := catalog.Receivers()[kind]; got != want || !slices.Contains(catalog.Kinds(), kind) {
			t.Errorf("%s comes to %q, want %q; counted are %v", kind, got, want, catalog.Kinds())
		}
	}
}
