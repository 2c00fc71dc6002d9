package cpu

//go:generate sh -c "cd _asm && GOWORK=off go run . -kept -out ../kept_amd64.s -stubs ../kept_stubs_amd64.go -pkg cpu && sed -Ei 's/([^ ]) +/\\1 /g' ../kept_amd64.s"

// tileCodes computes a tile with codes as weights, as numbers without a scale.
func tileCodes(dst, x []float32, w []byte, t tile) {
	if active == generic || t.k == 0 {
		tileCodesGeneric(dst, x, w, t)
		return
	}
	a := tileArgs{ldDst: t.ldDst * 4, ldX: t.ldX * 4, step: t.step, k: t.k, ahead: t.ahead}
	if t.add {
		a.add = 1
	}
	for r := 0; r < t.rows; {
		rows := codeRows(t.rows - r)
		a.x = pointerTo(x[r*t.ldX:])
		for p := range t.panels {
			a.dst, a.w = pointerTo(dst[r*t.ldDst+p*PanelWidth:]), pointerTo(w[p*t.panelStride:])
			if active >= avx512 {
				avx512Int8(rows, 1, &a)
			} else {
				avx2Int8(rows, 2, &a)
			}
		}
		r += rows
	}
}

// codeRows returns how many of n rows one call of a kernel takes: those that there is a kernel for.
func codeRows(n int) int {
	switch {
	case active < avx512:
		parts := (n + 2) / 3
		return (n + parts - 1) / parts
	case n > 12:
		return 12
	case n > 6:
		return n &^ 1
	}
	return n
}

// tileCodesHeads is tileF32Heads with codes as weights, four in a word.
func tileCodesHeads(dst, x, w []float32, n, stride int, t tile) int {
	heads := headsAtOnce(t.rows, n)
	if heads == 1 || t.k == 0 {
		tileCodes(dst, x, bytesIn(w), t)
		return 1
	}
	a := t.headArgs(x, stride, F32)
	a.step = t.step
	for p := range t.panels {
		a.dst, a.w = pointerTo(dst[p*PanelWidth:]), pointerTo(bytesIn(w)[p*t.panelStride:])
		avx512HeadsInt8(t.rows, heads, &a)
	}
	return heads
}
