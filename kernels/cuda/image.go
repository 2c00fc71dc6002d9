package cuda

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Images are what the kernels were compiled to: name.sm_80.cubin, name.sm_90a.cubin
// and name.compute_80.ptx of each source name.cu.
type Images map[string][]byte

// target is an architecture that images are made for.
type target struct {
	suffix string
	fits   func(Arch) bool
}

// targets are tried in order. A cubin runs on its own major version, from its minor
// one on; what ends in "a" runs on exactly one architecture. A driver compiles PTX
// for whatever is later.
var targets = []target{
	{".sm_90a.cubin", func(a Arch) bool { return a == Arch{9, 0} }},
	{".sm_80.cubin", func(a Arch) bool { return a.Major == 8 }},
	{".compute_80.ptx", func(a Arch) bool { return a.Major >= MinArch.Major }},
}

// pick returns the file of a source's kernels that fits a device best.
func (i Images) pick(source string, d Info) (file string, err error) {
	for _, t := range targets {
		if name := source + t.suffix; len(i[name]) > 0 && t.fits(d.Arch) {
			return name, nil
		}
	}
	return "", &ArchError{Device: d.Name, Have: d.Arch, Images: i.of(source)}
}

func (i Images) of(source string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(i)) {
		if strings.HasPrefix(name, source+".") {
			names = append(names, name)
		}
	}
	return names
}

// sources returns what the images were made of, such as "experts".
func (i Images) sources() (names []string) {
	for _, file := range slices.Sorted(maps.Keys(i)) {
		name, _, _ := strings.Cut(file, ".")
		names = append(names, name)
	}
	return slices.Compact(names)
}

// Open brings all kernels to a device.
func (i Images) Open(d Driver) (Module, error) {
	info := d.Info()
	if len(i) == 0 {
		return nil, &ArchError{Device: info.Name, Have: info.Arch}
	}
	var all modules
	for _, source := range i.sources() {
		file, err := i.pick(source, info)
		if err != nil {
			return nil, err
		}
		m, err := d.Load(i[file])
		if err != nil {
			return nil, fmt.Errorf("loading %s on %s with a driver of CUDA %s: %w", file, info.Name, version(info.Driver), err)
		}
		all = append(all, m)
	}
	return all, nil
}

// modules are those of all sources. No two have a kernel of the same name.
type modules []Module

// Kernel looks in each.
func (all modules) Kernel(name string, shared int) (k Kernel, err error) {
	for _, m := range all {
		k, err = m.Kernel(name, shared)
		var e *Error
		if !errors.As(err, &e) || e.Code != CodeNotFound {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("finding the kernel %s: %w", name, err)
	}
	return k, nil
}
