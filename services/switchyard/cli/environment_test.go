package cli

import "testing"

// Children have their settings as arguments, and the machine's from the environment.
func TestIsSetting(t *testing.T) {
	for variable, want := range map[string]bool{
		"SWITCHYARD_PRECISION=q8": true, "SWITCHYARD_CONFIG=a.yaml": true, "SWITCHYARD_KV_CACHE_DTYPE=int8": true,
		"SWITCHYARD_KERNELS=avx2": false, "SWITCHYARD_KERNEL=avx2": false, "SWITCHYARD_NO_AVX512=1": false, "SWITCHYARD_NO_AMX=1": false, "PATH=/bin": false, "GOMAXPROCS=1": false,
	} {
		if IsSetting(variable) != want {
			t.Errorf("%s: %v", variable, !want)
		}
	}
}
