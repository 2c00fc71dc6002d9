//go:build cuda

package nvml

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/switchyard/switchyard/kernels/cuda"
)

// question fills in what one function of the library answers.
type question struct {
	symbol string // of the library
	ask    func(into map[cuda.FactName]float64) nvml.Return
}

const energySymbol = "nvmlDeviceGetTotalEnergyConsumption"

// questions returns all that can be asked of a GPU.
func questions(d nvml.Device) []question {
	const percent, milli, kilo = 1e-2, 1e-3, 1e3
	return []question{
		{"nvmlDeviceGetMemoryInfo", func(into map[cuda.FactName]float64) nvml.Return {
			m, code := d.GetMemoryInfo()
			put(into, code, cuda.MemoryUsed, float64(m.Used))
			return put(into, code, cuda.MemoryFree, float64(m.Free))
		}},
		{"nvmlDeviceGetUtilizationRates", func(into map[cuda.FactName]float64) nvml.Return {
			u, code := d.GetUtilizationRates()
			put(into, code, cuda.Busy, percent*float64(u.Gpu))
			return put(into, code, cuda.MemoryBusy, percent*float64(u.Memory))
		}},
		{"nvmlDeviceGetPowerUsage", one(cuda.Power, milli, d.GetPowerUsage)},
		{energySymbol, one(cuda.Energy, milli, d.GetTotalEnergyConsumption)},
		{"nvmlDeviceGetTemperature", one(cuda.Temperature, 1, func() (uint32, nvml.Return) { return d.GetTemperature(nvml.TEMPERATURE_GPU) })},
		// Newer libraries call the reasons otherwise and keep this name.
		{"nvmlDeviceGetCurrentClocksThrottleReasons", one(cuda.Slowed, 1, d.GetCurrentClocksThrottleReasons)},
		ecc(d, cuda.Corrected, nvml.MEMORY_ERROR_TYPE_CORRECTED),
		ecc(d, cuda.Uncorrected, nvml.MEMORY_ERROR_TYPE_UNCORRECTED),
		{"nvmlDeviceGetPcieThroughput", one(cuda.PCIeIn, kilo, func() (uint32, nvml.Return) { return d.GetPcieThroughput(nvml.PCIE_UTIL_RX_BYTES) })},
		{"nvmlDeviceGetPcieThroughput", one(cuda.PCIeOut, kilo, func() (uint32, nvml.Return) { return d.GetPcieThroughput(nvml.PCIE_UTIL_TX_BYTES) })},
	}
}

func ecc(d nvml.Device, name cuda.FactName, kind nvml.MemoryErrorType) question {
	return question{"nvmlDeviceGetTotalEccErrors", one(name, 1, func() (uint64, nvml.Return) { return d.GetTotalEccErrors(kind, nvml.VOLATILE_ECC) })}
}

// one returns a figure that is a whole number of some unit.
func one[N uint32 | uint64](name cuda.FactName, unit float64, ask func() (N, nvml.Return)) func(map[cuda.FactName]float64) nvml.Return {
	return func(into map[cuda.FactName]float64) nvml.Return {
		n, code := ask()
		return put(into, code, name, unit*float64(n))
	}
}

func put(into map[cuda.FactName]float64, code nvml.Return, name cuda.FactName, v float64) nvml.Return {
	if code == nvml.SUCCESS {
		into[name] = v
	}
	return code
}
