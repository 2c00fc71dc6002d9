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
)

var variantNames = []string{"generic", "avx2", "avx512", "avx512vnni"}

// active is the variant in use. It is set at start and by Use.
var active, startError = choose(os.Getenv)

// Check explains what is wrong with the choice of SWITCHYARD_KERNEL, or
// returns nil. A program should call it at start and end on an error; until it
// does, the plain Go kernels run.
func Check() error { return startError }

// Name is the variant in use: "avx512vnni", "avx512", "avx2" or "generic".
func Name() string { return variantNames[active] }

// Class is the numeric class: equal classes give equal bits. All variants share one.
func Class() string { return "fma32" }

// Available lists the variants that this machine can run and the environment allows.
func Available() []string {
	var names []string
	for v, name := range variantNames {
		if usable(v, os.Getenv) == nil {
			names = append(names, name)
		}
	}
	return names
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
			return v, usable(v, getenv)
		}
	}
	return 0, fmt.Errorf("unknown kernel variant %q; choose one of %s", name, strings.Join(variantNames, ", "))
}

// usable explains why a variant cannot run, or returns nil.
func usable(v int, getenv func(string) string) error {
	if !supported(v) {
		return fmt.Errorf("this processor cannot run the kernel variant %q; choose %q or unset the choice", variantNames[v], "generic")
	}
	off := "SWITCHYARD_NO_" + strings.ToUpper(variantNames[v])
	if v != generic && getenv(off) != "" && getenv(off) != "0" {
		return fmt.Errorf("the kernel variant %q is switched off by %s", variantNames[v], off)
	}
	if v == avx512vnni {
		return usable(avx512, getenv)
	}
	return nil
}
