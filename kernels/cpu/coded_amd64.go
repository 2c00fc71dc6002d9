package cpu

import (
	"sync"
	"unsafe"
)

//go:generate sh -c "cd _asm && GOWORK=off go run . -coded -out ../coded_amd64.s -stubs ../coded_stubs_amd64.go -pkg cpu && sed -Ei 's/([^ ]) +/\\1 /g' ../coded_amd64.s"

const (
	// fewRows meet weights as they are decoded, and half as many with AVX2. More rows
	// meet weights that were decoded before, once for decodedRows.
	fewRows     = 8
	decodedRows = 96
	// decodedInputs of two panels are decoded at a time: 16 KiB.
	decodedInputs = 64
	decodedPanels = 2
	// groupFloats are a panel's scales and offsets for a group.
	groupFloats = 2 * PanelWidth
)

// codedBuffers are what a call decodes to.
type codedBuffers struct {
	scales  [mostPanels * codedInputs / leastGroup * groupFloats]float32
	weights [decodedPanels * decodedInputs * PanelWidth]float32
	x       []float32
}

var codedBuffersPool sync.Pool // of *codedBuffers

// tileCoded computes a tile from panel p0 of m on.
func tileCoded(dst, x []float32, m *Matrix, p0 int, t tile) {
	if active == generic || t.k == 0 {
		tileCodedGeneric(dst, x, m, p0, t)
		return
	}
	few := fewRows
	if active < avx512 {
		few /= 2
	}
	b, ok := codedBuffersPool.Get().(*codedBuffers)
	if !ok {
		b = new(codedBuffers)
	}
	if t.rows <= few {
		m.meet(dst, x, p0, t, b)
	} else {
		for r := 0; r < t.rows; r += decodedRows {
			part := t
			part.rows = min(decodedRows, t.rows-r)
			m.decodeFirst(dst[r*t.ldDst:], x[r*t.ldX:], p0, part, b)
		}
	}
	codedBuffersPool.Put(b)
}

// meet has few rows meet weights as they are decoded.
func (m *Matrix) meet(dst, x []float32, p0 int, t tile, b *codedBuffers) {
	for p := 0; p < t.panels; p += mostPanels {
		panels := min(mostPanels, t.panels-p)
		for k := 0; k < t.k; k += codedInputs {
			a := m.codedArgs(p0+p, k, min(codedInputs, t.k-k), panels, b)
			a.dst, a.ldDst = pointerTo(dst[p*PanelWidth:]), t.ldDst*4
			a.x, a.ldX = pointerTo(x[k:]), t.ldX*4
			b := a
			for q := 0; q < panels; {
				b.dst = unsafe.Add(a.dst, q*PanelWidth*4)
				b.w, b.scales = unsafe.Add(a.w, q*a.panelStride), unsafe.Add(a.scales, q*a.scaleStride)
				q += b.codedPart(t.rows, panels-q, m.coded.Bits)
			}
		}
	}
}

// codedArgs expands the scales of inputs of a few panels, and points at their codes.
func (m *Matrix) codedArgs(p, k, inputs, panels int, b *codedBuffers) tileArgs {
	size := len(m.codes) / m.Panels()
	group := min(m.coded.Group, inputs)
	a := tileArgs{
		w: pointerTo(m.codes[p*size+k*PanelWidth*m.coded.kept()/8:]), panelStride: size, k: inputs / 4, step: group / 4,
		scales: unsafe.Pointer(&b.scales), scaleStride: parts(inputs, group) * groupFloats * 4,
	}
	if k > 0 {
		a.add = 1
	}
	for i := range panels {
		m.expand(b.scales[i*a.scaleStride/4:], p+i, k, inputs)
	}
	return a
}

// expand makes scales and offsets of all groups of inputs from input k of a panel on.
func (m *Matrix) expand(dst []float32, p, k, inputs int) {
	c, span, group := m.coded, m.coded.span(m.K), min(m.coded.Group, m.K)
	for end := k + inputs; k < end; {
		upTo := end
		if c.twofold() {
			upTo = min(end, (k/span+1)*span)
		}
		groups := parts(upTo-k, min(group, inputs))
		tops := &c.tops[(p*parts(m.K, span)+k/span)*c.topSize()]
		at := (p*parts(m.K, group) + k/group) * c.subSize()
		switch c.Kind {
		case Steps:
			zero := float32(c.Zero)
			avx2ExpandSteps(&dst[0], tops, (*byte)(unsafe.Pointer(&zero)), groups)
		case StepsMins:
			avx2ExpandPairs(&dst[0], tops, nil, groups)
		case StepsZeros:
			avx2ExpandZeros(&dst[0], tops, &c.subs[at], groups)
		case SubSteps:
			avx2ExpandSubs(&dst[0], tops, &c.subs[at], groups)
		case SubStepsMins:
			avx2ExpandSubsMins(&dst[0], tops, &c.subs[at], groups)
		}
		dst, k = dst[groups*groupFloats:], upTo
	}
}

// codedPart computes rows of some of n panels, and returns of how many.
func (a *tileArgs) codedPart(rows, n, bits int) int {
	panels := 1
	switch {
	case active < avx512:
		a.coded2(rows, bits)
		return 1
	case rows == 1 && n >= 4:
		panels = 4
	case rows <= 4 && n >= 2:
		panels = 2
	}
	if bits == 4 {
		avx512Coded4(rows, panels, a)
	} else {
		avx512Coded8(rows, panels, a)
	}
	return panels
}

// coded2 computes a panel, in two calls but for a single row.
func (a *tileArgs) coded2(rows, bits int) {
	if rows == 1 {
		a.call2Coded(1, 2, bits)
		return
	}
	a.call2Coded(rows, 1, bits)
	other := distances{32, 32, 32}
	if bits > 4 {
		other.w = 8
	}
	b := a.half(other)
	b.call2Coded(rows, 1, bits)
}

func (a *tileArgs) call2Coded(rows, groups, bits int) {
	if bits == 4 {
		avx2Coded4(rows, groups, a)
		return
	}
	avx2Coded8(rows, groups, a)
}

// decodeFirst decodes a piece of the weights, and has all rows meet that.
func (m *Matrix) decodeFirst(dst, x []float32, p0 int, t tile, b *codedBuffers) {
	copied := t.rows >= aliasRows && t.panels >= 4 && t.ldX%aliasFloats == 0
	for k := 0; k < t.k; k += decodedInputs {
		part := tile{ldDst: t.ldDst, ldX: t.ldX, rows: t.rows, k: min(decodedInputs, t.k-k), step: PanelWidth, add: k > 0}
		rows := x[k:]
		if copied {
			rows, part.ldX = b.copied(rows, t.ldX, t.rows, part.k), decodedInputs+aliasPad
		}
		part.panelStride = part.k * PanelWidth
		for p := 0; p < t.panels; p += decodedPanels {
			part.panels = min(decodedPanels, t.panels-p)
			a := m.codedArgs(p0+p, k, part.k, part.panels, b)
			for i := range part.panels {
				one := a
				one.dst = unsafe.Pointer(&b.weights[i*part.panelStride])
				one.w, one.scales = unsafe.Add(a.w, i*a.panelStride), unsafe.Add(a.scales, i*a.scaleStride)
				one.decode(m.coded.Bits)
			}
			tileF32(dst[p*PanelWidth:], rows, b.weights[:], part)
		}
	}
}

// copied returns so many inputs of rows that would evict each other from the cache.
func (b *codedBuffers) copied(x []float32, ldX, rows, k int) []float32 {
	const ld = decodedInputs + aliasPad
	if len(b.x) < rows*ld {
		b.x = make([]float32, decodedRows*ld)
	}
	for r := range rows {
		copy(b.x[r*ld:][:k], x[r*ldX:])
	}
	return b.x
}

func (a *tileArgs) decode(bits int) {
	switch {
	case active >= avx512 && bits == 4:
		avx512Decode4Panel(a)
	case active >= avx512:
		avx512Decode8Panel(a)
	case bits == 4:
		avx2Decode4Panel(a)
	default:
		avx2Decode8Panel(a)
	}
}
