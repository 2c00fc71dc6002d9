package jinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"
)

// golden is testdata/cases.json; see make.py there.
type golden struct {
	Variables json.RawMessage
	Cases     []struct {
		Source string
		Want   *string
	}
}

func readGolden(t testing.TB) (golden, map[string]any) {
	t.Helper()
	raw, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(raw, &g); err != nil {
		t.Fatal(err)
	}
	return g, variables(t, g.Variables)
}

func variables(t testing.TB, raw []byte) map[string]any {
	t.Helper()
	v, err := FromJSON(raw)
	if err != nil {
		t.Fatal(err)
	}
	d, ok := v.(*Dict)
	if !ok {
		t.Fatalf("%T", v)
	}
	out := d.Map()
	out["strftime_now"] = StrftimeNow(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	return out
}

func render(source string, variables map[string]any) (Text, error) {
	template, err := Parse("test", source)
	if err != nil {
		return Text{}, err
	}
	return template.Render(variables, 0)
}

// What jinja2 makes of these templates is what this package makes of them.
func TestGolden(t *testing.T) {
	g, variables := readGolden(t)
	before := (&run{budget: newBudget(0)}).str(variables["messages"])
	if len(g.Cases) < 200 {
		t.Fatalf("%d cases", len(g.Cases))
	}
	for _, c := range g.Cases {
		got, err := render(c.Source, variables)
		switch {
		case c.Want == nil:
			var e *Error
			if !errors.As(err, &e) || e.Line < 1 || e.Name != "test" {
				t.Errorf("%s\ngot %q, %v, want an error with name and line", c.Source, got.s, err)
			}
		case err != nil || got.s != *c.Want:
			t.Errorf("%s\ngot  %q, %v\nwant %q", c.Source, got.s, err, *c.Want)
		}
	}
	after := (&run{budget: newBudget(0)}).str(variables["messages"])
	if !bytes.Equal([]byte(before.s), []byte(after.s)) {
		t.Error("a template changed its variables")
	}
}
