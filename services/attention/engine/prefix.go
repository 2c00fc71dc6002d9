package engine

import "github.com/switchyard/switchyard/pkg/compute/kvcache"

// prefixes have sequences begin with keys and values that others of their tenant have computed of the
// same ids (kvcache, prefix.go).
type prefixes struct{ shared bool }

// mayShare says whether a sequence's keys and values are those of any other one that begins with the
// same ids: a decoder alone made them, each of its rows by its own experts.
func (p prefixes) mayShare(s *Sequence) bool {
	return p.shared && s.source() == 0 && len(s.seq.TokenTypes) == 0 && !s.long && len(s.past.runs) == 0 && !s.flow.IsCanary()
}

// begin has a sequence that got its pages begin with what is there, and says how many of its ids that
// spares. Its last id is computed in any case, and all that have scores.
func (p prefixes) begin(s *Sequence) (spared int) {
	s.offered, s.cached = 0, 0
	if !p.mayShare(s) || s.scores() {
		return 0
	}
	s.done = s.table.Begin(s.pageKeys((len(s.ids) - 1) / kvcache.PagePositions))
	s.offered, s.cached = s.done/kvcache.PagePositions, s.done
	return s.done
}

// offer offers a sequence's full pages to others.
func (p prefixes) offer(s *Sequence) {
	full := s.done / kvcache.PagePositions
	if s.table == nil || full <= s.offered || !p.mayShare(s) {
		return
	}
	s.table.Offer(s.offered, s.pageKeys(full)[s.offered:])
	s.offered = full
}

// shared is what a sequence knows of its pages.
type shared struct {
	keys    []kvcache.Key // of its first pages
	offered int           // of its pages, the first ones: to others, or by them
	cached  int           // of its ids, when it last got its pages
}

// pageKeys are the keys of a sequence's first n pages, whose ids it has.
func (s *Sequence) pageKeys(n int) []kvcache.Key {
	for i := len(s.keys); i < n; i++ {
		before := kvcache.Scope(s.flow.Tenant)
		if i > 0 {
			before = s.keys[i-1]
		}
		s.keys = append(s.keys, before.Next(s.ids[i*kvcache.PagePositions:(i+1)*kvcache.PagePositions]))
	}
	return s.keys[:n]
}
