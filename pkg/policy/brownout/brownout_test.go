package brownout

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/transcript"
)

// TestSplits replays splits of a layer.
//
//	split COUNT,… way= threshold= strategy= anyway=EXPERT,… without=GROUP,… loss=LOSS,…
func TestSplits(t *testing.T) {
	transcript.Run(t, "testdata/split.txt", func(testing.TB) transcript.Machine {
		var p Splitter
		return func(t testing.TB, v *transcript.Event) []string {
			if v.Name != "split" {
				v.Fatalf(t, "there is no such event")
			}
			r := Rows{}
			for _, n := range list(t, v, v.Arg(t, 0)) {
				r.Count = append(r.Count, int32(n))
			}
			s := Settings{Strategy: Partial, Way: v.Int(t, "way", 2), Without: flags(t, v, "without", (len(r.Count)+1)/v.Int(t, "way", 2))}
			var err error
			if s.Threshold, err = Millionths(v.Float(t, "threshold", 1)); err != nil {
				return []string{err.Error()}
			}
			if s.Strategy, err = ParseStrategy(v.Text("strategy", "partial")); err != nil {
				return []string{err.Error()}
			}
			if v.Has("without") {
				s.Without = flags(t, v, "without", Groups(len(r.Count), s.Way))
			}
			r.Anyway, r.Loss = flags(t, v, "anyway", len(r.Count)), list(t, v, v.Text("loss", ""))
			d, err := p.Split(s, r)
			if err != nil {
				return []string{err.Error()}
			}
			return []string{told(d)}
		}
	})
}

func list(t testing.TB, v *transcript.Event, text string) (ns []float64) {
	if text == "" {
		return nil
	}
	for one := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseFloat(one, 64)
		if err != nil {
			v.Fatalf(t, "%v", err)
		}
		ns = append(ns, n)
	}
	return ns
}

func flags(t testing.TB, v *transcript.Event, name string, n int) []bool {
	if !v.Has(name) {
		return nil
	}
	all := make([]bool, n)
	for _, i := range list(t, v, v.Text(name, "")) {
		all[int(i)] = true
	}
	return all
}

// told says what a decision is: experts by fate, united ones by group.
func told(d *Decision) string {
	names := map[Fate]string{Own: "own", Visited: "visited", Lone: "lone", Dropped: "dropped"}
	var parts []string
	for _, f := range []Fate{Own, Visited, Lone, Dropped} {
		var ids []string
		for e, g := range d.Fate {
			if g == f {
				ids = append(ids, strconv.Itoa(e))
			}
		}
		if len(ids) > 0 {
			parts = append(parts, names[f]+" "+strings.Join(ids, ","))
		}
	}
	for g := range Groups(len(d.Fate), d.Way) {
		var ids []string
		for e := g * d.Way; e < min((g+1)*d.Way, len(d.Fate)); e++ {
			if d.Fate[e] == United {
				ids = append(ids, strconv.Itoa(e))
			}
		}
		if len(ids) > 0 {
			parts = append(parts, fmt.Sprintf("UE%d of %s", g, strings.Join(ids, ",")))
		}
	}
	return fmt.Sprintf("%s: %d accesses of %d, %d rows of %d kept", strings.Join(parts, "; "), d.After, d.Before, d.Kept, d.Total)
}

// TestControls replays what controllers see. Times are in milliseconds.
//
//	controller slo= share= floor=
//	predictive slo= fixed= row= access= hold=
//	latency AT MS times=
//	step ROWS ACCESSES MS times=
//	advance AT busy=
//	ahead AT rows= accesses=AT_0,…,AT_1 waited= steps=
func TestControls(t *testing.T) {
	transcript.Run(t, "testdata/control.txt", func(testing.TB) transcript.Machine {
		m := &machine{}
		return m.do
	})
}

type machine struct {
	c *Controller
	p *Predictive
}

func (m *machine) do(t testing.TB, v *transcript.Event) []string {
	at := func(i int) float64 { return list(t, v, v.Arg(t, i))[0] }
	var err error
	switch v.Name {
	case "controller":
		r := Paper(v.Float(t, "slo", 150) / 1e3)
		r.Share, r.Floor = v.Float(t, "share", r.Share), v.Int(t, "floor", 0)
		r.Warning, r.Shrink = v.Float(t, "warning", r.Warning), v.Float(t, "shrink", r.Shrink)
		m.c, err = NewController(r, 0)
	case "predictive":
		a := AheadOf(v.Float(t, "slo", 150) / 1e3)
		m.p, err = NewPredictive(a, Costs{v.Float(t, "fixed", 0) / 1e3, v.Float(t, "row", 0) / 1e3, v.Float(t, "access", 0) / 1e3})
	case "latency":
		for range v.Int(t, "times", 1) {
			m.c.Observe(at(0)/1e3, at(1)/1e3)
		}
	case "step":
		for range v.Int(t, "times", 1) {
			m.p.Observe(int(at(0)), at(1), at(2)/1e3)
		}
	case "advance":
		return m.said(m.c.Advance(at(0)/1e3, v.Text("busy", "yes") == "yes"))
	case "ahead":
		var all []Demand
		if v.Has("accesses") {
			all = append(all, Demand{v.Float(t, "waited", 0) / 1e3, v.Float(t, "steps", 1), v.Int(t, "rows", 1), list(t, v, v.Text("accesses", ""))})
		}
		return m.said(m.p.Advance(at(0)/1e3, all...))
	default:
		v.Fatalf(t, "there is no such event")
	}
	if err != nil {
		return []string{err.Error()}
	}
	return nil
}

func (m *machine) said(ch Change) []string {
	if ch.Moved {
		return []string{ch.Reason}
	}
	return []string{fmt.Sprintf("stays at %.3f", share(ch.Threshold))}
}

// A rise that had to be taken back is not tried again while latencies are as they were; when they
// are a tenth lower it is, and so it is after a while, and above the threshold that was too high. A
// threshold that was 1 all the time did not rise.
func TestCalm(t *testing.T) {
	type step struct {
		seconds, latency float64
		want             int
	}
	r := Paper(0.15)
	r.Calm = 60
	var c *Controller
	now := 0.0
	for name, tc := range map[string]struct {
		from  int
		steps []step
	}{
		"lower latencies, after a while": {500_000, []step{
			{5.5, 0.1, 600_000}, {5, 0.2, 480_000}, {50, 0.1, 480_000}, {5, 0.089, 580_000}, {5, 0.2, 464_000}, {50, 0.1, 464_000}, {9, 0.1, 564_000},
		}},
		"above what was too high": {500_000, []step{{5.5, 0.1, 600_000}, {5, 0.2, 480_000}, {5, 0.08, 580_000}, {5, 0.1, 580_000}, {5, 0.08, 680_000}, {5, 0.1, 780_000}}},
		"at 1 before":             {One, []step{{20, 0.05, One}, {2, 0.18, 800_000}, {5, 0.1, 900_000}}},
		"nearer to what was too high": {One, []step{
			{5.5, 0.21, 800_000}, {5, 0.11, 800_000}, {50, 0.11, 800_000}, {6, 0.11, 900_000}, // by 0.16 at 0.9, for a minute
		}},
		"nearer, and then lower latencies": {One, []step{{5.5, 0.21, 800_000}, {20, 0.11, 800_000}, {4, 0.09, 900_000}, {5, 0.11, One}}},
	} {
		var err error
		if c, err = NewController(r, 0); err != nil {
			t.Fatal(err)
		}
		c.Set(tc.from, 0)
		now = 0
		for i, s := range tc.steps {
			for end := now + s.seconds; now < end; now += 0.25 {
				c.Observe(now, s.latency)
				c.Advance(now, true)
			}
			if got := c.Threshold(); got != s.want {
				t.Errorf("%s, step %d, after %v s at %v: %d, want %d", name, i, s.seconds, s.latency, got, s.want)
			}
		}
	}
	c.Set(500_000, now)
	c.Bound(700_000)
	if c.Threshold() != 700_000 {
		t.Errorf("%d under its bound", c.Threshold())
	}
	if c.Set(1, now); c.Threshold() != 700_000 {
		t.Errorf("set to %d under its bound", c.Threshold())
	}
	for _, calm := range []float64{-1, math.NaN(), math.Inf(1)} {
		if r.Calm = calm; r.Check() == nil {
			t.Errorf("%v s of calm are taken", calm)
		}
	}
}

// Ours cuts as soon as all that it judges is of steps behind the last cut; a step that began before it does not
// count, however late it is told of. Algorithm 2 waits five seconds.
func TestCuts(t *testing.T) {
	for name, tc := range map[string]struct {
		rule  Rule
		began bool // steps that began before a cut are told of behind it
		want  []float64
	}{
		"algorithm 2":           {Paper(0.15), false, []float64{0.25, 5.25, 10.25}},
		"ours":                  {Steady(0.15), false, []float64{0.25, 2.75, 5.25}},
		"of steps of 3 s":       {Steady(0.15), true, []float64{0.25, 3.5, 6.75}},
		"printed, steps of 3 s": {Paper(0.15), true, []float64{0.25, 5.25, 10.25}},
	} {
		c, err := NewController(tc.rule, 0)
		if err != nil {
			t.Fatal(err)
		}
		latency := 0.2
		if tc.began {
			latency = 3
		}
		var got []float64
		for now := 0.25; len(got) < len(tc.want) && now < 60; now += 0.25 {
			c.Observe(now, latency)
			if c.Advance(now, true).Moved {
				got = append(got, now)
			}
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: cuts at %v s, want %v", name, got, tc.want)
		}
	}
}

// Settings that a controller cannot work by are refused by name, with what they must be.
func TestRefusesRules(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, tt := range []struct {
		change func(r *Rule, a *Ahead)
		want   string // empty: nothing is wrong
	}{
		{func(*Rule, *Ahead) {}, ""},
		{func(r *Rule, a *Ahead) { r.SLO, a.SLO = 0, -1 }, "the SLO is"},
		{func(r *Rule, a *Ahead) { r.SLO, a.SLO = nan, inf }, "it must be above 0"},
		{func(r *Rule, a *Ahead) { r.Warning, a.Margin = 0, 0 }, "the warning factor is 0; it must be between 0 and 1"},
		{func(r *Rule, a *Ahead) { r.Warning, a.Margin = 1, 1 }, "the warning factor is 1; it must be between 0 and 1"},
		{func(r *Rule, a *Ahead) { r.Warning, a.Margin = nan, -0.5 }, "the warning factor is"},
		{func(r *Rule, a *Ahead) { r.Share, a.Share = 0, 1.1 }, "of the latencies must keep the SLO"},
		{func(r *Rule, a *Ahead) { r.Interval, a.Hold = -1, inf }, "both must be numbers"},
		{func(r *Rule, a *Ahead) { r.Calm, a.Calm = nan, -1 }, "that was too high is remembered for"},
		{func(r *Rule, a *Ahead) { r.Cuts, a.Calm = -1, inf }, "the next one may fall after"},
		{func(r *Rule, a *Ahead) { r.Floor, a.Floor = -1, One+1 }, "the floor is"},
		{func(r *Rule, a *Ahead) { r.Increment, a.Band = 0, -1 }, "millionths; it must be"},
	} {
		r, a := Paper(0.15), AheadOf(0.15)
		tt.change(&r, &a)
		_, paced := NewController(r, 0)
		_, ahead := NewPredictive(a, Costs{})
		for name, err := range map[string]error{"Rule": paced, "Ahead": ahead} {
			if (err == nil) != (tt.want == "") || err != nil && (!errors.Is(err, ErrSettings) || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%s %+v %+v: %v, want %q", name, r, a, err, tt.want)
			}
		}
	}
	for _, shrink := range []float64{0, 1, -0.2, 1.2, nan} {
		r := Paper(0.15)
		r.Shrink = shrink
		if _, err := NewController(r, 0); !errors.Is(err, ErrSettings) || !strings.Contains(err.Error(), "it must be between 0 and 1") {
			t.Errorf("shrinking by %v: %v", shrink, err)
		}
	}
}
