package profiles

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// good is a profile that each case of TestRefused spoils in one place.
const good = `device: a card
experts: a model
read_bytes_per_second: {value: 1e6, source: counted}
flops_per_second: {value: 1e6, source: counted}
element_bytes: {value: 2, source: counted}
access_seconds: {value: 1e-3, source: counted}
call_seconds: {value: 0.5e-3, source: counted}
alpha_seconds: {value: 2e-3, source: assumed}
beta_seconds: {value: 1e-3, source: assumed}
expert_bytes: {value: 1000, source: counted}
memory_bytes: {value: 4000, source: counted}
bytes_per_second: {value: 500, source: assumed}
cold_start_seconds: {value: 0.25, source: assumed}
`

func TestRead(t *testing.T) {
	p, err := Read("dir/card.yaml", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	// Reading 1,000 bytes takes 1 ms, and a row of 500 parameters 1 ms, too.
	rows := p.Compute().Compute(p.Of(1), p.Of(3))
	p.Time = Printed
	got := []time.Duration{seconds(rows), seconds(p.Compute().Compute(p.Of(3))), p.Communicate(2), p.Transfer(), p.Start()}
	want := []time.Duration{6500 * time.Microsecond, 6 * time.Millisecond, 2 * time.Millisecond, 2 * time.Second, 250 * time.Millisecond}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%v, want %v", got, want)
			break
		}
	}
	if p.Name != "card" || p.Expert() != 1000 || p.Memory() != 4000 {
		t.Errorf("%+v", p)
	}
	for _, f := range fields {
		if n := f.of(p); !strings.Contains(p.String(), f.key) || !strings.Contains(p.String(), "  "+n.String()+"  ") || !strings.Contains(p.String(), n.Source) {
			t.Errorf("%s is not shown with its source in\n%s", f.key, p)
		}
	}
}

// What machines share is there altogether or not at all, is shown, and is written.
func TestExtras(t *testing.T) {
	const (
		shared = "shared_bytes_per_second: {value: 250, source: assumed}\n"
		below  = "machine_memory_bytes: {value: 2000, source: counted}\nstore_bytes_per_second: {value: 100, source: assumed}\n"
		after  = "store_seconds: {value: 0.5, source: assumed}\n"
	)
	p, err := Read("card.yaml", []byte(good+shared+below+after))
	if err != nil {
		t.Fatal(err)
	}
	if p.Transfer() != 4*time.Second || p.Fetch() != 10500*time.Millisecond {
		t.Errorf("a transfer takes %v, what comes before it from the store %v", p.Transfer(), p.Fetch())
	}
	written, err := p.YAML()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Read("card.yaml", written)
	if err != nil || again.String() != p.String() || !strings.Contains(p.String(), "machine_memory_bytes") {
		t.Errorf("%v\n%s\n%s", err, again, p)
	}
	for text, want := range map[string]string{
		below: `"store_seconds" is missing`, strings.Replace(below, "2000", "999", 1) + after: "machine_memory_bytes 999; one expert must fit",
		strings.Replace(shared, "250", "0", 1): "shared_bytes_per_second is 0",
	} {
		if _, err := Read("card.yaml", []byte(good+text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func seconds(s float64) time.Duration { return time.Duration(math.Round(s*1e9)) * time.Nanosecond }

func TestRefused(t *testing.T) {
	for _, tc := range []struct{ name, from, to, want string }{
		{"unknown key", "beta_seconds:", "gamma_seconds:", `card.yaml:9: "gamma_seconds" is no key of the profile`},
		{"unknown key of a number", "{value: 1000,", "{values: 1000,", `card.yaml:10: "values" is no key of expert_bytes`},
		{"no number", "memory_bytes: {value: 4000, source: counted}\n", "", `card.yaml:1: "memory_bytes" is missing in the profile`},
		{"no bandwidth", "bytes_per_second: {value: 500, source: assumed}\n", "", `card.yaml:1: "bytes_per_second" is missing in the profile; add it`},
		{"no value", "{value: 500, source: assumed}", "{source: assumed}", `card.yaml:12: "value" is missing in bytes_per_second`},
		{"no source", "{value: 500, source: assumed}", "{value: 500}", `card.yaml:12: "source" is missing in bytes_per_second`},
		{"empty source", "source: counted}\nmemory", "source: ''}\nmemory", "card.yaml:10: the source of expert_bytes must be a text"},
		{"bare number", "{value: 500, source: assumed}", "500", "card.yaml:12: bytes_per_second must be a mapping with source, value"},
		{"text for a number", "value: 500,", "value: fast,", "card.yaml:12: the value of bytes_per_second must be a number"},
		{"quoted number", "value: 500,", "value: '500',", "card.yaml:12: the value of bytes_per_second must be a number"},
		{"negative", "beta_seconds: {value: 1e-3", "beta_seconds: {value: -1e-3", "card.yaml:9: beta_seconds is -0.001; it must be from 0 to 0.1"},
		{"no time", "value: 2e-3", "value: 0", "card.yaml:8: alpha_seconds is 0; it must be from 1e-12 to 1"},
		{"not a number", "value: 2e-3", "value: .nan", "card.yaml:8: alpha_seconds is NaN; it must be a finite number"},
		{"infinite", "value: 500,", "value: .inf,", "card.yaml:12: bytes_per_second is +Inf; it must be a finite number"},
		{"beyond float64", "value: 500,", "value: 1e999,", "card.yaml:12: "},
		{"half a byte", "value: 1000,", "value: 1000.5,", "card.yaml:10: expert_bytes is 1000.5; it must be a whole number"},
		{"expert above memory", "value: 1000,", "value: 4001,", "card.yaml:1: expert_bytes is 4001 and memory_bytes 4000; one expert must fit"},
		{"slow", "value: 500,", "value: 1,", ""},
		{
			"hours of transfer", "value: 1000, source: counted}\nmemory_bytes: {value: 4000, source: counted}\nbytes_per_second: {value: 500,",
			"value: 9000, source: counted}\nmemory_bytes: {value: 9000, source: counted}\nbytes_per_second: {value: 1,", "expert_bytes takes 9000 seconds",
		},
		{"twice", "beta_seconds:", "alpha_seconds:", `card.yaml:9: "alpha_seconds" is there twice`},
		{"alias", "{value: 4000, source: counted}", "*x", "card.yaml"},
		{"escape sequence", "device: a card", `device: "a\e[31mcard"`, "card.yaml:1: device has characters that cannot be shown"},
		{"long text", "device: a card", "device: " + strings.Repeat("x", mostText+1), "card.yaml:1: device has 1001 bytes"},
		{"two documents", "experts: a model\n", "experts: a model\n---\n", "card.yaml:1: a profile is one document"},
		{"list", good, "- 1\n", "card.yaml:1: the profile must be a mapping"},
		{"empty", good, "", "card.yaml: the profile is empty"},
		{"too long", good, strings.Repeat("#", mostFile+1), "card.yaml: a profile has at most 65536 bytes"},
		{"no YAML", good, "{", "card.yaml: yaml: "},
	} {
		if !strings.Contains(good, tc.from) {
			t.Errorf("%s: %q is not there to be replaced", tc.name, tc.from)
		}
		_, err := Read("card.yaml", []byte(strings.Replace(good, tc.from, tc.to, 1)))
		if tc.want == "" {
			if err != nil {
				t.Errorf("%s: %v", tc.name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

func TestOpen(t *testing.T) {
	if len(Names()) != 9 {
		t.Errorf("the profiles are %v", Names())
	}
	for _, name := range Names() {
		p, err := Open(name)
		if err != nil {
			t.Error(err)
		} else if p.Name != name {
			t.Errorf("%s is called %s", name, p.Name)
		}
	}
	file := filepath.Join(t.TempDir(), "mine.yaml")
	if err := os.WriteFile(file, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	if p, err := Open(file); err != nil || p.Name != "mine" {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := Open("a6000"); err == nil || !strings.Contains(err.Error(), `no file "a6000"; the profiles are a100x4-qwen1.5-moe, a6000-deepseek-v3, a6000-llama-4-scout, a6000-mixtral`) {
		t.Errorf("a profile that is not there: %v", err)
	}
	if _, err := Open(filepath.Dir(file)); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder: %v", err)
	}
}

// FuzzRead wants an error or a profile whose times and bytes can be used.
func FuzzRead(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(curved))
	f.Add([]byte(good + "machine_memory_bytes: {value: 2000, source: counted}\n"))
	f.Add([]byte("device: &a [*a]\n"))
	f.Add([]byte("a: &a {<<: *a}\n"))
	f.Add([]byte("# nothing\n---\n...\n"))
	for _, file := range Names() {
		data, err := embedded.ReadFile(file + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Read("f.yaml", data)
		if err != nil {
			return
		}
		if p.Curve != nil {
			if err := p.Take(Measured); err != nil {
				t.Fatal(err)
			}
		}
		const rows = 1 << 20
		compute := seconds(p.Compute().Compute(p.Of(rows)))
		for _, d := range []time.Duration{compute, p.Communicate(rows), p.Transfer(), p.Start()} {
			if d < 0 || d == math.MaxInt64 {
				t.Fatalf("%v in %+v", d, p)
			}
		}
		if p.Expert() < 1 || p.Memory() < p.Expert() {
			t.Fatalf("%+v", p)
		}
	})
}

// The numbers of cards follow from their data sheets and the models' shapes, as their sources
// say; of an H200, pkg/policy/cost compares what was measured with its measurements.
func TestDerived(t *testing.T) {
	const (
		readShare    = 0.89 // that kernels reach, as measured on an H200
		rateShare    = 0.68
		elementBytes = 2
	)
	type card struct{ read, rate, link, waits float64 } // bytes, operations and bytes a second; bytes a second at which α reads
	var (
		a6000   = card{768e9, 154.8e12, 64e9, 768e9}
		rtx3090 = card{936e9, 71e12, 32e9, 936e9 * readShare}
		h200    = card{4.8e12, 989e12, 55.2e9, 4.26e12} // the bus as measured
	)
	for _, tc := range []struct {
		name string
		card
		hidden, inner, rows float64
	}{
		{"a6000-mixtral", a6000, 4096, 14336, 32 * 2 / 8},
		{"a6000-phi-3.5-moe", a6000, 4096, 6400, 32 * 2 / 16},
		{"a6000-llama-4-scout", a6000, 5120, 8192, 32 * 1 / 16},
		{"a6000-deepseek-v3", a6000, 7168, 2048, 32 * 8 / 256},
		{"rtx3090-mixtral", rtx3090, 4096, 14336, 32 * 2 / 8},
		{"rtx3090-phi-3.5-moe", rtx3090, 4096, 6400, 32 * 2 / 16},
		{"rtx3090-qwen1.5-moe", rtx3090, 2048, 1408, 32 * 4 / 60},
		{"h200-mixtral", h200, 4096, 14336, 32 * 2 / 8},
	} {
		p, err := Open(tc.name)
		if err != nil {
			t.Fatal(err)
		}
		weights := 3 * tc.hidden * tc.inner * elementBytes
		for _, n := range []struct {
			key       string
			got, want float64
		}{
			{"expert_bytes", p.ExpertBytes.Value, weights},
			{"read_bytes_per_second", p.Read.Value, readShare * tc.read},
			{"flops_per_second", p.Rate.Value, rateShare * tc.rate},
			{"alpha_seconds", p.Alpha.Value, weights / tc.waits / tc.rows},
			{"beta_seconds", p.Beta.Value, tc.hidden * elementBytes / tc.link},
			{"bytes_per_second", p.Bandwidth.Value, tc.link},
		} {
			if math.Abs(n.got/n.want-1) > 0.007 {
				t.Errorf("%s: %s is %v, and %v by its source", tc.name, n.key, n.got, n.want)
			}
		}
	}
}

// A profile from before the roofline, or without it, is of printed time.
func TestWithoutRoofline(t *testing.T) {
	const file = "device: a\nexperts: b\nalpha_seconds: {value: 0.001, source: c}\nbeta_seconds: {value: 0, source: c}\n" +
		"expert_bytes: {value: 1, source: c}\nmemory_bytes: {value: 9, source: c}\nbytes_per_second: {value: 9, source: c}\ncold_start_seconds: {value: 0, source: c}\n"
	p, err := Read("p.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	for _, p.Time = range []Time{"", Roofline, Printed} {
		if got := p.Compute().Compute(p.Of(3)); got != 0.003 || p.Row() != 0.001 {
			t.Errorf("%q: %v s, %v a row", p.Time, got, p.Row())
		}
	}
	if _, err := Read("p.yaml", []byte(file+"call_seconds: {value: 0, source: c}\n")); err == nil || !strings.Contains(err.Error(), "is missing") {
		t.Errorf("a part of the roofline: %v", err)
	}
}

// What YAML writes, Read reads.
func TestYAML(t *testing.T) {
	for _, name := range Names() {
		p, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		text, err := p.YAML()
		if err != nil {
			t.Fatal(err)
		}
		got, err := Read(name+".yaml", text)
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
		for key, want := range p.Values() {
			if off := math.Abs(got.Values()[key] - want); off > 1e-6*want || off > 0 && strings.HasSuffix(key, "_bytes") {
				t.Errorf("%s: %s is %v, want %v", name, key, got.Values()[key], want)
			}
		}
	}
}

func TestScaled(t *testing.T) {
	p, err := Read("card.yaml", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(p.Assumed(), " "); got != "beta_seconds bytes_per_second cold_start_seconds" {
		t.Errorf("assumed are %s", got)
	}
	p.Time = Printed
	if got := strings.Join(p.Assumed(), " "); got != "alpha_seconds beta_seconds bytes_per_second cold_start_seconds" {
		t.Errorf("of printed time %s", got)
	}
	if q, err := p.Scaled("beta_seconds", 4); err != nil || q.Beta.Value != 4e-3 || p.Beta.Value != 1e-3 {
		t.Errorf("%v, %v; it was %v", q, err, p.Beta)
	}
	for key, want := range map[string]string{"cold_start_seconds": "cold_start_seconds is", "gamma": `no "gamma"`} {
		if _, err := p.Scaled(key, 1e9); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", key, err)
		}
	}
}
