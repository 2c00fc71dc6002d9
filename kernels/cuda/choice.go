package cuda

import "fmt"

// Kernels are those that multiply weights of bf16; "" are Mma. Their results differ in bits.
type Kernels string

// Mma are for every GPU. Wgmma are in the image for sm_90a alone, and want weights in tiles.
const (
	Mma   Kernels = "mma"
	Wgmma Kernels = "wgmma"
)

// wgmmaArch is the one architecture that has wgmma.
var wgmmaArch = Arch{9, 0}

// On refuses a device that does not have their instructions.
func (k Kernels) On(d Info) error {
	if k == Wgmma && d.Arch != wgmmaArch {
		return &KernelsError{Kernels: k, Device: d.Name, Why: fmt.Sprintf("it is %v, and they are for %v alone", d.Arch, wgmmaArch)}
	}
	return nil
}

// Fastest returns those that are fastest on a device of those that it has (docs/benchmarks/gpu-h200.md).
func Fastest(d Info) Kernels {
	if Wgmma.On(d) == nil {
		return Wgmma
	}
	return Mma
}

// Suffix returns what they add to the name of a numeric class.
func (k Kernels) Suffix() string {
	if k == Wgmma {
		return "-wgmma"
	}
	return ""
}

// KernelsError says that a device does not run the kernels that were asked for.
type KernelsError struct {
	Kernels
	Device, Why string
}

func (e *KernelsError) Error() string {
	return fmt.Sprintf("%s does not run the kernels %s (%s): take %s, which every GPU runs", e.Device, e.Kernels, e.Why, Mma)
}
