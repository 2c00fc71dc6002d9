package profiles

import (
	"slices"
	"strings"
	"testing"
)

func TestPlatforms(t *testing.T) {
	if got := PlatformNames(); !slices.Equal(got, []string{"kubernetes", "lambda"}) {
		t.Errorf("the platforms are %v", got)
	}
	p, err := OpenPlatform("lambda")
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Sizes) != 14 || p.SizesSource == "" || p.About == "" || slices.Contains(p.Assumed(), "container_seconds") || !slices.Contains(p.Assumed(), "invocation_seconds") {
		t.Errorf("%+v, assumed %v", p, p.Assumed())
	}
	if cpus := p.Cost().CPUs(1769 << 20); cpus != 1 {
		t.Errorf("1769 MB have %v processors", cpus)
	}
	if _, err := OpenPlatform("azure"); err == nil || !strings.Contains(err.Error(), `there is no platform and no file "azure"; the platforms are kubernetes, lambda`) {
		t.Errorf("%v", err)
	}
}

func TestPlatformRefused(t *testing.T) {
	data, err := platforms.ReadFile("platforms/lambda.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, from, to, want string }{
		{"missing", "payload_bytes:\n  value: 6291456\n", "other:\n  value: 6291456\n", `"other" is no key of the platform`},
		{"negative", "value: 0.2e-6", "value: -0.2e-6", "p.yaml:44: dollars_per_request is -2e-07; it must be from 0 to 0.1"},
		{"absurd", "value: 16.6667e-6", "value: 16.6667", "p.yaml:41: dollars_per_gb_second is 16.6667; it must be from 0 to 0.1"},
		{"sizes", "[134217728, 805306368,", "[805306368, 134217728,", "p.yaml:3: size 1 is 1.34217728e+08 bytes; sizes are above 0 and ascend"},
		{"a size", "[134217728,", "[13,", "p.yaml:5: values of memory_sizes is 13; it must be from 1.048576e+06"},
		{"no list", "[134217728, ", "134217728 # ", "p.yaml:5: values of memory_sizes must be a list"},
		{"no sizes", "values: [", "values: [] # ", "p.yaml:3: sizes are missing"},
		{"no source", "  source: assumed, one connection of a function to S3\n", "", `"source" is missing in parameter_bytes_per_second`},
	} {
		text := strings.Replace(string(data), tc.from, tc.to, 1)
		if _, err := ReadPlatform("p.yaml", []byte(text)); text == string(data) || err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

// FuzzReadPlatform wants an error or a platform that can be computed with.
func FuzzReadPlatform(f *testing.F) {
	data, err := platforms.ReadFile("platforms/lambda.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte("memory_sizes: {values: [1, [2]], source: a}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ReadPlatform("f.yaml", data)
		if err != nil {
			return
		}
		of := p.Cost()
		if err := of.Check(); err != nil {
			t.Fatal(err)
		}
		if s := of.Cold(1e9) + of.Invocation(0.5) + of.Device(of.Sizes[0]).Compute(); !(s >= 0) {
			t.Fatalf("%v s", s)
		}
	})
}
