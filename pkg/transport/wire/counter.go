package wire

import pb "github.com/switchyard/switchyard/schemas/switchyard/v1"

// FateCounter counts what a brownout has changed of a request. Its zero value has counted nothing.
type FateCounter struct {
	Rows   uint32 // routed ones, rows × layers × slots, that another expert computed, or none
	Tokens uint32 // rows of which one of these was
	Lowest uint32 // threshold that they were computed under, in millionths
	Way    uint32 // the most experts that a united expert stood in for
}

// Add counts rows that were computed under a threshold. Of fates that were omitted it counts
// every slot, as any of them may have been degraded.
func (c *FateCounter) Add(f *pb.Fates, millionths uint32) {
	codes, err := DecodeFates(f)
	if f == nil || err != nil {
		return
	}
	s := FatesShapeOf(f)
	one := FateCounter{Lowest: millionths, Way: f.Way}
	if f.Omitted {
		one.Rows, one.Tokens = uint32(s.size()), uint32(s.Rows)
	}
	for row := 0; row < s.Rows && !f.Omitted; row++ {
		before := one.Rows
		for _, code := range codes[row*s.Layers*s.Slots : (row+1)*s.Layers*s.Slots] {
			if code != FateOwn {
				one.Rows++
			}
		}
		if one.Rows > before {
			one.Tokens++
		}
	}
	c.Merge(one)
}

// Merge adds what another one has counted.
func (c *FateCounter) Merge(of FateCounter) {
	if of.Rows == 0 {
		return
	}
	if c.Rows == 0 || of.Lowest < c.Lowest {
		c.Lowest = of.Lowest
	}
	c.Rows, c.Tokens, c.Way = c.Rows+of.Rows, c.Tokens+of.Tokens, max(c.Way, of.Way)
}

// Record is what logs have of it; nil: nothing was changed.
func (c FateCounter) Record() *pb.Degraded {
	if c.Rows == 0 {
		return nil
	}
	return &pb.Degraded{Rows: c.Rows, Tokens: c.Tokens, LowestMillionths: c.Lowest, Way: c.Way}
}

// FateCounterOf goes on from what a log has.
func FateCounterOf(d *pb.Degraded) FateCounter {
	return FateCounter{Rows: d.GetRows(), Tokens: d.GetTokens(), Lowest: d.GetLowestMillionths(), Way: d.GetWay()}
}
