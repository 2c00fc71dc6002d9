package cpu

// fma32 returns a·b+c rounded once: on arm64 the compiler makes FMADDS of it, to
// which TestFMA holds it.
func fma32(a, b, c float32) float32 { return a*b + c }

// fmaPanel is acc = fma(v, w, acc) for a panel's outputs.
func fmaPanel(acc, w *[PanelWidth]float32, v float32) {
	for j := range acc {
		acc[j] = v*w[j] + acc[j]
	}
}
