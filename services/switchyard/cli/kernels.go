package cli

import (
	"fmt"

	"github.com/alecthomas/kong"

	"github.com/switchyard/switchyard/kernels/cpu"
)

// KernelsFlag is of commands that compute. The second variable is older than the flag.
type KernelsFlag struct {
	Kernels string `env:"SWITCHYARD_KERNELS,SWITCHYARD_KERNEL" help:"Kernels that the processor computes with: amx, avx512bf16, avx512vnni, avx512, avx2 or generic; without it the fastest that it has. All give the same bits, but for amx with --precision w16a16. A process whose processor lacks them does not start." placeholder:"NAME" advanced:""`
}

// Arguments returns what hands the flag to a process that this one starts.
func (f KernelsFlag) Arguments() []string {
	if f.Kernels == "" {
		return nil
	}
	return []string{"--kernels", f.Kernels}
}

// PinKernels has the kernels compute that a command's --kernels names, if it names any.
func PinKernels(command *kong.Context) error {
	for _, f := range command.Flags() {
		if f.Name != "kernels" {
			continue
		}
		if name, _ := command.FlagValue(f).(string); name != "" {
			if err := cpu.Pin(name); err != nil {
				return Usage(fmt.Errorf("--kernels: %w", err))
			}
		}
	}
	return nil
}
