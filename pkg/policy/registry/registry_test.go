package registry_test

import (
	"errors"
	"strings"
	"testing"

	_ "github.com/switchyard/switchyard/pkg/policy/policies" // registers them
	"github.com/switchyard/switchyard/pkg/policy/registry"
)

// A registration that cannot be is a fault of the program: this finds it.
func TestAll(t *testing.T) {
	if err := registry.Problems(); err != nil {
		t.Fatal(err)
	}
	for _, p := range registry.All(registry.Live) {
		if p.Decide == nil && p.Name != "static" {
			t.Errorf("%s can be chosen live and decides nothing", p.Name)
		}
	}
}

func TestRegister(t *testing.T) {
	named := func(name string) registry.Policy { return registry.Policy{Name: name, About: "x"} }
	for name, tc := range map[string]struct {
		policy registry.Policy
		want   string // empty: it can be
	}{
		"fine":        {named("a-b2+c+"), ""},
		"twice":       {named("moeless"), "moeless is registered twice"},
		"no name":     {named(""), "a name is"},
		"large":       {named("Best"), "a name is"},
		"space":       {named("my policy"), "a name is"},
		"colon":       {named("a:b"), "a name is"},
		"long":        {named(strings.Repeat("a", 33)), "a name is"},
		"no words":    {registry.Policy{Name: "a"}, "described as"},
		"no step":     {registry.Policy{Name: "a", About: "x", Uses: registry.Scaling}, "a step that it does not have"},
		"no help":     {registry.Policy{Name: "a", About: "x", Settings: []registry.Setting{{Name: "s"}}}, "a line of help"},
		"bad default": {registry.Policy{Name: "a", About: "x", Settings: []registry.Setting{{Name: "s", Help: "h", Default: 2, Max: 1}}}, "has default 2"},
		"setting twice": {registry.Policy{Name: "a", About: "x", Settings: []registry.Setting{{Name: "s", Help: "h"}, {Name: "s", Help: "h"}}},
			"its setting s twice"},
	} {
		undo := registry.Register(tc.policy)
		_, missing := registry.Find(tc.policy.Name, 0)
		err := registry.Problems()
		if tc.want == "" && (err != nil || missing != nil) || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, %v, want %q", name, err, missing, tc.want)
		}
		undo()
		if registry.Problems() != nil {
			t.Fatalf("%s is not taken back", name)
		}
	}
}

func TestFind(t *testing.T) {
	for name, want := range map[string]string{
		"moles":         `no policy "moles"; nearest is moeless; there are: static, eplb, `,
		"MoEless":       "nearest is moeless;",
		"eplb-ful":      "nearest is eplb-full;",
		"moeless-":      "nearest is moeless or moeless+;",
		"zzzzzzzzzzzzz": `no policy "zzzzzzzzzzzzz"; there are: static`,
		"":              `no policy ""; there are: static`,
	} {
		_, err := registry.Find(name, registry.Simulated)
		if !errors.Is(err, registry.ErrUnknown) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
	if _, err := registry.Find("oracle", registry.Live); !errors.Is(err, registry.ErrUnknown) || !strings.Contains(err.Error(), "oracle cannot be chosen here; there are: static, eplb") {
		t.Error(err)
	}
	if _, err := registry.Find(strings.Repeat("x", 1<<20), registry.Live); err == nil || len(err.Error()) > 300 {
		t.Error("a long name is repeated in full")
	}
}

func TestChoose(t *testing.T) {
	for text, every := range map[string]float64{"eplb": 600, "eplb:every=5m": 300, "eplb:every=1500ms:redundant=3": 1.5, "reactive:every=0": 0} {
		if p, err := registry.Choose(text, registry.Simulated); err != nil || p.Every != every || p.Decide == nil {
			t.Errorf("%s: every %v, %v", text, p.Every, err)
		}
	}
	for text, want := range map[string]string{
		"elpb:every=5m":         "nearest is eplb",
		"eplb:":                 `"" is no setting; write KEY=VALUE, as in eplb:every=600s`,
		"moeless:x":             "(moeless has none)",
		"eplb:evry=5m":          `no setting "evry"; nearest is every; there are: every, redundant`,
		"eplb:gain=1":           "gain is a setting of moeless+, moeless+lean; its own are: every, redundant",
		"moeless:gain=1":        "gain is a setting of moeless+, moeless+lean; it has none of its own",
		"eplb:every=5":          `every is "5"; it must be a time such as 10s from 1s to 86400s`,
		"eplb:every=NaNs":       `every is "NaNs"`,
		"eplb:every=0s":         `every is "0s"`,
		"eplb:redundant=1.5":    `redundant is "1.5"; it must be a whole number from 0 to 1024`,
		"eplb:redundant=-1":     `redundant is "-1"`,
		"eplb:every=5m:every=m": "every is there twice",
		"moeless+:gain=Inf":     `gain is "Inf"; it must be a number from 0 to 100`,
	} {
		if _, err := registry.Choose(text, registry.Simulated); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := registry.Choose("reactive:every=3s", registry.Live); err == nil || !strings.Contains(err.Error(), "every does not count here, only for arena; leave it out") {
		t.Error(err)
	}
}

func FuzzChoose(f *testing.F) {
	f.Add("eplb:every=300s:redundant=2")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := registry.Choose(text, 0)
		if err == nil && p.Name != strings.SplitN(text, ":", 2)[0] {
			t.Errorf("%q is %s", text, p.Name)
		}
	})
}

// With a pause of twice the time of keep-alive half of the layers have let go.
func TestStay(t *testing.T) {
	for _, tc := range []struct {
		lingers bool
		layer   int
		want    float64
	}{{false, 0, 60}, {true, 47, 60}, {true, 23, 120}, {true, 0, 48 * 60}} {
		p := registry.Policy{Lingers: tc.lingers}
		if got := p.Stay(60, tc.layer, 48); got != tc.want {
			t.Errorf("layer %d: %v s, want %v", tc.layer, got, tc.want)
		}
	}
}
