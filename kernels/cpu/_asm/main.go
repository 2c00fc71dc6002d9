// Command _asm writes the amd64 kernels of package cpu with avo. Run it with
// "go generate ./kernels/cpu"; the output is checked in.
package main

import (
	"flag"

	. "github.com/mmcloughlin/avo/build"
)

// What has files of its own.
var (
	coded = flag.Bool("coded", false, "write the kernels for weights as codes")
	pages = flag.Bool("kept", false, "write the kernels for keys and values as codes")
	tiles = flag.Bool("tiles", false, "write the kernels for AMX")
	based = flag.Bool("based", false, "write the kernels that decode with whole numbers")
)

func main() {
	flag.Parse()
	ConstraintExpr("amd64")
	switch {
	case *coded:
		codedKernels()
		writeCodedDispatch("../coded_dispatch_amd64.go")
	case *pages:
		keptKernels()
		writeKeptDispatch("../kept_dispatch_amd64.go")
	case *based:
		basedKernels()
		writeBasedDispatch("../based_dispatch_amd64.go")
	case *tiles:
		tilesKernels()
	default:
		kernels()
		writeDispatch("../tile_dispatch_amd64.go")
	}
	Generate()
}

// begin begins a kernel, and end ends it.
func begin(name, signature string) {
	TEXT(name, NOSPLIT, signature)
	Pragma("noescape")
}

func end() {
	VZEROUPPER()
	RET()
}

func kernels() {
	for _, m := range []machine{wide, narrow} {
		for _, w := range all {
			for _, s := range m.shapesOf(w) {
				tileKernel(m, w, s.rows, s.groups)
			}
		}
		for _, w := range allDots {
			for _, s := range dots[m.name] {
				dotsKernel(m, w, s.rows, s.groups)
			}
		}
		vectorKernels(m)
		packKernel(m, "PackHalves", panelRows/2, true)
		packKernel(m, "PackWords", panelRows, false)
		packKernel(m, "PackHalfWords", panelRows/2, false)
		topsKernel(m)
		codesKernel(m)
	}
	for _, m := range pairs {
		for _, s := range m.shapes {
			pairsKernel(m.machine, s.rows, s.groups)
		}
	}
	joinKernel(narrow)
	nibblesKernel(wide)
	roundKernel()
	for _, s := range heads {
		headsKernel(wide, f32, s.rows, s.groups)
		headsKernel(wide, bf16, s.rows, s.groups)
	}
	for _, rows := range halfRows {
		halfKernel(wide, rows)
	}
}
