package openai

import pb "github.com/switchyard/switchyard/schemas/switchyard/v1"

// Extra is what usage has beside the tokens that each API counts: what answers took of experts'
// memory, and what a brownout changed of them. What does not apply is absent.
type Extra struct {
	ExpertGBs       *float64 `json:"expert_gb_s,omitempty"`
	ColdStarts      *uint32  `json:"cold_starts,omitempty"`
	DegradedRows    *uint32  `json:"degraded_rows,omitempty"`
	DegradedTokens  *uint32  `json:"degraded_tokens,omitempty"`
	LowestThreshold *float64 `json:"lowest_threshold,omitempty"`
	UnitedWay       *uint32  `json:"united_way,omitempty"`
}

// Add adds what one answer took; nil adds nothing.
func (f *Extra) Add(u *pb.Usage) {
	if u != nil && u.ExpertGbS != nil {
		f.ExpertGBs, f.ColdStarts = plus(f.ExpertGBs, u.GetExpertGbS()), plus(f.ColdStarts, u.GetColdStarts())
	}
	if u.GetDegradedRows() == 0 {
		return
	}
	f.DegradedRows, f.DegradedTokens = plus(f.DegradedRows, u.GetDegradedRows()), plus(f.DegradedTokens, u.GetDegradedTokens())
	if lowest := u.GetLowestThreshold(); f.LowestThreshold == nil || lowest < *f.LowestThreshold {
		f.LowestThreshold = &lowest
	}
	if way := u.GetUnitedWay(); f.UnitedWay == nil || way > *f.UnitedWay {
		f.UnitedWay = &way
	}
}

// plus returns a sum of which one part may be absent.
func plus[N float64 | uint32](a *N, b N) *N {
	if a != nil {
		b += *a
	}
	return &b
}
