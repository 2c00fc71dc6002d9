package catalog_test

import (
	"slices"
	"strings"
	"testing"

	_ "github.com/switchyard/switchyard/internal/testkit/testservices" // registers the services
	"github.com/switchyard/switchyard/pkg/transport/catalog"
	"github.com/switchyard/switchyard/pkg/transport/grant"
)

// described is a service that can be, with a change.
func described(change func(*catalog.Service)) catalog.Service {
	s := catalog.Service{Name: "echo", Help: "Run an echo.", Place: catalog.Aside, Role: catalog.Role{
		What: "answers", Can: "answer", Cannot: "ask", Grants: func(grant.Names) []grant.Grant { return nil },
	}}
	change(&s)
	return s
}

func TestRegister(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*catalog.Service)
		want   string // empty: it can be
	}{
		"fine":          {func(*catalog.Service) {}, ""},
		"no name":       {func(s *catalog.Service) { s.Name = "" }, "a name is"},
		"a dot":         {func(s *catalog.Service) { s.Name = "a.b" }, "a name is"},
		"no help":       {func(s *catalog.Service) { s.Help = "" }, "a sentence of one line"},
		"no full stop":  {func(s *catalog.Service) { s.Help = "Run it" }, "a sentence of one line"},
		"no rights":     {func(s *catalog.Service) { s.Grants = nil }, "has no rights"},
		"no user":       {func(s *catalog.Service) { s.What = "" }, "has no rights"},
		"another's":     {func(s *catalog.Service) { s.Name = "gate" }, "gate is registered twice"},
		"after aside":   {func(s *catalog.Service) { s.After = "gate" }, "comes after gate; only one on a token's way"},
		"lack aside":    {func(s *catalog.Service) { s.Lack = "no echo of %s" }, "only one on a token's way"},
		"lack of whose": {func(s *catalog.Service) { s.Lack, s.Place = "no echo", catalog.Way }, "only one on a token's way"},
	} {
		s := described(tc.change)
		undo := catalog.Register(s)
		err := catalog.Problems()
		if tc.want == "" && (err != nil || !slices.Contains(catalog.Names(), s.Name)) || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
		undo()
		if catalog.Problems() != nil || slices.Contains(catalog.Names(), "echo") {
			t.Fatalf("%s is not taken back", name)
		}
	}
}

func TestStartOrder(t *testing.T) {
	defer catalog.Register(described(func(*catalog.Service) {}))()
	if got := strings.Join(catalog.StartOrder(), " "); got != "aggregator expert gate attention tokenizer predictor scaler echo gateway" {
		t.Errorf("they start as %s", got)
	}
	if got := strings.Join(catalog.Names(catalog.Loop, catalog.Aside), " "); got != "predictor scaler echo gateway" {
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
