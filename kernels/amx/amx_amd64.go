package amx

import "golang.org/x/sys/cpu"

func supported() bool { return cpu.X86.HasAMXTile && cpu.X86.HasAMXInt8 && cpu.X86.HasAMXBF16 }
