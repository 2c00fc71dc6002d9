//go:build cuda

package nvml

import (
	"errors"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/switchyard/switchyard/kernels/cuda"
)

const pci = "0000:3b:00.0"

// stub compiles libnvml.c; the library stays in the process.
func stub(t *testing.T, flags ...string) nvml.Interface {
	t.Helper()
	library := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	args := append(flags, "-shared", "-fPIC", "-o", library, "testdata/libnvml.c")
	if out, err := exec.CommandContext(t.Context(), "gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return nvml.New(nvml.WithLibraryPath(library))
}

func opened(t *testing.T, library nvml.Interface) cuda.Reader {
	t.Helper()
	r, err := open(library, pci)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// said is what the stub says, in our units.
func said(but ...cuda.FactName) map[cuda.FactName]float64 {
	all := map[cuda.FactName]float64{
		cuda.MemoryUsed: 40, cuda.MemoryFree: 60, cuda.Busy: 0.75, cuda.MemoryBusy: 0.5, cuda.Power: 350.5, cuda.Energy: 1234.5,
		cuda.Temperature: 61, cuda.Slowed: 0x44, cuda.Corrected: 5, cuda.Uncorrected: 2, cuda.PCIeIn: 30e3, cuda.PCIeOut: 20e3,
	}
	for _, name := range but {
		delete(all, name)
	}
	return all
}

// Every figure is there in its unit; what a GPU does not support, or an older library
// lacks, is not.
func TestRead(t *testing.T) {
	library := stub(t)
	for _, tt := range []struct {
		name, setting string
		library       nvml.Interface
		without       []cuda.FactName
	}{
		{"all", "", library, nil},
		{"no power", "nvmlDeviceGetPowerUsage=3", library, []cuda.FactName{cuda.Power}},
		{"no utilisation", "nvmlDeviceGetUtilizationRates=3", library, []cuda.FactName{cuda.Busy, cuda.MemoryBusy}},
		{"not allowed", "nvmlDeviceGetTotalEccErrors=4", library, []cuda.FactName{cuda.Corrected, cuda.Uncorrected}},
		{"an old library", "", stub(t, "-DOLD"), []cuda.FactName{cuda.Energy}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			set(t, tt.setting)
			r := opened(t, tt.library)
			f, err := r.Read()
			if err != nil || !maps.Equal(f.Values, said(tt.without...)) || len(f.Xids) > 0 {
				t.Errorf("%v, %v, %v", f.Values, f.Xids, err)
			}
			joules, err := r.Energy()
			if has := !slices.Contains(tt.without, cuda.Energy); has != (err == nil) || has && joules != 1234.5 {
				t.Errorf("%v joules, %v", joules, err)
			}
		})
	}
}

func set(t *testing.T, setting string) {
	if name, value, ok := strings.Cut(setting, "="); ok {
		t.Setenv("FAKE_"+name, value)
	}
}

// What is wrong is an error that says so; a GPU that is gone is cuda.ErrLost.
func TestFaults(t *testing.T) {
	library := stub(t)
	for _, tt := range []struct {
		setting string
		lost    bool
		want    string
	}{
		{"nvmlDeviceGetMemoryInfo=15", true, "nvmlDeviceGetMemoryInfo answered lost (15)"},
		{"nvmlDeviceGetPowerUsage=16", true, "nvmlDeviceGetPowerUsage answered"},
		{"nvmlDeviceGetTemperature=999", false, "nvmlDeviceGetTemperature answered an error (999)"},
		{"XID=79", true, "Xid 79, it has fallen off the bus"},
	} {
		t.Run(tt.setting, func(t *testing.T) {
			r := opened(t, library)
			set(t, tt.setting)
			f, err := r.Read()
			if err == nil || !strings.Contains(err.Error(), tt.want) || errors.Is(err, cuda.ErrLost) != tt.lost {
				t.Errorf("%v", err)
			}
			if len(f.Values) == 0 {
				t.Error("the other figures are gone too")
			}
		})
	}
	t.Setenv("FAKE_XID", "31") // one process's doing
	if f, err := opened(t, library).Read(); err != nil || !slices.Equal(f.Xids, []uint64{31}) {
		t.Errorf("%v, %v", f.Xids, err)
	}
}

// Without a library, with one that does not come up, and for a GPU that is not there.
func TestOpen(t *testing.T) {
	for _, tt := range []struct {
		setting, pci, want string
		library            nvml.Interface
	}{
		{"", pci, "(12)", nvml.New(nvml.WithLibraryPath("/nowhere/libnvidia-ml.so.1"))},
		{"nvmlInit_v2=9", pci, "nvmlInit answered an error (9)", stub(t)},
		{"", "0000:00:00.0", "nvmlDeviceGetHandleByPciBusId 0000:00:00.0 answered an error (6)", stub(t)},
	} {
		t.Run(tt.want, func(t *testing.T) {
			set(t, tt.setting)
			if r, err := open(tt.library, tt.pci); r != nil || err == nil || !strings.HasSuffix(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
	t.Setenv("FAKE_nvmlEventSetCreate", "3") // as where nobody tells of errors
	t.Setenv("FAKE_XID", "79")
	if f, err := opened(t, stub(t)).Read(); err != nil || len(f.Xids) > 0 {
		t.Errorf("%v, %v", f, err)
	}
}
