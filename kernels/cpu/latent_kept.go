package cpu

import "fmt"

// Keeps reports whether lines of such a rank and such a rotated part can be kept in the format.
func (l Latent) Keeps() bool {
	return l.Format == KVF32 || l.Rank%PanelWidth == 0 && l.Rope%4 == 0
}

// Words returns how many float32 words a page of lines takes. In KVBF16 a page is (PagePositions, W), two
// elements a word; in KVInt8 it is codes (PagePositions, W), four a word, and two scales for each position: that of the first Rank
// elements and that of the others, with StoreKVCodes' rounding.
func (l Latent) Words() int {
	n := l.Format.words(l.Width() * PagePositions)
	if l.Format == KVInt8 {
		n += 2 * PagePositions
	}
	return n
}

// Store writes the line (W) of one position into its page.
func (l Latent) Store(page []float32, slot int, line []float32) {
	w := l.Width()
	if slot < 0 || slot >= PagePositions || len(line) != w || len(page) < l.Words() || !l.Keeps() {
		panic(fmt.Sprintf("cpu.Latent.Store: slot %d of a page of %d words, line of %d, %+v", slot, len(page), len(line), l))
	}
	switch l.Format {
	case KVBF16:
		ToBF16(bytesIn(page)[2*slot*w:2*(slot+1)*w], line)
	case KVInt8:
		codes, scales := bytesIn(page)[slot*w:(slot+1)*w], page[w*PagePositions/4+2*slot:]
		scales[0], scales[1] = encode(codes, 1, line[:l.Rank]), encode(codes[l.Rank:], 1, line[l.Rank:])
	default:
		copy(page[slot*w:], line)
	}
}

// opened returns how many floats a page's lines take while they are computed with.
func (l Latent) opened() int {
	if l.Format == KVF32 {
		return 0
	}
	return PagePositions * l.Width()
}

// open writes the first n lines of a page to lines (n, W), as numbers.
func (l Latent) open(lines, page []float32, n int) {
	w := l.Width()
	if l.Format == KVBF16 {
		FromBF16(lines[:n*w], bytesIn(page)[:2*n*w])
		return
	}
	scales := page[w*PagePositions/4:]
	for i := range n {
		line, codes := lines[i*w:(i+1)*w], page[i*w/4:(i+1)*w/4]
		openCodes(line[:l.Rank], codes, scales[2*i:2*i+1])
		openCodes(line[l.Rank:], codes[l.Rank/4:], scales[2*i+1:2*i+2])
	}
}

// openCodes is codes, four in a word, times their scale.
func openCodes(dst, words, scale []float32) {
	whole := len(dst) &^ (PanelWidth - 1)
	if whole > 0 {
		tileHeadsCodes(dst, scale, words, 1, 0, tile{ldDst: whole, ldX: 1, rows: 1, k: 1, step: PanelWidth, panels: whole / PanelWidth, panelStride: PanelWidth})
	}
	codes := bytesIn(words)
	for i := whole; i < len(dst); i++ {
		dst[i] = scale[0] * float32(int8(codes[i]))
	}
}

// attendOpened is attention over pages that are opened in lines, one after the other: for scores, and again for sums.
func (a *attention) attendOpened(out, q []float32, l Latent, scale float32, lines, panel []float32) {
	page := *a // over one page
	page.pages, page.last = [][]float32{lines}, 0
	for p := range a.last + 1 {
		_, page.end = a.inside(p)
		l.open(lines, a.pages[p], page.end)
		page.scores = a.scores[p*PagePositions:]
		for h := 0; h < l.Heads; h += PanelWidth {
			page.scoreLatent(q, h, min(PanelWidth, l.Heads-h), panel)
		}
	}
	for h := range l.Heads {
		a.weigh(h, scale)
	}
	for p := range a.last + 1 {
		_, page.end = a.inside(p)
		l.open(lines, a.pages[p], page.end)
		page.mixFrom(out, a.scores[p*PagePositions:], p > 0)
	}
	for h := range l.Heads {
		Scale(out[h*l.Rank:(h+1)*l.Rank], 1/a.sums[h])
	}
}
