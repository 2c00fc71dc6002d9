package forward

import "github.com/switchyard/switchyard/internal/reuse"

// Rows of small layers are shared out: a thread takes some of them through a whole block, its products,
// norms and sums, and waits for no other thread in between. A share is a lane of those rows.
//
// Each share reads the weights of the whole block. So they are shared out where these are few, and where
// enough rows meet them.
const (
	shareRows  = 8         // of a share at least
	shareBytes = 512 << 10 // of a block's weights at most
)

// shareOut cuts the step's rows into shares of about equal cost; none where that cannot be. Rows of a
// sequence stay together, as each sees the keys and values of those before it.
func (s *lane) shareOut() {
	s.count = 0
	if s.p == nil || s.p.Threads() == 1 || Encodes(s.rows) || len(s.rows) < s.p.Threads()*shareRows {
		return
	}
	threads, total := s.p.Threads(), s.priceRows()
	s.nanos = total
	n := max(1, (total+threads*mostNanos-1)/(threads*mostNanos)) * threads
	from, spent := 0, 0
	for i := range s.rows {
		spent += s.costs[i]
		last := i+1 == len(s.rows)
		if !last && (s.rows[i+1].Table == s.rows[i].Table || spent*n < total*(s.count+1)) {
			continue
		}
		if i+1-from < shareRows || 4*n*s.cost(from, i+1) > 5*total {
			s.count = 0
			return
		}
		s.share(from, i+1)
		from = i + 1
	}
}

// priceRows fills costs, and returns their sum.
func (s *lane) priceRows() (total int) {
	s.costs = reuse.Slice(s.costs, len(s.rows))
	of := s.layers[len(s.layers)-1].mixer
	for i := range s.rows {
		s.costs[i] = of.nanos(&s.rows[i])
	}
	return s.cost(0, len(s.rows))
}

func (s *lane) cost(from, to int) (sum int) {
	for _, c := range s.costs[from:to] {
		sum += c
	}
	return sum
}

// share has the next share take rows [from, to).
func (s *lane) share(from, to int) {
	if s.count == len(s.shares) {
		s.shares = append(s.shares, &lane{weights: s.weights, progress: s.progress, alone: true})
	}
	p, d := s.shares[s.count], s.spec.Hidden
	s.count++
	p.rows, p.keys = s.rows[from:to], s.keys
	p.x, p.norm = s.x[from*d:to*d], s.norm[from*d:to*d]
	p.block, p.shared = s.block[from*d:to*d], s.shared[from*d:to*d]
	if s.keys {
		p.strongest = s.strongest[from:to]
	}
}

// each calls f for all rows, or side by side for each share where a block of so many bytes is shared out,
// and takes so long that it is worth it.
func (s *lane) each(bytes int64, nanos int, f func(s *lane)) {
	if s.count == 0 || bytes > shareBytes || !s.always && s.workers().parts(nanos) == 1 {
		f(s)
		return
	}
	s.p.Run(s.count, func(i int) {
		f(s.shares[i])
		s.progress.Tick()
	})
}
