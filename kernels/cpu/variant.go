package cpu

import (
	"fmt"
	"os"
	"strings"
)

// The variants, from the slowest to the fastest.
const (
	generic = iota
	avx2
	avx512
	avx512vnni // avx512, and products of whole numbers
	avx512bf16 // avx512vnni, and products of bf16
	amxTiles   // avx512bf16, and products of tiles
)

var variantNames = []string{"generic", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx"}

// active is the variant in use. It is set at start and by Use.
var active, startError = choose(os.Getenv)

// Check explains what is wrong with the choice of SWITCHYARD_KERNEL, or
// returns nil. A program should call it at start and end on an error; until it
// does, the plain Go kernels run.
func Check() error { return startError }

// Name returns the variant in use: "amx", "avx512bf16", "avx512vnni", "avx512", "avx2" or "generic".
func Name() string { return variantNames[active] }

// Class returns the numeric class: equal classes give equal bits. All variants share one, but for W16A16.
func Class() string { return "fma32" }

// PairsClass returns what W16A16 adds to the numeric class: the sums of TDPBF16PS have another order.
func PairsClass() string {
	if active == amxTiles {
		return "-amx"
	}
	return ""
}

// Available lists the variants that this machine can run and the environment allows.
func Available() []string { return available(os.Getenv) }

func available(getenv func(string) string) (names []string) {
	for v, name := range variantNames {
		if usable(v, getenv) == nil {
			names = append(names, name)
		}
	}
	return names
}

// Pin has a variant compute from now on. It is for a program's start: no kernel may run meanwhile.
func Pin(name string) error {
	v, err := parse(name, os.Getenv)
	if err == nil && v != active {
		active = v
	}
	return err
}

// Use switches to a variant until restore is called. It is for tests: no
// kernel may run meanwhile.
func Use(name string) (restore func(), err error) {
	v, err := parse(name, os.Getenv)
	if err != nil {
		return nil, err
	}
	old := active
	active = v
	return func() { active = old }, nil
}

// choose takes the variant that SWITCHYARD_KERNEL names, else the fastest usable one.
func choose(getenv func(string) string) (int, error) {
	if name := getenv("SWITCHYARD_KERNEL"); name != "" {
		v, err := parse(name, getenv)
		if err != nil {
			return generic, fmt.Errorf("SWITCHYARD_KERNEL: %w", err)
		}
		return v, nil
	}
	best := generic
	for v := range variantNames {
		if usable(v, getenv) == nil {
			best = v
		}
	}
	return best, nil
}

func parse(name string, getenv func(string) string) (int, error) {
	for v, known := range variantNames {
		if name == known {
			if err := usable(v, getenv); err != nil {
				return 0, fmt.Errorf("%w: choose %s, or leave the choice out", err, strings.Join(available(getenv), " or "))
			}
			return v, nil
		}
	}
	return 0, fmt.Errorf("unknown kernel variant %q; this processor has %s", name, strings.Join(available(getenv), ", "))
}

// usable explains why a variant cannot run, or returns nil.
func usable(v int, getenv func(string) string) error {
	if !supported(v) {
		return fmt.Errorf("this processor cannot run the kernel variant %q", variantNames[v])
	}
	off := "SWITCHYARD_NO_" + strings.ToUpper(variantNames[v])
	if v != generic && getenv(off) != "" && getenv(off) != "0" {
		return fmt.Errorf("the kernel variant %q is switched off by %s", variantNames[v], off)
	}
	if v > avx512 {
		return usable(v-1, getenv)
	}
	return nil
}
