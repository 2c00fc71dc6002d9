package expertmap

// Tokens are the mean maps of tokens: what rows of one asked for, wherever they stood.
type Tokens struct {
	all    tokenMean
	tokens map[uint32]*tokenMean
}

type tokenMean struct {
	rows float32
	sum  []float32 // (layers, experts)
}

// mostTokens bounds those that are remembered apart; of the others all tokens' mean is told.
const mostTokens = 1 << 13

// NewTokens is of maps of a size.
func NewTokens(size int) *Tokens {
	return &Tokens{tokens: map[uint32]*tokenMean{}, all: tokenMean{sum: make([]float32, size)}}
}

// Add takes a row's map in.
func (t *Tokens) Add(token uint32, m []float32) {
	t.all.add(m)
	one := t.tokens[token]
	if one == nil {
		if len(t.tokens) >= mostTokens {
			return
		}
		one = &tokenMean{sum: make([]float32, len(m))}
		t.tokens[token] = one
	}
	one.add(m)
}

func (t *tokenMean) add(m []float32) {
	t.rows++
	for i, p := range m {
		t.sum[i] += p
	}
}

// fewTokens is how many rows of a token weigh as much as the mean of all tokens.
const fewTokens = 0.5

// Fill fills row with a token's means from an index on; those of all tokens count as few rows.
func (t *Tokens) Fill(token uint32, from int, row []float32) {
	for e := range row {
		row[e] = t.all.sum[from+e] / max(1, t.all.rows)
	}
	if one := t.tokens[token]; one != nil {
		for e := range row {
			row[e] = (one.sum[from+e] + fewTokens*row[e]) / (one.rows + fewTokens)
		}
	}
}
