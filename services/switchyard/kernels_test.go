package main

import (
	"strings"
	"testing"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// A variant that --kernels names computes; another one is refused with those that there are.
func TestKernelsFlag(t *testing.T) {
	for _, tt := range []struct{ name, want string }{
		{"sse9", `--kernels: unknown kernel variant "sse9"; this processor has generic`},
		{"avx2", `--kernels: the kernel variant "avx2" is switched off by SWITCHYARD_NO_AVX2: choose generic`},
	} {
		t.Setenv("SWITCHYARD_NO_AVX2", "1")
		if got := invoke("", "demo", "--kernels", tt.name); got.Code != 2 || !strings.Contains(got.Err, tt.want) {
			t.Errorf("%s: got %+v", tt.name, got)
		}
	}
	defer func(old string) { _ = cpu.Pin(old) }(cpu.Name())
	for _, args := range [][]string{{"up"}, {"expert"}, {"attention"}, {"gate"}} {
		t.Setenv("SWITCHYARD_NO_AVX2", "")
		var c CLI
		parsed, err := parse(&c, append(args, "--kernels", "generic"), cli.Stdio{})
		if err == nil {
			err = cli.PinKernels(parsed)
		}
		if err != nil || cpu.Name() != "generic" {
			t.Errorf("%v: %s computes, %v", args, cpu.Name(), err)
		}
		_ = cpu.Pin(cpu.Available()[len(cpu.Available())-1])
	}
}
