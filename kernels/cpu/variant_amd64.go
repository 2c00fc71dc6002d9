package cpu

import (
	"golang.org/x/sys/cpu"

	"github.com/switchyard/switchyard/kernels/amx"
)

func supported(v int) bool {
	narrow := cpu.X86.HasAVX2 && cpu.X86.HasFMA && cpu.X86.HasF16C
	switch v {
	case generic:
		return true
	case avx2:
		return narrow
	case avx512:
		return narrow && cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512DQ
	case avx512vnni:
		return supported(avx512) && cpu.X86.HasAVX512VNNI
	case avx512bf16:
		return supported(avx512vnni) && cpu.X86.HasAVX512BF16
	case amxTiles:
		return supported(avx512bf16) && amx.Usable()
	}
	return false
}
