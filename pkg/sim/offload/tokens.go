package offload

// tokenMeans are the mean maps of tokens: what rows of one asked for, wherever they stood.
type tokenMeans struct {
	all    tokenMean
	tokens map[uint32]*tokenMean
}

type tokenMean struct {
	rows float32
	sum  []float32 // (layers, experts)
}

func newTokenMeans(size int) *tokenMeans {
	return &tokenMeans{tokens: map[uint32]*tokenMean{}, all: tokenMean{sum: make([]float32, size)}}
}

// add takes a row's map in.
func (t *tokenMeans) add(token uint32, m []float32) {
	one := t.tokens[token]
	if one == nil {
		one = &tokenMean{sum: make([]float32, len(m))}
		t.tokens[token] = one
	}
	for _, to := range []*tokenMean{&t.all, one} {
		to.rows++
		for i, p := range m {
			to.sum[i] += p
		}
	}
}

// fewTokens is how many rows of a token weigh as much as the mean of all tokens.
const fewTokens = 0.5

// fill fills row with a token's means from an index on; those of all tokens count as few rows.
func (t *tokenMeans) fill(token uint32, from int, row []float32) {
	for e := range row {
		row[e] = t.all.sum[from+e] / max(1, t.all.rows)
	}
	if one := t.tokens[token]; one != nil {
		for e := range row {
			row[e] = (one.sum[from+e] + fewTokens*row[e]) / (one.rows + fewTokens)
		}
	}
}
