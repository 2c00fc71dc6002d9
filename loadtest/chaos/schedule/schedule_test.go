package schedule

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var replicas = map[string]int{"aggregator": 2, "expert": 3, "gate": 2, "attention": 2, "tokenizer": 2, Server: 1}

// cluster is the same with three servers.
func cluster(seed uint64) Settings {
	s := settings(seed)
	s.Replicas = maps.Clone(replicas)
	s.Replicas[Server] = 3
	return s
}

func settings(seed uint64) Settings {
	return Settings{Seed: seed, Length: 10 * time.Minute, Every: 3 * time.Second, Replicas: replicas}
}

func TestSameSeedSameSchedule(t *testing.T) {
	for name, generate := range map[string]func(Settings) Schedule{"random": Random, "each": Each, "rolling": Rolling} {
		t.Run(name, func(t *testing.T) {
			if a, b := generate(settings(7)), generate(settings(7)); !reflect.DeepEqual(a, b) || len(a) == 0 {
				t.Errorf("%d and %d faults, which differ", len(a), len(b))
			}
		})
	}
	if reflect.DeepEqual(Random(settings(7)), Random(settings(8))) {
		t.Error("another seed makes the same")
	}
}

// Every kind hits every service that it can hit, about as often as was asked for.
func TestRandomHasAll(t *testing.T) {
	s := cluster(1)
	s.Length = 5 * time.Hour
	all := Random(s)
	if want := int(s.Length / s.Every); len(all) < want*3/4 || len(all) > want*5/4 {
		t.Errorf("%d faults; about %d were asked for", len(all), want)
	}
	seen := map[string]int{}
	for _, f := range all {
		seen[string(f.Kind)+" "+f.Target.String()]++
	}
	for _, want := range []string{"kill gate/0", "kill gate/1", "hang expert/2", "drain nats/0", "storm */*", "storm tokenizer/*", "vanish attention/1", "partition aggregator/0", "reset gate/1", "latency expert/0", "bandwidth gate/0", "kill nats/2", "leader nats/*", "disk nats/0", "memory gate/1", "skew tokenizer/0"} {
		if seen[want] == 0 {
			t.Errorf("there is no %s", want)
		}
	}
}

// A replica that has a fault has no other one until it is back.
func TestRandomLeavesTimeToReturn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := cluster(rapid.Uint64().Draw(t, "seed"))
		s.Leader = time.Duration(rapid.IntRange(0, 20).Draw(t, "leader")) * 5 * time.Second
		s.Every = time.Duration(rapid.IntRange(100, 5000).Draw(t, "every")) * time.Millisecond
		s.Length = time.Minute
		g := newGenerator(s)
		until := map[Target]time.Duration{}
		for _, f := range Random(s) {
			for _, hit := range g.hit(f.Target) {
				if f.At < until[hit] {
					t.Fatalf("%v hits %v, which is back at %v", f, hit, until[hit])
				}
				until[hit] = f.End() + settle
			}
		}
	})
}

// The leading server is killed at its times, whatever else happens.
func TestLeadersAreKilledInTime(t *testing.T) {
	s := cluster(5)
	s.Leader, s.Kinds = 30*time.Second, []Kind{Kill, Hang}
	var at []time.Duration
	others := 0
	for _, f := range Random(s) {
		if f.Kind == Leader {
			at = append(at, f.At)
		} else {
			others++
		}
	}
	if len(at) != 19 || at[0] != s.Leader || at[18] != 19*s.Leader || others < 100 {
		t.Errorf("leaders at %v, and %d other faults", at, others)
	}
}

// A lone server leads no other, so that nothing is done twice.
func TestNoLeaderOfOne(t *testing.T) {
	s := settings(1)
	s.Kinds = []Kind{Leader}
	if got := append(Random(s), Each(s)...); len(got) > 0 {
		t.Errorf("got %v", got)
	}
}

func TestOnlyKinds(t *testing.T) {
	s := settings(3)
	s.Kinds = []Kind{Hang}
	for _, f := range append(Random(s), Each(s)...) {
		if f.Kind != Hang {
			t.Fatalf("%v was not asked for", f)
		}
	}
}

func TestEachIsAlone(t *testing.T) {
	var end time.Duration
	s := settings(3)
	for _, f := range Each(s) {
		if f.At < end+s.Every {
			t.Fatalf("%v begins within %v of the end of the one before", f, s.Every)
		}
		end = f.End()
	}
}

func TestNobodyToHit(t *testing.T) {
	s := Settings{Length: time.Minute, Every: time.Second, Kinds: []Kind{Kill}}
	for name, generate := range map[string]func(Settings) Schedule{"random": Random, "each": Each, "rolling": Rolling} {
		if got := generate(s); len(got) > 0 {
			t.Errorf("%s has %v", name, got)
		}
	}
}

func TestRollingRestartsAll(t *testing.T) {
	got := Rolling(settings(0))
	if len(got) != 12 || got[11].Target != (Target{Server, 0}) {
		t.Errorf("got %v", got)
	}
}

func TestText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := cluster(rapid.Uint64().Draw(t, "seed"))
		s.Leader = time.Minute
		want := Random(s)
		got, err := Parse("# a comment\n\n" + want.String())
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%d faults became %d: %v", len(want), len(got), err)
		}
	})
}

func TestArguments(t *testing.T) {
	f := Fault{For: 1500 * time.Millisecond, Kind: Storm, Target: Target{"gate", All}}
	if got := strings.Join(f.Arguments(), " "); got != "storm gate * 1.5" {
		t.Errorf("got %q", got)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"1s kill gate/0", "3 words"},
		{"soon kill gate/0 1s", "no time"},
		{"1s kill gate/0 -1s", "out of range"},
		{"1s explode gate/0 1s", "no kind"},
		{"1s kill gate 1s", "no target"},
		{"1s kill gate/x 1s", "no target"},
		{"1s kill gate/1001 1s", "no target"},
		{"1s kill router/0 1s", "cannot hit"},
		{"1s kill gate/* 1s", "cannot hit"},
		{"1s storm gate/0 1s", "cannot hit"},
		{"1s partition nats/0 1s", "cannot hit"},
		{"1s kill nats/* 1s", "cannot hit"},
		{"1s disk gate/0 1s", "cannot hit"},
		{"1s skew nats/0 1s", "cannot hit"},
		{"1s memory nats/0 1s", "cannot hit"},
		{"1s leader nats/0 1s", "cannot hit"},
		{"1s leader gate/* 1s", "cannot hit"},
		{"1s leader */* 1s", "cannot hit"},
		{"\n2s kill gate/0 1s\n1s kill gate/1 1s", "line 3: the fault at 1s"},
	} {
		if _, err := Parse(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v; want %q", c.text, err, c.want)
		}
	}
}

func TestUntilAndClose(t *testing.T) {
	s, err := Parse("10s kill gate/0 1s\n11s hang gate/1 4s\n30s kill nats/0 0s\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Until(11 * time.Second); len(got) != 1 || len(s.Until(time.Hour)) != 3 {
		t.Errorf("until 11s: %v", got)
	}
	want := "5s kill gate/0 1s\n6s hang gate/1 4s\n11s kill nats/0 0s\n"
	if got := s.Close(5 * time.Second).String(); got != want {
		t.Errorf("close:\n%swant\n%s", got, want)
	}
	if s.Length() != 30*time.Second {
		t.Errorf("it takes %v", s.Length())
	}
}

// What fails when two certain faults are there is shrunk to these two.
func TestShrink(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := Random(Settings{Seed: rapid.Uint64().Draw(t, "seed"), Length: 2 * time.Minute, Every: 3 * time.Second, Replicas: replicas})
		if len(all) < 2 {
			t.Skip("too short")
		}
		i := rapid.IntRange(0, len(all)-2).Draw(t, "first")
		j := rapid.IntRange(i+1, len(all)-1).Draw(t, "second")
		fails := func(s Schedule) bool { return slices.Contains(s, all[i]) && slices.Contains(s, all[j]) }
		if got := Shrink(all, 10_000, fails); !reflect.DeepEqual(got, Schedule{all[i], all[j]}) {
			t.Fatalf("got %v", got)
		}
	})
}

func TestShrinkIsBounded(t *testing.T) {
	all, asked := Random(settings(1)), 0
	got := Shrink(all, 5, func(Schedule) bool { asked++; return false })
	if asked != 5 || len(got) != len(all) {
		t.Errorf("it asked %d times and has %d of %d faults", asked, len(got), len(all))
	}
}

func FuzzParse(f *testing.F) {
	f.Add("1s kill gate/0 1s\n2s storm */* 0s\n")
	f.Add("# seed 3\n1.5s hang nats/0 300ms\n30s leader nats/* 2s")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(s.String())
		if err != nil || !reflect.DeepEqual(again, s) {
			t.Errorf("%q became %q: %v", s, again, err)
		}
	})
}
