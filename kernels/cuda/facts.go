package cuda

import (
	"fmt"
	"slices"
	"strings"
)

// FactName is of one figure, as heartbeats and samples of loads have it.
type FactName string

// The figures. Totals are since the driver was loaded.
const (
	MemoryUsed  FactName = "gpu_memory_used_bytes" // by all processes
	MemoryFree  FactName = "gpu_memory_free_bytes"
	Busy        FactName = "gpu_busy_ratio"        // of the time, some kernel ran
	MemoryBusy  FactName = "gpu_memory_busy_ratio" // of the time, memory was read or written
	Power       FactName = "gpu_power_watts"
	Energy      FactName = "gpu_energy_joules_total"
	Temperature FactName = "gpu_temperature_celsius"
	Slowed      FactName = "gpu_slowed_by" // bits of Reasons
	Corrected   FactName = "gpu_ecc_corrected_total"
	Uncorrected FactName = "gpu_ecc_uncorrected_total"
	PCIeIn      FactName = "gpu_pcie_in_bytes_per_second" // to the GPU
	PCIeOut     FactName = "gpu_pcie_out_bytes_per_second"
)

// Facts are what a GPU said at one moment.
type Facts struct {
	// Values are figures by name. What a GPU does not say is not there.
	Values map[FactName]float64
	// Xids are the numbers of errors that the driver has noted since the last Read.
	Xids []uint64
}

// Reasons returns why a GPU's clock is lower than it could be; none if it does not say.
func (f Facts) Reasons() Reasons { return Reasons(f.Values[Slowed]) }

// Reader asks one GPU. It is safe for concurrent use, and lives as long as the process.
type Reader interface {
	// Read takes up to a tenth of a second. It fails with an error that is
	// cuda.ErrLost when the GPU is no longer there; others may pass.
	Read() (Facts, error)
	// Energy is the figure of that name as of now, in joules.
	Energy() (float64, error)
}

// LostError says that the GPU has fallen off its bus, or needs a reset.
type LostError struct{ Why string }

// Error begins as cuda.ErrLost does and says why.
func (e *LostError) Error() string { return fmt.Sprintf("%v: %s", ErrLost, e.Why) }

// Is makes it a cuda.ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// fatalXids are those after which no process computes on the GPU before it is reset.
// The others are of one process, or pass.
var fatalXids = map[uint64]string{
	79: "it has fallen off the bus",
	95: "an error in its memory that was not contained",
}

// Fatal is a *LostError if one of the driver's errors is the end of the GPU.
func (f Facts) Fatal() error {
	for _, xid := range f.Xids {
		if why, fatal := fatalXids[xid]; fatal {
			return &LostError{fmt.Sprintf("Xid %d, %s", xid, why)}
		}
	}
	return nil
}

// Reasons are bits as NVML defines them.
type Reasons uint64

// The reasons that slow a GPU that has work: too hot, or too little power from outside.
// The rest are an idle GPU, settings, and its own power limit, at which one under load
// usually is.
const (
	HardwareSlowdown Reasons = 0x08 // by half or more, for heat or power
	SoftwareThermal  Reasons = 0x20
	HardwareThermal  Reasons = 0x40
	PowerBrake       Reasons = 0x80
)

// Throttling returns the reasons of r that slow a GPU that has work.
func (r Reasons) Throttling() Reasons {
	return r & (HardwareSlowdown | SoftwareThermal | HardwareThermal | PowerBrake)
}

var reasonNames = map[Reasons]string{
	0x01: "idle", 0x02: "clock_setting", 0x04: "power_limit", HardwareSlowdown: "hardware", 0x10: "sync_boost",
	SoftwareThermal: "software_thermal", HardwareThermal: "hardware_thermal", PowerBrake: "power_brake", 0x100: "display_setting",
}

// ReasonNames returns the names of all reasons.
func ReasonNames() (names []string) {
	for _, name := range reasonNames {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Has reports whether a reason of that name is among r.
func (r Reasons) Has(name string) bool {
	for bit, n := range reasonNames {
		if n == name {
			return r&bit != 0
		}
	}
	return false
}

func (r Reasons) String() string {
	var all []string
	for _, name := range ReasonNames() {
		if r.Has(name) {
			all = append(all, name)
		}
	}
	return strings.Join(all, ", ")
}
